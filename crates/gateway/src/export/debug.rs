//! The exporter `debug`: what is kept is told in the program's log.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use otlp::{Signal, export::Limits, reply::printable, span::SpanSummary};
use tokio::time::Instant;

use super::{
    Delivery, Request,
    config::{self, Verbosity},
    metrics::Metrics,
};

/// Of the Collector's `sampling_initial` and `sampling_thereafter`.
const SAMPLING_INTERVAL: Duration = Duration::from_secs(1);

/// Tells every request, or some of them where there are many.
#[derive(Debug)]
pub struct Debug {
    config: config::Debug,
    told: Mutex<Told>,
}

#[derive(Debug, Default)]
struct Told {
    /// When the current second began.
    since: Option<Instant>,
    n_requests: u32,
}

impl Debug {
    /// Tells as much as is configured.
    pub fn new(config: config::Debug) -> Debug {
        Debug {
            config,
            told: Mutex::default(),
        }
    }

    /// Tells a request.
    pub fn deliver(&self, request: &Request, metrics: &Metrics) -> Delivery {
        metrics.count_sent(request.n_spans);
        let is_told = {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            told.next(&self.config, Instant::now())
        };
        if is_told {
            let exporter = metrics.id();
            let n_spans = request.n_spans;
            tracing::info!(exporter, n_spans, "kept spans");
            for line in lines(self.config.verbosity, &request.body) {
                tracing::info!(exporter, "{line}");
            }
        }
        Delivery::Done
    }
}

impl Told {
    /// Is the request that comes now to be told?
    fn next(&mut self, config: &config::Debug, now: Instant) -> bool {
        let is_over = self
            .since
            .is_none_or(|since| now.saturating_duration_since(since) >= SAMPLING_INTERVAL);
        if is_over {
            self.since = Some(now);
            self.n_requests = 0;
        }
        self.n_requests = self.n_requests.saturating_add(1);
        match self.n_requests.checked_sub(config.sampling_initial) {
            None | Some(0) => true,
            Some(further) => further.checked_rem(config.sampling_thereafter) == Some(0),
        }
    }
}

/// What is told beside the counts.
fn lines(verbosity: Verbosity, body: &[u8]) -> Vec<String> {
    match verbosity {
        Verbosity::Basic => Vec::new(),
        Verbosity::Normal => {
            let spans = otlp::export::spans(body, &Limits::default()).flatten();
            let summaries = spans.filter_map(|at| SpanSummary::read(at.span).ok());
            let line = |summary: SpanSummary<'_>| {
                let nanos = summary
                    .end_time_unix_nano
                    .saturating_sub(summary.start_time_unix_nano);
                format!(
                    "{} trace={} span={} duration={:?}",
                    printable(summary.name),
                    summary.trace_id,
                    summary.span_id,
                    Duration::from_nanos(nanos),
                )
            };
            summaries.map(line).collect()
        }
        // The body was checked when it arrived.
        Verbosity::Detailed => otlp::json::from_protobuf(Signal::Traces, body)
            .into_iter()
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use otlp::testing::{TimeSpan, trace};
    use tokio::time::Instant;

    use super::{Told, Verbosity, config, lines};

    #[tokio::test]
    async fn the_first_of_a_second_are_told_and_then_every_so_many() {
        let told = |initial, thereafter| -> Vec<u32> {
            let config = config::Debug {
                sampling_initial: initial,
                sampling_thereafter: thereafter,
                ..config::Debug::default()
            };
            let (mut told, start) = (Told::default(), Instant::now());
            let at = |n: u32| start + Duration::from_millis(if n > 10 { 2000 } else { n.into() });
            (1..=12).filter(|n| told.next(&config, at(*n))).collect()
        };
        assert_eq!(told(2, 1), (1..=12).collect::<Vec<_>>());
        assert_eq!(told(2, 3), [1, 2, 5, 8, 11, 12]);
        assert_eq!(told(1, 0), [1, 11]);
    }

    #[test]
    fn each_verbosity_tells_more() {
        let body = trace(1).span("chat", 5.ms()).attribute("k", "v").build();
        assert_eq!(lines(Verbosity::Basic, &body), [""; 0]);
        let normal = lines(Verbosity::Normal, &body);
        assert_eq!(normal.len(), 1);
        assert!(
            normal[0].starts_with("chat trace=") && normal[0].ends_with("duration=5ms"),
            "{normal:?}"
        );
        let detailed = lines(Verbosity::Detailed, &body).concat();
        assert!(detailed.contains("\"stringValue\":\"v\""), "{detailed}");
    }
}

//! Plays a run: spans when their services would export them, samples when they were taken.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use bytes::Bytes;
use loadgen::client::{Client, Endpoint};
use loadgen::fleet::{Config, Run, Scrape};
use loadgen::traffic::Export;
use otlp::export::Signal;

use super::exporters::Exporters;
use crate::replay::Speed;
use crate::show::progress::Progress;
use crate::show::text;

/// Sends a run to one server.
#[derive(Debug)]
pub(super) struct Player {
    client: Client,
    endpoint: Endpoint,
    speed: Speed,
    start_unix_nano: u64,
}

/// What was sent.
#[derive(Debug)]
pub(super) struct Sent {
    endpoint: Endpoint,
    n_requests: u64,
    n_spans: u64,
    /// Of one second each.
    n_samples: u64,
    is_served: bool,
    is_cut: bool,
    took: Duration,
}

/// Something that is due.
enum Due {
    Spans(Export),
    Samples(Vec<Scrape>),
}

impl Player {
    pub(super) fn new(client: Client, endpoint: Endpoint, speed: Speed, config: &Config) -> Self {
        Self {
            client,
            endpoint,
            speed,
            start_unix_nano: config.start_unix_nano,
        }
    }

    /// Plays all of it, or until ctrl-c.
    pub(super) async fn play(self, run: Run, exporters: Option<Exporters>) -> anyhow::Result<Sent> {
        let mut sent = Sent {
            endpoint: self.endpoint.clone(),
            n_requests: run.requests.len() as u64,
            n_spans: 0,
            n_samples: 0,
            is_served: exporters.is_some(),
            is_cut: false,
            took: Duration::ZERO,
        };
        let begin = now();
        let all = in_order(run);
        let (shown, told): (Vec<_>, Vec<_>) = all
            .into_iter()
            .partition(|(_, due)| exporters.is_some() && matches!(due, Due::Samples(_)));
        let mut n_shown = 0;
        let is_cut = {
            // Values of the moment do not wait for a server that is slow to answer.
            let showing = self.show(shown, exporters.as_ref(), &mut n_shown, begin);
            let work = async { tokio::try_join!(self.tell(told, &mut sent, begin), showing) };
            tokio::select! {
                done = work => done.map(|_| false)?,
                ctrl_c = tokio::signal::ctrl_c() => ctrl_c.map(|()| true).context("listen for ctrl-c")?,
            }
        };
        sent.is_cut = is_cut;
        sent.n_samples += n_shown;
        sent.took = begin.elapsed();
        Ok(sent)
    }

    /// Lets exporters say what they would at each moment; before the first one, what they say then.
    async fn show(
        &self,
        all: Vec<(u64, Due)>,
        exporters: Option<&Exporters>,
        n_shown: &mut u64,
        begin: Instant,
    ) -> anyhow::Result<()> {
        let Some(exporters) = exporters else {
            return Ok(());
        };
        let mut is_first = true;
        for (due_unix_nano, due) in all {
            if !std::mem::take(&mut is_first) {
                self.until(due_unix_nano, begin).await;
            }
            if let Due::Samples(scrapes) = due {
                scrapes
                    .into_iter()
                    .for_each(|scrape| exporters.show(scrape));
                *n_shown += 1;
            }
        }
        Ok(())
    }

    async fn tell(
        &self,
        all: Vec<(u64, Due)>,
        sent: &mut Sent,
        begin: Instant,
    ) -> anyhow::Result<()> {
        let mut progress = Progress::new(all.len() as u64, "exports");
        for (due_unix_nano, due) in all {
            self.until(due_unix_nano, begin).await;
            match due {
                Due::Spans(export) => {
                    self.send(Signal::Traces, Bytes::from(export.body)).await?;
                    sent.n_spans += u64::from(export.n_spans);
                }
                Due::Samples(scrapes) => {
                    let body: Vec<u8> = scrapes.iter().flat_map(Scrape::to_export).collect();
                    self.send(Signal::Metrics, Bytes::from(body)).await?;
                    sent.n_samples += 1;
                }
            }
            progress.advance("");
        }
        progress.finish();
        Ok(())
    }

    async fn until(&self, unix_nano: u64, begin: Instant) {
        tokio::time::sleep(self.due(unix_nano).saturating_sub(begin.elapsed())).await;
    }

    /// Since the beginning of the play.
    fn due(&self, unix_nano: u64) -> Duration {
        let since = Duration::from_nanos(unix_nano.saturating_sub(self.start_unix_nano));
        match self.speed {
            Speed::Max => Duration::ZERO,
            Speed::Times(factor) => since.div_f64(factor),
        }
    }

    async fn send(&self, signal: Signal, body: Bytes) -> anyhow::Result<()> {
        let endpoint = &self.endpoint;
        let exported = self.client.export(signal, body).await;
        let exported = exported
            .with_context(|| format!("send to {endpoint} (is `whyslow serve` running there?)"))?;
        if exported.n_rejected > 0 {
            bail!(
                "{endpoint} rejected {} spans or points: {}",
                exported.n_rejected,
                exported.message.unwrap_or_default()
            );
        }
        Ok(())
    }
}

/// Spans and samples by the time at which they are told; samples of one moment together.
fn in_order(run: Run) -> Vec<(u64, Due)> {
    let mut all: Vec<(u64, Due)> = run
        .exports
        .into_iter()
        .map(|export| (export.due_unix_nano, Due::Spans(export)))
        .collect();
    for scrape in run.scrapes {
        match all.last_mut() {
            Some((at, Due::Samples(samples))) if *at == scrape.at_unix_nano => samples.push(scrape),
            Some(_) | None => all.push((scrape.at_unix_nano, Due::Samples(vec![scrape]))),
        }
    }
    all.sort_by_key(|(at, _)| *at);
    all
}

impl Sent {
    pub(super) fn text(&self) -> String {
        let how = if self.is_served { "showed" } else { "sent" };
        let end = if self.is_cut {
            ", ended before its time"
        } else {
            ""
        };
        format!(
            "sent {} with {} to {}, {how} {} of metrics, in {}{end}\n",
            text::counted(self.n_requests, "request"),
            text::counted(self.n_spans, "span"),
            self.endpoint,
            text::counted(self.n_samples, "second"),
            text::duration(self.took)
        )
    }
}

#[expect(clippy::disallowed_methods, reason = "the play begins now")]
fn now() -> Instant {
    Instant::now()
}

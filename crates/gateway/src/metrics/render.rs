//! All metrics as a page of Prometheus text: names, units and help.

use std::sync::{PoisonError, atomic::Ordering};

use otlp::export::Signal;
use tonic::Code;

use crate::{
    metrics::{
        Amount, DECISIONS, LINKS_MISSED, LossReason, Metrics, SIGNALS, Transport, load, signal_idx,
        text::Text,
    },
    status::RefusedReason,
};

/// Unit of what is conserved, its help text, and its part of an [`Amount`].
type Unit = (&'static str, &'static str, fn(&Amount) -> u64);

const UNITS: [Unit; 3] = [
    ("traces", "Traces", |amount| amount.n_traces),
    ("spans", "Spans", |amount| amount.n_spans),
    ("span_bytes", "Bytes of span messages", |amount| {
        amount.n_bytes
    }),
];

impl Metrics {
    /// All metrics in Prometheus text exposition format 0.0.4.
    pub fn render_prometheus(&self) -> String {
        let mut text = Text::default();
        self.render_exports(&mut text);
        self.render_items(&mut text);
        self.reporting.render(&mut text);
        self.render_sampler(&mut text);
        self.render_policies(&mut text);
        self.render_as_collector(&mut text);
        self.render_release(&mut text);
        self.exporting.render(&mut text);
        self.scraping.render(&mut text);
        text.into_string()
    }

    fn render_exports(&self, text: &mut Text) {
        text.counter(
            "gateway_exports_total",
            "Export requests answered, by gRPC status code.",
        );
        for transport in Transport::ALL {
            for signal in SIGNALS {
                let by_code = &self.exports[transport as usize][signal_idx(signal)];
                for (number, n_exports) in (0_i32..).zip(by_code) {
                    let n_exports = n_exports.load(Ordering::Relaxed);
                    if n_exports == 0 {
                        continue;
                    }
                    let code = code_name(Code::from(number));
                    let labels = [
                        ("transport", transport.as_str()),
                        ("signal", signal.as_str()),
                        ("code", code),
                    ];
                    text.sample("gateway_exports_total", &labels, n_exports);
                }
            }
        }
        text.counter(
            "gateway_exports_refused_total",
            "Export requests refused as a whole.",
        );
        for (reason, n_exports) in RefusedReason::ALL.iter().zip(&self.exports_refused) {
            let labels = [("reason", reason.as_str())];
            text.sample("gateway_exports_refused_total", &labels, load(n_exports));
        }
        text.gauge(
            "gateway_connections",
            "Open connections of senders.",
            load(&self.connections),
        );
        text.single_counter(
            "gateway_connections_refused_total",
            "Connections closed at once, because there were too many.",
            load(&self.connections_refused),
        );
        text.counter(
            "gateway_handshakes_failed_total",
            "TLS handshakes of senders that came to nothing.",
        );
        for transport in Transport::ALL {
            for (reason, n_handshakes) in self.handshakes_failed(transport).counts() {
                let labels = [
                    ("transport", transport.as_str()),
                    ("reason", reason.as_str()),
                ];
                text.sample("gateway_handshakes_failed_total", &labels, n_handshakes);
            }
        }
        text.single_counter(
            "gateway_body_bytes_total",
            "Bytes of accepted export requests, uncompressed protobuf.",
            load(&self.body_bytes),
        );
    }

    fn render_items(&self, text: &mut Text) {
        let names = [
            ("gateway_spans", "Spans", Signal::Traces),
            ("gateway_points", "Metric points", Signal::Metrics),
            ("gateway_log_records", "Log records", Signal::Logs),
        ];
        for (prefix, what, signal) in names {
            let idx = signal_idx(signal);
            text.single_counter(
                &format!("{prefix}_received_total"),
                &format!("{what} accepted: in the log and acknowledged."),
                load(&self.items_received[idx]),
            );
            text.single_counter(
                &format!("{prefix}_rejected_total"),
                &format!("{what} rejected alone; the sender was told by a partial success."),
                load(&self.items_rejected[idx]),
            );
            let refused = format!("{prefix}_refused_total");
            text.counter(
                &refused,
                &format!("{what} of valid exports refused by the intake."),
            );
            for (reason, n_items) in RefusedReason::ALL.iter().zip(&self.items_refused[idx]) {
                let n_items = load(n_items);
                if n_items > 0 {
                    text.sample(&refused, &[("reason", reason.as_str())], n_items);
                }
            }
        }
        let points = self.points();
        for (name, help, n_points) in [
            (
                "gateway_points_recovered_total",
                "Metric points found in the log at the start, in no release.",
                points.recovered,
            ),
            (
                "gateway_points_released_total",
                "Metric points that a release carries to the tables.",
                points.released,
            ),
        ] {
            text.single_counter(name, help, n_points);
        }
        text.gauge(
            "gateway_points_pending",
            "Metric points for the next release.",
            points.pending,
        );
        text.counter(
            "gateway_items_lost_total",
            "Accepted items that reach no table.",
        );
        for signal in SIGNALS {
            for (reason, n_items) in LossReason::ALL
                .iter()
                .zip(&self.items_lost[signal_idx(signal)])
            {
                let labels = [("signal", signal.as_str()), ("reason", reason.as_str())];
                text.sample("gateway_items_lost_total", &labels, load(n_items));
            }
        }
    }

    fn render_sampler(&self, text: &mut Text) {
        let conservation = self.conservation();
        let rows = [
            ("received", conservation.received),
            ("recovered", conservation.recovered),
            ("sampled", conservation.sampled),
            ("not_sampled", conservation.not_sampled),
            ("dropped", conservation.dropped),
            ("duplicate", conservation.duplicate),
        ];
        for (unit, what, field) in UNITS {
            let name = format!("sampler_{unit}_total");
            let help = format!(
                "{what} by what became of them; received + recovered is the sum of the rest, late and pending."
            );
            text.counter(&name, &help);
            for (state, amount) in rows {
                text.sample(&name, &[("state", state)], field(&amount));
            }
            for (decision, late) in DECISIONS.iter().zip(&self.late) {
                let labels = [("state", "late"), ("decision", decision.as_str())];
                text.sample(&name, &labels, field(&late.amount()));
            }
            let pending = field(&conservation.pending);
            text.gauge(
                &format!("sampler_{unit}_pending"),
                &format!("{what} undecided."),
                pending,
            );
        }
        text.counter("sampler_traces_decided_total", "Traces decided.");
        let traces = self
            .decided_traces
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for ((decision, policy, trigger), n_traces) in traces.iter() {
            let policy = policy.as_deref().unwrap_or_default();
            let labels = [
                ("decision", *decision),
                ("policy", policy),
                ("trigger", *trigger),
            ];
            text.sample("sampler_traces_decided_total", &labels, *n_traces);
        }
        drop(traces);
        text.counter(
            "sampler_links_missed_total",
            "Links that may have been to a kept trace and kept nothing: of a trace not sampled before the other was decided (unresolved), of a late span (late), or too many in one trace (over_limit).",
        );
        for ((reason, _), n_links) in LINKS_MISSED.iter().zip(&self.links_missed) {
            let labels = [("reason", *reason)];
            text.sample("sampler_links_missed_total", &labels, load(n_links));
        }
        text.single_counter(
            "sampler_keys_overflowed_total",
            "Traces whose key was one too many for an `adaptive` policy: they share a rate with others.",
            load(&self.sampler_keys_overflowed),
        );
        let heap_bytes = load(&self.sampler_heap_bytes);
        text.gauge(
            "sampler_heap_bytes",
            "Heap of undecided traces, estimated.",
            heap_bytes,
        );
    }

    fn render_release(&self, text: &mut Text) {
        text.single_counter(
            "gateway_spans_released_total",
            "Spans read back from the log for storage, repeated ones after a restart included.",
            load(&self.released_spans),
        );
        text.single_counter(
            "gateway_log_segments_deleted_total",
            "Segments of the log deleted after their traces were stored.",
            load(&self.segments_deleted),
        );
        text.single_counter(
            "gateway_log_spans_carried_total",
            "Undecided spans appended again, so that their segment can be deleted.",
            load(&self.spans_carried),
        );
        let gauges = [
            (
                "gateway_release_backlog_spans",
                "Decided spans that wait for a commit, and one for each trace without any.",
                &self.release_backlog_spans,
            ),
            (
                "gateway_release_sequence",
                "Latest release sequence.",
                &self.release_sequence,
            ),
            (
                "gateway_committed_sequence",
                "Latest committed release sequence.",
                &self.committed_sequence,
            ),
            (
                "gateway_log_bytes",
                "Bytes of the log on disk.",
                &self.log_bytes,
            ),
            (
                "gateway_unhealthy",
                "1 after a failure that stops the intake.",
                &self.is_unhealthy,
            ),
        ];
        for (name, help, value) in gauges {
            text.gauge(name, help, load(value));
        }
    }
}

/// The name of a gRPC status code as the specification writes it.
pub(super) fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

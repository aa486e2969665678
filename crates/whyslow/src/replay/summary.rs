//! What became of a replay.

use std::collections::BTreeMap;
use std::time::Duration;

use loadgen::client::{ExportError, Exported};

use crate::show::text;

/// Different messages of the server that are kept; the rest is counted together.
const MESSAGES_MAX: usize = 10;

/// Counts of a replay.
#[derive(Debug, Default)]
pub(super) struct Summary {
    /// Requests that the server took, wholly or in part.
    n_taken: u64,
    /// Requests that the server refused for good, or that could not be delivered.
    n_refused: u64,
    /// Files that could not be sent.
    pub(super) n_unreadable: u64,
    pub(super) n_accepted: u64,
    /// Spans that the server rejected by partial success.
    n_rejected: u64,
    n_retries: u64,
    n_bytes: u64,
    messages: BTreeMap<String, u64>,
    n_other_messages: u64,
    is_unavailable: bool,
}

impl Summary {
    /// Adds an answered request of so many spans and bytes (protobuf, uncompressed).
    pub(super) fn add(
        &mut self,
        n_spans: u64,
        n_bytes: u64,
        outcome: Result<Exported, ExportError>,
    ) {
        match outcome {
            Ok(exported) => {
                let n_rejected = exported.n_rejected.min(n_spans);
                self.n_taken += 1;
                self.n_rejected += n_rejected;
                self.n_accepted += n_spans - n_rejected;
                self.n_retries += u64::from(exported.n_retries);
                self.n_bytes += n_bytes;
                if let Some(message) = exported.message {
                    self.add_message(message);
                }
            }
            Err(error) => {
                self.n_refused += 1;
                self.n_retries += u64::from(error.n_retries());
                self.is_unavailable |= error.is_unavailable();
                self.add_message(text::error_chain(&error));
            }
        }
    }

    /// Whether the server cannot be reached, so that there is no use in going on.
    pub(super) fn is_unavailable(&self) -> bool {
        self.is_unavailable
    }

    /// For people, on several lines.
    pub(super) fn text(&self, endpoint: &str, elapsed: Duration) -> String {
        let mut lines = vec![
            format!(
                "sent {} ({}) to {endpoint} in {}",
                text::counted(self.n_taken, "request"),
                text::bytes(self.n_bytes),
                text::duration(elapsed)
            ),
            format!("spans accepted   {:>12}", text::count(self.n_accepted)),
            format!("spans rejected   {:>12}", text::count(self.n_rejected)),
            format!("requests refused {:>12}", text::count(self.n_refused)),
            format!("retries          {:>12}", text::count(self.n_retries)),
        ];
        if self.n_unreadable > 0 {
            lines.push(format!(
                "files not sent   {:>12}",
                text::count(self.n_unreadable)
            ));
        }
        if !self.messages.is_empty() {
            lines.push("the server said:".to_owned());
        }
        for (message, n) in &self.messages {
            lines.push(format!("  {} x {message}", text::count(*n)));
        }
        if self.n_other_messages > 0 {
            lines.push(format!(
                "  {} x other messages",
                text::count(self.n_other_messages)
            ));
        }
        lines.join("\n") + "\n"
    }

    /// Why the replay of so many requests did not succeed; `None` if everything was accepted.
    pub(super) fn failure(&self, n_requests: usize) -> Option<String> {
        let mut parts = Vec::new();
        if self.is_unavailable {
            parts.push("the server is unavailable".to_owned());
        }
        if self.n_refused > 0 {
            parts.push(format!(
                "{} not accepted",
                text::counted(self.n_refused, "request")
            ));
        }
        if self.n_rejected > 0 {
            parts.push(format!(
                "{} rejected",
                text::counted(self.n_rejected, "span")
            ));
        }
        if self.n_unreadable > 0 {
            parts.push(format!(
                "{} not readable",
                text::counted(self.n_unreadable, "file")
            ));
        }
        let n_requests = u64::try_from(n_requests).unwrap_or(u64::MAX);
        let n_settled = self.n_taken + self.n_refused + self.n_unreadable;
        if n_settled < n_requests {
            let n_unsent = n_requests - n_settled;
            parts.push(format!("{} not sent", text::counted(n_unsent, "request")));
        }
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    fn add_message(&mut self, message: String) {
        if self.messages.len() < MESSAGES_MAX || self.messages.contains_key(&message) {
            *self.messages.entry(message).or_default() += 1;
        } else {
            self.n_other_messages += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::{Duration, Exported, Summary};

    fn exported(n_rejected: u64, message: Option<&str>) -> Exported {
        Exported {
            n_rejected,
            message: message.map(str::to_owned),
            n_retries: 1,
        }
    }

    fn check(summary: &Summary, n_requests: usize, expected: Expect) {
        let text = summary.text("http://127.0.0.1:4317", Duration::from_millis(1_234));
        expected.assert_eq(&format!(
            "{text}failure: {:?}\n",
            summary.failure(n_requests)
        ));
    }

    #[test]
    fn a_replay_without_trouble_is_no_failure() {
        let mut summary = Summary::default();
        summary.add(17_000, 6_963_433, Ok(exported(0, None)));
        check(
            &summary,
            1,
            expect![[r#"
            sent 1 request (6.6 MiB) to http://127.0.0.1:4317 in 1.23 s
            spans accepted         17,000
            spans rejected              0
            requests refused            0
            retries                     1
            failure: None
        "#]],
        );
    }

    #[test]
    fn rejected_spans_and_what_was_not_sent_are_told() {
        let mut summary = Summary {
            n_unreadable: 1,
            ..Summary::default()
        };
        for idx in 0..12 {
            summary.add(
                10,
                100,
                Ok(exported(3, Some(&format!("span {idx} is bad")))),
            );
        }
        summary.add(2, 100, Ok(exported(u64::MAX, Some("span 0 is bad"))));
        check(
            &summary,
            20,
            expect![[r#"
            sent 13 requests (1.3 KiB) to http://127.0.0.1:4317 in 1.23 s
            spans accepted             84
            spans rejected             38
            requests refused            0
            retries                    13
            files not sent              1
            the server said:
              2 x span 0 is bad
              1 x span 1 is bad
              1 x span 2 is bad
              1 x span 3 is bad
              1 x span 4 is bad
              1 x span 5 is bad
              1 x span 6 is bad
              1 x span 7 is bad
              1 x span 8 is bad
              1 x span 9 is bad
              2 x other messages
            failure: Some("38 spans rejected, 1 file not readable, 6 requests not sent")
        "#]],
        );
    }
}

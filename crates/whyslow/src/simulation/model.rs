//! What must hold, kept beside a run: which spans were acknowledged, and what was decided about them.

use std::collections::{BTreeMap, BTreeSet};

use gateway::testing::Answer;
use gateway::{Release, ReleasedSpan};
use otlp::export::Limits;
use otlp::span::SpanSummary;
use sampler::{Decision, Reports};

use super::tables::{Rows, Stored};
use crate::store::calls_of;

/// Trace id and span id, as the tables have them.
type Key = (String, String);

/// What its sender knows of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Acknowledged,
    Refused,
    /// No answer, or one that leaves it open.
    InDoubt,
}

#[derive(Clone, Debug)]
struct Sent {
    fate: Fate,
    sent_unix_nano: u64,
}

/// What is the same whenever a release is repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    decided_unix_nano: u64,
    /// Trace id, decision, policy and number of spans: the rows of `traces`.
    traces: Rows,
    /// Spans of sampled traces.
    kept: BTreeSet<Key>,
    requests: BTreeSet<Key>,
    /// Calls that no engine request of their trace answered.
    calls: BTreeSet<Key>,
    /// All calls.
    call_spans: BTreeSet<Key>,
}

/// Counts for the report.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) n_acknowledged: u64,
    pub(super) n_in_doubt: u64,
    pub(super) n_refused: u64,
    pub(super) n_kept: u64,
    pub(super) n_traces: u64,
    pub(super) n_repeated: u64,
}

/// The model of one run.
#[derive(Debug, Default)]
pub(super) struct Model {
    spans: BTreeMap<Key, Sent>,
    releases: BTreeMap<i64, Seen>,
    /// Where a span was released.
    released: BTreeMap<Key, i64>,
    n_repeated: u64,
    /// The intake knows that every table has committed the releases through this one, and may have
    /// deleted their part of the log.
    told: i64,
    /// Does the next process know that?
    is_noted: bool,
}

impl Model {
    pub(super) fn new(is_noted: bool) -> Self {
        Self {
            is_noted,
            ..Self::default()
        }
    }

    /// Notes an export and what its sender was told; nothing if the process ended before that.
    pub(super) fn sent(&mut self, body: &[u8], now: u64, answer: Option<Answer>) {
        let fate = match answer {
            Some(Answer::Accepted) => Fate::Acknowledged,
            Some(Answer::Refused) => Fate::Refused,
            Some(Answer::Unavailable) | None => Fate::InDoubt,
        };
        for at in otlp::export::spans(body, &Limits::default()) {
            let summary = SpanSummary::read(at.unwrap().span).unwrap();
            let key = (summary.trace_id.to_string(), summary.span_id.to_string());
            let sent = Sent {
                fate,
                sent_unix_nano: now,
            };
            assert!(
                self.spans.insert(key, sent).is_none(),
                "the traffic repeats a span"
            );
        }
    }

    /// The power failed, and answers had not waited for the sync: what is not released may be gone.
    pub(super) fn forget_unreleased(&mut self) {
        let released = &self.released;
        for (key, sent) in &mut self.spans {
            if sent.fate == Fate::Acknowledged && !released.contains_key(key) {
                sent.fate = Fate::InDoubt;
            }
        }
    }

    /// The intake was told that the releases through this one are committed.
    pub(super) fn told(&mut self, sequence: i64) {
        self.told = self.told.max(sequence);
    }

    /// A release was handed to storage: for the first time, or again and then unchanged.
    pub(super) fn released(&mut self, release: &Release) {
        let seen = Seen::of(release);
        let sequence = release.sequence;
        if let Some(before) = self.releases.get(&sequence) {
            self.n_repeated += 1;
            if sequence > self.told {
                assert_eq!(before, &seen, "release {sequence} is not what it was");
            } else {
                // A table without rows since then does not know that it was committed: it is repeated
                // with what is left of it in the log.
                assert!(
                    seen.is_part_of(before),
                    "release {sequence} is not what it was"
                );
            }
            return;
        }
        let expected = self
            .releases
            .last_key_value()
            .map_or(1, |(last, _)| last + 1);
        assert_eq!(sequence, expected, "sequences have no gaps");
        for key in seen.kept.union(&seen.requests) {
            let sent = self.spans.get(key);
            let sent = sent.unwrap_or_else(|| panic!("{key:?} was never sent"));
            assert_ne!(
                sent.fate,
                Fate::Refused,
                "{key:?} was refused and is released"
            );
            let before = self.released.insert(key.clone(), sequence);
            assert_eq!(before, None, "{key:?} is released again, in {sequence}");
        }
        self.check_decided_again(&seen);
        self.releases.insert(sequence, seen);
    }

    /// A decision is forgotten only with its part of the log; then spans that came after it may be
    /// decided again, and only they.
    fn check_decided_again(&self, seen: &Seen) {
        let decided: BTreeSet<&String> = seen.traces.iter().map(|row| &row[0]).collect();
        for before in self.releases.values() {
            for row in before.traces.iter().filter(|row| decided.contains(&row[0])) {
                for key in seen
                    .kept
                    .union(&seen.requests)
                    .filter(|key| key.0 == row[0])
                {
                    let sent_unix_nano = self.spans[key].sent_unix_nano;
                    assert!(
                        sent_unix_nano >= before.decided_unix_nano,
                        "{key:?} was there when its trace was decided, and is decided again"
                    );
                }
            }
        }
    }

    /// The end of a run: everything is decided and committed. The tables hold exactly what was released,
    /// and everything acknowledged was.
    pub(super) fn check_stored(&self, stored: &Stored) -> Counts {
        let rows_of = |keys: &mut dyn Iterator<Item = &Key>| -> Rows {
            let mut rows: Rows = keys
                .map(|(trace, span)| vec![trace.clone(), span.clone()])
                .collect();
            rows.sort();
            rows
        };
        let releases = self.releases.values();
        let kept = rows_of(&mut releases.clone().flat_map(|seen| &seen.kept));
        assert_eq!(stored.spans, kept, "rows of `spans`");
        let requests = rows_of(&mut releases.clone().flat_map(|seen| &seen.requests));
        assert_eq!(stored.requests, requests, "rows of `requests`");
        self.check_calls(
            &stored.calls,
            &rows_of(&mut releases.clone().flat_map(|seen| &seen.calls)),
        );
        let mut traces: Rows = releases.flat_map(|seen| seen.traces.clone()).collect();
        traces.sort();
        assert_eq!(stored.traces, traces, "rows of `traces`");

        let mut kept_of: BTreeMap<&String, bool> = BTreeMap::new();
        for row in &stored.traces {
            let is_kept = row[1] == Decision::Sampled.as_str();
            *kept_of.entry(&row[0]).or_insert(true) &= is_kept;
        }
        let mut counts = Counts {
            n_kept: stored.spans.len() as u64,
            n_traces: stored.traces.len() as u64,
            n_repeated: self.n_repeated,
            ..Counts::default()
        };
        for (key, sent) in &self.spans {
            match sent.fate {
                Fate::Acknowledged => counts.n_acknowledged += 1,
                Fate::Refused => counts.n_refused += 1,
                Fate::InDoubt => counts.n_in_doubt += 1,
            }
            if sent.fate == Fate::Acknowledged {
                let is_kept = kept_of.get(&key.0);
                let is_kept = is_kept.unwrap_or_else(|| panic!("{key:?}: its trace has no row"));
                assert!(
                    !is_kept || self.released.contains_key(key),
                    "{key:?} was acknowledged, its trace is kept, and it is lost"
                );
            }
        }
        counts
    }
}

impl Model {
    /// Through which release all tables are, as it is noted beside the log.
    pub(super) fn noted(&self) -> i64 {
        if self.is_noted { self.told } else { 0 }
    }

    /// Where it is not noted how far all tables are, a release may be repeated after a part of its log was deleted: a
    /// call may stand alone then whose engine request is gone. It has one row at most.
    fn check_calls(&self, stored: &Rows, expected: &Rows) {
        if self.is_noted {
            assert_eq!(stored, expected, "calls in `requests`");
        }
        let mut distinct = stored.clone();
        distinct.dedup();
        assert_eq!(stored, &distinct, "a call has two rows");
        for row in expected {
            assert!(stored.contains(row), "the row of {row:?} is lost");
        }
        let told = self
            .releases
            .range(..=self.told)
            .map(|(_, seen)| &seen.call_spans);
        let told: BTreeSet<&Key> = told.flatten().collect();
        for row in stored.iter().filter(|row| !expected.contains(row)) {
            let key = (row[0].clone(), row[1].clone());
            assert!(told.contains(&key), "{key:?} is invented");
        }
    }
}

impl Seen {
    fn of(release: &Release) -> Self {
        let mut seen = Self {
            decided_unix_nano: release.decided_unix_nano,
            traces: Rows::new(),
            kept: BTreeSet::new(),
            requests: BTreeSet::new(),
            calls: calls_of(release)
                .into_iter()
                .map(|(trace_id, span_id)| (trace_id.to_string(), span_id.to_string()))
                .collect(),
            call_spans: BTreeSet::new(),
        };
        for trace in &release.decided {
            seen.traces.push(vec![
                trace.trace_id.to_string(),
                trace.decision.as_str().to_owned(),
                trace.policy.as_deref().unwrap_or("-").to_owned(),
                trace.summary.n_spans.to_string(),
            ]);
            for span in &trace.spans {
                seen.span(span, trace.decision);
            }
        }
        for late in &release.late {
            seen.span(&late.span, late.decision);
        }
        seen
    }

    /// The same decisions on fewer spans.
    fn is_part_of(&self, whole: &Self) -> bool {
        let decisions = |seen: &Self| -> BTreeSet<Vec<String>> {
            seen.traces.iter().map(|row| row[..3].to_vec()).collect()
        };
        self.decided_unix_nano == whole.decided_unix_nano
            && decisions(self).is_subset(&decisions(whole))
            && self.kept.is_subset(&whole.kept)
            && self.requests.is_subset(&whole.requests)
            && self.call_spans.is_subset(&whole.call_spans)
    }

    fn span(&mut self, span: &ReleasedSpan, decision: Decision) {
        let summary = SpanSummary::read(span.at().span).unwrap();
        let key = (summary.trace_id.to_string(), summary.span_id.to_string());
        match span.reports {
            Reports::Request => drop(self.requests.insert(key.clone())),
            Reports::Call => drop(self.call_spans.insert(key.clone())),
            Reports::Itself => {}
        }
        if decision == Decision::Sampled {
            assert!(self.kept.insert(key), "a span is twice in one release");
        }
    }
}

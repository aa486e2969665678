//! The backlog: what waits for storage, and how much will when what is undecided is decided.
//!
//! What waits is counted in rows: the spans of decided traces that are stored, and at least one for each trace, which
//! leaves a row in `traces`. A row waits until the release that has it is committed.
//!
//! An export that is let in waits for its decision first. Were the intake open until too much waits, a whole
//! `decision_wait` of traffic would be on its way by then, and far too much for a long time after; and when it opened
//! again, storage would run out of work before anything new was decided. So the limit applies to a forecast: what will
//! wait when the span that comes now is decided. Until then storage goes on at the pace of its last commits, and of
//! what came before the same share is stored as of the spans that were decided last. At any load above what storage
//! takes, the forecast is kept near three quarters of the limit, and so is, a `decision_wait` later, what waits. The last
//! quarter is for what the forecast cannot know: how far a commit is, and chance. Once closed, the intake stays so for
//! the time that refused senders are told to wait, and is open for about as long at twice the load.
//!
//! It is wrong by what storage or senders change meanwhile. At worst, storage stops, and what is undecided by then
//! comes on top; that has limits of its own. And it is of no use where `decision_wait` takes several times what the
//! limit leaves to storage, or where the limit is not worth a few commits.
//!
//! It must not know what a span is, nor the log.

use std::{collections::VecDeque, time::Duration};

use crate::status::RETRY_DELAY;

/// Decided spans after which half of what is known of the share that is stored counts half, unless more are undecided.
const SPANS_REMEMBERED: u64 = 1024;

/// The same for the pace of storage: time in which it wrote. A few commits.
const TIME_REMEMBERED_NANOS: u64 = 10_000_000_000;

/// What waits for storage, and what is known of what will.
#[derive(Debug)]
pub(super) struct Backlog {
    n_rows: u64,
    /// Rows per decided span.
    stored: Ratio,
    /// Committed rows per nanosecond in which storage wrote.
    pace: Ratio,
    /// Of the last commit; 0 before the first.
    committed_unix_nano: u64,
    /// From a span's arrival to its decision.
    wait_nanos: u64,
    /// What is undecided, by the ticks in which it came, oldest first.
    undecided: VecDeque<Arrived>,
    n_undecided: u64,
    /// Spans that came since the last tick.
    n_arrived: u64,
    /// Of the last tick, in rows.
    forecast: f64,
    /// By the forecast.
    is_closed: bool,
}

#[derive(Debug)]
struct Arrived {
    due_unix_nano: u64,
    n_spans: u64,
}

impl Backlog {
    /// No backlog, where spans are decided after this time.
    pub(super) fn new(wait: Duration) -> Backlog {
        Backlog {
            n_rows: 0,
            // Until something else is known, everything is stored.
            stored: Ratio {
                part: SPANS_REMEMBERED as f64,
                whole: SPANS_REMEMBERED as f64,
            },
            pace: Ratio::default(),
            committed_unix_nano: 0,
            wait_nanos: nanos(wait),
            undecided: VecDeque::new(),
            n_undecided: 0,
            n_arrived: 0,
            forecast: 0.0,
            is_closed: false,
        }
    }

    /// So many spans came in and are undecided.
    pub(super) fn add_arrived(&mut self, n_spans: u64) {
        self.n_arrived = self.n_arrived.saturating_add(n_spans);
    }

    /// Of `n_spans` that were undecided, so many rows are stored; `n_pending` go on being undecided.
    pub(super) fn add_decided(&mut self, n_spans: u64, n_rows: u64, n_pending: u64) {
        let remembered = n_pending.max(SPANS_REMEMBERED);
        self.stored.add(n_rows, n_spans, remembered);
    }

    /// So many rows wait for storage from now on.
    pub(super) fn add_waiting(&mut self, n_rows: u64) {
        self.n_rows = self.n_rows.saturating_add(n_rows);
    }

    /// Storage has committed so many of them, the last of which waited from `since_unix_nano` on (0: not known).
    pub(super) fn remove_committed(
        &mut self,
        n_rows: u64,
        since_unix_nano: u64,
        now_unix_nano: u64,
    ) {
        self.n_rows = self.n_rows.saturating_sub(n_rows);
        // It wrote neither before the last commit was made nor before it had all of this one.
        let begin = since_unix_nano.max(self.committed_unix_nano);
        if since_unix_nano > 0
            && let Some(took) = now_unix_nano.checked_sub(begin)
        {
            self.pace.add(n_rows, took, TIME_REMEMBERED_NANOS);
        }
        self.committed_unix_nano = now_unix_nano;
    }

    /// Rows that wait.
    pub(super) fn n_rows(&self) -> u64 {
        self.n_rows
    }

    /// Is the intake to be closed, so that no more than `limit` rows will wait?
    pub(super) fn is_closing(&mut self, limit: u64) -> bool {
        let forecast = self.forecast + self.stored.of(self.n_arrived);
        let close_at = limit as f64 * 0.75;
        // Closed for as long as refused senders wait, and then open: one that tries a few times gets through.
        let open_at = close_at - self.pace.of(nanos(RETRY_DELAY)).min(close_at / 3.0);
        self.is_closed = forecast > close_at || self.is_closed && forecast > open_at;
        // Storage may have stopped.
        self.is_closed || self.n_rows > limit
    }

    /// Brings the forecast up to date; all in all `n_pending` spans are undecided.
    pub(super) fn look_ahead(&mut self, n_pending: u64, now_unix_nano: u64) {
        let n_spans = std::mem::take(&mut self.n_arrived);
        if n_spans > 0 {
            self.n_undecided = self.n_undecided.saturating_add(n_spans);
            self.undecided.push_back(Arrived {
                due_unix_nano: now_unix_nano.saturating_add(self.wait_nanos),
                n_spans,
            });
        }
        // Those that have been decided are the oldest; others wait longer than they had to.
        let mut n_decided = self.n_undecided.saturating_sub(n_pending);
        while let Some(oldest) = self.undecided.front_mut() {
            let is_due = oldest.due_unix_nano <= now_unix_nano;
            let n_gone = if is_due {
                oldest.n_spans
            } else {
                n_decided.min(oldest.n_spans)
            };
            oldest.n_spans = oldest.n_spans.saturating_sub(n_gone);
            self.n_undecided = self.n_undecided.saturating_sub(n_gone);
            n_decided = n_decided.saturating_sub(n_gone);
            if oldest.n_spans > 0 {
                break;
            }
            self.undecided.pop_front();
        }
        let mut at = now_unix_nano;
        let mut n_rows = self.n_rows as f64;
        for arrived in &self.undecided {
            let until_due = arrived.due_unix_nano.saturating_sub(at);
            n_rows = (n_rows - self.pace.of(until_due)).max(0.0) + self.stored.of(arrived.n_spans);
            at = at.max(arrived.due_unix_nano);
        }
        let end = now_unix_nano.saturating_add(self.wait_nanos);
        n_rows -= self.pace.of(end.saturating_sub(at));
        self.forecast = n_rows.max(0.0);
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// How much of one thing there is per another, where what was seen last counts most.
#[derive(Debug, Default)]
struct Ratio {
    part: f64,
    whole: f64,
}

impl Ratio {
    fn add(&mut self, part: u64, whole: u64, remembered: u64) {
        self.part += part as f64;
        self.whole += whole as f64;
        while self.whole > remembered as f64 {
            self.part /= 2.0;
            self.whole /= 2.0;
        }
    }

    /// As much as there is for so much of the other; nothing while nothing is known.
    fn of(&self, whole: u64) -> f64 {
        if self.whole > 0.0 {
            whole as f64 * self.part / self.whole
        } else {
            0.0
        }
    }
}

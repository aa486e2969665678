//! Counts of statements and of connections, by the door that they came through.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Error;
use crate::statement_log::{Line, Rows};

/// Where a statement came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entrance {
    /// From this process.
    Inside,
    /// HTTP.
    Http,
    /// The protocol of Postgres.
    Postgres,
    /// Arrow Flight SQL.
    FlightSql,
}

impl Entrance {
    const ALL: [Self; 4] = [Self::Inside, Self::Http, Self::Postgres, Self::FlightSql];

    /// Its name in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Inside => "inside",
            Self::Http => "http",
            Self::Postgres => "postgres",
            Self::FlightSql => "flight_sql",
        }
    }
}

/// How a statement ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// With all its rows, or as many as were wanted.
    Answered,
    /// Refused, or could not be planned: another statement would have succeeded.
    Refused,
    /// By a limit.
    Limited,
    /// By a fault of this program or of what it reads.
    Failed,
    /// Its reader was gone, or cancelled it.
    Stopped,
}

impl Outcome {
    const ALL: [Self; 5] = [
        Self::Answered,
        Self::Refused,
        Self::Limited,
        Self::Failed,
        Self::Stopped,
    ];

    fn of(error: &Error) -> Self {
        if error.is_users_fault() {
            Self::Refused
        } else if error.is_limit() {
            Self::Limited
        } else {
            Self::Failed
        }
    }

    /// Its name in metrics and logs.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Refused => "refused",
            Self::Limited => "limited",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }
}

/// Statements by entrance and outcome.
#[derive(Debug, Default)]
pub struct Metrics {
    statements: [[AtomicU64; Outcome::ALL.len()]; Entrance::ALL.len()],
}

impl Metrics {
    fn count(&self, entrance: Entrance, outcome: Outcome) {
        let counters = self.statements.get(entrance as usize);
        if let Some(counter) = counters.and_then(|counters| counters.get(outcome as usize)) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// As Prometheus text.
    pub fn render(&self) -> String {
        let mut out = String::from(
            "# HELP query_statements_total Statements by the door they came through and how they ended.\n\
             # TYPE query_statements_total counter\n",
        );
        for (entrance, counters) in Entrance::ALL.iter().zip(&self.statements) {
            for (outcome, counter) in Outcome::ALL.iter().zip(counters) {
                let (door, outcome) = (entrance.as_str(), outcome.as_str());
                let n_statements = counter.load(Ordering::Relaxed);
                // Writing to a `String` cannot fail.
                writeln!(
                    out,
                    "query_statements_total{{door=\"{door}\",outcome=\"{outcome}\"}} {n_statements}"
                )
                .ok();
            }
        }
        out
    }
}

/// Counts one statement once, and logs it if that is wished: when it is known how it ended, and as stopped if it never is.
#[derive(Debug)]
pub(crate) struct Tally {
    metrics: Arc<Metrics>,
    entrance: Entrance,
    line: Option<Line>,
    rows: Rows,
    is_over: bool,
}

impl Tally {
    pub(crate) fn new(metrics: Arc<Metrics>, entrance: Entrance, line: Option<Line>) -> Self {
        Self {
            metrics,
            entrance,
            line,
            rows: Rows::default(),
            is_over: false,
        }
    }

    /// What went out so far.
    pub(crate) fn rows(&self) -> Rows {
        self.rows
    }

    /// Rows have gone out.
    pub(crate) fn add_rows(&mut self, n_rows: usize) {
        let n_rows = u64::try_from(n_rows).unwrap_or(u64::MAX);
        self.rows.n_rows = self.rows.n_rows.saturating_add(n_rows);
    }

    /// There were more rows than were wanted.
    pub(crate) fn truncate(&mut self) {
        self.rows.is_truncated = true;
    }

    pub(crate) fn answered(&mut self) {
        self.end(Outcome::Answered, None);
    }

    pub(crate) fn failed(&mut self, error: &Error) {
        self.end(Outcome::of(error), Some(error));
    }

    /// It was a part of a statement that is counted by itself.
    pub(crate) fn forget(mut self) {
        self.is_over = true;
    }

    fn end(&mut self, outcome: Outcome, reason: Option<&Error>) {
        if self.is_over {
            return;
        }
        self.is_over = true;
        self.metrics.count(self.entrance, outcome);
        if let Some(line) = &self.line {
            line.end(outcome, reason, self.rows);
        }
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        self.end(Outcome::Stopped, None);
    }
}

/// Connections of one listener.
#[derive(Debug, Default)]
pub struct Connections {
    n_accepted: AtomicU64,
    n_ended: AtomicU64,
    n_refused: AtomicU64,
    n_unauthenticated: AtomicU64,
}

impl Connections {
    /// Counts one until the answer is dropped.
    pub(crate) fn accept(self: &Arc<Self>) -> Open {
        self.n_accepted.fetch_add(1, Ordering::Relaxed);
        Open(Arc::clone(self))
    }

    /// Counts one that found no room.
    pub(crate) fn refuse(&self) {
        self.n_refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts somebody who could not prove who they are.
    pub(crate) fn unauthenticated(&self) {
        self.n_unauthenticated.fetch_add(1, Ordering::Relaxed);
    }

    /// Those that are open now.
    pub fn n_open(&self) -> u64 {
        let n_ended = self.n_ended.load(Ordering::Relaxed);
        self.n_accepted
            .load(Ordering::Relaxed)
            .saturating_sub(n_ended)
    }

    /// As Prometheus text, without the heads of [`Connections::HEADS`].
    pub fn render(&self, entrance: Entrance) -> String {
        let door = entrance.as_str();
        let n_open = self.n_open();
        let [n_accepted, n_refused, n_unauthenticated] =
            [&self.n_accepted, &self.n_refused, &self.n_unauthenticated]
                .map(|counter| counter.load(Ordering::Relaxed));
        format!(
            "query_connections_total{{door=\"{door}\"}} {n_accepted}\n\
             query_connections_open{{door=\"{door}\"}} {n_open}\n\
             query_connections_refused_total{{door=\"{door}\"}} {n_refused}\n\
             query_unauthenticated_total{{door=\"{door}\"}} {n_unauthenticated}\n"
        )
    }

    /// What the lines of [`Connections::render`] mean.
    pub const HEADS: &str = "\
        # HELP query_connections_total Connections of clients of SQL.\n\
        # TYPE query_connections_total counter\n\
        # HELP query_connections_open Those that are open.\n\
        # TYPE query_connections_open gauge\n\
        # HELP query_connections_refused_total Connections for which there was no room.\n\
        # TYPE query_connections_refused_total counter\n\
        # HELP query_unauthenticated_total Connections or requests without a known token.\n\
        # TYPE query_unauthenticated_total counter\n";
}

/// A connection that is counted as open.
#[derive(Debug)]
pub(crate) struct Open(Arc<Connections>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.n_ended.fetch_add(1, Ordering::Relaxed);
    }
}

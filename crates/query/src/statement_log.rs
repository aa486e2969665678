//! The log of statements, on request: a line for each, when it is known how it ended.
//!
//! A line goes to the target [`TARGET`] at level `info`:
//!
//! | field | is |
//! |---|---|
//! | `door` | `http`, `postgres`, `flight_sql`; `inside` for this process |
//! | `user` | who proved a token, by the number of the token, else the address. Not the name that a client of Postgres gives: nobody checks it, and a password may stand there |
//! | `duration_ms` | from its arrival to its last row, the time that the client took included |
//! | `rows` | rows that went out |
//! | `truncated` | whether there were more |
//! | `outcome` | as in `query_statements_total`: `answered`, `refused`, `limited`, `failed`, `stopped` (its client was gone, or cancelled it) |
//! | `reason` | the code of the error, as in HTTP's answers: `unknown_column`, or which limit it was, such as `timed_out`. Not its text, in which there may be values |
//! | `bytes` | length of the statement |
//! | `statement` | the statement, see `redact`; not there if it was not understood, or refused before it was looked at |
//!
//! Columns that only a description of a statement is asked for make a line if that fails, as the statement does not follow.
//! Values of parameters are never logged, nor are tokens: they do not come this far.

mod redact;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use datafusion::sql::sqlparser::dialect::Dialect;
use serde::Deserialize;
use tokio::time::Instant;

use crate::asker::Asker;
use crate::error::Error;
use crate::metrics::{Entrance, Outcome};
use crate::question::Question;

/// Where lines go, for filters of logs.
pub const TARGET: &str = "statement_log";

/// Longest statement that a line has; the rest of a longer one is left out.
const TEXT_BYTES_MAX: usize = 16 * 1024;

/// `statement_log` of the extension `query`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Is there such a log? Default `false`.
    pub enabled: bool,
    /// Are statements logged as they came, with the values in them? Default `false`: each value is a `?`.
    pub literals: bool,
    /// Statements that were answered, or stopped by their client, in less time are left out; what was refused, met a limit
    /// or failed is not. Unset: none is left out.
    #[serde(deserialize_with = "transport::time_span::optional")]
    pub slower_than: Option<Duration>,
}

/// A statement as it may be logged; filled where it is parsed.
#[derive(Debug)]
pub(crate) struct Said {
    text: OnceLock<String>,
}

impl Said {
    /// It was understood: its text is SQL of this dialect, of queries or of something else.
    pub(crate) fn understood(&self, sql: &str, dialect: &dyn Dialect, is_query: bool) {
        self.text
            .get_or_init(|| redact::without_values(sql, dialect, is_query, TEXT_BYTES_MAX));
    }
}

/// The line of a statement that is under way.
#[derive(Debug)]
pub(crate) struct Line {
    config: Config,
    began: Instant,
    entrance: Entrance,
    asker: Option<Asker>,
    n_bytes: usize,
    said: Arc<Said>,
}

impl Line {
    /// Begins a line, if there is such a log, and tells the statement where to leave its text.
    pub(crate) fn begin(config: Config, question: &mut Question) -> Option<Self> {
        if !config.enabled {
            return None;
        }
        let text = OnceLock::new();
        if config.literals {
            text.get_or_init(|| redact::shortened(&question.sql, TEXT_BYTES_MAX));
        }
        let said = Arc::new(Said { text });
        question.said = Some(Arc::clone(&said));
        Some(Self {
            config,
            began: Instant::now(),
            entrance: question.entrance,
            asker: question.asker,
            n_bytes: question.sql.len(),
            said,
        })
    }

    /// Writes it.
    pub(crate) fn end(&self, outcome: Outcome, reason: Option<&Error>, rows: Rows) {
        let duration = self.began.elapsed();
        let is_as_wished = matches!(outcome, Outcome::Answered | Outcome::Stopped);
        if is_as_wished && self.config.slower_than.is_some_and(|than| duration < than) {
            return;
        }
        tracing::info!(
            target: TARGET,
            door = self.entrance.as_str(),
            user = self.asker.map(tracing::field::display),
            duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
            rows = rows.n_rows,
            truncated = rows.is_truncated,
            outcome = outcome.as_str(),
            reason = reason.map(Error::code),
            bytes = self.n_bytes,
            statement = self.said.text.get().map(String::as_str),
            "statement"
        );
    }
}

/// What went out of an answer.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rows {
    pub(crate) n_rows: u64,
    pub(crate) is_truncated: bool,
}

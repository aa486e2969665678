//! An answer under way: its rows go out in parts, as many as the client asks for.

use arrow::array::ArrayRef;
use bytes::BytesMut;
use futures::StreamExt;
use tokio::time::Instant;

use super::problem::{Problem, Severity};
use super::rows::RowWriter;
use crate::answer::Answer;
use crate::error::Error;

/// Rows that are written before they are sent.
const ROWS_PER_PIECE: usize = 256;

/// An answer, and how its rows are written.
#[derive(Debug)]
pub(crate) struct Running {
    answer: Answer,
    writer: RowWriter,
    tag: &'static str,
    /// A batch that has not gone out as a whole.
    rest: Option<Rest>,
    /// Rows written so far.
    n_rows: u64,
}

#[derive(Debug)]
struct Rest {
    arrays: Vec<ArrayRef>,
    next: usize,
    end: usize,
}

/// What a step of writing came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// There may be more rows.
    More,
    /// As many rows as were asked for.
    Suspended,
    /// All rows.
    Complete,
}

impl Running {
    pub(crate) fn new(answer: Answer, writer: RowWriter, tag: &'static str) -> Self {
        Self {
            answer,
            writer,
            tag,
            rest: None,
            n_rows: 0,
        }
    }

    /// When its time is over.
    pub(crate) fn deadline(&self) -> Instant {
        self.answer.deadline()
    }

    pub(crate) fn describe(&self, out: &mut BytesMut) -> Result<(), Problem> {
        self.writer.describe(out)
    }

    /// Gets rows if none are left; `false`: there are no more.
    pub(crate) async fn fetch(&mut self) -> Result<bool, Problem> {
        while self.rest.as_ref().is_none_or(|rest| rest.next == rest.end) {
            let Some(batch) = self.answer.next().await else {
                return Ok(false);
            };
            let batch = batch.map_err(|error: Error| Problem::from(&error))?;
            self.rest = Some(Rest {
                arrays: self.writer.prepare(&batch)?,
                next: 0,
                end: batch.num_rows(),
            });
        }
        Ok(true)
    }

    /// Writes a piece of what [`Running::fetch`] got; `left` is how many rows are still wanted.
    pub(crate) fn write(
        &mut self,
        left: &mut Option<u64>,
        out: &mut BytesMut,
    ) -> Result<Step, Problem> {
        let Some(rest) = &mut self.rest else {
            return Ok(Step::More);
        };
        let wanted = left.map_or(usize::MAX, |left| {
            usize::try_from(left).unwrap_or(usize::MAX)
        });
        let n_rows = (rest.end - rest.next).min(ROWS_PER_PIECE).min(wanted);
        let rows = rest.next..rest.next + n_rows;
        rest.next = rows.end;
        self.writer.write(&rest.arrays, rows, out)?;
        let n_rows = u64::try_from(n_rows).unwrap_or(u64::MAX);
        self.n_rows = self.n_rows.saturating_add(n_rows);
        if let Some(left) = left {
            *left = left.saturating_sub(n_rows);
            if *left == 0 {
                return Ok(Step::Suspended);
            }
        }
        Ok(Step::More)
    }

    /// Writes the end: a warning where rows are missing, and what was done. `n_rows` are those of the last part.
    pub(crate) fn complete(&self, out: &mut BytesMut) -> String {
        if self.answer.is_truncated() {
            let rows_max = self.answer.rows_max();
            let message = format!("the answer was cut after {rows_max} rows, there are more");
            Problem::new("01000", message)
                .hint("the limit is `rows_max` of the extension `query`")
                .write(Severity::Warning, out);
        }
        match self.tag {
            "SELECT" => format!("SELECT {}", self.n_rows),
            tag => tag.to_owned(),
        }
    }
}

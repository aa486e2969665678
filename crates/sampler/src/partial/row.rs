//! The row of a stored trace, as a condition in SQL sees it.

use super::Facts;
use super::possible::View;
use crate::number::Number;
use crate::sql::{Column, Condition, Datum, Row};

/// What is known of the row.
#[derive(Debug, Clone, Copy)]
pub(super) struct StoredRow<'a> {
    facts: &'a Facts,
    services: &'a [String],
}

impl View<'_> {
    /// `None` where a part of it is not known that the condition reads.
    pub(super) fn row(&self, condition: &Condition) -> Option<StoredRow<'_>> {
        if self.services.is_none() && condition.reads_services() {
            return None;
        }
        Some(StoredRow {
            facts: self.facts,
            services: self.services.unwrap_or_default(),
        })
    }
}

impl Row for StoredRow<'_> {
    fn column(&self, column: Column) -> Option<Datum> {
        let facts = self.facts;
        let (start, end) = (facts.start_time_unix_nano, facts.end_time_unix_nano);
        let count = match column {
            Column::StartTime => start?,
            Column::EndTime => end?,
            Column::Duration => end?.checked_sub(start?)?,
            Column::SpanCount => facts.n_spans,
            Column::ErrorSpanCount => facts.n_error_spans,
            Column::RootCount => facts.n_roots,
            Column::OrphanCount => facts.n_orphans,
            Column::RequestCount => facts.n_requests,
            Column::SizeBytes => facts.n_bytes,
            Column::Error => return Some(Datum::Bool(facts.n_error_spans > 0)),
            Column::Complete => {
                return Some(Datum::Bool(facts.n_roots > 0 && facts.n_orphans == 0));
            }
        };
        let number = i64::try_from(count).ok()?;
        Some(Datum::Number(Number::Int(number)))
    }

    fn has_service(&self, name: &str) -> bool {
        self.services.iter().any(|known| known == name)
    }
}

//! What policies look at.

use otlp::TraceId;

use crate::adaptive::KeyHashes;
use crate::atoms::AtomSet;
use crate::number::Number;
use crate::pending::Trace;
use crate::services::Services;
use crate::sql::{Column, Datum, Row};
use crate::threshold::Threshold;

/// A trace as it is at its decision, or one batch of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Evidence<'a> {
    pub(crate) trace_id: &'a TraceId,
    pub(crate) atoms: AtomSet,
    pub(crate) duration_ns: u64,
    pub(crate) n_spans: u64,
    pub(crate) n_bytes: u64,
    pub(crate) now_unix_nano: u64,
    /// The trace itself.
    pub(crate) trace: &'a Trace,
    /// For the names in it.
    pub(crate) services: &'a Services,
}

impl<'a> Evidence<'a> {
    /// The duration is that of the trace, or of the batch that is judged.
    pub(crate) fn of(
        trace: &'a Trace,
        services: &'a Services,
        duration_ns: u64,
        now_unix_nano: u64,
    ) -> Self {
        Self {
            trace_id: &trace.trace_id,
            atoms: trace.atoms,
            duration_ns,
            n_spans: trace.spans.len() as u64,
            n_bytes: trace.n_bytes,
            now_unix_nano,
            trace,
            services,
        }
    }

    /// The threshold that the trace has passed before.
    pub(crate) fn upstream(&self) -> Threshold {
        self.trace.upstream().threshold().unwrap_or_default()
    }

    pub(crate) fn keys(&self) -> KeyHashes {
        self.trace.keys()
    }

    fn count_orphans(&self) -> usize {
        let mut ids = Vec::new();
        self.trace.spans.sorted_ids(&mut ids);
        self.trace.spans.count_orphans(&ids)
    }
}

/// As `tables::traces` writes the columns: a time that is not known is NULL.
impl Row for Evidence<'_> {
    fn column(&self, column: Column) -> Option<Datum> {
        let trace = self.trace;
        let time = |nanos: u64| i64::try_from(nanos).ok().filter(|nanos| *nanos != 0);
        let start = time(trace.start_time_unix_nano);
        let end = time(trace.end_time_unix_nano);
        let count = |count: u64| i64::try_from(count).ok();
        let number = match column {
            Column::StartTime => start,
            Column::EndTime => end,
            Column::Duration => end
                .zip(start)
                .map(|(end, start)| end - start)
                .filter(|nanos| *nanos >= 0),
            Column::SpanCount => count(self.n_spans),
            Column::ErrorSpanCount => Some(trace.n_error_spans.into()),
            Column::RootCount => Some(trace.n_roots().into()),
            Column::OrphanCount => count(self.count_orphans() as u64),
            Column::RequestCount => count(trace.spans.count_requests() as u64),
            Column::SizeBytes => count(self.n_bytes),
            Column::Error => return Some(Datum::Bool(trace.n_error_spans > 0)),
            Column::Complete => {
                let is_complete = trace.n_roots() > 0 && self.count_orphans() == 0;
                return Some(Datum::Bool(is_complete));
            }
        };
        number.map(|number| Datum::Number(Number::Int(number)))
    }

    fn has_service(&self, name: &str) -> bool {
        let services = self.trace.services.iter();
        services
            .map(|service| self.services.name(*service))
            .any(|known| known == name)
    }
}

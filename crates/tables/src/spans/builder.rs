//! Spans from their bytes into Arrow builders.

use arrow::array::RecordBatch;
use otlp::{
    attribute::{self, Value},
    export::SpanAt,
    span::{self, SpanSummary},
};

use super::{
    SPEC, cell,
    entries::{self, Counts, Entry, Scratch},
    promoted::{Choice, EVENT_COLUMNS_MAX, Promoted},
    resource::ResourceCells,
};
use crate::{
    error::{Error, Result},
    redact::{Action, Place, Redaction},
    row::{EventCell, LinkCell, Rows},
    time,
};

/// What `keys` of the redaction calls the text of a span's status.
pub(super) const STATUS_MESSAGE: &str = "status.message";

/// One span and what is known of it beside its bytes.
#[derive(Clone, Copy, Debug)]
pub struct SpanInput<'a> {
    /// The span in its export request.
    pub at: &'a SpanAt<'a>,
    /// Its trace.
    pub trace: &'a TraceContext,
    /// Did it arrive after its trace was decided?
    pub late: bool,
    /// When it was received, in nanoseconds since 1970 (UTC).
    pub received_unix_nano: u64,
}

/// What the rows of one trace share.
#[derive(Clone, Copy, Debug)]
pub struct TraceContext {
    /// Earliest start of its spans, in nanoseconds since 1970 (UTC); 0 if unknown, then the time of
    /// receipt places the span.
    pub start_time_unix_nano: u64,
}

/// Builds batches of [`SPEC`].
#[derive(Debug)]
pub struct SpansBuilder {
    rows: Rows,
    redaction: Redaction,
    promoted: Promoted,
    resource: ResourceCells,
    scratch: Scratch,
    span_entries: Vec<Entry<'static>>,
    nested_entries: Vec<Entry<'static>>,
    chosen: Vec<Option<Choice>>,
    keeps_status_message: bool,
}

impl SpansBuilder {
    /// An empty builder.
    pub fn new(redaction: &Redaction) -> Self {
        Self {
            rows: Rows::new(&SPEC),
            redaction: redaction.clone(),
            promoted: Promoted::new(&SPEC, redaction),
            resource: ResourceCells::default(),
            scratch: Scratch::default(),
            span_entries: Vec::new(),
            nested_entries: Vec::new(),
            chosen: Vec::new(),
            keeps_status_message: redaction.action(Place::Plain, STATUS_MESSAGE) == Action::Keep,
        }
    }

    /// Number of rows.
    pub const fn len(&self) -> usize {
        self.rows.len()
    }

    /// Are there no rows?
    pub const fn is_empty(&self) -> bool {
        self.rows.len() == 0
    }

    /// Approximate size of the rows in memory.
    pub const fn byte_size(&self) -> usize {
        self.rows.byte_size()
    }

    /// The rows so far in the order of appending; the builder is empty afterwards.
    pub fn finish(&mut self) -> RecordBatch {
        self.rows.finish()
    }

    /// Appends one span.
    ///
    /// # Errors
    /// [`Error::Span`] if the bytes are not a span that `otlp::export::check` accepts, and
    /// [`Error::Full`] if the batch must be finished first. The builder is unchanged then.
    pub fn append(&mut self, input: &SpanInput<'_>) -> Result<()> {
        self.rows.check_room()?;
        let mut span_entries = entries::recycle(std::mem::take(&mut self.span_entries));
        let mut nested_entries = entries::recycle(std::mem::take(&mut self.nested_entries));
        let appended = self
            .read(input, &mut span_entries)
            .map(|read| self.write(input, &read, &span_entries, &mut nested_entries));
        self.span_entries = entries::recycle(span_entries);
        self.nested_entries = entries::recycle(nested_entries);
        appended.map_err(|source| Error::Span {
            offset: input.at.offset,
            source,
        })
    }

    /// Reads all that can fail, so that a row is written whole or not at all.
    fn read<'a>(
        &mut self,
        input: &SpanInput<'a>,
        span_entries: &mut Vec<Entry<'a>>,
    ) -> otlp::Result<ReadSpan<'a>> {
        let at = input.at;
        let summary = SpanSummary::read(at.span)?;
        let scope = otlp::scope::read(at.scope)?;
        let place = self.redaction.place_of_span(summary.name);
        entries::read(
            attribute::of_span(at.span),
            &self.redaction,
            |key| self.promoted.span_action(&self.redaction, place, key),
            span_entries,
        )?;
        let event_values = self.promoted.event_values(at.span)?;
        for link in span::links(at.span) {
            for attribute in link?.attributes() {
                attribute?;
            }
        }
        if !self.resource.is_of(at.resource) {
            let (promoted, redaction) = (&self.promoted, &self.redaction);
            let resource = ResourceCells::read(at.resource, promoted, redaction, &mut self.scratch);
            self.resource = resource?;
        }
        self.promoted.choose_span(span_entries, &mut self.chosen);
        Ok(ReadSpan {
            summary,
            scope,
            event_values,
        })
    }

    fn write<'a>(
        &mut self,
        input: &SpanInput<'a>,
        read: &ReadSpan<'a>,
        span_entries: &[Entry<'a>],
        nested: &mut Vec<Entry<'a>>,
    ) {
        let mut counts = self.resource.counts;
        self.write_summary(input, read, &mut counts);
        for (index, column) in self.promoted.columns.iter().enumerate() {
            if column.is_resource {
                self.resource.columns[index].write(&mut self.rows, column.name);
                continue;
            }
            let entry = self.chosen[index].map(|choice| &span_entries[choice.entry]);
            let event_value = || read.event_values[column.event?];
            let value = entry.map(|entry| entry.value).or_else(event_value);
            let mut cuts = Counts::default();
            let bytes_max = self.redaction.value_bytes_max();
            cell::write(
                &mut self.rows,
                column,
                value,
                bytes_max,
                &mut self.scratch,
                &mut cuts,
            );
            if entry.is_some_and(|entry| entry.is_column_only) {
                counts.add(cuts);
            }
        }
        self.write_maps(input.at, span_entries, nested, &mut counts);
        self.write_counts(input, &read.summary, counts);
        self.rows.end_row();
    }

    fn write_summary(&mut self, input: &SpanInput<'_>, read: &ReadSpan<'_>, counts: &mut Counts) {
        let ReadSpan { summary, scope, .. } = read;
        let (start, end) = (summary.start_time_unix_nano, summary.end_time_unix_nano);
        let received = input.received_unix_nano;
        let rows = &mut self.rows;
        rows.date("date", time::partition_date(start, received));
        let minute = time::minute(input.trace.start_time_unix_nano, received);
        rows.micros("minute", Some(minute));
        rows.trace_id("trace_id", summary.trace_id);
        rows.span_id("span_id", Some(summary.span_id));
        rows.span_id("parent_span_id", summary.parent_span_id);
        self.write_cut("trace_state", summary.trace_state, counts);
        self.rows.int("flags", Some(summary.flags.into()));
        self.write_cut("name", summary.name, counts);
        let rows = &mut self.rows;
        rows.text("kind", Some(summary.kind.as_str()));
        rows.time("start_time", start);
        rows.int("start_time_unix_nano", time::nanos(start));
        rows.time("end_time", end);
        rows.int("end_time_unix_nano", time::nanos(end));
        rows.int("duration_ns", time::duration_ns(start, end));
        rows.text("status_code", Some(summary.status_code.as_str()));
        let is_dropped = !self.keeps_status_message && !summary.status_message.is_empty();
        counts.redacted = counts.redacted.saturating_add(u32::from(is_dropped));
        let status_message = if is_dropped {
            ""
        } else {
            summary.status_message
        };
        self.write_cut("status_message", status_message, counts);
        self.write_cut("scope_name", scope.name, counts);
        self.write_cut("scope_version", scope.version, counts);
    }

    fn write_cut(&mut self, name: &str, text: &str, counts: &mut Counts) {
        let (text, is_cut) = self.scratch.cut(text, self.redaction.value_bytes_max());
        counts.note_cut(is_cut);
        self.rows.text_or_null(name, text);
    }

    fn write_maps<'a>(
        &mut self,
        at: &SpanAt<'a>,
        span_entries: &[Entry<'a>],
        nested: &mut Vec<Entry<'a>>,
        counts: &mut Counts,
    ) {
        let Self {
            rows,
            redaction,
            resource,
            scratch,
            ..
        } = self;
        let bytes_max = redaction.value_bytes_max();
        rows.attributes("attributes", |cells| {
            entries::write(span_entries, bytes_max, scratch, counts, cells)
        });
        rows.attributes("resource_attributes", |cells| {
            let entries = resource.attributes.iter();
            entries
                .map(|(key, value)| cells.push(key, value.as_deref()))
                .sum()
        });
        rows.events("events", |cells| {
            let mut n_bytes = 0;
            for event in span::events(at.span).map_while(otlp::Result::ok) {
                let place = redaction.place_of_event(event.name);
                let mut cut_name = String::new();
                let (name, is_cut) = crate::redact::cut(event.name, bytes_max, &mut cut_name);
                counts.note_cut(is_cut);
                let cell = EventCell {
                    time_unix_nano: event.time_unix_nano,
                    name,
                    dropped_attributes_count: event.dropped_attributes_count,
                };
                n_bytes += cells.push(&cell, |cells| {
                    let attributes = event.attributes();
                    entries::write_map(attributes, redaction, place, nested, scratch, counts, cells)
                });
            }
            n_bytes
        });
        rows.links("links", |cells| {
            let mut n_bytes = 0;
            for link in span::links(at.span).map_while(otlp::Result::ok) {
                let mut cut_state = String::new();
                let (trace_state, is_cut) =
                    crate::redact::cut(link.trace_state, bytes_max, &mut cut_state);
                counts.note_cut(is_cut);
                let cell = LinkCell {
                    trace_id: link.trace_id,
                    span_id: link.span_id,
                    trace_state,
                    flags: link.flags,
                    dropped_attributes_count: link.dropped_attributes_count,
                };
                let place = Place::Plain;
                n_bytes += cells.push(&cell, |cells| {
                    let attributes = link.attributes();
                    entries::write_map(attributes, redaction, place, nested, scratch, counts, cells)
                });
            }
            n_bytes
        });
    }

    fn write_counts(
        &mut self,
        input: &SpanInput<'_>,
        summary: &SpanSummary<'_>,
        mut counts: Counts,
    ) {
        let (url, is_cut) = self.scratch.cut(
            input.at.resource_schema_url,
            self.redaction.value_bytes_max(),
        );
        counts.note_cut(is_cut);
        let rows = &mut self.rows;
        let dropped_attributes = summary.dropped_attributes_count;
        rows.int("dropped_attributes_count", Some(dropped_attributes.into()));
        rows.int(
            "dropped_events_count",
            Some(summary.dropped_events_count.into()),
        );
        rows.int(
            "dropped_links_count",
            Some(summary.dropped_links_count.into()),
        );
        rows.int("redacted_attributes_count", Some(counts.redacted.into()));
        rows.int("truncated_attributes_count", Some(counts.truncated.into()));
        rows.bool("late", Some(input.late));
        rows.time("received_time", input.received_unix_nano);
        rows.text_or_null("resource_schema_url", url);
    }
}

/// What a span says, read without error.
struct ReadSpan<'a> {
    summary: SpanSummary<'a>,
    scope: otlp::scope::Scope<'a>,
    event_values: [Option<Value<'a>>; EVENT_COLUMNS_MAX],
}

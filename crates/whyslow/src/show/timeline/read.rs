//! Rows of the table `spans` into the spans of a timeline.

use std::time::Duration;

use anyhow::Context as _;
use arrow::array::{Array, ArrayRef, AsArray as _, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type};

use super::{Phases, Span};

/// A phase may exceed the span that it belongs to by this much: the two are measured by different
/// clocks.
const PHASE_TOLERANCE: Duration = Duration::from_millis(50);

/// The rows that [`spans_of_batches`] reads.
pub(crate) fn statement(trace_id: otlp::TraceId) -> String {
    format!(
        "SELECT span_id, parent_span_id, service_name, name, start_time_unix_nano, duration_ns, \
         status_code, status_message, gen_ai_latency_time_in_queue, \
         gen_ai_latency_time_in_model_prefill, gen_ai_latency_time_in_model_decode \
         FROM spans WHERE trace_id = '{trace_id}' ORDER BY start_time_unix_nano"
    )
}

/// The spans in rows of `spans`; more columns than those of [`statement`] do no harm.
pub(crate) fn spans_of_batches(batches: &[RecordBatch]) -> anyhow::Result<Vec<Span>> {
    let mut spans = Vec::new();
    for batch in batches {
        let columns = Columns::of(batch)?;
        spans.extend((0..batch.num_rows()).map(|row_idx| columns.span(row_idx)));
    }
    Ok(spans)
}

struct Columns {
    span_id: ArrayRef,
    parent_span_id: ArrayRef,
    service_name: ArrayRef,
    name: ArrayRef,
    start_time_unix_nano: ArrayRef,
    duration_ns: ArrayRef,
    status_code: ArrayRef,
    status_message: ArrayRef,
    queue_s: ArrayRef,
    prefill_s: ArrayRef,
    decode_s: ArrayRef,
}

impl Columns {
    fn of(batch: &RecordBatch) -> anyhow::Result<Self> {
        let column = |name: &str, data_type: DataType| {
            let column = batch.column_by_name(name);
            let column = column.with_context(|| format!("the answer has no column `{name}`"))?;
            cast(column, &data_type).with_context(|| format!("read column `{name}`"))
        };
        let text = |name| column(name, DataType::Utf8);
        let number = |name| column(name, DataType::Int64);
        let seconds = |name| column(name, DataType::Float64);
        Ok(Self {
            span_id: text("span_id")?,
            parent_span_id: text("parent_span_id")?,
            service_name: text("service_name")?,
            name: text("name")?,
            start_time_unix_nano: number("start_time_unix_nano")?,
            duration_ns: number("duration_ns")?,
            status_code: text("status_code")?,
            status_message: text("status_message")?,
            queue_s: seconds("gen_ai_latency_time_in_queue")?,
            prefill_s: seconds("gen_ai_latency_time_in_model_prefill")?,
            decode_s: seconds("gen_ai_latency_time_in_model_decode")?,
        })
    }

    fn span(&self, row_idx: usize) -> Span {
        let text = |column: &ArrayRef| {
            column
                .is_valid(row_idx)
                .then(|| column.as_string::<i32>().value(row_idx).to_owned())
        };
        let number = |column: &ArrayRef| {
            column
                .is_valid(row_idx)
                .then(|| column.as_primitive::<Int64Type>().value(row_idx))
        };
        // An end that is missing or before the start leaves a span without length.
        let nanos = number(&self.duration_ns).and_then(|nanos| u64::try_from(nanos).ok());
        let duration = Duration::from_nanos(nanos.unwrap_or(0));
        let has = |column: &ArrayRef| column.is_valid(row_idx);
        let has_phases = has(&self.queue_s) || has(&self.prefill_s) || has(&self.decode_s);
        let phase = |column: &ArrayRef| {
            let seconds =
                has(column).then(|| column.as_primitive::<Float64Type>().value(row_idx))?;
            let phase = Duration::try_from_secs_f64(seconds).ok()?;
            (phase <= duration.saturating_add(PHASE_TOLERANCE)).then_some(phase)
        };
        let is_error = text(&self.status_code).as_deref() == Some("ERROR");
        Span {
            span_id: text(&self.span_id).unwrap_or_default(),
            parent_span_id: text(&self.parent_span_id),
            service: text(&self.service_name).unwrap_or_default(),
            name: text(&self.name).unwrap_or_default(),
            start_unix_nano: number(&self.start_time_unix_nano).unwrap_or(0),
            duration,
            error: is_error.then(|| text(&self.status_message).unwrap_or_default()),
            phases: has_phases.then(|| Phases {
                queue: phase(&self.queue_s),
                prefill: phase(&self.prefill_s),
                decode: phase(&self.decode_s),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Float64Array, Int64Array, StringArray, StringViewArray};

    use super::{ArrayRef, Duration, Phases, RecordBatch, spans_of_batches, statement};

    fn batch(queue_s: f64) -> RecordBatch {
        let text = |value: Option<&str>| Arc::new(StringArray::from(vec![value])) as ArrayRef;
        let view = |value: &str| Arc::new(StringViewArray::from(vec![value])) as ArrayRef;
        let number = |value: Option<i64>| Arc::new(Int64Array::from(vec![value])) as ArrayRef;
        let seconds = |value: Option<f64>| Arc::new(Float64Array::from(vec![value])) as ArrayRef;
        RecordBatch::try_from_iter(vec![
            ("span_id", text(Some("01"))),
            ("parent_span_id", text(None)),
            ("service_name", view("vllm")),
            ("name", text(Some("llm_request"))),
            ("start_time_unix_nano", number(Some(5))),
            ("duration_ns", number(Some(2_000_000_000))),
            ("status_code", text(Some("ERROR"))),
            ("status_message", text(None)),
            ("gen_ai_latency_time_in_queue", seconds(Some(queue_s))),
            ("gen_ai_latency_time_in_model_prefill", seconds(None)),
            ("gen_ai_latency_time_in_model_decode", seconds(Some(0.5))),
        ])
        .unwrap()
    }

    #[test]
    fn phases_that_cannot_be_are_not_known() {
        for (queue_s, queue) in [
            (1.5, Some(Duration::from_millis(1_500))),
            (-350_000.0, None),
            (350_000.0, None),
            (f64::NAN, None),
        ] {
            let spans = spans_of_batches(&[batch(queue_s)]).unwrap();
            let decode = Some(Duration::from_millis(500));
            assert_eq!(
                spans[0].phases,
                Some(Phases {
                    queue,
                    prefill: None,
                    decode
                }),
                "{queue_s}"
            );
            assert_eq!(spans[0].error.as_deref(), Some(""));
            assert_eq!(spans[0].service, "vllm");
        }
    }

    #[test]
    fn a_missing_column_is_named() {
        let error = spans_of_batches(&[batch(1.0).project(&[0]).unwrap()]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the answer has no column `parent_span_id`"
        );
    }

    #[test]
    fn the_statement_asks_for_one_trace() {
        let trace_id = otlp::TraceId::from_slice(&[0xab; 16]).unwrap();
        assert!(statement(trace_id).contains(&format!("trace_id = '{}'", "ab".repeat(16))));
    }
}

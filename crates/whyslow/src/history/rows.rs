//! Rows of `traces`.

use anyhow::Context as _;
use arrow::array::{Array, ArrayRef, AsArray as _, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use otlp::TraceId;
use sampler::partial::{Facts, PartialTrace, Replay};

/// What [`read`] reads.
pub(super) const COLUMNS: &str = "trace_id, root_service_name, root_name, start_time, \
     start_time_unix_nano, end_time_unix_nano, duration_ns, span_count, error_span_count, \
     size_bytes, root_count, orphan_count, request_count, services, decision, policy, \"trigger\", \
     adjusted_count, model, decided_time, stored, loss_flags";

/// One decided trace.
#[derive(Debug, Clone)]
pub(crate) struct TraceRow {
    pub(crate) facts: Facts,
    pub(crate) root_service: Option<String>,
    pub(crate) root_name: Option<String>,
    /// In microseconds since 1970.
    pub(crate) start_micros: Option<i64>,
    pub(crate) services: Vec<String>,
    pub(crate) decision: String,
    pub(crate) policy: Option<String>,
    pub(crate) trigger: String,
    pub(crate) adjusted_count: Option<f64>,
    pub(crate) model: Option<String>,
    /// In microseconds since 1970.
    pub(crate) decided_micros: i64,
    /// Its spans were stored; they may have been removed since.
    pub(crate) stored: bool,
    pub(crate) loss_flags: Vec<String>,
}

impl TraceRow {
    /// What the row alone says.
    pub(crate) fn begin(&self, replay: &Replay) -> PartialTrace {
        let mut trace = replay.begin(self.facts);
        trace.set_services(&self.services);
        trace
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.decision == sampler::Decision::Sampled.as_str()
    }
}

/// Adds the rows of a batch.
pub(super) fn read(batch: &RecordBatch, out: &mut Vec<TraceRow>) -> anyhow::Result<()> {
    let column = |name| cells(batch, name);
    let texts = [
        "root_service_name",
        "root_name",
        "decision",
        "policy",
        "trigger",
        "model",
    ];
    let texts = texts.map(column);
    let [root_service, root_name, decision, policy, trigger, model] = texts;
    let (trigger, decision) = (trigger?, decision?);
    let (root_service, root_name, policy, model) = (root_service?, root_name?, policy?, model?);
    let (start, decided) = (column("start_time")?, column("decided_time")?);
    let (adjusted, stored) = (column("adjusted_count")?, column("stored")?);
    let (services, flags) = (column("services")?, column("loss_flags")?);
    let adjusted = cast(&adjusted, &DataType::Float64)?;
    let stored = stored
        .as_boolean_opt()
        .context("column `stored` is no boolean")?;
    for (row, facts) in facts(batch)?.into_iter().enumerate() {
        out.push(TraceRow {
            facts,
            root_service: text(&root_service, row)?,
            root_name: text(&root_name, row)?,
            start_micros: micros(&start, row),
            services: list(&services, row)?,
            decision: text(&decision, row)?.unwrap_or_default(),
            policy: text(&policy, row)?,
            trigger: text(&trigger, row)?.unwrap_or_default(),
            adjusted_count: {
                let adjusted = adjusted.as_primitive::<Float64Type>();
                adjusted.is_valid(row).then(|| adjusted.value(row))
            },
            model: text(&model, row)?,
            decided_micros: micros(&decided, row).unwrap_or(0),
            stored: stored.is_valid(row) && stored.value(row),
            loss_flags: list(&flags, row)?,
        });
    }
    Ok(())
}

/// What policies see of each row.
fn facts(batch: &RecordBatch) -> anyhow::Result<Vec<Facts>> {
    let (trace_id, decided) = (cells(batch, "trace_id")?, cells(batch, "decided_time")?);
    let numbers = [
        "start_time_unix_nano",
        "end_time_unix_nano",
        "duration_ns",
        "span_count",
        "error_span_count",
        "size_bytes",
        "root_count",
        "orphan_count",
        "request_count",
    ];
    let columns = numbers
        .into_iter()
        .map(|name| cells(batch, name))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let mut facts = Vec::with_capacity(batch.num_rows());
    for row in 0..batch.num_rows() {
        let id = text(&trace_id, row)?.unwrap_or_default();
        let decided_micros = micros(&decided, row).unwrap_or(0);
        let mut numbers = columns.iter().map(|column| count(column, row));
        let mut next = || numbers.next().flatten();
        facts.push(Facts {
            trace_id: TraceId::parse_hex(&id).with_context(|| format!("trace id `{id}`"))?,
            decided_unix_nano: u64::try_from(decided_micros).unwrap_or(0) * 1_000,
            // In the order of the names above.
            start_time_unix_nano: next(),
            end_time_unix_nano: next(),
            duration_ns: next().unwrap_or(0),
            n_spans: next().unwrap_or(0),
            n_error_spans: next().unwrap_or(0),
            n_bytes: next().unwrap_or(0),
            n_roots: next().unwrap_or(0),
            n_orphans: next().unwrap_or(0),
            n_requests: next().unwrap_or(0),
        });
    }
    Ok(facts)
}

/// A column of an answer, as [`query::explain::cells`] reads it.
pub(crate) fn cells(batch: &RecordBatch, name: &str) -> anyhow::Result<ArrayRef> {
    query::explain::cells(batch, name).with_context(|| format!("read column `{name}`"))
}

/// A text; NULL is `None`.
pub(crate) fn text(column: &ArrayRef, row: usize) -> anyhow::Result<Option<String>> {
    let texts = column
        .as_string_opt::<i32>()
        .context("a column is no text")?;
    Ok(texts.is_valid(row).then(|| texts.value(row).to_owned()))
}

/// A time in microseconds.
pub(crate) fn micros(column: &ArrayRef, row: usize) -> Option<i64> {
    let numbers = column.as_primitive_opt::<Int64Type>()?;
    numbers.is_valid(row).then(|| numbers.value(row))
}

/// A number that is not negative.
pub(crate) fn count(column: &ArrayRef, row: usize) -> Option<u64> {
    micros(column, row).and_then(|number| u64::try_from(number).ok())
}

fn list(column: &ArrayRef, row: usize) -> anyhow::Result<Vec<String>> {
    let lists = column.as_list_opt::<i32>().context("a column is no list")?;
    if lists.is_null(row) {
        return Ok(Vec::new());
    }
    let items = cast(&lists.value(row), &DataType::Utf8)?;
    let texts = items.as_string::<i32>();
    Ok(texts.iter().flatten().map(str::to_owned).collect())
}

//! Requests of both sides out of the table `requests`: the needed columns, batch by batch, and no more than asked for.

use anyhow::{Context as _, bail};
use arrow::array::{Array as _, ArrayRef, AsArray as _, RecordBatch, StringArray};
use arrow::datatypes::{Float64Type, Int64Type};
use correlate::compare::{Latency, Sample, Samples, Side};

use super::sides::{self, Sides};
use crate::history::cells;
use crate::sql::source::{Source, Statement};

/// Attributes of low cardinality, and the expressions that make bands of numbers. Of two that say the same, the first names it.
const ATTRIBUTES: [(&str, &str); 16] = [
    ("model", "model"),
    ("service_name", "service_name"),
    ("k8s_pod_name", "k8s_pod_name"),
    ("k8s_node_name", "k8s_node_name"),
    ("host_name", "host_name"),
    ("service_instance_id", "service_instance_id"),
    ("k8s_namespace_name", "k8s_namespace_name"),
    ("k8s_cluster_name", "k8s_cluster_name"),
    ("engine", "engine"),
    ("operation", "operation"),
    ("stage", "stage"),
    ("input_band", "input_band"),
    ("output_band", "output_band"),
    ("finish_reason", "finish_reason"),
    (
        "cached_band",
        "CASE WHEN cached_tokens IS NULL THEN NULL WHEN cached_tokens = 0 THEN 'none' \
         WHEN cached_tokens * 2 < input_tokens THEN 'lt_half' ELSE 'ge_half' END",
    ),
    (
        "concurrency_band",
        "CASE WHEN concurrent_requests IS NULL THEN NULL WHEN concurrent_requests < 4 THEN 'lt_4' \
         WHEN concurrent_requests < 16 THEN 'lt_16' WHEN concurrent_requests < 64 THEN 'lt_64' ELSE 'ge_64' END",
    ),
];

/// What was read.
pub(super) struct Loaded {
    pub(super) samples: Samples,
    /// Requests of each side in the table.
    pub(super) n_stored: [u64; 2],
    /// Which share of them was read.
    pub(super) share: f64,
    /// What the table does not have.
    pub(super) notes: Vec<String>,
}

/// Reads both sides, at most `rows_max` requests together.
pub(super) async fn load(
    source: &Source,
    sides: &Sides,
    by: &[String],
    rows_max: u64,
) -> anyhow::Result<Loaded> {
    let mut columns = Columns::of(source, by).await?;
    let n_stored = columns.count(source, sides).await?;
    columns.note_calls(source, sides).await?;
    let wanted = rows_max as f64 / (n_stored[0] + n_stored[1]).max(1) as f64;
    let (condition, share) = sampling(wanted);
    let mut samples = Samples::new(&columns.names());
    for side in [Side::Before, Side::After] {
        let sql = format!(
            "SELECT {} FROM requests WHERE {}{condition}",
            columns.list(),
            columns.condition(sides, side)
        );
        read(source, &sql, &columns, side, &mut samples).await?;
    }
    Ok(Loaded {
        samples,
        n_stored,
        share,
        notes: columns.notes,
    })
}

/// A condition that takes about this share of requests, by the end of their span ids, and the share that it takes.
///
/// Ids are random there, and if a sender counts them up, their ends are spread evenly all the same.
fn sampling(wanted: f64) -> (String, f64) {
    const ENDS: f64 = 65_536.0;
    if wanted >= 1.0 {
        return (String::new(), 1.0);
    }
    let n_ends = (wanted * ENDS).floor().clamp(1.0, ENDS - 1.0);
    let condition = format!(" AND right(span_id, 4) < '{:04x}'", n_ends as u32);
    (condition, n_ends / ENDS)
}

/// What is asked of the table, as far as it has it.
struct Columns {
    attributes: Vec<(String, String)>,
    latencies: Vec<Option<&'static str>>,
    has_position: bool,
    notes: Vec<String>,
}

impl Columns {
    async fn of(source: &Source, by: &[String]) -> anyhow::Result<Self> {
        let statement = Statement {
            sql: "SELECT * FROM requests LIMIT 0",
            format: "arrow",
            limit: None,
        };
        let (schema, _) = source.ask(&statement).await?.batches().await?;
        let has = |name: &str| schema.field_with_name(name).is_ok();
        let needed = |name: &str| match name {
            "cached_band" => has("cached_tokens") && has("input_tokens"),
            "concurrency_band" => has("concurrent_requests"),
            name => has(name),
        };
        let known = ATTRIBUTES.iter().filter(|(name, _)| needed(name));
        let mut attributes: Vec<(String, String)> = known
            .map(|(name, expression)| ((*name).to_owned(), (*expression).to_owned()))
            .collect();
        for name in by {
            if attributes.iter().any(|(known, _)| known == name) {
                continue;
            }
            if !has(name) {
                let names: Vec<&str> = attributes.iter().map(|(name, _)| name.as_str()).collect();
                bail!(
                    "`--by {name}`: table `requests` has no such column; use one of it, or of {}",
                    names.join(", ")
                );
            }
            attributes.push((name.clone(), format!("CAST(\"{name}\" AS VARCHAR)")));
        }
        let latencies = Latency::ALL.map(|latency| Some(latency.column()).filter(|name| has(name)));
        let missing: Vec<&str> = Latency::ALL
            .into_iter()
            .map(Latency::column)
            .filter(|name| !has(name))
            .collect();
        let notes = match missing.as_slice() {
            [] => Vec::new(),
            missing => vec![format!("the table has no {}", missing.join(", "))],
        };
        Ok(Self {
            attributes,
            latencies: latencies.to_vec(),
            has_position: has("position"),
            notes,
        })
    }

    fn names(&self) -> Vec<&str> {
        self.attributes
            .iter()
            .map(|(name, _)| name.as_str())
            .collect()
    }

    fn list(&self) -> String {
        let mut list = vec!["start_time_unix_nano".to_owned(), "outcome".to_owned()];
        list.extend(
            self.latencies
                .iter()
                .flatten()
                .map(|name| (*name).to_owned()),
        );
        // Names of their own: `by` may name a latency too.
        let attributes = self.attributes.iter().enumerate();
        list.extend(
            attributes.map(|(idx, (_, expression))| format!("{expression} AS attribute_{idx}")),
        );
        list.join(", ")
    }

    /// Requests of engines, not restated, of this side.
    fn condition(&self, sides: &Sides, side: Side) -> String {
        let position = if self.has_position {
            // Rows from before there was a position are of engines.
            " AND coalesce(position, 'engine') = 'engine'"
        } else {
            ""
        };
        side_condition(sides, side) + position
    }

    /// Says how many calls are left out because no engine request that is known answered them.
    async fn note_calls(&mut self, source: &Source, sides: &Sides) -> anyhow::Result<()> {
        if !self.has_position {
            return Ok(());
        }
        let mut n_calls = [0, 0];
        for (n, side) in n_calls.iter_mut().zip([Side::Before, Side::After]) {
            let sql = format!(
                "SELECT count(*) AS n FROM requests WHERE {} AND position <> 'engine'",
                side_condition(sides, side)
            );
            for batch in source.rows(&sql).await? {
                let cell = cells(&batch, "n")?;
                *n = crate::history::count(&cell, 0).unwrap_or(0);
            }
        }
        if n_calls != [0, 0] {
            self.notes.push(format!(
                "{} calls before and {} after reached no engine that is known; they are not among the requests compared here \
                 (rows of `requests` with another `position`)",
                n_calls[0], n_calls[1]
            ));
        }
        Ok(())
    }

    /// Requests of each side; an error if some are on both.
    async fn count(&self, source: &Source, sides: &Sides) -> anyhow::Result<[u64; 2]> {
        let [before, after] = [Side::Before, Side::After].map(|side| self.condition(sides, side));
        let sql = format!(
            "SELECT count(*) FILTER (WHERE {before}) AS n_before, count(*) FILTER (WHERE {after}) AS n_after, \
             count(*) FILTER (WHERE {before} AND {after}) AS n_both FROM requests WHERE ({before}) OR ({after})"
        );
        let batches = source
            .rows(&sql)
            .await
            .context("count the requests of both sides")?;
        let batch = batches
            .iter()
            .find(|batch| batch.num_rows() == 1)
            .context("the count has no row")?;
        let count = |name: &str| {
            let cell = cells(batch, name)?;
            crate::history::count(&cell, 0).with_context(|| format!("read the count `{name}`"))
        };
        let n_both = count("n_both")?;
        if n_both > 0 {
            bail!(
                "{n_both} requests are on both sides ({} and {}): make the conditions exclude each other",
                sides::shown(sides.before.span),
                sides::shown(sides.after.span)
            );
        }
        Ok([count("n_before")?, count("n_after")?])
    }
}

/// What makes a row belong to this side. A line break ends what might be a comment in a condition.
fn side_condition(sides: &Sides, side: Side) -> String {
    let own = match side {
        Side::Before => &sides.before,
        Side::After => &sides.after,
    };
    let time =
        |micros: i64| format!("arrow_cast({micros}, 'Timestamp(Microsecond, Some(\"UTC\"))')");
    let mut condition = format!(
        "NOT wrapper AND start_time >= {} AND start_time < {}",
        time(own.span.from),
        time(own.span.to)
    );
    for given in [&own.condition, &sides.condition].into_iter().flatten() {
        condition.push_str(&format!(" AND ({given}\n)"));
    }
    condition
}

async fn read(
    source: &Source,
    sql: &str,
    columns: &Columns,
    side: Side,
    samples: &mut Samples,
) -> anyhow::Result<()> {
    let statement = Statement {
        sql,
        format: "arrow",
        limit: None,
    };
    let mut n_rows = 0;
    let mut answer = source.ask(&statement).await?;
    answer
        .each_batch(|batch| {
            n_rows += batch.num_rows() as u64;
            push(batch, columns, side, samples)
        })
        .await?;
    if answer.is_truncated(n_rows) {
        bail!(
            "the server gave {n_rows} requests and cut off the rest, which would bias the comparison; ask for fewer with \
             `--rows {n_rows}`"
        );
    }
    Ok(())
}

fn push(
    batch: &RecordBatch,
    columns: &Columns,
    side: Side,
    samples: &mut Samples,
) -> anyhow::Result<()> {
    let starts = cells(batch, "start_time_unix_nano")?;
    let starts = starts
        .as_primitive_opt::<Int64Type>()
        .context("column `start_time_unix_nano` is no number")?;
    let outcomes = text(batch, "outcome")?;
    let latencies: Vec<Option<ArrayRef>> = columns
        .latencies
        .iter()
        .map(|name| name.map(|name| cells(batch, name)).transpose())
        .collect::<anyhow::Result<_>>()?;
    let latencies: Vec<_> = latencies
        .iter()
        .map(|column| {
            column
                .as_ref()
                .and_then(|column| column.as_primitive_opt::<Float64Type>())
        })
        .collect();
    let attributes: Vec<StringArray> = (0..columns.attributes.len())
        .map(|idx| text(batch, &format!("attribute_{idx}")))
        .collect::<anyhow::Result<_>>()?;
    let mut values = Vec::with_capacity(attributes.len());
    for row in 0..batch.num_rows() {
        values.clear();
        values.extend(attributes.iter().map(|column| value(column, row)));
        let mut sample = Sample {
            start_unix_nano: starts.value(row),
            outcome: value(&outcomes, row),
            latencies: [None; Latency::ALL.len()],
            attributes: &values,
        };
        for (latency, column) in sample.latencies.iter_mut().zip(&latencies) {
            *latency = column.and_then(|column| column.is_valid(row).then(|| column.value(row)));
        }
        samples.push(side, &sample);
    }
    Ok(())
}

fn value(column: &StringArray, row: usize) -> Option<&str> {
    column.is_valid(row).then(|| column.value(row))
}

fn text(batch: &RecordBatch, name: &str) -> anyhow::Result<StringArray> {
    let column = cells(batch, name)?;
    let column = column.as_string_opt::<i32>();
    Ok(column
        .with_context(|| format!("column `{name}` is no text"))?
        .clone())
}

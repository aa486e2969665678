//! What a start reads back of the tables, so that it knows what the process before it knew.
//!
//! [`recent`] gives rows of the last minutes, of any table that has a time with file statistics; a stage makes of them
//! what it needs. Minutes are counted from now, or from the newest row where that is older: after a long stop, what waits
//! in the log is from that time.
//!
//! A file that cannot be read costs its rows and is told as an error; so is what is left out because there is too much. The
//! end of a start is only where nothing can be read.
//!
//! What is read here may come again from the log, which repeats what was not told to be stored: each stage sees to it that
//! it counts once.

use arrow::array::{Array as _, AsArray as _, RecordBatch};
use arrow::datatypes::Int64Type;
use lake::{Lake, Recent, Table};

use crate::show::text::error_chain;

/// Arrow memory that the rows of one table take at most.
const BYTES_MAX: usize = 256 << 20;

/// Which rows of a table are wanted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) columns: &'static [&'static str],
    /// The time column of the table's statistics.
    pub(super) time: &'static str,
    /// How far back from now, or from the newest row.
    pub(super) nanos: i64,
    /// The newest of more rows.
    pub(super) rows_max: usize,
}

/// The table of that name, which the program opens always.
///
/// # Errors
/// It did not.
pub(super) fn table<'a>(lake: &'a Lake, name: &str) -> anyhow::Result<&'a Table> {
    let table = lake.table(name);
    table
        .map(AsRef::as_ref)
        .ok_or_else(|| anyhow::anyhow!("the lake lacks `{name}`"))
}

/// Rows of the time before `now_unix_nano`, in no order.
///
/// # Errors
/// The table cannot be read at all.
pub(super) async fn recent(
    table: &Table,
    wanted: Wanted,
    now_unix_nano: i64,
) -> anyhow::Result<Vec<RecordBatch>> {
    let now_micros = now_unix_nano.div_euclid(1_000);
    let newest_micros = table.newest(wanted.time).unwrap_or(now_micros);
    let since_micros = now_micros
        .min(newest_micros)
        .saturating_sub(wanted.nanos.div_euclid(1_000));
    let found = table
        .recent(Recent {
            columns: wanted.columns,
            time: wanted.time,
            since_micros,
            rows_max: wanted.rows_max,
            bytes_max: BYTES_MAX,
        })
        .await?;
    let name = table.spec().name;
    for error in &found.unreadable {
        let error = error_chain(error);
        tracing::error!(table = name, error, "rows are not known after this start");
    }
    if found.is_cut {
        tracing::warn!(
            table = name,
            "there are more recent rows than are remembered; the oldest are not known after this start"
        );
    }
    Ok(found.batches)
}

/// One row that was read back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'a> {
    batch: &'a RecordBatch,
    idx: usize,
}

/// All rows of some batches.
pub(super) fn rows(batches: &[RecordBatch]) -> impl Iterator<Item = Row<'_>> {
    batches
        .iter()
        .flat_map(|batch| (0..batch.num_rows()).map(move |idx| Row { batch, idx }))
}

/// A column that was not asked for reads as NULL.
impl<'a> Row<'a> {
    pub(super) fn text(self, name: &str) -> Option<&'a str> {
        let column = self.batch.column_by_name(name)?.as_string_opt::<i32>()?;
        column.is_valid(self.idx).then(|| column.value(self.idx))
    }

    pub(super) fn int(self, name: &str) -> Option<i64> {
        let column = self
            .batch
            .column_by_name(name)?
            .as_primitive_opt::<Int64Type>()?;
        column.is_valid(self.idx).then(|| column.value(self.idx))
    }

    pub(super) fn bool(self, name: &str) -> Option<bool> {
        let column = self.batch.column_by_name(name)?.as_boolean_opt()?;
        column.is_valid(self.idx).then(|| column.value(self.idx))
    }

    /// The items of a list; none of NULL.
    pub(super) fn texts(self, name: &str) -> Vec<String> {
        let list = self.batch.column_by_name(name);
        let list = list.and_then(|column| column.as_list_opt::<i32>());
        let Some(list) = list.filter(|list| list.is_valid(self.idx)) else {
            return Vec::new();
        };
        let items = list.value(self.idx);
        let items = items.as_string_opt::<i32>().into_iter().flatten().flatten();
        items.map(str::to_owned).collect()
    }
}

//! The newest rows of a table, for a process that starts and has to know what went before.
//!
//! No SQL: the files of a [`View`](crate::View) whose statistics allow it are read, the wanted columns of the row groups
//! that can hold such rows, and of these the rows themselves are looked at.
//!
//! Limits first: the newest [`Recent::rows_max`] rows are kept, and as many of them as [`Recent::bytes_max`] holds; while
//! they are read, at most twice that per file that is open ([`FILES_OPEN`]). After [`UNREADABLE_MAX`] files that cannot be
//! read, the rest is not tried: the store is away.

use std::sync::Arc;

use arrow::array::{AsArray as _, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Schema, SchemaRef, TimestampMicrosecondType};
use futures::{StreamExt as _, stream};
use parquet::arrow::{ParquetRecordBatchStreamBuilder, ProjectionMask};
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::statistics::Statistics;

use crate::data_file::DataFile;
use crate::error::{Error, Result};
use crate::object::Object;
use crate::parquet_file;
use crate::statistics::Bound;
use crate::table::{Inner, Table};

/// Files that are read at a time: most are small, and a distant store takes longer to answer than to send.
const FILES_OPEN: usize = 4;
/// Files that cannot be read before the rest is left alone.
const UNREADABLE_MAX: usize = 8;
/// Rows that are decoded at once.
const READ_ROWS: usize = 8 << 10;

/// Which rows are wanted.
#[derive(Debug, Clone, Copy)]
pub struct Recent {
    /// The columns of the answer, in its order; not the partition column, which files do not hold.
    pub columns: &'static [&'static str],
    /// The time column by which rows are recent, one of the specification's `stats`.
    pub time: &'static str,
    /// The oldest time that is wanted: microseconds since 1970.
    pub since_micros: i64,
    /// Rows that are kept at most: the newest.
    pub rows_max: usize,
    /// Arrow memory that they take at most, about.
    pub bytes_max: usize,
}

/// What was found.
#[derive(Debug, Default)]
pub struct RecentRows {
    /// Rows, in no order.
    pub batches: Vec<RecordBatch>,
    /// Files whose rows are missing, each with its reason.
    pub unreadable: Vec<Error>,
    /// Whether older rows were left out, for their number or because files were not tried.
    pub is_cut: bool,
}

impl Table {
    /// The largest value of a time column (one of the specification's `stats`) in microseconds since 1970, as far as
    /// statistics know it.
    pub fn newest(&self, time: &str) -> Option<i64> {
        let view = self.view();
        let files = view.files.iter().filter_map(|file| last_time(file, time));
        files.max()
    }

    /// The newest rows, in files and in memory. Files that cannot be read are told with the rows of the others.
    ///
    /// # Errors
    ///
    /// [`Error::Workers`] where nothing can be read at all.
    ///
    /// # Panics
    ///
    /// If the table has no such columns: a programming error.
    pub async fn recent(&self, wanted: Recent) -> Result<RecentRows> {
        let view = self.view();
        self.blocking(move |inner| {
            let reading = Reading::new(inner, wanted);
            Ok(inner.kernel.wait(reading.rows(&view.files, &view.fresh)))
        })
        .await
    }
}

/// The last time in a file, or as much later as the statistics leave open.
fn last_time(file: &DataFile, time: &str) -> Option<i64> {
    let known = file.statistics.iter().find(|known| known.column == time)?;
    match known.max {
        Some(Bound::TimestampMicros(micros)) => Some(micros),
        _ => None,
    }
}

struct Reading<'a> {
    inner: &'a Inner,
    wanted: Recent,
    /// The time column first, then the wanted ones.
    schema: SchemaRef,
}

impl<'a> Reading<'a> {
    fn new(inner: &'a Inner, wanted: Recent) -> Self {
        let fields = std::iter::once(&wanted.time)
            .chain(wanted.columns)
            .map(|name| {
                let idx = inner.layout.file_schema.index_of(name);
                assert!(
                    idx.is_ok(),
                    "files of table `{}` have no column `{name}`",
                    inner.layout.name
                );
                Arc::clone(&inner.layout.file_schema.fields()[idx.unwrap_or_default()])
            });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Self {
            inner,
            wanted,
            schema,
        }
    }

    async fn rows(&self, files: &[DataFile], fresh: &[RecordBatch]) -> RecentRows {
        let mut kept = Kept::new(self.wanted);
        let mut found = RecentRows::default();
        let time = self.wanted.time;
        let mut files: Vec<&DataFile> = files
            .iter()
            .filter(|file| last_time(file, time).is_none_or(|at| at >= self.wanted.since_micros))
            .collect();
        // The newest first, so that what is left out is old.
        files.sort_by_key(|file| std::cmp::Reverse(last_time(file, time).unwrap_or(i64::MAX)));
        let reads = files.into_iter().map(|file| self.file(file));
        let mut reads = stream::iter(reads).buffered(FILES_OPEN);
        while let Some(read) = reads.next().await {
            match read {
                Ok(rows) => kept.take(rows),
                Err(error) => found.unreadable.push(error),
            }
            if found.unreadable.len() >= UNREADABLE_MAX {
                found.is_cut = true;
                break;
            }
        }
        for batch in fresh {
            if let Ok(rows) = parquet_file::conformed(&self.schema, batch) {
                kept.add(&rows);
            }
        }
        kept.trim(1);
        found.is_cut |= kept.is_cut;
        let wanted: Vec<usize> = (1..self.schema.fields().len()).collect();
        let batches = kept.batches.into_iter();
        found.batches = batches
            .filter_map(|batch| batch.project(&wanted).ok())
            .collect();
        found
    }

    async fn file(&self, file: &DataFile) -> Result<Kept> {
        let object = Object::of(self.inner, file)?;
        let rows = self.rows_of(object).await;
        rows.map_err(|source| self.inner.read_file(file, source))
    }

    async fn rows_of(&self, object: Object) -> Result<Kept, ParquetError> {
        let builder = ParquetRecordBatchStreamBuilder::new(object).await?;
        let fields = self.schema.fields().iter();
        let roots: Vec<usize> = fields
            .filter_map(|field| builder.schema().index_of(field.name()).ok())
            .collect();
        let time = builder
            .parquet_schema()
            .columns()
            .iter()
            .position(|leaf| leaf.path().parts() == [self.wanted.time]);
        let groups = builder.metadata().row_groups().iter().enumerate();
        let groups = groups
            .filter(|(_, group)| self.can_hold(group, time))
            .map(|(idx, _)| idx)
            .collect();
        let mask = ProjectionMask::roots(builder.parquet_schema(), roots);
        let mut rows = builder
            .with_projection(mask)
            .with_row_groups(groups)
            .with_batch_size(READ_ROWS)
            .build()?;
        let mut kept = Kept::new(self.wanted);
        while let Some(batch) = rows.next().await {
            kept.add(&parquet_file::conformed(&self.schema, &batch?)?);
        }
        Ok(kept)
    }

    /// May a row group hold a row that is recent? Its leaf column `time` says so where it has statistics.
    fn can_hold(&self, group: &RowGroupMetaData, time: Option<usize>) -> bool {
        let known = time.and_then(|leaf| group.columns().get(leaf)?.statistics());
        match known {
            Some(Statistics::Int64(known)) => known
                .max_opt()
                .is_none_or(|max| *max >= self.wanted.since_micros),
            _ => true,
        }
    }
}

/// The newest of the rows that were read so far; their first column is the time.
struct Kept {
    batches: Vec<RecordBatch>,
    n_rows: usize,
    n_bytes: usize,
    since_micros: i64,
    rows_max: usize,
    bytes_max: usize,
    is_cut: bool,
}

impl Kept {
    fn new(wanted: Recent) -> Self {
        Self {
            batches: Vec::new(),
            n_rows: 0,
            n_bytes: 0,
            since_micros: wanted.since_micros,
            rows_max: wanted.rows_max,
            bytes_max: wanted.bytes_max,
            is_cut: false,
        }
    }

    fn take(&mut self, other: Self) {
        self.is_cut |= other.is_cut;
        for batch in &other.batches {
            self.add(batch);
        }
    }

    fn add(&mut self, batch: &RecordBatch) {
        self.push(batch, self.since_micros);
        self.trim(2);
    }

    fn push(&mut self, batch: &RecordBatch, since_micros: i64) {
        let is_recent = times(batch).map(|at| at.is_some_and(|at| at >= since_micros));
        let is_recent: BooleanArray = is_recent.map(Some).collect();
        let batch = match is_recent.true_count() {
            0 => return,
            all if all == batch.num_rows() => Ok(batch.clone()),
            _ => filter_record_batch(batch, &is_recent),
        };
        if let Ok(batch) = batch {
            self.n_rows += batch.num_rows();
            self.n_bytes += batch.get_array_memory_size();
            self.batches.push(batch);
        }
    }

    /// Lets the oldest go where there are more than `factor` times as many as there may be.
    fn trim(&mut self, factor: usize) {
        let is_over = |n: usize, max: usize| n > max.saturating_mul(factor);
        if !is_over(self.n_rows, self.rows_max) && !is_over(self.n_bytes, self.bytes_max) {
            return;
        }
        self.is_cut = true;
        let of_bytes = self.bytes_max as f64 / self.n_bytes.max(1) as f64 * self.n_rows as f64;
        let n_kept = self.rows_max.min(of_bytes as usize);
        let mut all: Vec<i64> = self.batches.iter().flat_map(times).flatten().collect();
        let n_gone = all.len().saturating_sub(n_kept);
        if n_gone >= all.len() {
            self.since_micros = i64::MAX;
        } else {
            let (_, first, rest) = all.select_nth_unstable(n_gone);
            // Rows of one time stay or go together; a crowd of them goes.
            let n_same = rest.iter().filter(|at| *at == first).count();
            let is_crowd = n_same > n_kept / 2;
            self.since_micros = first.saturating_add(i64::from(is_crowd));
        }
        let batches = std::mem::take(&mut self.batches);
        (self.n_rows, self.n_bytes) = (0, 0);
        for batch in &batches {
            self.push(batch, self.since_micros);
        }
    }
}

/// The first column of a batch.
fn times(batch: &RecordBatch) -> impl Iterator<Item = Option<i64>> + '_ {
    let times = batch
        .column(0)
        .as_primitive_opt::<TimestampMicrosecondType>();
    times.into_iter().flatten()
}

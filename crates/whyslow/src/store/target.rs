//! One table, as one writer sees it.

use std::sync::Arc;

use anyhow::Context as _;
use arrow::array::{Array as _, RecordBatch};
use lake::{Lake, Table};

/// Batches of fewer rows are made as small as they can be: builders take room for many.
const SMALL_ROWS: usize = 4096;

/// A table and how far this writer has committed it.
#[derive(Debug)]
pub(super) struct Target {
    table: Arc<Table>,
    app_id: Arc<str>,
    committed: i64,
}

impl Target {
    /// Reads how far the table is committed for this writer.
    pub(super) async fn open(lake: &Lake, name: &str, app_id: &str) -> anyhow::Result<Self> {
        let table = lake
            .table(name)
            .with_context(|| format!("the lake lacks `{name}`"))?;
        let committed = table.committed_sequence(app_id).await?.unwrap_or(0);
        Ok(Self {
            table: Arc::clone(table),
            app_id: app_id.into(),
            committed,
        })
    }

    /// Name of the table.
    pub(super) fn name(&self) -> &'static str {
        self.table.spec().name
    }

    /// The last sequence that the table is known to have.
    pub(super) const fn committed(&self) -> i64 {
        self.committed
    }

    /// Appends rows, unless they were committed before a restart.
    pub(super) fn append(&self, sequence: i64, batch: RecordBatch) {
        if sequence > self.committed {
            let app_id = Arc::clone(&self.app_id);
            self.table.append(app_id, sequence, compact(batch));
        }
    }

    /// Commits through a sequence; gives the number of rows.
    pub(super) async fn commit(&mut self, through: i64) -> lake::Result<Option<u64>> {
        let commit = self.table.commit(&self.app_id, through).await?;
        self.committed = self.committed.max(through);
        Ok(commit.map(|commit| commit.rows))
    }
}

/// Gives back the room that builders took for rows that did not come.
pub(super) fn compact(batch: RecordBatch) -> RecordBatch {
    if batch.num_rows() >= SMALL_ROWS {
        return batch;
    }
    let (schema, mut columns, n_rows) = batch.into_parts();
    for column in &mut columns {
        column.shrink_to_fit();
    }
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(n_rows));
    #[expect(
        clippy::expect_used,
        reason = "the same columns as before, in the same order"
    )]
    let batch = RecordBatch::try_new_with_options(schema, columns, &options)
        .expect("columns of a batch fit its schema");
    batch
}

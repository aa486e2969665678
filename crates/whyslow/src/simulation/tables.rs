//! What the tables hold, read from their files without our SQL.

use arrow::array::{Array as _, AsArray as _};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use lake::sim::SimStore;
use lake::{Mode, Table};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use tokio::runtime::Runtime;

/// Sorted rows of the wanted columns as text.
pub(super) type Rows = Vec<Vec<String>>;

/// Rows of three tables.
#[derive(Debug)]
pub(super) struct Stored {
    /// Trace id, span id.
    pub(super) spans: Rows,
    /// Trace id, span id.
    pub(super) requests: Rows,
    /// Trace id, span id of rows that stand for calls.
    pub(super) calls: Rows,
    /// Trace id, decision, policy, number of spans.
    pub(super) traces: Rows,
}

impl Stored {
    pub(super) fn read(runtime: &Runtime, store: &SimStore) -> Self {
        runtime.block_on(async {
            let lake = store.open(&tables::all(), Mode::ReadOnly).await.unwrap();
            let rows =
                async |name: &str, columns: &[&str]| read(lake.table(name).unwrap(), columns).await;
            let requests = rows("requests", &["trace_id", "span_id", "position"]).await;
            let (requests, calls) = requests.into_iter().partition(|row| row[2] == "engine");
            let ids = |rows: Rows| rows.into_iter().map(|row| row[..2].to_vec()).collect();
            Self {
                spans: rows("spans", &["trace_id", "span_id"]).await,
                requests: ids(requests),
                calls: ids(calls),
                traces: rows("traces", &["trace_id", "decision", "policy", "span_count"]).await,
            }
        })
    }
}

/// The columns of a table's rows, sorted.
pub(super) fn rows(runtime: &Runtime, store: &SimStore, name: &str, columns: &[&str]) -> Rows {
    runtime.block_on(async {
        let lake = store.open(&tables::all(), Mode::ReadOnly).await.unwrap();
        read(lake.table(name).unwrap(), columns).await
    })
}

async fn read(table: &Table, columns: &[&str]) -> Rows {
    let mut rows = Vec::new();
    for file in table.view().files.iter() {
        let path = table.object_path(file).unwrap();
        let object = table
            .object_store()
            .get_opts(&path, Default::default())
            .await
            .unwrap();
        let bytes = object.bytes().await.unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(bytes)
            .unwrap()
            .build()
            .unwrap();
        for batch in reader {
            let batch = batch.unwrap();
            let columns: Vec<_> = columns
                .iter()
                .map(|name| cast(&batch[*name], &DataType::Utf8).unwrap())
                .collect();
            for row in 0..batch.num_rows() {
                let value = |column: &arrow::array::ArrayRef| {
                    let text = column.as_string::<i32>();
                    if text.is_null(row) {
                        "-".to_owned()
                    } else {
                        text.value(row).to_owned()
                    }
                };
                rows.push(columns.iter().map(value).collect());
            }
        }
    }
    rows.sort();
    rows
}

//! The same join in SQL, on DataFusion with one partition.
//!
//! Neither DataFusion nor duckdb knows a join by overlap of time beside equality: joined on the GPU alone, each pair of
//! request and GPU meets all samples of the hour (`plain`). The usual remedy cuts time into buckets, repeats a request in
//! each bucket that it touches, and joins on GPU and bucket (`buckets`); ten seconds are near the best size for these
//! lengths. The statements are in `benches/join`, the same for both engines but for one function.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{AsArray as _, RecordBatch};
use arrow::datatypes::{Float64Type, Int64Type};
use datafusion::datasource::MemTable;
use datafusion::prelude::{SessionConfig, SessionContext};
use parquet::arrow::ArrowWriter;

use super::{Outcome, Result, Sums, data, processor_s};

const BUCKETS: &str = include_str!("../../../../benches/join/buckets.sql");
const PLAIN: &str = include_str!("../../../../benches/join/plain.sql");

/// Sums of the answer in the order of [`Sums`].
const SUMS: &str = "SELECT count(*), sum(sample_count), sum(power_w_avg), sum(util_pct_avg), sum(sm_clock_mhz_min), \
     sum(temp_c_max) FROM";

pub(crate) fn run(folder: &Path, form: &str, n_requests: usize) -> Result<()> {
    let statement = match form {
        "buckets" => BUCKETS,
        "plain" => PLAIN,
        _ => return Err(format!("`{form}` is neither `buckets` nor `plain`").into()),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let begun = processor_s();
    let config = SessionConfig::new().with_target_partitions(1);
    let session = SessionContext::new_with_config(config);
    for (name, file) in [
        ("samples", data::SAMPLES),
        ("requests", data::REQUESTS),
        ("placements", data::PLACEMENTS),
    ] {
        let batches = data::read(&folder.join(file))?;
        let schema = batches.first().ok_or("an empty file")?.schema();
        session.register_table(name, Arc::new(MemTable::try_new(schema, vec![batches])?))?;
    }
    let read_s = processor_s() - begun;

    let some = |condition: &str| statement.replace("{wanted}", condition);
    let begun = processor_s();
    let all = some(&format!("request_id < {n_requests}"));
    let sql = format!("{SUMS} ({all})");
    let answer = runtime.block_on(async { session.sql(&sql).await?.collect().await })?;
    let join_s = processor_s() - begun;
    let outcome = Outcome {
        side: format!("datafusion {form}"),
        n_requests,
        read_s,
        join_s,
        sums: sums(answer.first().ok_or("sums without a row")?)?,
    };
    outcome.print();

    let hundredth = some(&format!(
        "request_id < {n_requests} AND request_id % 100 = 0"
    ));
    let rows = runtime.block_on(async { session.sql(&hundredth).await?.collect().await })?;
    let schema = rows.first().ok_or("an empty answer")?.schema();
    let rows = arrow::compute::concat_batches(&schema, &rows)?;
    write_part(folder, &format!("datafusion-{form}"), &rows)
}

fn sums(row: &RecordBatch) -> Result<Sums> {
    let int = |idx: usize| row.column(idx).as_primitive::<Int64Type>().value(0);
    let float = |idx: usize| row.column(idx).as_primitive::<Float64Type>().value(0);
    Ok(Sums {
        n_rows: u64::try_from(int(0))?,
        n_samples: int(1),
        power_w_avg: float(2),
        util_pct_avg: float(3),
        sm_clock_mhz_min: float(4),
        temp_c_max: float(5),
    })
}

/// Rows of a side that are compared with those of the others.
pub(crate) fn write_part(folder: &Path, side: &str, rows: &RecordBatch) -> Result<()> {
    let file = File::create(folder.join(format!("part-{side}.parquet")))?;
    let mut writer = ArrowWriter::try_new(file, rows.schema(), None)?;
    writer.write(rows)?;
    writer.close()?;
    Ok(())
}

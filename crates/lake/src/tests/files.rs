//! What is in the Parquet files and in the statistics of the log.

use arrow::array::{Array as _, AsArray as _, RecordBatch};
use arrow::datatypes::{Int64Type, TimestampMicrosecondType};
use bytes::Bytes;
use expect_test::expect;
use object_store::ObjectStoreExt as _;
use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::basic::Encoding;
use parquet::file::metadata::{ColumnChunkMetaData, PageIndexPolicy};
use parquet::file::properties::ReaderProperties;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::file::serialized_reader::ReadOptionsBuilder;

use super::fixture::{DAY, TRIPS, lake_at, table_at, trace_id, trips, trips_on};
use crate::layout::Layout;
use crate::parquet_file::{chunks, sorted_by_date};
use crate::statistics::from_json;
use crate::{Bound, Mode, Table};

async fn only_file(table: &Table) -> Bytes {
    let view = table.view();
    assert_eq!(view.files.len(), 1);
    let path = table.object_path(&view.files[0]).unwrap();
    table
        .object_store()
        .get(&path)
        .await
        .unwrap()
        .bytes()
        .await
        .unwrap()
}

#[tokio::test]
async fn the_footer_declares_order_compression_pages_and_bloom_filters() {
    const N_ROWS: i64 = 70_000;
    let folder = tempfile::tempdir().unwrap();
    let table = table_at(folder.path()).await;
    table.append("a", 1, trips(0..N_ROWS));
    table.commit("a", 1).await.unwrap().unwrap();
    let bytes = only_file(&table).await;
    let ends = [trace_id(0), trace_id(N_ROWS - 1)];
    expect![[r#"
        created by whyslow 0.1.0
        row group of 65536 rows by start_time down, trace_id up
          attributes.key_value.key dictionary ZSTD(ZstdLevel(1)) statistics false bloom false
          attributes.key_value.value dictionary ZSTD(ZstdLevel(1)) statistics false bloom false
          stops.list.element dictionary ZSTD(ZstdLevel(1)) statistics false bloom false
          start_time [DELTA_BINARY_PACKED] ZSTD(ZstdLevel(1)) statistics true bloom false
          id [DELTA_BINARY_PACKED] ZSTD(ZstdLevel(1)) statistics true bloom false
          trace_id [DELTA_LENGTH_BYTE_ARRAY] ZSTD(ZstdLevel(1)) statistics true bloom true
          duration_s dictionary ZSTD(ZstdLevel(1)) statistics true bloom false
          error [PLAIN] ZSTD(ZstdLevel(1)) statistics true bloom false
        row group of 4464 rows by start_time down, trace_id up
          attributes.key_value.key dictionary ZSTD(ZstdLevel(1)) statistics false bloom false
          attributes.key_value.value dictionary ZSTD(ZstdLevel(1)) statistics false bloom false
          stops.list.element dictionary ZSTD(ZstdLevel(1)) statistics false bloom false
          start_time [DELTA_BINARY_PACKED] ZSTD(ZstdLevel(1)) statistics true bloom false
          id [DELTA_BINARY_PACKED] ZSTD(ZstdLevel(1)) statistics true bloom false
          trace_id [DELTA_LENGTH_BYTE_ARRAY] ZSTD(ZstdLevel(1)) statistics true bloom true
          duration_s dictionary ZSTD(ZstdLevel(1)) statistics true bloom false
          error [PLAIN] ZSTD(ZstdLevel(1)) statistics true bloom false
    "#]]
    .assert_eq(&print_footer(bytes.clone(), &ends));
    check_pages(bytes);
}

/// The footer as text. A bloom filter of trace ids knows one of `trace_ids`.
fn print_footer(bytes: Bytes, trace_ids: &[String]) -> String {
    let options = ReadOptionsBuilder::new()
        .with_reader_properties(
            ReaderProperties::builder()
                .set_read_bloom_filter(true)
                .build(),
        )
        .build();
    let reader = SerializedFileReader::new_with_options(bytes, options).unwrap();
    let file = reader.metadata().file_metadata();
    let mut lines = vec![format!("created by {}", file.created_by().unwrap())];
    for (idx, group) in reader.metadata().row_groups().iter().enumerate() {
        let name = |leaf: i32| group.column(leaf as usize).column_path().string();
        let order: Vec<_> = group
            .sorting_columns()
            .unwrap()
            .iter()
            .map(|key| {
                format!(
                    "{} {}",
                    name(key.column_idx),
                    if key.descending { "down" } else { "up" }
                )
            })
            .collect();
        lines.push(format!(
            "row group of {} rows by {}",
            group.num_rows(),
            order.join(", ")
        ));
        let group_reader = reader.get_row_group(idx).unwrap();
        for (leaf, column) in group.columns().iter().enumerate() {
            let bloom = group_reader.get_column_bloom_filter(leaf);
            if let Some(bloom) = bloom {
                assert!(trace_ids.iter().any(|id| bloom.check(&id.as_str())));
                assert!(!bloom.check(&"no such trace"));
            }
            lines.push(format!(
                "  {} {} {} statistics {} bloom {}",
                column.column_path().string(),
                print_encoding(column),
                column.compression(),
                column.statistics().is_some(),
                bloom.is_some(),
            ));
        }
    }
    lines.join("\n") + "\n"
}

/// How the values are stored; levels are always RLE.
fn print_encoding(column: &ColumnChunkMetaData) -> String {
    if column.dictionary_page_offset().is_some() {
        return "dictionary".to_owned();
    }
    let values = column
        .encodings()
        .filter(|encoding| *encoding != Encoding::RLE);
    format!("{:?}", values.collect::<Vec<_>>())
}

fn check_pages(bytes: Bytes) {
    let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Required);
    let metadata = ArrowReaderMetadata::load(&bytes, options).unwrap();
    let pages = metadata.metadata().offset_index().unwrap();
    let last = pages[0].last().unwrap().page_locations();
    let largest = last
        .windows(2)
        .map(|two| two[1].first_row_index - two[0].first_row_index)
        .max();
    assert!(largest.unwrap() <= 8 << 10, "{largest:?}");
}

#[tokio::test]
async fn rows_of_a_file_are_sorted_over_all_batches() {
    let folder = tempfile::tempdir().unwrap();
    let table = table_at(folder.path()).await;
    for (sequence, ids) in [(1, 50..60), (2, 0..20), (3, 20..50)] {
        table.append("a", sequence, trips(ids));
    }
    table.commit("a", 3).await.unwrap().unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(only_file(&table).await)
        .unwrap()
        .build()
        .unwrap();
    let batches: Vec<RecordBatch> = reader.map(|batch| batch.unwrap()).collect();
    assert_eq!(batches[0].schema().fields(), table.file_schema().fields());
    let ids: Vec<i64> = batches
        .iter()
        .flat_map(|batch| batch["id"].as_primitive::<Int64Type>().values().to_vec())
        .collect();
    // The start falls with the id, and the newest is first.
    assert_eq!(ids, (0..60).collect::<Vec<_>>());
}

/// The same numbers, whether from the writer's memory or from the log.
#[tokio::test]
async fn files_carry_typed_statistics() {
    let folder = tempfile::tempdir().unwrap();
    let table = table_at(folder.path()).await;
    table.append("a", 1, trips(1..11));
    table.commit("a", 1).await.unwrap().unwrap();
    let reopened = lake_at(folder.path(), Mode::ReadOnly).await.unwrap();
    let start = trips(1..11)["start_time"]
        .as_primitive::<TimestampMicrosecondType>()
        .clone();
    let (newest, oldest) = (start.value(0), start.value(9));
    for (table, is_cut) in [(&table, false), (reopened.table("trips").unwrap(), true)] {
        let view = table.view();
        let file = &view.files[0];
        assert_eq!((file.n_rows, file.date), (Some(10), Some(DAY)));
        let found: Vec<_> = file
            .statistics
            .iter()
            .map(|s| {
                (
                    s.column,
                    s.min.clone().unwrap(),
                    s.max.clone().unwrap(),
                    s.null_count,
                )
            })
            .collect();
        let (Bound::TimestampMicros(min), Bound::TimestampMicros(max)) = (&found[0].1, &found[0].2)
        else {
            panic!("no times: {found:?}");
        };
        let slack = if is_cut { 1_000 } else { 0 };
        assert!(*min <= oldest && oldest - min <= slack, "{min} {oldest}");
        assert!(*max >= newest && max - newest <= slack, "{max} {newest}");
        assert_eq!(found[1], ("id", Bound::Int(1), Bound::Int(10), Some(0)));
        let (column, Bound::Text(min), Bound::Text(max), nulls) = found[2].clone() else {
            panic!("no text: {found:?}");
        };
        let mut ids: Vec<_> = (1..11).map(trace_id).collect();
        ids.sort();
        assert_eq!((column, nulls), ("trace_id", Some(0)));
        assert!(*min <= *ids[0] && *max >= *ids[9]);
        assert_eq!(
            found[3],
            (
                "duration_s",
                Bound::Float(0.25),
                Bound::Float(2.25),
                Some(2)
            )
        );
    }
}

#[test]
fn statistics_that_cannot_be_trusted_are_absent() {
    let schema = TRIPS.schema();
    let columns = ["start_time", "id", "trace_id", "duration_s", "error"];
    let check = |json: &str| {
        let found = from_json(json, &columns, &schema);
        let bounds: Vec<_> = found
            .columns
            .iter()
            .filter(|s| s.min.is_some() || s.max.is_some() || s.null_count.is_some())
            .map(|s| format!("{} {:?} {:?} {:?}", s.column, s.min, s.max, s.null_count))
            .collect();
        format!("{:?} {}", found.n_rows, bounds.join("; "))
    };
    let cases = [
        ("", "None "),
        ("{", "None "),
        ("[1]", "None "),
        (r#"{"numRecords":-1}"#, "None "),
        (
            r#"{"numRecords":3,"minValues":null,"maxValues":7}"#,
            "Some(3) ",
        ),
        (
            r#"{"minValues":{"id":"1","trace_id":1,"duration_s":"NaN","start_time":5}}"#,
            "None ",
        ),
        (
            r#"{"minValues":{"id":1e99,"start_time":"yesterday","error":true}}"#,
            "None ",
        ),
        (r#"{"maxValues":{"id":9223372036854775808}}"#, "None "),
        (
            r#"{"numRecords":2,"maxValues":{"start_time":"1970-01-01T00:00:00.001Z"},"nullCount":{"id":2}}"#,
            "Some(2) start_time None Some(TimestampMicros(1999)) None; id None None Some(2)",
        ),
    ];
    for (json, expected) in cases {
        assert_eq!(check(json), expected, "{json}");
    }
}

#[test]
fn chunks_keep_all_batches_in_order() {
    let batches: Vec<_> = (0..5).map(|n| trips(n..n + 1)).collect();
    assert_eq!(chunks(&batches).concat(), batches);
    assert!(chunks(&[]).is_empty());
}

#[test]
fn rows_are_split_by_date_in_order_of_time() {
    let layout = Layout::of(&TRIPS).unwrap();
    let chunk = [
        trips_on(DAY, 5..8),
        trips_on(DAY - 1, 0..2),
        trips_on(DAY, 2..5),
    ];
    let parts = sorted_by_date(&layout, &chunk).unwrap();
    let found: Vec<_> = parts
        .iter()
        .map(|part| {
            (
                part.date,
                part.batch["id"]
                    .as_primitive::<Int64Type>()
                    .values()
                    .to_vec(),
            )
        })
        .collect();
    let expected = [
        (Some(DAY - 1), vec![0, 1]),
        (Some(DAY), vec![2, 3, 4, 5, 6, 7]),
    ];
    assert_eq!(found, expected);
    assert!(
        parts
            .iter()
            .all(|part| part.batch.column_by_name("date").is_none())
    );
    assert!(
        parts
            .iter()
            .all(|part| part.batch["stops"].len() == part.batch.num_rows())
    );
}

//! Creating and opening tables.

use std::sync::Arc;

use expect_test::expect;
use serde_json::Value;
use tables::{SortKey, Spec};

use super::fixture::{TRIPS, all_ids, lake_at, stored_ids, table_at, trips};
use crate::{Lake, Location, Mode};

#[tokio::test]
async fn version_zero_holds_the_specification() {
    let folder = tempfile::tempdir().unwrap();
    table_at(folder.path()).await;
    let log = folder
        .path()
        .join("trips/_delta_log/00000000000000000000.json");
    let text = std::fs::read_to_string(log).unwrap();
    let actions: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let (protocol, metadata) = (&actions[1]["protocol"], &actions[2]["metaData"]);
    let mut lines = vec![
        format!("operation {}", actions[0]["commitInfo"]["operation"]),
        format!(
            "reader {} writer {}",
            protocol["minReaderVersion"], protocol["minWriterVersion"]
        ),
        format!("by {}", metadata["partitionColumns"]),
    ];
    let properties = metadata["configuration"].as_object().unwrap();
    let mut properties: Vec<_> = properties
        .iter()
        .map(|(name, value)| format!("{name} = {value}"))
        .collect();
    properties.sort();
    lines.append(&mut properties);
    let schema: Value = serde_json::from_str(metadata["schemaString"].as_str().unwrap()).unwrap();
    for field in schema["fields"].as_array().unwrap() {
        let null = if field["nullable"] == true {
            ""
        } else {
            " not null"
        };
        let name = field["name"].as_str().unwrap();
        lines.push(format!("{name} {}{null}", type_name(&field["type"])));
    }
    expect![[r#"
        operation "CREATE TABLE"
        reader 1 writer 2
        by ["date"]
        delta.checkpointInterval = "20"
        delta.dataSkippingStatsColumns = "start_time,id,trace_id,duration_s"
        delta.deletedFileRetentionDuration = "interval 1 day"
        delta.logRetentionDuration = "interval 2 days"
        attributes map<string, string>
        stops array<string>
        date date not null
        start_time timestamp not null
        id long not null
        trace_id string not null
        duration_s double
        error boolean
    "#]]
    .assert_eq(&(lines.join("\n") + "\n"));
}

fn type_name(delta_type: &Value) -> String {
    match delta_type["type"].as_str() {
        Some("map") => {
            let part = |name| type_name(&delta_type[name]);
            format!("map<{}, {}>", part("keyType"), part("valueType"))
        }
        Some("array") => format!("array<{}>", type_name(&delta_type["elementType"])),
        Some(other) => other.to_owned(),
        None => delta_type.as_str().unwrap().to_owned(),
    }
}

#[tokio::test]
async fn a_missing_table_is_named_when_opened_for_reading() {
    let folder = tempfile::tempdir().unwrap();
    for place in [folder.path().to_owned(), folder.path().join("nowhere")] {
        let error = lake_at(&place, Mode::ReadOnly).await.unwrap_err();
        assert!(error.is_missing() && !error.is_retryable());
        let text = error.to_string();
        assert!(
            text.starts_with("there is no table `trips` at `file:///"),
            "{text}"
        );
        assert!(text.contains("/trips/`"), "{text}");
    }
    assert!(!folder.path().join("nowhere").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn processes_that_create_at_once_all_succeed() {
    let folder = tempfile::tempdir().unwrap();
    let opening: Vec<_> = (0..8)
        .map(|n| {
            let folder = folder.path().to_owned();
            tokio::spawn(async move {
                let table = table_at(&folder).await;
                let app_id = format!("writer {n}");
                table.append(app_id.as_str(), 1, trips(n..n + 1));
                table.commit(&app_id, 1).await.unwrap().unwrap();
            })
        })
        .collect();
    for opened in opening {
        opened.await.unwrap();
    }
    assert_eq!(stored_ids(folder.path()).await, all_ids(8));
}

/// Scenario: the commits before a checkpoint are deleted, as log retention does.
/// Guarantee: files, statistics and the writer's sequence come from the checkpoint.
#[tokio::test]
async fn a_table_opens_from_its_checkpoint_alone() {
    let folder = tempfile::tempdir().unwrap();
    let table = table_at(folder.path()).await;
    for sequence in 1..=20 {
        table.append("a", sequence, trips(sequence - 1..sequence));
        table.commit("a", sequence).await.unwrap().unwrap();
    }
    let log = folder.path().join("trips/_delta_log");
    assert!(log.join("_last_checkpoint").exists());
    for version in 0..20 {
        std::fs::remove_file(log.join(format!("{version:020}.json"))).unwrap();
    }
    let reopened = table_at(folder.path()).await;
    assert_eq!(reopened.committed_sequence("a").await.unwrap(), Some(20));
    assert_eq!(stored_ids(folder.path()).await, all_ids(20));
    assert!(
        reopened
            .view()
            .files
            .iter()
            .all(|file| file.statistics.len() == 4)
    );
    reopened.append("a", 21, trips(20..21));
    reopened.commit("a", 21).await.unwrap().unwrap();
    assert_eq!(stored_ids(folder.path()).await, all_ids(21));
}

static OTHER_TYPE: Spec = Spec {
    columns: &OTHER_COLUMNS,
    sort: &[],
    bloom: &[],
    stats: &[],
    ..copy()
};
static NO_SUCH_SORT: Spec = Spec {
    sort: &[SortKey::ascending("nowhere")],
    ..copy()
};
static OTHER_COLUMNS: [tables::Column; 2] = [
    tables::Column {
        data_type: tables::ColumnType::Text,
        ..column("id")
    },
    tables::Column {
        data_type: tables::ColumnType::Date,
        nullable: false,
        ..column("date")
    },
];

const fn column(name: &'static str) -> tables::Column {
    tables::Column {
        name,
        data_type: tables::ColumnType::Int,
        nullable: true,
        doc: "",
        unit: "",
        source: "",
        origin: tables::Origin::Row,
        distinct: false,
    }
}

const fn copy() -> Spec {
    Spec {
        name: "trips",
        doc: "",
        columns: TRIPS_COLUMNS,
        sort: &[],
        bloom: &[],
        stats: &[],
        retention_days: 7,
    }
}

const TRIPS_COLUMNS: &[tables::Column] = &[
    tables::Column {
        data_type: tables::ColumnType::Date,
        nullable: false,
        ..column("date")
    },
    column("id"),
];

#[tokio::test]
async fn a_specification_that_does_not_fit_is_refused_with_its_column() {
    let folder = tempfile::tempdir().unwrap();
    table_at(folder.path()).await;
    let location = Location::parse(folder.path().to_str().unwrap()).unwrap();
    let cases: [(&'static Spec, &str); 2] = [
        (
            &OTHER_TYPE,
            "column `id` of the stored table `trips` is long not null, this version expects string",
        ),
        (
            &NO_SUCH_SORT,
            "column `nowhere` of table `trips` cannot be stored: it is named by the sort list and \
             not in the schema",
        ),
    ];
    for (spec, expected) in cases {
        let error = Lake::open(&location, &[spec], Mode::Create)
            .await
            .unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert!(!error.is_retryable());
    }
}

#[tokio::test]
async fn a_batch_with_other_columns_is_a_programming_error() {
    let folder = tempfile::tempdir().unwrap();
    let table = table_at(folder.path()).await;
    let other = trips(0..1).project(&[0, 1]).unwrap();
    let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        table.append("a", 1, other);
    }));
    assert!(refused.is_err());
    assert_eq!(table.fresh_rows(), 0);
}

#[tokio::test]
async fn a_lake_has_the_tables_that_were_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let lake = lake_at(folder.path(), Mode::Create).await.unwrap();
    assert!(lake.table("trips").is_some() && lake.table("spans").is_none());
    assert_eq!(lake.tables().len(), 1);
    assert!(lake.root_url().as_str().starts_with("file:///"));
    let table = Arc::clone(lake.table("trips").unwrap());
    assert_eq!(table.spec().name, TRIPS.name);
    assert_eq!(
        table.schema().fields().len(),
        table.file_schema().fields().len() + 1
    );
    assert!(table.root_url().as_str().ends_with("/trips/"));
}

fn copied(column: &tables::Column) -> tables::Column {
    tables::Column { ..*column }
}

/// The table `trips` as a later version of the program has it.
fn with_column(added: tables::Column) -> &'static Spec {
    let columns: Vec<tables::Column> = TRIPS.columns.iter().map(copied).chain([added]).collect();
    Box::leak(Box::new(Spec {
        name: TRIPS.name,
        doc: TRIPS.doc,
        columns: columns.leak(),
        sort: TRIPS.sort,
        bloom: TRIPS.bloom,
        stats: TRIPS.stats,
        retention_days: TRIPS.retention_days,
    }))
}

/// C56, of a lake: old rows stay, new ones have the column, and who writes with the old version goes on.
#[tokio::test]
async fn a_table_gets_the_columns_of_a_newer_version() {
    let folder = tempfile::tempdir().unwrap();
    let older = table_at(folder.path()).await;
    older.append("a", 1, trips(0..5));
    older.commit("a", 1).await.unwrap();

    let location = Location::parse(folder.path().to_str().unwrap()).unwrap();
    let newer = with_column(column("pod"));
    let lake = Lake::open(&location, &[newer], Mode::ReadOnly)
        .await
        .unwrap();
    let table = lake.table("trips").unwrap();
    assert_eq!(
        table.schema(),
        newer.schema(),
        "who only reads changes nothing"
    );
    assert_eq!(table.view().version, 1);

    // Two that open at once add it once.
    let specs = [newer];
    let open = || Lake::open(&location, &specs, Mode::Create);
    let (one, other) = tokio::join!(open(), open());
    let (one, other) = (one.unwrap(), other.unwrap());
    for lake in [&one, &other] {
        assert_eq!(lake.table("trips").unwrap().view().version, 2);
    }
    let rows = trips(5..7);
    let pod: arrow::array::ArrayRef = Arc::new(arrow::array::Int64Array::from(vec![7, 8]));
    let columns = rows.columns().iter().cloned().chain([pod]).collect();
    let rows = arrow::array::RecordBatch::try_new(newer.schema(), columns).unwrap();
    let table = one.table("trips").unwrap();
    table.append("b", 1, rows);
    table.commit("b", 1).await.unwrap();
    older.append("a", 2, trips(7..9));
    older.commit("a", 2).await.unwrap();
    assert_eq!(stored_ids(folder.path()).await, all_ids(9));
}

#[tokio::test]
async fn a_column_that_may_not_be_null_is_not_added() {
    let folder = tempfile::tempdir().unwrap();
    table_at(folder.path()).await;
    let location = Location::parse(folder.path().to_str().unwrap()).unwrap();
    let newer = with_column(tables::Column {
        nullable: false,
        ..column("pod")
    });
    for mode in [Mode::Create, Mode::ReadOnly] {
        let error = Lake::open(&location, &[newer], mode).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "column `pod` of the stored table `trips` is missing, this version expects long not null"
        );
    }
}

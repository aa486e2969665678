//! Creating a Delta table, and checking one that is there.
//!
//! Version 0 holds three actions (Delta protocol, "Actions"): `commitInfo`, `protocol`, `metaData`.
//! It is written by hand because the kernel creates tables of reader 3 / writer 7, which older
//! readers refuse without need. The put is conditional: of two processes that create at once one
//! wins, the other opens what it finds.
//!
//! A table of an older version of this program gets the columns that it lacks when it is opened for writing, in a version of
//! the log of its own; its files stay as they are, and their rows have NULL there. Who only reads sees NULL without that. A
//! column never changes its type, and one that may not be NULL is never added: such a table is refused.
//!
//! Properties: a checkpoint every [`CHECKPOINT_INTERVAL`] commits bounds what opening reads; the
//! statistics columns are named, because the default (the first 32 columns) would make every commit
//! and every reader carry numbers that prune nothing; log and tombstones are kept longer than the
//! longest query or backup of this program, and no longer.

use std::sync::Arc;

use delta_kernel::committer::FileSystemCommitter;
use delta_kernel::schema::StructField;
use delta_kernel::table_features::ColumnMappingMode;
use delta_kernel::transaction::{
    CommitResult, UpdateTableOperation, UpdateTableTransactionBuilder,
};
use delta_kernel::{KernelError, Snapshot, SnapshotRef};
use futures::StreamExt as _;
use object_store::path::Path;
use object_store::{ObjectStoreExt as _, PutMode};
use serde_json::json;
use tables::PARTITION;
use url::Url;
use uuid::Uuid;

use crate::attempts::{Attempt, Doubt, until_settled};
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::lake::Mode;
use crate::layout::Layout;

/// Name and version that commits carry.
pub(crate) const ENGINE_INFO: &str = concat!("whyslow/", env!("CARGO_PKG_VERSION"));
/// Commits between two checkpoints of a new table.
pub(crate) const CHECKPOINT_INTERVAL: u64 = 20;
const VERSION_ZERO: &str = "00000000000000000000.json";

/// Opens the table at `root`, after creating it where the mode allows, and checks that it is one
/// that this crate can read and write.
pub(crate) fn opened(
    kernel: &Kernel,
    layout: &Layout,
    root: &Url,
    mode: Mode,
) -> Result<SnapshotRef> {
    if !has_log(kernel, root)? {
        match mode {
            Mode::Create => create(kernel, layout, root)?,
            Mode::Existing | Mode::ReadOnly => {
                return Err(Error::TableMissing {
                    table: layout.name,
                    location: root.to_string(),
                });
            }
        }
    }
    until_settled(layout.name, &mut Doubt::default(), |doubt| {
        let snapshot = newest(kernel, layout, root)?;
        check(layout, &snapshot)?;
        let missing = layout.missing(&snapshot.schema());
        if missing.is_empty() || mode == Mode::ReadOnly {
            return Ok(Attempt::Done(snapshot));
        }
        doubt.set();
        add_columns(kernel, layout, &snapshot, missing)?;
        // Whoever was first: the table has them now, or the next attempt adds what is still missing.
        let snapshot = newest(kernel, layout, root)?;
        Ok(if layout.missing(&snapshot.schema()).is_empty() {
            Attempt::Done(snapshot)
        } else {
            Attempt::Lost
        })
    })
}

fn newest(kernel: &Kernel, layout: &Layout, root: &Url) -> Result<SnapshotRef> {
    Snapshot::builder_for(root.as_str())
        .build(kernel.engine())
        .map_err(|source| Error::ReadLog {
            table: layout.name,
            source: Box::new(source),
        })
}

/// Puts a version that has the missing columns, unless another writer puts one first.
fn add_columns(
    kernel: &Kernel,
    layout: &Layout,
    snapshot: &SnapshotRef,
    missing: Vec<StructField>,
) -> Result<()> {
    let version = snapshot.version().saturating_add(1);
    let failed = |source: KernelError| Error::CommitLog {
        table: layout.name,
        version,
        source: Box::new(source),
    };
    let builder =
        Arc::clone(snapshot).update_table(UpdateTableOperation::AlterTable, ENGINE_INFO, false);
    let transaction = missing
        .into_iter()
        .fold(builder, UpdateTableTransactionBuilder::add_column)
        .build(kernel.engine(), Box::new(FileSystemCommitter::new()))
        .map_err(failed)?;
    match transaction.commit(kernel.engine()).map_err(failed)? {
        CommitResult::Committed(_) | CommitResult::Conflicted(_) => Ok(()),
        CommitResult::Retryable(retryable) => Err(failed(retryable.error)),
    }
}

/// Whether this crate can read and write the table as it is at `snapshot`.
pub(crate) fn check(layout: &Layout, snapshot: &SnapshotRef) -> Result<()> {
    let unsupported = |feature: String| Error::UnsupportedTable {
        table: layout.name,
        feature,
    };
    let mapping = snapshot.table_properties().column_mapping_mode;
    if mapping.is_some_and(|mode| mode != ColumnMappingMode::None) {
        return Err(unsupported("column mapping".to_owned()));
    }
    let partitions = snapshot.table_configuration().logical_partition_columns();
    if partitions != [PARTITION] {
        return Err(unsupported(format!("the partition columns {partitions:?}")));
    }
    layout.check_stored(&snapshot.schema())
}

/// The path of an object below a table's root, as the store and the kernel see it.
pub(crate) fn object_path(root: &Url, below: &str) -> Result<Path> {
    let invalid = |source: Box<dyn std::error::Error + Send + Sync>| Error::InvalidLocation {
        location: format!("{root}{below}"),
        source,
    };
    let url = root.join(below).map_err(|error| invalid(error.into()))?;
    if !url.as_str().starts_with(root.as_str()) {
        return Err(invalid("the path leaves the table's folder".into()));
    }
    Path::from_url_path(url.path()).map_err(|error| invalid(error.into()))
}

fn has_log(kernel: &Kernel, root: &Url) -> Result<bool> {
    let log = object_path(root, "_delta_log")?;
    let first = kernel.wait(kernel.store().list(Some(&log)).next());
    match first.transpose() {
        Ok(first) => Ok(first.is_some()),
        Err(object_store::Error::NotFound { .. }) => Ok(false),
        Err(source) => Err(Error::store("list", &log, source)),
    }
}

fn create(kernel: &Kernel, layout: &Layout, root: &Url) -> Result<()> {
    let path = object_path(root, &format!("_delta_log/{VERSION_ZERO}"))?;
    let actions = version_zero(layout)?;
    let put = kernel
        .store()
        .put_opts(&path, actions.into(), PutMode::Create.into());
    match kernel.wait(put) {
        Ok(_) | Err(object_store::Error::AlreadyExists { .. }) => Ok(()),
        // A put that failed for its client may have been made all the same.
        Err(source) => match kernel.wait(kernel.store().head(&path)) {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::store("create", &path, source)),
        },
    }
}

fn version_zero(layout: &Layout) -> Result<String> {
    let schema = serde_json::to_string(&*layout.delta_schema).map_err(|source| Error::ReadLog {
        table: layout.name,
        source: Box::new(source.into()),
    })?;
    // An empty list would mean the first 32 columns.
    let statistics = if layout.stats.is_empty() {
        ("delta.dataSkippingNumIndexedCols", "0".to_owned())
    } else {
        ("delta.dataSkippingStatsColumns", layout.stats.join(","))
    };
    let actions = [
        json!({"commitInfo": {"operation": "CREATE TABLE", "engineInfo": ENGINE_INFO}}),
        json!({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}),
        json!({"metaData": {
            "id": Uuid::new_v4().to_string(),
            "name": layout.name,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema,
            "partitionColumns": [PARTITION],
            "configuration": {
                "delta.checkpointInterval": CHECKPOINT_INTERVAL.to_string(),
                (statistics.0): statistics.1,
                "delta.logRetentionDuration": "interval 2 days",
                "delta.deletedFileRetentionDuration": "interval 1 day",
            },
        }}),
    ];
    Ok(actions.map(|action| action.to_string()).join("\n"))
}

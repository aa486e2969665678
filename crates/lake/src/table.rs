//! One table: rows in memory, files in the log, and a view that shows each row once.
//!
//! Two locks, always taken in this order and never the other way round:
//!
//! * `tip`: the newest known snapshot. Held while the log is read or a commit is put, so that
//!   snapshots only move forward.
//! * `visible`: what readers see. Held for a swap or a clone, never over input or output.
//!
//! A commit or a refresh replaces the file list and removes the rows that the new list contains
//! under one hold of `visible`: a reader sees them in memory or in a file, never both, never
//! neither. That includes a commit whose outcome was unknown: the next refresh that finds it in the
//! log removes its rows from memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use delta_kernel::{KernelError, Snapshot, SnapshotRef};
use object_store::ObjectStore;
use object_store::path::Path;
use parquet::errors::ParquetError;
use url::Url;

use crate::create;
use crate::data_file::{self, DataFile};
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::lake::Mode;
use crate::layout::Layout;

/// A table that is open for appending and reading. Each `app_id` is a writer with a sequence of its own, which is
/// committed apart from those of the others.
#[derive(Debug)]
pub struct Table {
    spec: &'static tables::Spec,
    pub(crate) inner: Arc<Inner>,
}

/// All rows of a table at one instant: those in `files` and those in `fresh`, no row in both.
#[derive(Debug, Clone)]
pub struct View {
    /// The Delta version of the file list.
    pub version: u64,
    /// The live files, oldest commit first.
    pub files: Arc<Vec<DataFile>>,
    /// Appended and not in a file yet; all columns, partition column included.
    pub fresh: Vec<RecordBatch>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) layout: Layout,
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) root: Url,
    pub(crate) mode: Mode,
    /// Held for a whole commit: one at a time per table.
    pub(crate) committing: Mutex<()>,
    /// Held for a whole maintenance: one at a time per open table.
    pub(crate) maintaining: Mutex<()>,
    pub(crate) tip: Mutex<Tip>,
    visible: Mutex<Visible>,
}

/// The newest known state of the log.
#[derive(Debug)]
pub(crate) struct Tip {
    pub(crate) snapshot: SnapshotRef,
    /// The writers of this process, by `app_id`, and how far each is committed at `snapshot`.
    pub(crate) writers: Writers,
}

/// The application transaction's version, by `app_id`.
pub(crate) type Writers = BTreeMap<Arc<str>, Option<i64>>;

#[derive(Debug)]
struct Visible {
    version: u64,
    files: Arc<Vec<DataFile>>,
    fresh: Vec<Fresh>,
}

/// A batch in memory.
#[derive(Debug, Clone)]
pub(crate) struct Fresh {
    app_id: Arc<str>,
    pub(crate) sequence: i64,
    pub(crate) batch: RecordBatch,
    n_bytes: u64,
}

impl Table {
    pub(crate) async fn open(
        kernel: Arc<Kernel>,
        spec: &'static tables::Spec,
        lake_root: Url,
        mode: Mode,
    ) -> Result<Self> {
        let layout = Layout::of(spec)?;
        let root = lake_root
            .join(&format!("{}/", spec.name))
            .map_err(|error| Error::InvalidLocation {
                location: lake_root.to_string(),
                source: error.into(),
            })?;
        let opening = Arc::clone(&kernel);
        let inner = kernel
            .blocking(move || Inner::open(opening, layout, root, mode))
            .await?;
        Ok(Self {
            spec,
            inner: Arc::new(inner),
        })
    }

    /// The table's specification.
    pub fn spec(&self) -> &'static tables::Spec {
        self.spec
    }

    /// All columns, with the partition column `date`.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.inner.layout.schema)
    }

    /// The columns that are in a Parquet file: all but the partition column, whose value is
    /// [`DataFile::date`].
    pub fn file_schema(&self) -> SchemaRef {
        Arc::clone(&self.inner.layout.file_schema)
    }

    /// The table's root, with a slash at the end.
    pub fn root_url(&self) -> &Url {
        &self.inner.root
    }

    /// The store of the data files.
    pub fn object_store(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(self.inner.kernel.store())
    }

    /// Where a file of this table is in [`Table::object_store`].
    ///
    /// # Errors
    ///
    /// The log names a path that is not below the table's root.
    pub fn object_path(&self, file: &DataFile) -> Result<Path> {
        create::object_path(&self.inner.root, &file.path)
    }

    /// The newest sequence that `app_id` has committed to this table, read from the log.
    ///
    /// # Errors
    ///
    /// The log cannot be read.
    pub async fn committed_sequence(&self, app_id: &str) -> Result<Option<i64>> {
        let app_id = app_id.to_owned();
        self.blocking(move |inner| {
            let mut tip = inner.tip();
            inner.advance(&mut tip, None)?;
            // Only reads: the writer of this table is who commits, not who asks.
            tip.snapshot
                .get_app_id_version(&app_id, inner.kernel.engine())
                .map_err(|source| inner.read_log(source))
        })
        .await
    }

    /// Adds rows of a writer in memory; [`Table::view`] shows them from now on. All its rows of a sequence must be
    /// appended before a commit through it is asked for, and a sequence that it has committed already
    /// must not be appended again (ask [`Table::committed_sequence`] after a start).
    ///
    /// # Panics
    ///
    /// If the columns are not those of [`Table::schema`]: a programming error that would corrupt
    /// the stored table.
    pub fn append(&self, app_id: impl Into<Arc<str>>, sequence: i64, batch: RecordBatch) {
        assert_eq!(
            batch.schema_ref().fields(),
            self.inner.layout.schema.fields(),
            "a batch of table `{}` must have its columns",
            self.spec.name,
        );
        if batch.num_rows() == 0 {
            return;
        }
        let n_bytes = batch.get_array_memory_size().try_into().unwrap_or(u64::MAX);
        self.inner.visible().fresh.push(Fresh {
            app_id: app_id.into(),
            sequence,
            batch,
            n_bytes,
        });
    }

    /// Arrow memory of the rows that are not in a file yet.
    pub fn fresh_bytes(&self) -> u64 {
        self.inner
            .visible()
            .fresh
            .iter()
            .map(|fresh| fresh.n_bytes)
            .sum()
    }

    /// Number of rows that are not in a file yet.
    pub fn fresh_rows(&self) -> usize {
        self.inner
            .visible()
            .fresh
            .iter()
            .map(|fresh| fresh.batch.num_rows())
            .sum()
    }

    /// Reads the commits of other writers.
    ///
    /// # Errors
    ///
    /// The log cannot be read; the view stays as it is.
    pub async fn refresh(&self) -> Result<()> {
        self.blocking(|inner| inner.advance(&mut inner.tip(), None))
            .await
    }

    /// All rows at this instant, each exactly once. Reads nothing: cheap enough for every statement.
    pub fn view(&self) -> View {
        let visible = self.inner.visible();
        View {
            version: visible.version,
            files: Arc::clone(&visible.files),
            fresh: visible
                .fresh
                .iter()
                .map(|fresh| fresh.batch.clone())
                .collect(),
        }
    }

    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let inner = Arc::clone(&self.inner);
        self.inner.kernel.blocking(move || work(&inner)).await
    }
}

impl Inner {
    fn open(kernel: Arc<Kernel>, layout: Layout, root: Url, mode: Mode) -> Result<Self> {
        let snapshot = create::opened(&kernel, &layout, &root, mode)?;
        let files = data_file::all(&kernel, &layout, &snapshot)?;
        let visible = Visible {
            version: snapshot.version(),
            files: Arc::new(files),
            fresh: Vec::new(),
        };
        Ok(Self {
            layout,
            kernel,
            root,
            mode,
            committing: Mutex::new(()),
            maintaining: Mutex::new(()),
            tip: Mutex::new(Tip {
                snapshot,
                writers: Writers::new(),
            }),
            visible: Mutex::new(visible),
        })
    }

    /// A panic while a lock was held leaves whole values: every change is one assignment.
    pub(crate) fn tip(&self) -> MutexGuard<'_, Tip> {
        self.tip.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn visible(&self) -> MutexGuard<'_, Visible> {
        self.visible.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn read_log(&self, source: KernelError) -> Error {
        Error::ReadLog {
            table: self.layout.name,
            source: Box::new(source),
        }
    }

    pub(crate) fn read_file(&self, file: &DataFile, source: ParquetError) -> Error {
        self.layout.unreadable(&file.path, source)
    }

    /// Moves to the newest version of the log and learns what it says of the writers: those known before, and
    /// `app_id` from now on.
    pub(crate) fn advance(&self, tip: &mut Tip, app_id: Option<&str>) -> Result<()> {
        let newest = Snapshot::builder_from(Arc::clone(&tip.snapshot))
            .build(self.kernel.engine())
            .map_err(|source| self.read_log(source))?;
        let unknown = app_id.filter(|app_id| !tip.writers.contains_key(*app_id));
        if newest.version() == tip.snapshot.version() && unknown.is_none() {
            // It may stand on a newer checkpoint; another process may delete the files of the log before that one.
            tip.snapshot = newest;
            return Ok(());
        }
        // Another writer may have changed the table under us.
        create::check(&self.layout, &newest)?;
        let mut writers = Writers::new();
        for app_id in tip.writers.keys().cloned().chain(unknown.map(Arc::from)) {
            let committed = newest
                .get_app_id_version(&app_id, self.kernel.engine())
                .map_err(|source| self.read_log(source))?;
            writers.insert(app_id, committed);
        }
        let files = self.files_at(tip, &newest)?;
        *tip = Tip {
            snapshot: newest,
            writers,
        };
        self.show(tip, |visible| *visible = files);
        Ok(())
    }

    fn files_at(&self, tip: &Tip, newest: &SnapshotRef) -> Result<Arc<Vec<DataFile>>> {
        let (base, files) = {
            let visible = self.visible();
            (visible.version, Arc::clone(&visible.files))
        };
        debug_assert_eq!(base, tip.snapshot.version(), "the view follows the tip");
        if newest.version() == base {
            return Ok(files);
        }
        data_file::advanced(&self.kernel, &self.layout, &files, base, newest).map(Arc::new)
    }

    /// The live files at the tip, while its lock is held.
    pub(crate) fn live_files(&self) -> Arc<Vec<DataFile>> {
        Arc::clone(&self.visible().files)
    }

    /// Changes the file list into the live files at the tip, and in the same instant removes the
    /// rows that the log says are in them.
    pub(crate) fn show(&self, tip: &Tip, change: impl FnOnce(&mut Arc<Vec<DataFile>>)) {
        let is_stored = |fresh: &Fresh| {
            let committed = tip.writers.get(&fresh.app_id).copied().flatten();
            committed.is_some_and(|committed| fresh.sequence <= committed)
        };
        let mut visible = self.visible();
        visible.version = tip.snapshot.version();
        change(&mut visible.files);
        visible.fresh.retain(|fresh| !is_stored(fresh));
    }

    /// The rows of a writer in memory with a sequence above `after` and up to `through`.
    pub(crate) fn fresh_between(
        &self,
        app_id: &str,
        after: Option<i64>,
        through: i64,
    ) -> Vec<RecordBatch> {
        let visible = self.visible();
        let wanted = |fresh: &&Fresh| {
            *fresh.app_id == *app_id
                && fresh.sequence <= through
                && after.is_none_or(|after| fresh.sequence > after)
        };
        visible
            .fresh
            .iter()
            .filter(wanted)
            .map(|fresh| fresh.batch.clone())
            .collect()
    }
}

//! A lake: the tables below one location.

use std::sync::Arc;

use futures::future::try_join_all;
use object_store::ObjectStore;
use url::Url;

use crate::error::Result;
use crate::kernel::Kernel;
use crate::location::Location;
use crate::table::Table;

/// What opening a lake may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Missing tables are created; rows can be committed.
    Create,
    /// A missing table is an error; rows can be committed.
    Existing,
    /// A missing table is an error; nothing is ever written.
    ReadOnly,
}

/// The open tables of one location.
#[derive(Debug)]
pub struct Lake {
    tables: Vec<Arc<Table>>,
    store: Arc<dyn ObjectStore>,
    root: Url,
}

impl Lake {
    /// Opens the tables of `specs`; table `spans` is at `ROOT/spans/`. With [`Mode::Create`] missing
    /// tables are made, and several processes may do so at once.
    ///
    /// # Errors
    ///
    /// The place cannot be reached, a table is missing ([`Mode::ReadOnly`]), or a stored table does
    /// not fit its specification.
    pub async fn open(
        location: &Location,
        specs: &[&'static tables::Spec],
        mode: Mode,
    ) -> Result<Self> {
        let (store, root) = location.open(mode == Mode::Create)?;
        Self::open_in(store, root, specs, mode).await
    }

    /// The same over a given store, whose paths are those of `root` without its scheme and host.
    pub(crate) async fn open_in(
        store: Arc<dyn ObjectStore>,
        root: Url,
        specs: &[&'static tables::Spec],
        mode: Mode,
    ) -> Result<Self> {
        let kernel = Arc::new(Kernel::new(Arc::clone(&store))?);
        let open = |spec: &&'static tables::Spec| {
            Table::open(Arc::clone(&kernel), spec, root.clone(), mode)
        };
        let tables = try_join_all(specs.iter().map(open)).await?;
        Ok(Self {
            tables: tables.into_iter().map(Arc::new).collect(),
            store,
            root,
        })
    }

    /// The table of that name, if it was opened.
    pub fn table(&self, name: &str) -> Option<&Arc<Table>> {
        self.tables.iter().find(|table| table.spec().name == name)
    }

    /// All open tables, in the order of the specifications.
    pub fn tables(&self) -> &[Arc<Table>] {
        &self.tables
    }

    /// The store of all data files; its paths are those of [`Table::object_path`].
    pub fn object_store(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.store)
    }

    /// The root, with a slash at the end: `file:///...` or `s3://bucket/prefix/`.
    pub fn root_url(&self) -> &Url {
        &self.root
    }
}

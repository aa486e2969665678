//! The names of one statement: one catalog, one schema, the lake's tables and the views.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, CatalogProviderList, SchemaProvider, TableProvider};
use datafusion::common::Result as DataFusionResult;
use datafusion::logical_expr::TableType;
use lake::Lake;

use crate::scan::{InMemory, LakeTable};
use crate::views::VIEWS;

/// Name of the only catalog.
pub(crate) const CATALOG: &str = "whyslow";
/// Name of the only schema, as Postgres clients expect it.
pub(crate) const SCHEMA: &str = "public";
/// Name of the schema that Postgres clients ask about names and types.
pub(crate) const POSTGRES_SCHEMA: &str = "pg_catalog";

/// Root of the names.
#[derive(Debug)]
pub(crate) struct StatementCatalogs(Arc<StatementCatalog>);

#[derive(Debug)]
struct StatementCatalog {
    names: Arc<StatementSchema>,
    /// Not listed: lists of names are of what is stored.
    postgres: Option<Arc<dyn SchemaProvider>>,
}

/// The tables, each with the state that its first use took, and the views used so far.
#[derive(Debug)]
pub(crate) struct StatementSchema {
    tables: HashMap<&'static str, Arc<LakeTable>>,
    views: RwLock<BTreeMap<&'static str, Arc<dyn TableProvider>>>,
    postgres: OnceLock<Arc<dyn SchemaProvider>>,
}

impl StatementSchema {
    /// Names of a statement that begins now.
    pub(crate) fn new(lake: &Lake, kept: &Arc<InMemory>) -> Arc<Self> {
        let tables = lake.tables().iter().map(|table| {
            let table = LakeTable::new(Arc::clone(table), Arc::clone(kept));
            (table.name(), Arc::new(table))
        });
        Arc::new(Self {
            tables: tables.collect(),
            views: RwLock::default(),
            postgres: OnceLock::new(),
        })
    }

    /// The catalog list around it.
    pub(crate) fn catalogs(self: &Arc<Self>) -> Arc<StatementCatalogs> {
        Arc::new(StatementCatalogs(Arc::new(StatementCatalog {
            names: Arc::clone(self),
            postgres: None,
        })))
    }

    /// The same with the tables that Postgres clients ask.
    pub(crate) fn catalogs_with(
        self: &Arc<Self>,
        postgres: Arc<dyn SchemaProvider>,
    ) -> Arc<StatementCatalogs> {
        // There is one statement, and it asks once.
        self.postgres.set(Arc::clone(&postgres)).ok();
        Arc::new(StatementCatalogs(Arc::new(StatementCatalog {
            names: Arc::clone(self),
            postgres: Some(postgres),
        })))
    }

    /// Is this a table of the Postgres catalog that the statement may read?
    pub(crate) fn has_postgres_table(&self, name: &str) -> bool {
        let postgres = self.postgres.get();
        postgres.is_some_and(|postgres| postgres.table_exist(name))
    }

    /// A table of the lake, with the rows that the statement sees.
    pub(crate) fn lake_table(&self, name: &str) -> Option<Arc<LakeTable>> {
        self.tables.get(name).map(Arc::clone)
    }

    /// Makes a planned view usable.
    pub(crate) fn add_view(&self, name: &'static str, view: Arc<dyn TableProvider>) {
        let mut views = self.views.write().unwrap_or_else(PoisonError::into_inner);
        views.insert(name, view);
    }

    pub(crate) fn has_view(&self, name: &str) -> bool {
        self.views
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .contains_key(name)
    }

    /// Every name that a statement can use, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.tables.keys().map(|name| (*name).to_owned()).collect();
        names.extend(VIEWS.iter().map(|view| view.name.to_owned()));
        names.sort_unstable();
        names
    }
}

#[async_trait]
impl SchemaProvider for StatementSchema {
    fn table_names(&self) -> Vec<String> {
        self.names()
    }

    async fn table(&self, name: &str) -> DataFusionResult<Option<Arc<dyn TableProvider>>> {
        if let Some(table) = self.tables.get(name) {
            return Ok(Some(Arc::clone(table) as Arc<dyn TableProvider>));
        }
        let views = self.views.read().unwrap_or_else(PoisonError::into_inner);
        Ok(views.get(name).map(Arc::clone))
    }

    /// Without planning a view: lists of names ask for it.
    async fn table_type(&self, name: &str) -> DataFusionResult<Option<TableType>> {
        if self.tables.contains_key(name) {
            return Ok(Some(TableType::Base));
        }
        Ok(self.table_exist(name).then_some(TableType::View))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.tables.contains_key(name) || VIEWS.iter().any(|view| view.name == name)
    }
}

impl CatalogProvider for StatementCatalog {
    fn schema_names(&self) -> Vec<String> {
        vec![SCHEMA.to_owned()]
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        match name {
            SCHEMA => Some(Arc::clone(&self.names) as Arc<dyn SchemaProvider>),
            POSTGRES_SCHEMA => self.postgres.as_ref().map(Arc::clone),
            _ => None,
        }
    }
}

impl CatalogProviderList for StatementCatalogs {
    fn register_catalog(
        &self,
        _name: String,
        _catalog: Arc<dyn CatalogProvider>,
    ) -> Option<Arc<dyn CatalogProvider>> {
        None
    }

    fn catalog_names(&self) -> Vec<String> {
        vec![CATALOG.to_owned()]
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        (name == CATALOG).then(|| Arc::clone(&self.0) as Arc<dyn CatalogProvider>)
    }
}

//! What tools of Postgres ask before the user does: the schema `pg_catalog`, and the functions that go with it.
//!
//! Tables and functions come from `datafusion-pg-catalog`; all are made of what it ships and of the names and types
//! given here. None reads a file, a setting of the process or a user: there is one role, the one that asks, and it
//! may read. Left out are the tables that would state what is not so here: passwords, subscriptions, large objects.
//!
//! Only a statement that names something of Postgres gets these names (`statement::parse_postgres`), and it is in a
//! session of its own like every other.

mod settings;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{
    CatalogProvider, MemoryCatalogProvider, MemoryCatalogProviderList, SchemaProvider,
    TableProvider,
};
use datafusion::common::{Result as DataFusionResult, ScalarValue};
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TableType, Volatility,
};
use datafusion::prelude::SessionContext;
use datafusion_pg_catalog::pg_catalog::catalog_info::CatalogInfo;
use datafusion_pg_catalog::pg_catalog::context::EmptyContextProvider;
use datafusion_pg_catalog::pg_catalog::{
    PgCatalogSchemaProvider, PgCatalogStaticTables, setup_pg_catalog,
};

pub(crate) use settings::setting;

use self::settings::CurrentSetting;
use crate::catalog::{CATALOG, POSTGRES_SCHEMA, SCHEMA, StatementSchema};

/// What the listener says it is, so that tools ask as they would ask that release of Postgres.
pub(crate) const SERVER_VERSION: &str = "16.6";

/// The only role.
pub(crate) const ROLE: &str = "reader";

/// Tables of the library that nobody gets.
const LEFT_OUT: [&str; 7] = [
    "pg_authid",
    "pg_largeobject",
    "pg_largeobject_metadata",
    "pg_replication_origin",
    "pg_subscription",
    "pg_subscription_rel",
    "pg_user_mapping",
];

/// The catalog, shared by all statements: an object keeps its number (`oid`) as long as the process runs.
#[derive(Debug)]
pub(crate) struct PostgresCatalog {
    base: SessionState,
    tables: Arc<Tables>,
}

impl PostgresCatalog {
    /// Made of a session's state, and of names whose views are planned.
    pub(crate) async fn new(
        base: &SessionState,
        names: &Arc<StatementSchema>,
    ) -> DataFusionResult<Self> {
        let stored = Stored::read(names).await?;
        let statics = Arc::new(PgCatalogStaticTables::try_new()?);
        let tables = PgCatalogSchemaProvider::try_new(stored, statics, EmptyContextProvider)?;
        Ok(Self {
            base: with_functions(base)?,
            tables: Arc::new(Tables { inner: tables }),
        })
    }

    /// What a statement starts from.
    pub(crate) fn base(&self) -> &SessionState {
        &self.base
    }

    /// The tables.
    pub(crate) fn tables(&self) -> Arc<dyn SchemaProvider> {
        Arc::clone(&self.tables) as Arc<dyn SchemaProvider>
    }
}

/// The functions of the library, and those that it lacks. The catalog that it wants to write to is not kept.
fn with_functions(base: &SessionState) -> DataFusionResult<SessionState> {
    let catalogs = Arc::new(MemoryCatalogProviderList::new());
    let context = SessionContext::new_with_state(
        SessionStateBuilder::new_from_existing(base.clone())
            .with_catalog_list(catalogs)
            .build(),
    );
    let catalog: Arc<dyn CatalogProvider> = Arc::new(MemoryCatalogProvider::new());
    context.register_catalog(CATALOG, catalog);
    setup_pg_catalog(&context, CATALOG, EmptyContextProvider).map_err(|source| *source)?;
    for function in constants() {
        context.register_udf(ScalarUDF::new_from_impl(function));
    }
    context.register_udf(ScalarUDF::new_from_impl(CurrentSetting::new()));
    Ok(context.state())
}

/// Functions that answer the same whatever they are asked.
fn constants() -> Vec<Constant> {
    let text = |text: &str| ScalarValue::Utf8(Some(text.to_owned()));
    let no_text = ScalarValue::Utf8(None);
    // Sizes are not known here; the library says 0.
    let no_number = ScalarValue::Int64(None);
    let version = format!("PostgreSQL {SERVER_VERSION} (Whyslow, read only, SQL of DataFusion)");
    [
        ("col_description", no_text.clone()),
        ("current_catalog", text(CATALOG)),
        ("current_database", text(CATALOG)),
        ("current_role", text(ROLE)),
        ("current_schema", text(SCHEMA)),
        ("current_user", text(ROLE)),
        ("obj_description", no_text.clone()),
        ("pg_function_is_visible", ScalarValue::Boolean(Some(true))),
        ("pg_get_function_identity_arguments", no_text.clone()),
        ("pg_get_function_result", no_text.clone()),
        ("pg_get_indexdef", no_text.clone()),
        ("pg_get_ruledef", no_text.clone()),
        ("pg_get_userbyid", text(ROLE)),
        ("pg_get_viewdef", no_text.clone()),
        ("pg_is_in_recovery", ScalarValue::Boolean(Some(false))),
        ("pg_my_temp_schema", ScalarValue::Int32(Some(0))),
        ("pg_relation_size", no_number.clone()),
        ("pg_size_pretty", no_text.clone()),
        ("pg_table_size", no_number.clone()),
        ("pg_total_relation_size", no_number),
        ("pg_type_is_visible", ScalarValue::Boolean(Some(true))),
        ("session_user", text(ROLE)),
        ("shobj_description", no_text),
        ("version", text(&version)),
    ]
    .map(|(name, value)| Constant {
        name,
        value,
        signature: Signature::one_of(
            vec![
                datafusion::logical_expr::TypeSignature::Nullary,
                datafusion::logical_expr::TypeSignature::VariadicAny,
            ],
            Volatility::Immutable,
        ),
    })
    .to_vec()
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Constant {
    name: &'static str,
    value: ScalarValue,
    signature: Signature,
}

impl ScalarUDFImpl for Constant {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> DataFusionResult<DataType> {
        Ok(self.value.data_type())
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        Ok(ColumnarValue::Scalar(self.value.clone()))
    }
}

/// The tables of the library without those that are left out.
#[derive(Debug)]
struct Tables {
    inner: PgCatalogSchemaProvider<Stored, EmptyContextProvider>,
}

#[async_trait]
impl SchemaProvider for Tables {
    fn table_names(&self) -> Vec<String> {
        let mut names = self.inner.table_names();
        names.retain(|name| !LEFT_OUT.contains(&name.as_str()));
        names
    }

    async fn table(&self, name: &str) -> DataFusionResult<Option<Arc<dyn TableProvider>>> {
        if !self.table_exist(name) {
            return Ok(None);
        }
        let table = self.inner.table(name).await?;
        match table {
            Some(table) if name.eq_ignore_ascii_case("pg_settings") => {
                settings::table(&table.schema()).map(Some)
            }
            table => Ok(table),
        }
    }

    fn table_exist(&self, name: &str) -> bool {
        let is_left_out = LEFT_OUT.contains(&name.to_ascii_lowercase().as_str());
        !is_left_out && self.inner.table_exist(name)
    }
}

/// The names and types that the catalog is about: what can be asked here, taken once.
#[derive(Debug, Clone)]
struct Stored {
    tables: Arc<BTreeMap<String, (SchemaRef, TableType)>>,
}

impl Stored {
    async fn read(names: &Arc<StatementSchema>) -> DataFusionResult<Self> {
        let mut tables = BTreeMap::new();
        for name in names.names() {
            let table = names.table(&name).await?;
            let table_type = names.table_type(&name).await?;
            if let (Some(table), Some(table_type)) = (table, table_type) {
                tables.insert(name, (table.schema(), table_type));
            }
        }
        Ok(Self {
            tables: Arc::new(tables),
        })
    }

    fn find(&self, schema: &str, table: &str) -> Option<&(SchemaRef, TableType)> {
        (schema == SCHEMA).then(|| self.tables.get(table))?
    }
}

#[async_trait]
impl CatalogInfo for Stored {
    async fn catalog_names(&self) -> DataFusionResult<Vec<String>> {
        Ok(vec![CATALOG.to_owned()])
    }

    async fn schema_names(&self, _catalog: &str) -> DataFusionResult<Option<Vec<String>>> {
        let names = [SCHEMA, POSTGRES_SCHEMA, "information_schema"];
        Ok(Some(names.map(str::to_owned).to_vec()))
    }

    async fn table_names(
        &self,
        _catalog: &str,
        schema: &str,
    ) -> DataFusionResult<Option<Vec<String>>> {
        let is_stored = schema == SCHEMA;
        let names = self.tables.keys().filter(|_| is_stored).cloned();
        Ok(Some(names.collect()))
    }

    async fn table_schema(
        &self,
        _catalog: &str,
        schema: &str,
        table: &str,
    ) -> DataFusionResult<Option<SchemaRef>> {
        Ok(self
            .find(schema, table)
            .map(|(schema, _)| Arc::clone(schema)))
    }

    async fn table_type(
        &self,
        _catalog: &str,
        schema: &str,
        table: &str,
    ) -> DataFusionResult<Option<TableType>> {
        Ok(self.find(schema, table).map(|(_, table_type)| *table_type))
    }
}

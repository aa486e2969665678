//! DataFusion state of one statement.
//!
//! Everything that does not depend on the statement (functions, optimizer rules, the object store,
//! the cache of Parquet footers) is made once. A statement gets its own catalog, memory pool and
//! spill folder on top.

use std::num::NonZeroUsize;
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result as DataFusionResult};
use datafusion::execution::cache::cache_manager::CacheManagerConfig;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{FairSpillPool, TrackConsumersPool};
use datafusion::execution::object_store::{ObjectStoreRegistry, ObjectStoreUrl};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::execution::{SessionStateDefaults, TaskContext};
use datafusion::logical_expr::{AggregateUDF, ScalarUDF};
use datafusion::optimizer::optimizer::{Optimizer, OptimizerRule};
use datafusion::prelude::SessionConfig;
use object_store::ObjectStore;
use url::Url;

use crate::catalog::{self, StatementCatalogs};
use crate::config::Config;
use crate::cross_join::SoundCrossJoin;
use crate::functions;
use crate::profile::Profile;
use crate::time_bounds::TimeBounds;

/// The address under which plans find the lake. Any other address is unknown to the session.
const STORE_ADDRESS: &str = "lake://tables";

/// Consumers that an out-of-memory error names.
const CONSUMERS_NAMED: NonZeroUsize = NonZeroUsize::MIN.saturating_add(2);

/// Values of an `IN` list that prune row groups and pages; DataFusion's 20 is less than a page of
/// trace ids.
const PRUNING_LIST_MAX: usize = 500;

/// Functions whose result is as long as a number in the statement says. It is made in one piece that
/// no memory pool counts, and a piece that the machine does not have ends the process and the intake
/// with it. The table functions of the same name stream and stay.
const UNBOUNDED_FUNCTIONS: [&str; 7] = [
    "array_repeat",
    "array_resize",
    "generate_series",
    "lpad",
    "range",
    "repeat",
    "rpad",
];

/// What all statements share.
#[derive(Debug)]
pub(crate) struct Sessions {
    base: SessionState,
    config: Config,
}

impl Sessions {
    pub(crate) fn new(
        store: Arc<dyn ObjectStore>,
        config: &Config,
    ) -> Result<Self, DataFusionError> {
        let runtime = RuntimeEnvBuilder::new()
            .with_object_store_registry(Arc::new(LakeOnly { store }))
            .with_disk_manager_builder(
                DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled),
            )
            .with_cache_manager(
                CacheManagerConfig::default()
                    .with_metadata_cache_limit(config.metadata_cache_bytes())
                    .with_file_statistics_cache_limit(0)
                    .with_list_files_cache_limit(0),
            )
            .build_arc()?;
        let base = SessionStateBuilder::new()
            .with_config(settings(config))
            .with_runtime_env(runtime)
            .with_expr_planners(SessionStateDefaults::default_expr_planners())
            .with_scalar_functions(scalar_functions())
            .with_higher_order_functions(SessionStateDefaults::default_higher_order_functions())
            .with_aggregate_functions(aggregate_functions())
            .with_window_functions(SessionStateDefaults::default_window_functions())
            .with_table_function_list(SessionStateDefaults::default_table_functions())
            .with_optimizer_rules(optimizer_rules())
            .build();
        Ok(Self {
            base,
            config: config.clone(),
        })
    }

    /// What every statement starts from.
    pub(crate) fn base(&self) -> &SessionState {
        &self.base
    }

    /// The state `base` with the names of `catalogs`. Plans are made in it; they run in a [`context`](Self::context).
    pub(crate) fn open(base: &SessionState, catalogs: Arc<StatementCatalogs>) -> SessionState {
        let mut state = base.clone();
        state.register_catalog_list(catalogs);
        state
    }

    /// Where the plan of a statement runs: with memory and spill files of its own.
    pub(crate) fn context(&self, state: &SessionState) -> DataFusionResult<Arc<TaskContext>> {
        let memory = FairSpillPool::new(self.config.memory_bytes());
        let runtime = RuntimeEnvBuilder::from_runtime_env(self.base.runtime_env())
            .with_memory_pool(Arc::new(TrackConsumersPool::new(memory, CONSUMERS_NAMED)))
            .with_disk_manager_builder(self.spill())
            .build_arc()?;
        Ok(Arc::new(TaskContext::from(state).with_runtime(runtime)))
    }

    fn spill(&self) -> DiskManagerBuilder {
        let mode = match (&self.config.spill_directory, self.config.spill_mib) {
            (_, 0) => DiskManagerMode::Disabled,
            (Some(directory), _) => DiskManagerMode::Directories(vec![directory.clone()]),
            (None, _) => DiskManagerMode::OsTmpDirectory,
        };
        DiskManagerBuilder::default()
            .with_mode(mode)
            .with_max_temp_directory_size(self.config.spill_bytes())
            .with_max_spill_merge_fan_in(self.config.spill_merge_fan_in())
    }
}

/// Turns a state to the profile of its statement; must be called before physical planning.
pub(crate) fn set_profile(state: &mut SessionState, profile: Profile) {
    let push_down = match profile {
        Profile::Needle | Profile::Top | Profile::List => true,
        Profile::Scan => false,
    };
    state.config_mut().set_extension(Arc::new(profile));
    let options = state.config_mut().options_mut();
    options.execution.parquet.pushdown_filters = push_down;
    options.execution.parquet.reorder_filters = push_down;
    options.optimizer.repartition_file_scans = profile != Profile::Needle;
    // The few rows of a needle are sorted in no time; to arrange its files for that takes longer.
    options.optimizer.enable_sort_pushdown = profile != Profile::Needle;
}

/// DataFusion's rules, one of them kept from answering wrongly, and ours after them.
fn optimizer_rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let sound: Arc<dyn OptimizerRule + Send + Sync> = Arc::new(SoundCrossJoin::default());
    let mut rules = Optimizer::new().rules;
    for rule in &mut rules {
        if rule.name() == sound.name() {
            *rule = Arc::clone(&sound);
        }
    }
    rules.push(Arc::new(TimeBounds));
    rules
}

fn scalar_functions() -> Vec<Arc<ScalarUDF>> {
    let mut functions = SessionStateDefaults::default_scalar_functions();
    functions.retain(|function| !UNBOUNDED_FUNCTIONS.contains(&function.name()));
    functions.extend(functions::scalars());
    functions
}

fn aggregate_functions() -> Vec<Arc<AggregateUDF>> {
    let mut functions = SessionStateDefaults::default_aggregate_functions();
    functions.extend(functions::aggregates());
    functions
}

/// The address of the lake's object store in plans.
pub(crate) fn store_url() -> DataFusionResult<ObjectStoreUrl> {
    ObjectStoreUrl::parse(STORE_ADDRESS)
}

fn settings(config: &Config) -> SessionConfig {
    let mut settings = SessionConfig::new()
        .with_default_catalog_and_schema(catalog::CATALOG, catalog::SCHEMA)
        .with_create_default_catalog_and_schema(false)
        .with_information_schema(true)
        .with_target_partitions(config.threads());
    let options = settings.options_mut();
    // Plain strings: JDBC, ADBC and browser clients do not all read view types.
    options.execution.parquet.schema_force_view_types = false;
    options.sql_parser.map_string_types_to_utf8view = false;
    // A view has the order that it says, for a statement that asks for no other.
    options.sql_parser.enable_subquery_sort_elimination = false;
    options.optimizer.expand_views_at_output = true;
    options.execution.parquet.max_in_list_size = PRUNING_LIST_MAX;
    // Stored times are UTC; literals without a zone are too.
    options.execution.time_zone = Some("+00:00".to_owned());
    settings
}

/// Knows one store under one address, and learns no other.
#[derive(Debug)]
struct LakeOnly {
    store: Arc<dyn ObjectStore>,
}

impl ObjectStoreRegistry for LakeOnly {
    fn register_store(
        &self,
        _url: &Url,
        _store: Arc<dyn ObjectStore>,
    ) -> Option<Arc<dyn ObjectStore>> {
        None
    }

    fn get_store(&self, url: &Url) -> DataFusionResult<Arc<dyn ObjectStore>> {
        if url.as_str().trim_end_matches('/') == STORE_ADDRESS {
            return Ok(Arc::clone(&self.store));
        }
        Err(DataFusionError::Plan(
            "only the tables of the lake can be read".to_owned(),
        ))
    }
}

//! A statement's way from text to rows.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::catalog::SchemaProvider;
use datafusion::common::ParamValues;
use datafusion::common::metadata::ScalarAndMetadata;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{LogicalPlan, TableType};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::SQLOptions;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use lake::Lake;
use tokio::runtime::Handle;
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::answer::{Answer, Produced};
use crate::asker::{Askers, Turn};
use crate::catalog::StatementSchema;
use crate::config::Config;
use crate::error::{Error, Limits, Phase, Result};
use crate::executor::Executor;
use crate::metrics::{Metrics, Outcome, Tally};
use crate::naming::{add_all_views, add_views};
use crate::pg_catalog::PostgresCatalog;
use crate::profile;
use crate::question::{Described, Dialect, PARAMETERS_MAX, Question};
use crate::session::{self, Sessions};
use crate::statement;
use crate::stop::{StopOnDrop, stoppable};

/// Batches between the executing thread and the reader. One is enough to keep both busy; more would
/// be memory that no limit counts.
const BATCHES_AHEAD: usize = 1;

/// Answers SQL over a lake.
#[derive(Debug)]
pub struct Engine {
    shared: Arc<Shared>,
    executor: Executor,
    places: Arc<Semaphore>,
    held: Arc<Semaphore>,
    queue: Arc<Semaphore>,
    askers: Arc<Askers>,
    metrics: Arc<Metrics>,
    config: Config,
}

/// What a statement's thread needs.
#[derive(Debug)]
struct Shared {
    lake: Arc<Lake>,
    sessions: Sessions,
    postgres: OnceCell<PostgresCatalog>,
    statement_bytes_max: usize,
    limits: Limits,
}

/// A table or view.
#[derive(Debug, Clone)]
pub(crate) struct Listed {
    pub(crate) name: String,
    pub(crate) is_view: bool,
    pub(crate) schema: SchemaRef,
}

/// A planned statement whose rows are being made.
pub(crate) struct Started {
    pub(crate) schema: SchemaRef,
    pub(crate) produced: mpsc::Receiver<Produced>,
    pub(crate) stop: StopOnDrop,
}

impl Engine {
    /// An engine over the tables of `lake`. Starts its threads.
    ///
    /// # Errors
    ///
    /// [`Error::Threads`] if the system gives no threads, [`Error::Internal`] if DataFusion refuses
    /// the settings. `config` must have passed [`Config::validate`].
    pub fn new(lake: Arc<Lake>, config: &Config) -> Result<Self> {
        let limits = Limits {
            memory_mib: config.memory_mib,
            spill_mib: config.spill_mib,
        };
        let sessions =
            Sessions::new(lake.object_store(), config).map_err(|source| Error::Internal {
                source: Box::new(source),
            })?;
        let statements_max = config.statements_max.get();
        let queue_max = statements_max.saturating_add(config.statements_waiting_max);
        Ok(Self {
            shared: Arc::new(Shared {
                lake,
                sessions,
                postgres: OnceCell::new(),
                statement_bytes_max: config.statement_bytes(),
                limits,
            }),
            executor: Executor::new(config.threads())?,
            places: Arc::new(Semaphore::new(statements_max)),
            held: Arc::new(Semaphore::new(statements_max)),
            queue: Arc::new(Semaphore::new(queue_max.min(Semaphore::MAX_PERMITS))),
            metrics: Arc::default(),
            askers: Arc::new(Askers::new(config.statements_per_user_max)),
            config: config.clone(),
        })
    }

    /// Counts of the statements so far.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The limits in force.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Answers one statement with at most [`Config::rows_max`] rows.
    ///
    /// # Errors
    ///
    /// As [`Engine::answer`]; an error while streaming arrives as an external error that holds an
    /// [`Error`].
    pub async fn sql(&self, sql: &str) -> Result<SendableRecordBatchStream> {
        Ok(self.answer(sql, None).await?.into_stream())
    }

    /// Answers one statement with at most `rows` rows, and never more than [`Config::rows_max`].
    /// Must be called on a tokio runtime with its timer enabled.
    ///
    /// # Errors
    ///
    /// Everything that is known before the first row: [`Error::is_users_fault`] for statements that
    /// are refused or cannot be planned, [`Error::is_limit`] for limits.
    pub async fn answer(&self, sql: &str, rows: Option<u64>) -> Result<Answer> {
        let question = Question {
            rows,
            ..Question::new(sql)
        };
        self.ask(question).await
    }

    /// Answers a question, under the same rules as [`Engine::answer`].
    ///
    /// # Errors
    ///
    /// As [`Engine::answer`].
    pub(crate) async fn ask(&self, question: Question) -> Result<Answer> {
        let mut tally = Tally::new(Arc::clone(&self.metrics), question.entrance);
        let begun = self.begin(question).await;
        match begun {
            Ok((started, deadline, rows_max)) => {
                let timeout = self.config.timeout;
                Ok(Answer::new(started, deadline, timeout, rows_max, tally))
            }
            Err(error) => {
                tally.count(Outcome::of(&error));
                Err(error)
            }
        }
    }

    async fn begin(&self, question: Question) -> Result<(Started, Pin<Box<Sleep>>, u64)> {
        let mut deadline = Box::pin(tokio::time::sleep(self.config.timeout));
        let held = self.place(&question, &mut deadline).await?;
        let rows_max = question.rows.unwrap_or(u64::MAX).min(self.config.rows_max);

        let until = deadline.deadline();
        let started = start(Arc::clone(&self.shared), question, held, until);
        let started = self.planned(&mut deadline, started.boxed()).await?;
        Ok((started, deadline, rows_max))
    }

    /// A place for rows that are held outside of a statement, such as a whole trace on its way to a client: there are as
    /// many as for statements, so that memory stays bounded by `statements_max * memory_mib` for each of the two.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`] if none is free in time.
    pub(crate) async fn hold(&self) -> Result<OwnedSemaphorePermit> {
        let mut deadline = Box::pin(tokio::time::sleep(self.config.timeout));
        let held = Arc::clone(&self.held).acquire_owned();
        let held = self.within(&mut deadline, Phase::Waiting, held).await?;
        held.map_err(|_closed| Error::Ended {
            phase: Phase::Waiting,
        })
    }

    /// What an answer would look like, and what a statement leaves open. Takes a place like a statement.
    ///
    /// # Errors
    ///
    /// As [`Engine::answer`].
    pub(crate) async fn describe(&self, question: Question) -> Result<Described> {
        let mut deadline = Box::pin(tokio::time::sleep(self.config.timeout));
        let held = self.place(&question, &mut deadline).await?;
        let shared = Arc::clone(&self.shared);
        let described = async move {
            let described = shared.describe(&question).await;
            drop(held);
            described
        };
        self.planned(&mut deadline, described.boxed()).await
    }

    /// Every table and view, with its columns. Takes no place: it reads no rows.
    ///
    /// # Errors
    ///
    /// A view that cannot be planned, or no time.
    pub(crate) async fn tables(&self) -> Result<Vec<Listed>> {
        let mut deadline = Box::pin(tokio::time::sleep(self.config.timeout));
        let shared = Arc::clone(&self.shared);
        let listed = async move { shared.tables().await };
        self.planned(&mut deadline, listed.boxed()).await
    }

    /// Waits for a place.
    async fn place(&self, question: &Question, deadline: &mut Pin<Box<Sleep>>) -> Result<Held> {
        let Ok(queued) = Arc::clone(&self.queue).try_acquire_owned() else {
            return Err(Error::Busy {
                statements_max: self.config.statements_max.get(),
            });
        };
        let turn = match &question.asker {
            Some(asker) => Some(self.askers.enter(asker)?),
            None => None,
        };
        let place = Arc::clone(&self.places).acquire_owned();
        let place = self.within(deadline, Phase::Waiting, place).await?;
        let place = place.map_err(|_closed| Error::Ended {
            phase: Phase::Waiting,
        })?;
        Ok(Held {
            _place: place,
            _queued: queued,
            _turn: turn,
        })
    }

    /// Runs planning on the executor, within the time of the statement. Boxed: what plans is large, and would make
    /// every future that waits for it as large.
    async fn planned<T: Send + 'static>(
        &self,
        deadline: &mut Pin<Box<Sleep>>,
        work: BoxFuture<'static, Result<T>>,
    ) -> Result<T> {
        let done = self.executor.run_blocking(work);
        let done = self.within(deadline, Phase::Planning, done).await?;
        done.ok_or(Error::Ended {
            phase: Phase::Planning,
        })?
    }

    async fn within<T>(
        &self,
        deadline: &mut Pin<Box<Sleep>>,
        phase: Phase,
        work: impl Future<Output = T>,
    ) -> Result<T> {
        tokio::select! {
            done = work => Ok(done),
            () = deadline => Err(Error::TimedOut { limit: self.config.timeout, phase }),
        }
    }
}

/// Places that a statement holds until its plan is freed, even if nobody waits for it any more.
struct Held {
    _place: OwnedSemaphorePermit,
    _queued: OwnedSemaphorePermit,
    _turn: Option<Turn>,
}

/// Plans, and begins to produce rows. Runs on the executor, so that deep trees are made, run and
/// freed on its stacks. What it takes is given back at its time limit also if its reader neither reads nor goes away.
async fn start(
    shared: Arc<Shared>,
    question: Question,
    held: Held,
    until: Instant,
) -> Result<Started> {
    let (plan, state) = shared.plan(&question).await?;
    let schema = plan.schema();
    let stop = StopOnDrop::default();
    let plan = stoppable(plan, &stop.flag())
        .map_err(|source| Error::from_datafusion(source, shared.limits))?;
    let (sender, produced) = mpsc::channel(BATCHES_AHEAD);
    let executor = Handle::current();
    let at_the_end = stop.flag();
    let timer = executor.spawn(async move {
        sleep_until(until).await;
        at_the_end.set();
    });
    let _detached = executor.spawn(async move {
        tokio::select! {
            () = produce(&shared, plan, &state, &sender) => {}
            () = sleep_until(until) => {}
        }
        timer.abort();
        drop(state);
        drop(held);
    });
    Ok(Started {
        schema,
        produced,
        stop,
    })
}

/// Sends batches until the end, an error, or until the reader is gone.
async fn produce(
    shared: &Shared,
    plan: Arc<dyn ExecutionPlan>,
    state: &SessionState,
    sender: &mpsc::Sender<Produced>,
) {
    let failed = |source| Produced::Failed(Error::from_datafusion(source, shared.limits));
    let mut batches = match execute_stream(plan, state.task_ctx()) {
        Ok(batches) => batches,
        Err(source) => {
            // The reader may be gone; then nobody needs the error.
            sender.send(failed(source)).await.ok();
            return;
        }
    };
    loop {
        let next = tokio::select! {
            () = sender.closed() => return,
            next = batches.next() => next,
        };
        let (produced, is_last) = match next {
            Some(Ok(batch)) if batch.num_rows() == 0 => continue,
            Some(Ok(batch)) => (Produced::Batch(batch), false),
            Some(Err(source)) => (failed(source), true),
            None => (Produced::End, true),
        };
        if sender.send(produced).await.is_err() || is_last {
            return;
        }
    }
}

impl Shared {
    async fn plan(&self, question: &Question) -> Result<(Arc<dyn ExecutionPlan>, SessionState)> {
        let fault = |source| Error::from_datafusion(source, self.limits);
        let (logical, mut state) = self.logical(question).await?;
        let logical = match &question.parameters {
            parameters if parameters.is_empty() => logical,
            parameters => {
                let values = parameters.clone().into_iter().map(ScalarAndMetadata::from);
                let values = ParamValues::List(values.collect());
                logical.with_param_values(values).map_err(fault)?
            }
        };
        session::set_profile(&mut state, profile::of(&logical).map_err(fault)?);
        let plan = state.create_physical_plan(&logical).await.map_err(fault)?;
        Ok((plan, state))
    }

    async fn describe(&self, question: &Question) -> Result<Described> {
        let (logical, _state) = self.logical(question).await?;
        let open = logical
            .get_parameter_types()
            .map_err(|source| Error::from_datafusion(source, self.limits))?;
        Ok(Described {
            schema: Arc::clone(logical.schema().inner()),
            parameters: numbered(open),
        })
    }

    /// The plan of a statement that is known to be a query, in a session of its own.
    async fn logical(&self, question: &Question) -> Result<(LogicalPlan, SessionState)> {
        let (sql, bytes_max) = (question.sql.as_str(), self.statement_bytes_max);
        let fault = |source| Error::from_datafusion(source, self.limits);
        let names = StatementSchema::new(&self.lake);
        let (parsed, is_postgres) = match question.dialect {
            Dialect::Own => (statement::parse(sql, bytes_max)?, false),
            Dialect::Postgres => statement::parse_postgres(sql, bytes_max)?,
        };
        let mut state = if is_postgres {
            let postgres = self.postgres(&names).await?;
            let catalogs = names.catalogs_with(postgres.tables());
            let opened = self.sessions.open(postgres.base(), catalogs);
            opened.map_err(fault)?
        } else {
            let catalogs = names.catalogs();
            let opened = self.sessions.open(self.sessions.base(), catalogs);
            opened.map_err(fault)?
        };
        // `now()` is this instant in every part of the statement; without it DataFusion cannot plan it.
        state.mark_start_execution();
        add_views(&state, &names, &parsed).await?;

        let logical = state.statement_to_plan(parsed).await.map_err(fault)?;
        read_only().verify_plan(&logical).map_err(fault)?;
        Ok((logical, state))
    }

    async fn tables(&self) -> Result<Vec<Listed>> {
        let fault = |source| Error::from_datafusion(source, self.limits);
        let names = StatementSchema::new(&self.lake);
        let state = self.sessions.open(self.sessions.base(), names.catalogs());
        add_all_views(&state.map_err(fault)?, &names).await?;
        let mut listed = Vec::new();
        for name in names.names() {
            let table_type = names.table_type(&name).await.map_err(fault)?;
            if let Some(table) = names.table(&name).await.map_err(fault)? {
                listed.push(Listed {
                    is_view: table_type == Some(TableType::View),
                    schema: table.schema(),
                    name,
                });
            }
        }
        Ok(listed)
    }

    /// What statements about the Postgres catalog need beside the tables; made by the first of them.
    async fn postgres(&self, names: &Arc<StatementSchema>) -> Result<&PostgresCatalog> {
        let fault = |source| Error::from_datafusion(source, self.limits);
        let made = self.postgres.get_or_try_init(|| async {
            let state = self
                .sessions
                .open(self.sessions.base(), names.catalogs())
                .map_err(fault)?;
            add_all_views(&state, names).await?;
            PostgresCatalog::new(self.sessions.base(), names)
                .await
                .map_err(fault)
        });
        made.await
    }
}

/// Types by number: `$1` is the first. A statement that skips a number leaves its type open.
fn numbered(open: HashMap<String, Option<DataType>>) -> Vec<Option<DataType>> {
    let mut types: Vec<Option<DataType>> = Vec::new();
    for (name, data_type) in open {
        let number = name
            .strip_prefix('$')
            .and_then(|digits| digits.parse().ok());
        let Some(number @ 1..=PARAMETERS_MAX) = number else {
            continue;
        };
        if types.len() < number {
            types.resize(number, None);
        }
        if let Some(place) = types.get_mut(number - 1) {
            *place = data_type;
        }
    }
    types
}

fn read_only() -> SQLOptions {
    SQLOptions::new()
        .with_allow_ddl(false)
        .with_allow_dml(false)
        .with_allow_statements(false)
}

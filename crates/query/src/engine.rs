//! A statement's way from text to rows.

use std::pin::Pin;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use lake::Lake;
use tokio::runtime::Handle;
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::answer::Answer;
use crate::asker::{Askers, Turn};
use crate::config::Config;
use crate::error::{Error, Limits, Phase, Result};
use crate::executor::Executor;
use crate::metrics::{Metrics, Tally};
use crate::plans::Plans;
use crate::produced;
use crate::question::{Described, Question};
use crate::reference;
use crate::scan::InMemory;
use crate::session::Sessions;
use crate::statement_log::Line;
use crate::stop::{Flag, StopOnDrop, stoppable};

mod plan;

use plan::Shared;

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
    pub(crate) produced: produced::Receiver,
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
                kept: Arc::new(InMemory::new(&lake, config)),
                lake,
                sessions,
                plans: Plans::default(),
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

    /// Ends every statement with an error that its answer still says: a process that just went away would leave half an
    /// answer, which some clients take for a whole one. Later statements fail.
    pub fn stop(&self) {
        self.executor.stop();
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
    pub(crate) async fn ask(&self, mut question: Question) -> Result<Answer> {
        let mut tally = self.tally(&mut question);
        let begun = self.begin(question).await;
        match begun {
            Ok((started, deadline, rows_max)) => {
                let timeout = self.config.timeout;
                Ok(Answer::new(started, deadline, timeout, rows_max, tally))
            }
            Err(error) => {
                tally.failed(&error);
                Err(error)
            }
        }
    }

    fn tally(&self, question: &mut Question) -> Tally {
        let line = Line::begin(self.config.statement_log, question);
        Tally::new(Arc::clone(&self.metrics), question.entrance, line)
    }

    /// Counts a statement that a door has refused by itself.
    pub(crate) fn refused(&self, mut question: Question, error: &Error) {
        self.tally(&mut question).failed(error);
    }

    async fn begin(&self, question: Question) -> Result<(Started, Pin<Box<Sleep>>, u64)> {
        let mut deadline = Box::pin(tokio::time::sleep(self.config.timeout));
        let held = self.place(&question, &mut deadline).await?;
        let rows_max = question.rows.unwrap_or(u64::MAX).min(self.config.rows_max);

        let until = deadline.deadline();
        let stop = StopOnDrop::default();
        let started = start(Arc::clone(&self.shared), question, held, until, stop.flag());
        let (schema, produced) = self.planned(&mut deadline, started.boxed()).await?;
        let started = Started {
            schema,
            produced,
            stop,
        };
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

    /// What an answer would look like, and what a statement leaves open. Takes a place like a statement, and is counted as one
    /// if it fails: then none follows.
    ///
    /// # Errors
    ///
    /// As [`Engine::answer`].
    pub(crate) async fn describe(&self, mut question: Question) -> Result<Described> {
        let mut tally = self.tally(&mut question);
        let described = self.described(question).await;
        match &described {
            Ok(_) => tally.forget(),
            Err(error) => tally.failed(error),
        }
        described
    }

    async fn described(&self, question: Question) -> Result<Described> {
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

    /// Everything that can be asked, as Markdown: what `storage/README.md` says.
    ///
    /// # Errors
    ///
    /// A view that cannot be planned, or no time.
    pub async fn reference(&self) -> Result<String> {
        Ok(reference::page(&self.tables().await?))
    }

    /// The same with the functions, for programs: what `GET /v1/tables` says.
    ///
    /// # Errors
    ///
    /// As [`Engine::reference`].
    pub(crate) async fn names(&self) -> Result<reference::Reference> {
        let functions = reference::other_functions(self.shared.sessions.base());
        Ok(reference::tables(&self.tables().await?, functions))
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
            // What is there at once needs no timer.
            biased;
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
///
/// The first step is taken here: rows that memory has are there without another thread.
async fn start(
    shared: Arc<Shared>,
    question: Question,
    held: Held,
    until: Instant,
    stop: Flag,
) -> Result<(SchemaRef, produced::Receiver)> {
    let (plan, context) = shared.plan(&question).await?;
    let schema = plan.schema();
    let plan =
        stoppable(plan, &stop).map_err(|source| Error::from_datafusion(source, shared.limits))?;
    let (sender, produced) = produced::channel();
    let mut producing = Box::pin(async move {
        produce(&shared, plan, context, sender).await;
        drop(held);
    });
    if futures::poll!(&mut producing).is_pending() {
        let executor = Handle::current();
        // Also where it computes for long without an await, and its reader has no time for it.
        let timer = executor.spawn(async move {
            sleep_until(until).await;
            stop.set();
        });
        let _detached = executor.spawn(async move {
            tokio::select! {
                biased;
                () = producing => {}
                () = sleep_until(until) => {}
            }
            timer.abort();
        });
    }
    Ok((schema, produced))
}

/// Sends batches until the end, an error, or until the reader is gone.
async fn produce(
    shared: &Shared,
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    sender: produced::Sender,
) {
    let failed = |source| Error::from_datafusion(source, shared.limits);
    let mut batches = match execute_stream(plan, context) {
        Ok(batches) => batches,
        // The reader may be gone; then nobody needs the error.
        Err(source) => return sender.fail(failed(source)).await,
    };
    loop {
        let next = tokio::select! {
            () = sender.closed() => return,
            next = batches.next() => next,
        };
        match next {
            Some(Ok(batch)) if batch.num_rows() == 0 => {}
            Some(Ok(batch)) => {
                if !sender.send(batch).await {
                    return;
                }
            }
            Some(Err(source)) => return sender.fail(failed(source)).await,
            None => return sender.end(),
        }
    }
}

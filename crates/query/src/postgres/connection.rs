//! What a connection does with the messages of a known client.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::ScalarValue;
use pgwire::messages::extendedquery::CloseComplete;
use pgwire::messages::response::{
    CommandComplete, EmptyQueryResponse, ReadyForQuery, TransactionStatus,
};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::cancel::Key;
use super::extended::{Portal, Prepared, State};
use super::noise::{self, Noise, Said};
use super::portal::{Running, Step};
use super::problem::{Problem, Severity};
use super::rows::RowWriter;
use super::startup::Admitted;
use super::wire::{Broken, MESSAGE_TIME, Message, Target};
use super::{Shared, Wire};
use crate::asker::Asker;
use crate::error::Error;
use crate::metrics::Entrance;
use crate::question::{Dialect, Question};

/// Time after which a connection that asks nothing is closed: its peer may be gone without a word.
const IDLE_MAX: Duration = Duration::from_secs(3600);

/// Bytes that are sent before more rows are written.
const OUTPUT_BYTES: usize = 64 * 1024;

/// A client that may ask, and what it has prepared.
pub(crate) struct Connection {
    pub(super) wire: Wire,
    pub(super) shared: Arc<Shared>,
    asker: Asker,
    key: Key,
    application_name: String,
    pub(super) statements: HashMap<String, Arc<Prepared>>,
    pub(super) portals: HashMap<String, Portal>,
    transaction: TransactionStatus,
    /// After an error in the extended protocol nothing counts until the client says where it begins anew.
    is_skipping: bool,
}

/// Ends when the process does.
pub(crate) async fn stop(stopped: &mut watch::Receiver<bool>) {
    // No sender is as good as one that has said so.
    stopped.wait_for(|is_stopped| *is_stopped).await.ok();
}

/// Why a message was not answered.
pub(super) enum Fault {
    /// The statement ends.
    Statement(Problem),
    /// The connection ends.
    Connection(Problem),
    /// It has ended.
    Gone,
}

impl From<Problem> for Fault {
    fn from(problem: Problem) -> Self {
        Self::Statement(problem)
    }
}

impl From<Broken> for Fault {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Malformed(problem) => Self::Connection(problem),
            Broken::Slow => Self::Connection(Problem::new(
                "57014",
                "what was sent was not taken within the time limit",
            )),
            Broken::Gone => Self::Gone,
        }
    }
}

fn unwritten(error: impl std::fmt::Display) -> Problem {
    Problem::new("XX000", error.to_string())
}

impl Connection {
    pub(crate) fn new(admitted: Admitted, shared: Arc<Shared>) -> Self {
        Self {
            wire: admitted.wire,
            asker: admitted.asker,
            key: admitted.key,
            application_name: admitted.application_name,
            shared,
            statements: HashMap::new(),
            portals: HashMap::new(),
            transaction: TransactionStatus::Idle,
            is_skipping: false,
        }
    }

    /// Answers until the client goes, or until we stop.
    pub(crate) async fn run(mut self, mut stopped: watch::Receiver<bool>) {
        loop {
            let idle = Instant::now() + IDLE_MAX;
            let expiry = self.expiry();
            let message = tokio::select! {
                biased;
                message = self.wire.message(idle) => message,
                () = sleep_until(expiry.unwrap_or(idle)), if expiry.is_some() => {
                    self.expire();
                    continue;
                }
                () = stop(&mut stopped) => {
                    let problem = Problem::new("57P01", "the process is stopping");
                    return self.end(&problem).await;
                }
            };
            let answered = match message {
                Ok(Message::Terminate) => return,
                Ok(message) => self.answer(message).await,
                Err(broken) => Err(Fault::from(broken)),
            };
            // Whoever asks and asks, and never reads, must not make us keep the answers.
            let answered = match answered {
                Ok(()) if self.wire.output.len() >= OUTPUT_BYTES => self.send().await,
                answered => answered,
            };
            match answered {
                Ok(()) => {}
                Err(Fault::Gone) => return,
                Err(Fault::Connection(problem)) => return self.end(&problem).await,
                Err(Fault::Statement(problem)) => {
                    problem.write(Severity::Error, &mut self.wire.output);
                    self.is_skipping = true;
                    self.fail_transaction();
                }
            }
        }
    }

    /// Says why, and closes.
    async fn end(mut self, problem: &Problem) {
        self.portals.clear();
        problem.write(Severity::Fatal, &mut self.wire.output);
        self.wire.close().await;
    }

    fn fail_transaction(&mut self) {
        self.transaction = self.transaction.to_error_state();
    }

    /// When the first of the answers under way has to end.
    fn expiry(&self) -> Option<Instant> {
        let deadlines = self
            .portals
            .values()
            .filter_map(|portal| match &portal.state {
                State::Running(running) => Some(running.deadline()),
                State::Bound | State::Complete | State::Expired => None,
            });
        deadlines.min()
    }

    /// Ends those whose time is over: each holds a place that others wait for.
    fn expire(&mut self) {
        let now = Instant::now();
        for portal in self.portals.values_mut() {
            if matches!(&portal.state, State::Running(running) if running.deadline() <= now) {
                portal.state = State::Expired;
            }
        }
    }

    async fn answer(&mut self, message: Message) -> Result<(), Fault> {
        if self.is_skipping && !matches!(message, Message::Sync | Message::Query(_)) {
            return Ok(());
        }
        match message {
            Message::Query(text) => self.query(&text).await,
            Message::Parse { name, sql, types } => self.parse(name, &sql, types),
            Message::Bind(bind) => self.bind(bind).await,
            Message::Describe(Target::Statement(name)) => self.describe_statement(&name).await,
            Message::Describe(Target::Portal(name)) => self.describe_portal(&name).await,
            Message::Execute { portal, rows_max } => self.execute(&portal, rows_max).await,
            Message::Close(target) => {
                match target {
                    Target::Statement(name) => drop(self.statements.remove(&name)),
                    Target::Portal(name) => drop(self.portals.remove(&name)),
                }
                self.put(&CloseComplete::new())
            }
            Message::Flush => self.send().await,
            Message::Sync => {
                self.is_skipping = false;
                self.ready().await
            }
            Message::FunctionCall => Err(Fault::Statement(Problem::new(
                "0A000",
                "functions are not called by number here",
            ))),
            Message::Password(_) => Err(Fault::Connection(Problem::protocol(
                "nobody asked for a password",
            ))),
            Message::Copy | Message::Terminate => Ok(()),
        }
    }

    pub(super) fn put<M: pgwire::messages::Message>(&mut self, message: &M) -> Result<(), Fault> {
        let written = message.encode(&mut self.wire.output);
        written.map_err(|error| Fault::Statement(unwritten(error)))
    }

    async fn send(&mut self) -> Result<(), Fault> {
        Ok(self.wire.send(Instant::now() + MESSAGE_TIME).await?)
    }

    /// The client may go on.
    async fn ready(&mut self) -> Result<(), Fault> {
        if self.transaction == TransactionStatus::Idle {
            self.portals.clear();
        }
        self.put(&ReadyForQuery::new(self.transaction))?;
        self.send().await
    }

    /// The simple protocol: a text, and its answers one after the other.
    async fn query(&mut self, text: &str) -> Result<(), Fault> {
        self.is_skipping = false;
        self.portals.remove("");
        if let Err(fault) = self.statements_of(text).await {
            let Fault::Statement(problem) = fault else {
                return Err(fault);
            };
            problem.write(Severity::Error, &mut self.wire.output);
            self.fail_transaction();
        }
        self.ready().await
    }

    async fn statements_of(&mut self, text: &str) -> Result<(), Fault> {
        let statements = self.read(text)?;
        let queries = statements
            .iter()
            .filter(|said| matches!(said, Said::Query { .. }));
        let n_statements = queries.count();
        if n_statements > 1 {
            return Err(Fault::Statement(self.several(text, n_statements)));
        }
        for said in statements {
            self.check_transaction(&said)?;
            match said {
                Said::Noise(noise) => self.noise(&noise, true, &[])?,
                Said::Query { sql, tag } => {
                    let question = self.question(sql, Vec::new());
                    let answer = self.ask(question).await?;
                    let writer = RowWriter::new(answer.schema(), &[])?;
                    let mut running = Running::new(answer, writer, tag);
                    running.describe(&mut self.wire.output)?;
                    self.stream(&mut running, &mut None).await?;
                }
            }
        }
        Ok(())
    }

    /// The statements of a text, none of which may change anything.
    pub(super) fn read(&self, text: &str) -> Result<Vec<Said>, Problem> {
        noise::read(text).inspect_err(|_| {
            // The door knows what; which of the words it was is in its answer.
            let keyword = String::new();
            self.refused(text, &Error::NotReadOnly { keyword });
        })
    }

    /// Refuses more than one statement for the engine in one text.
    pub(super) fn several(&self, text: &str, n_statements: usize) -> Problem {
        let error = Error::SeveralStatements { n_statements };
        self.refused(text, &error);
        Problem::from(&error)
    }

    fn refused(&self, text: &str, error: &Error) {
        let question = self.question(text.to_owned(), Vec::new());
        self.shared.engine.refused(question, error);
    }

    /// In a transaction that has failed, only its end is possible.
    pub(super) fn check_transaction(&self, said: &Said) -> Result<(), Problem> {
        let is_end = matches!(
            said,
            Said::Noise(Noise::Commit | Noise::Rollback | Noise::Empty)
        );
        if self.transaction == TransactionStatus::Error && !is_end {
            return Err(Problem::new(
                "25P02",
                "the transaction has failed, nothing else is answered in it",
            )
            .hint("end it with ROLLBACK"));
        }
        Ok(())
    }

    pub(super) fn question(&self, sql: String, parameters: Vec<ScalarValue>) -> Question {
        Question {
            parameters,
            dialect: Dialect::Postgres,
            asker: Some(self.asker),
            entrance: Entrance::Postgres,
            ..Question::new(sql)
        }
    }

    pub(super) async fn ask(&mut self, question: Question) -> Result<crate::Answer, Fault> {
        let engine = Arc::clone(&self.shared.engine);
        let answer = self.meanwhile(engine.ask(question)).await?;
        answer.map_err(|error| Fault::Statement(Problem::from(&error)))
    }

    /// Does something for the client as long as it is there and does not ask to stop.
    pub(super) async fn meanwhile<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Fault> {
        tokio::select! {
            biased;
            () = self.key.cancelled() => Err(Fault::Statement(cancelled())),
            done = work => Ok(done),
            () = self.wire.gone() => Err(Fault::Gone),
        }
    }

    /// Sends rows until there are no more, or as many as are wanted.
    pub(super) async fn stream(
        &mut self,
        running: &mut Running,
        left: &mut Option<u64>,
    ) -> Result<Step, Fault> {
        loop {
            if !self.meanwhile(running.fetch()).await?? {
                let tag = running.complete(&mut self.wire.output);
                self.put(&CommandComplete::new(tag))?;
                return Ok(Step::Complete);
            }
            let step = running.write(left, &mut self.wire.output)?;
            if self.wire.output.len() >= OUTPUT_BYTES {
                tokio::select! {
                    biased;
                    sent = self.wire.send(running.deadline()) => sent?,
                    () = self.key.cancelled() => return Err(Fault::Statement(cancelled())),
                }
            }
            if step == Step::Suspended {
                return Ok(step);
            }
        }
    }

    /// Answers what is not for the engine.
    pub(super) fn noise(
        &mut self,
        noise: &Noise,
        has_head: bool,
        formats: &[i16],
    ) -> Result<(), Fault> {
        let tag = match noise {
            Noise::Empty => return self.put(&EmptyQueryResponse::new()),
            Noise::Begin => {
                self.transaction = self.transaction.to_in_transaction_state();
                "BEGIN"
            }
            Noise::Commit | Noise::Rollback => {
                let is_failed = self.transaction == TransactionStatus::Error;
                self.transaction = TransactionStatus::Idle;
                match noise {
                    Noise::Commit if !is_failed => "COMMIT",
                    _ => "ROLLBACK",
                }
            }
            Noise::Done(tag) => tag,
            Noise::Deallocate(name) => {
                match name {
                    Some(name) => drop(self.statements.remove(name)),
                    None => self.statements.clear(),
                }
                "DEALLOCATE"
            }
            Noise::DiscardAll => {
                self.statements.clear();
                self.portals.clear();
                "DISCARD ALL"
            }
            Noise::ClosePortal(name) => {
                match name {
                    Some(name) => drop(self.portals.remove(name)),
                    None => self.portals.clear(),
                }
                "CLOSE CURSOR"
            }
            Noise::Show(name) => {
                self.show(name, has_head, formats)?;
                "SHOW"
            }
        };
        self.put(&CommandComplete::new(tag.to_owned()))
    }

    fn show(&mut self, name: &str, has_head: bool, formats: &[i16]) -> Result<(), Fault> {
        let timeout = self.shared.engine.config().timeout;
        let value = noise::show(name, &self.application_name, timeout)?;
        let writer = RowWriter::new(&shown_as(name), formats)?;
        if has_head {
            writer.describe(&mut self.wire.output)?;
        }
        let array: arrow::array::ArrayRef = Arc::new(arrow::array::StringArray::from(vec![value]));
        Ok(writer.write(&[array], 0..1, &mut self.wire.output)?)
    }
}

pub(super) fn shown_as(name: &str) -> Schema {
    Schema::new(vec![Field::new(name, DataType::Utf8, true)])
}

fn cancelled() -> Problem {
    Problem::new(
        "57014",
        "the statement was stopped because somebody asked for it",
    )
}

//! The extended protocol: statements that are prepared, and portals that are read in parts.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use pgwire::api::Type;
use pgwire::messages::data::{NoData, ParameterDescription};
use pgwire::messages::extendedquery::{BindComplete, ParseComplete, PortalSuspended};
use pgwire::messages::response::CommandComplete;
use tokio::sync::OnceCell;

use super::connection::{Connection, Fault, shown_as};
use super::noise::{Noise, Said};
use super::parameters;
use super::portal::{Running, Step};
use super::problem::Problem;
use super::rows::{self, RowWriter};
use super::wire::Bind;
use crate::error::{Error, Phase};
use crate::question::Described;

/// Prepared statements of one connection; drivers keep up to 256.
const STATEMENTS_MAX: usize = 512;

/// Bytes of their texts.
const STATEMENT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Portals of one connection. Each that is under way takes one of the places of all statements.
const PORTALS_MAX: usize = 16;

pub(super) struct Prepared {
    pub(super) said: Said,
    pub(super) n_bytes: usize,
    /// Types of parameters that the client named, 0 where it did not.
    pub(super) types: Vec<u32>,
    pub(super) described: OnceCell<Described>,
}

pub(super) struct Portal {
    pub(super) prepared: Arc<Prepared>,
    pub(super) parameters: Vec<ScalarValue>,
    pub(super) formats: Vec<i16>,
    pub(super) state: State,
}

pub(super) enum State {
    Bound,
    Running(Box<Running>),
    Complete,
    /// Its time was over before it was read to its end.
    Expired,
}

impl Connection {
    pub(super) fn parse(&mut self, name: String, sql: &str, types: Vec<u32>) -> Result<(), Fault> {
        let mut statements = self.read(sql)?;
        let said = match (statements.pop(), statements.len()) {
            (Some(said), 0) => said,
            (None, _) => Said::Noise(Noise::Empty),
            (Some(_), others) => {
                return Err(Fault::Statement(self.several(sql, others + 1)));
            }
        };
        if !name.is_empty() && self.statements.contains_key(&name) {
            let message = format!("there is a prepared statement `{name}` already");
            return Err(Fault::Statement(Problem::new("42P05", message)));
        }
        let n_bytes: usize = self.statements.values().map(|known| known.n_bytes).sum();
        if self.statements.len() >= STATEMENTS_MAX || n_bytes + sql.len() > STATEMENT_BYTES_MAX {
            let problem = Problem::new("54000", "too many prepared statements in this connection");
            return Err(Fault::Statement(
                problem.hint("forget some with DEALLOCATE"),
            ));
        }
        let prepared = Prepared {
            said,
            n_bytes: sql.len(),
            types,
            described: OnceCell::new(),
        };
        self.statements.insert(name, Arc::new(prepared));
        self.put(&ParseComplete::new())
    }

    fn prepared(&self, name: &str) -> Result<Arc<Prepared>, Problem> {
        let found = self.statements.get(name).map(Arc::clone);
        found.ok_or_else(|| {
            Problem::new("26000", format!("there is no prepared statement `{name}`"))
        })
    }

    /// The columns and parameters of a prepared query, planned once.
    async fn described(&mut self, prepared: &Prepared, sql: &str) -> Result<Described, Fault> {
        let engine = Arc::clone(&self.shared.engine);
        let question = self.question(sql.to_owned(), Vec::new());
        let described = prepared
            .described
            .get_or_try_init(|| engine.describe(question));
        let described = self.meanwhile(described).await?;
        let described = described.map_err(|error| Problem::from(&error))?;
        Ok(described.clone())
    }

    pub(super) async fn bind(&mut self, bind: Bind) -> Result<(), Fault> {
        let prepared = self.prepared(&bind.statement)?;
        let n_formats = bind.formats.len();
        if n_formats > 1 && n_formats != bind.values.len() {
            let message = format!("{n_formats} formats for {} parameters", bind.values.len());
            return Err(Fault::Statement(Problem::protocol(message)));
        }
        let parameters = match &prepared.said {
            Said::Query { sql, .. } if !bind.values.is_empty() => {
                let described = self.described(&prepared, sql).await?;
                values(&bind, &prepared.types, &described.parameters)?
            }
            Said::Query { .. } | Said::Noise(_) => Vec::new(),
        };
        if bind.portal.is_empty() {
            self.portals.remove("");
        } else if self.portals.contains_key(&bind.portal) {
            let message = format!("there is a portal `{}` already", bind.portal);
            return Err(Fault::Statement(Problem::new("42P03", message)));
        }
        if self.portals.len() >= PORTALS_MAX {
            let problem = Problem::new("54000", "too many portals in this connection");
            return Err(Fault::Statement(problem));
        }
        let portal = Portal {
            prepared,
            parameters,
            formats: bind.result_formats,
            state: State::Bound,
        };
        self.portals.insert(bind.portal, portal);
        self.put(&BindComplete::new())
    }

    pub(super) async fn describe_statement(&mut self, name: &str) -> Result<(), Fault> {
        let prepared = self.prepared(name)?;
        let Said::Query { sql, .. } = &prepared.said else {
            self.put(&ParameterDescription::new(Vec::new()))?;
            return self.describe_noise(&prepared.said, &[]);
        };
        let described = self.described(&prepared, sql).await?;
        let n_parameters = described.parameters.len().max(prepared.types.len());
        let types = (0..n_parameters).map(|idx| {
            let named = prepared.types.get(idx).copied().filter(|oid| *oid != 0);
            let wanted = described.parameters.get(idx).and_then(Option::as_ref);
            let told = wanted.map_or(Type::TEXT, rows::told);
            named.unwrap_or_else(|| told.oid())
        });
        self.put(&ParameterDescription::new(types.collect()))?;
        let writer = RowWriter::new(&described.schema, &[])?;
        Ok(writer.describe(&mut self.wire.output)?)
    }

    fn describe_noise(&mut self, said: &Said, formats: &[i16]) -> Result<(), Fault> {
        match said {
            Said::Noise(Noise::Show(name)) => {
                let writer = RowWriter::new(&shown_as(name), formats)?;
                Ok(writer.describe(&mut self.wire.output)?)
            }
            Said::Noise(_) | Said::Query { .. } => self.put(&NoData::new()),
        }
    }

    /// Takes a portal out; whoever takes it puts it back.
    fn take_portal(&mut self, name: &str) -> Result<Portal, Problem> {
        let taken = self.portals.remove(name);
        taken.ok_or_else(|| Problem::new("34000", format!("there is no portal `{name}`")))
    }

    /// Begins to answer a portal whose rows are wanted, or soon will be: it is planned once.
    async fn begin(
        &mut self,
        portal: &Portal,
        sql: &str,
        tag: &'static str,
    ) -> Result<Running, Fault> {
        let question = self.question(sql.to_owned(), portal.parameters.clone());
        let answer = self.ask(question).await?;
        let described = portal.prepared.described.get();
        let schema = described.map_or(answer.schema(), |described| &described.schema);
        let writer = RowWriter::new(schema, &portal.formats)?;
        Ok(Running::new(answer, writer, tag))
    }

    pub(super) async fn describe_portal(&mut self, name: &str) -> Result<(), Fault> {
        let mut portal = self.take_portal(name)?;
        let prepared = Arc::clone(&portal.prepared);
        self.check_transaction(&prepared.said)?;
        match &prepared.said {
            Said::Noise(_) => self.describe_noise(&prepared.said, &portal.formats)?,
            Said::Query { sql, tag } => match &portal.state {
                State::Bound => {
                    let running = self.begin(&portal, sql, tag).await?;
                    running.describe(&mut self.wire.output)?;
                    portal.state = State::Running(Box::new(running));
                }
                State::Running(running) => running.describe(&mut self.wire.output)?,
                State::Complete | State::Expired => self.put(&NoData::new())?,
            },
        }
        self.portals.insert(name.to_owned(), portal);
        Ok(())
    }

    pub(super) async fn execute(&mut self, name: &str, rows_max: u32) -> Result<(), Fault> {
        let mut portal = self.take_portal(name)?;
        let prepared = Arc::clone(&portal.prepared);
        self.check_transaction(&prepared.said)?;
        let (sql, tag) = match &prepared.said {
            Said::Noise(noise) => {
                let formats = portal.formats.clone();
                if matches!(portal.state, State::Complete) {
                    return Err(Fault::Statement(spent(name)));
                }
                portal.state = State::Complete;
                self.portals.insert(name.to_owned(), portal);
                return self.noise(noise, false, &formats);
            }
            Said::Query { sql, tag } => (sql, *tag),
        };
        let mut running = match std::mem::replace(&mut portal.state, State::Complete) {
            State::Bound => Box::new(self.begin(&portal, sql, tag).await?),
            State::Running(running) => running,
            State::Complete => {
                self.portals.insert(name.to_owned(), portal);
                return self.put(&CommandComplete::new("SELECT 0".to_owned()));
            }
            State::Expired => {
                let limit = self.shared.engine.config().timeout;
                let phase = Phase::Streaming;
                let error = Error::TimedOut { limit, phase };
                return Err(Fault::Statement(Problem::from(&error)));
            }
        };
        let mut left = (rows_max > 0).then(|| u64::from(rows_max));
        if self.stream(&mut running, &mut left).await? == Step::Suspended {
            portal.state = State::Running(running);
            self.put(&PortalSuspended::new())?;
        }
        self.portals.insert(name.to_owned(), portal);
        Ok(())
    }
}

fn spent(name: &str) -> Problem {
    Problem::new("55000", format!("the portal `{name}` has been executed"))
}

/// The values of a portal, by the types that the client named or the statement decides.
fn values(
    bind: &Bind,
    named: &[u32],
    wanted: &[Option<DataType>],
) -> Result<Vec<ScalarValue>, Problem> {
    if bind.values.len() < wanted.len() {
        let (n_given, n_wanted) = (bind.values.len(), wanted.len());
        let message = format!("{n_given} parameters are given, the statement has {n_wanted}");
        return Err(Problem::protocol(message));
    }
    let values = bind.values.iter().enumerate().map(|(idx, value)| {
        let only = bind.formats.first().filter(|_| bind.formats.len() == 1);
        let format = rows::format_of(bind.formats.get(idx).or(only).copied().unwrap_or(0))?;
        let oid = named.get(idx).copied().unwrap_or(0);
        let wanted = wanted.get(idx).and_then(Option::as_ref);
        parameters::read(value.as_ref(), oid, format, wanted)
    });
    values.collect()
}

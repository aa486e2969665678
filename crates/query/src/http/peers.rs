//! What the query APIs of other trace stores share: where they are, parameters of an address, who asks, and why there
//! is no answer.

mod stored;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::extract::{FromRef, FromRequestParts};
use axum::http::header::RETRY_AFTER;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use url::form_urlencoded;

use super::{jaeger, refusal, tempo};
use crate::asker::Asker;
use crate::engine::Engine;
use crate::error::Error;
use crate::find::window::{EmptyWindow, parse_duration, parse_rfc3339};
use crate::find::{Asked, Window};
use crate::metrics::Entrance;
use crate::trace::{self, Caller};

pub(super) use stored::otlp_of;

/// The APIs at their prefixes, and at the root what only one of them has.
pub(super) fn routes() -> Router<Arc<Engine>> {
    Router::new()
        .merge(jaeger::routes())
        .merge(tempo::shared_routes())
        .nest("/jaeger", jaeger::routes())
        .nest("/tempo", tempo::routes())
}

/// A request for an answer in the form of another trace store.
#[derive(Debug)]
pub(super) struct Wanted {
    engine: Arc<Engine>,
    caller: Caller,
    pub(super) parameters: Parameters,
    pub(super) now_unix_nano: i64,
}

impl<S: Sync> FromRequestParts<S> for Wanted
where
    Arc<Engine>: FromRef<S>,
{
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        Ok(Self {
            engine: Arc::from_ref(state),
            caller: Caller {
                asker: parts.extensions.get::<Asker>().copied(),
                entrance: Entrance::Http,
            },
            parameters: Parameters::read(parts.uri.query().unwrap_or_default()),
            now_unix_nano: now(),
        })
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the HTTP edge says what is now where a search names no end"
)]
fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, crate::find::window::nanos)
}

impl Wanted {
    pub(super) fn asked(&self) -> Asked<'_> {
        Asked {
            engine: &self.engine,
            caller: self.caller,
        }
    }

    /// The window from one time to another, or up to now, or for the last `lookback`.
    pub(super) fn window(
        &self,
        start_unix_nano: Option<i64>,
        end_unix_nano: Option<i64>,
        lookback: Duration,
    ) -> Result<Window, Fault> {
        let now = self.now_unix_nano;
        Ok(Window::new(start_unix_nano, end_unix_nano, now, lookback)?)
    }
}

/// Parameters of an address, decoded. A parameter without a value counts as absent, as it does for the originals.
#[derive(Debug)]
pub(super) struct Parameters(Vec<(String, String)>);

impl Parameters {
    fn read(query: &str) -> Self {
        let pairs = form_urlencoded::parse(query.as_bytes()).into_owned();
        Self(pairs.filter(|(_, value)| !value.is_empty()).collect())
    }

    /// The first parameter with one of these names, of which the first that is there counts.
    pub(super) fn first(&self, names: &[&'static str]) -> Option<Parameter<'_>> {
        names.iter().find_map(|name| self.all(name).next())
    }

    pub(super) fn get(&self, name: &'static str) -> Option<Parameter<'_>> {
        self.first(&[name])
    }

    pub(super) fn all(&self, name: &'static str) -> impl Iterator<Item = Parameter<'_>> {
        let named = self.0.iter().filter(move |(known, _)| known == name);
        named.map(move |(_, text)| Parameter { name, text })
    }

    /// Refuses an address with one of these parameters, which would change the answer and cannot be heeded.
    pub(super) fn refuse(&self, names: &[&'static str]) -> Result<(), Fault> {
        match self.first(names) {
            Some(Parameter { name, .. }) => Err(Fault::Unsupported { name }),
            None => Ok(()),
        }
    }
}

/// A parameter with its name, for what is said of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parameter<'a> {
    name: &'static str,
    pub(super) text: &'a str,
}

impl Parameter<'_> {
    pub(super) fn wrong(self, expected: &'static str) -> Fault {
        let name = self.name;
        Fault::Parameter { name, expected }
    }

    /// A positive number, of which more than `max` is as much as `max`.
    pub(super) fn count(self, max: u64) -> Result<u64, Fault> {
        let count = self.text.trim().parse::<u64>().ok();
        let count = count.filter(|count| *count > 0).map(|count| count.min(max));
        count.ok_or_else(|| self.wrong("a whole number above 0"))
    }

    /// A time as a number of so many nanoseconds since 1970.
    pub(super) fn time(self, unit_nanos: i64) -> Result<i64, Fault> {
        let number = self.text.trim().parse::<i64>().ok();
        let number = number.filter(|number| *number >= 0);
        let nanos = number.map(|number| number.saturating_mul(unit_nanos));
        nanos.ok_or_else(|| self.wrong("a whole number of time units since 1970"))
    }

    pub(super) fn rfc3339(self) -> Result<i64, Fault> {
        parse_rfc3339(self.text)
            .ok_or_else(|| self.wrong("a time as RFC 3339 has it, such as 2026-01-01T12:00:00Z"))
    }

    /// Nanoseconds.
    pub(super) fn duration(self) -> Result<i64, Fault> {
        parse_duration(self.text).ok_or_else(|| self.wrong("a time span such as 100ms or 1.5s"))
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error(transparent)]
    Statement(#[from] Error),
    #[error(transparent)]
    Trace(#[from] trace::Error),
    #[error("parameter `{name}`: expected {expected}")]
    Parameter {
        name: &'static str,
        expected: &'static str,
    },
    #[error("parameter `{name}` is missing")]
    Missing { name: &'static str },
    #[error("parameter `{name}` is not supported here")]
    Unsupported { name: &'static str },
    #[error(transparent)]
    Window(#[from] EmptyWindow),
    /// A condition in a language of its own.
    #[error("parameter `{name}`: {source}")]
    Condition {
        name: &'static str,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error(transparent)]
    Id(#[from] trace::IdError),
    #[error("{why}")]
    NotFound { why: String },
    #[error("no trace was found")]
    NothingFound,
    #[error(
        "the {n_traces} traces that were found have more than {spans_max} spans, the limit `trace_spans_max`, or take more \
         than {memory_mib} MiB, the limit `memory_mib`; ask for fewer traces"
    )]
    TooMuch {
        n_traces: usize,
        spans_max: u64,
        memory_mib: u64,
    },
    #[error("{what} is not answered here; ask by SQL at /v1/sql")]
    NotBuilt { what: &'static str },
}

impl Fault {
    /// Status and text of the answer. What only we can act on goes to the log.
    pub(super) fn outward(&self) -> (StatusCode, String) {
        let status = match self {
            Self::Statement(error) => {
                let (status, problem) = refusal::outward(error);
                return (status, problem.message);
            }
            Self::Trace(trace::Error::Statement(error)) => {
                let (status, problem) = refusal::outward(error);
                return (status, problem.message);
            }
            Self::Trace(error @ (trace::Error::Rows(_) | trace::Error::Write { .. })) => {
                refusal::log_fault(error);
                StatusCode::INTERNAL_SERVER_ERROR
            }
            Self::Trace(
                trace::Error::TooManySpans { .. }
                | trace::Error::TooManyRows { .. }
                | trace::Error::TooLarge { .. },
            )
            | Self::TooMuch { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Parameter { .. }
            | Self::Missing { .. }
            | Self::Unsupported { .. }
            | Self::Window(_)
            | Self::Condition { .. }
            | Self::Id(_) => StatusCode::BAD_REQUEST,
            Self::NotFound { .. } | Self::NothingFound => StatusCode::NOT_FOUND,
            Self::NotBuilt { .. } => StatusCode::NOT_IMPLEMENTED,
        };
        (status, self.to_string())
    }
}

/// Says when to come again, where a later request can succeed.
pub(super) fn later(status: StatusCode, mut response: Response) -> Response {
    if refusal::is_for_later(status) {
        let delay = HeaderValue::from_static(refusal::RETRY_AFTER_S);
        response.headers_mut().insert(RETRY_AFTER, delay);
    }
    response
}

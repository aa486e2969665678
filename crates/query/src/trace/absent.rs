//! Why no span of a trace is stored, as far as `traces` tells.

use ::arrow::array::{Array as _, AsArray as _};
use ::otlp::TraceId;
use datafusion::common::ScalarValue;
use futures::StreamExt;

use super::{Caller, Result};
use crate::engine::Engine;
use crate::question::Question;

/// What is known of a trace without spans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Absence {
    /// No row of it, in any table.
    Unknown,
    /// It was decided not to keep it.
    NotKept {
        /// `not_sampled` or `dropped`.
        decision: String,
        policy: Option<String>,
    },
    /// It was kept, and its spans are not there, or not any more.
    Kept,
}

/// Looks the trace up in `traces`.
///
/// # Errors
///
/// As [`Engine::answer`].
pub(crate) async fn why_absent(
    engine: &Engine,
    trace_id: TraceId,
    caller: Caller,
) -> Result<Absence> {
    // A trace has a row per decision; the first that kept it is the one that counts.
    let sql = "SELECT decision, policy FROM traces WHERE trace_id = $1 \
               ORDER BY decision = 'sampled' DESC NULLS LAST, start_time_unix_nano";
    let question = Question {
        rows: Some(1),
        ..caller.question(sql, vec![ScalarValue::from(trace_id.to_string())])
    };
    let mut answer = engine.ask(question).await?;
    let Some(batch) = answer.next().await.transpose()? else {
        return Ok(Absence::Unknown);
    };
    let text = |name| {
        let column = crate::explain::cells(&batch, name).ok()?;
        let column = column.as_string_opt::<i32>()?;
        (!column.is_empty() && column.is_valid(0)).then(|| column.value(0).to_owned())
    };
    Ok(match text("decision") {
        Some(decision) if decision != "sampled" => Absence::NotKept {
            decision,
            policy: text("policy"),
        },
        _ => Absence::Kept,
    })
}

impl Absence {
    /// Stable word for programs.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Unknown => "unknown_trace",
            Self::NotKept { .. } => "trace_not_kept",
            Self::Kept => "trace_without_spans",
        }
    }

    /// For people.
    pub(crate) fn explanation(&self, trace_id: TraceId) -> String {
        match self {
            Self::Unknown => format!(
                "trace {trace_id} is unknown: no row of it is stored. It may be undecided yet (a trace is stored when its \
                 policies have decided), its rows may have outlived their retention, or it never came"
            ),
            Self::NotKept { decision, policy } => {
                let policy = policy.as_ref().map_or(String::new(), |policy| {
                    format!(" by policy `{}`", policy.escape_debug())
                });
                format!(
                    "trace {trace_id} is known, but its spans were not kept: it was decided `{decision}`{policy}. Its row \
                     in `traces` and its engine requests in `requests` are stored; `whyslow why {trace_id}` says what \
                     each policy says of it"
                )
            }
            Self::Kept => format!(
                "trace {trace_id} was kept, but none of its spans is stored: they have outlived their retention, which is \
                 shorter than that of `traces`, or were lost before they were written"
            ),
        }
    }
}

//! An explanation for programs: one JSON object per trace; keys stay, keys may come.

use correlate::{
    BatchSums, Companion, Course, Explanation, Fact, Hypothesis, Link, Part, PhaseTime, Role,
};
use serde_json::{Value, json};

use super::facts::{Statements, Subject};

/// The explanation of one request; every fact has the statement that shows the rows behind it in `sql`.
pub fn object(subject: &Subject, explanation: &Explanation) -> Value {
    let request = subject.request.as_ref();
    let span_id = subject
        .facts
        .engine
        .as_ref()
        .and_then(|engine| engine.span_id);
    let statements = &subject.statements;
    let hypotheses = explanation.hypotheses.iter();
    json!({
        "trace_id": subject.trace_id.to_string(),
        "span_id": span_id.map(|span_id| span_id.to_string()),
        "request_id": request.and_then(|request| request.request_id.as_deref()),
        "model": request.and_then(|request| request.model.as_deref()),
        "outcome": request.and_then(|request| request.outcome.as_deref()),
        "verdict": explanation.verdict.as_str(),
        "slow_phase": explanation.slow_phase.map(|phase| phase.as_str()),
        "cohort_requests": subject.facts.cohort.n_requests,
        "cohort_sql": statements.cohort,
        "phases": explanation.phases.iter().map(phase).collect::<Value>(),
        "course": explanation.course.as_ref().map(course),
        "hypotheses": hypotheses.map(|one| hypothesis(one, statements)).collect::<Value>(),
        "batches": explanation.batches.map(|sums| batches(sums, &subject.facts.batches.companions)),
        "open": explanation.open,
    })
}

fn phase(phase: &PhaseTime) -> Value {
    json!({
        "phase": phase.phase.as_str(),
        "seconds": phase.seconds,
        "usual_s": phase.usual_s,
        "start_unix_nano": phase.start_unix_nano,
    })
}

fn course(course: &Course) -> Value {
    json!({
        "link": match course.link {
            Link::TraceContext => Some("trace_context"),
            Link::RequestId => Some("request_id"),
            Link::None => None,
        },
        "clock_ahead_ns": course.clock_ahead_nanos,
        "hops": course.hops.iter().map(|hop| json!({
            "role": role(hop.role),
            "service": hop.span.service,
            "name": hop.span.name,
            "span_id": hop.span.span_id.to_string(),
            "start_unix_nano": hop.span.start_unix_nano,
            "end_unix_nano": hop.span.end_unix_nano,
        })).collect::<Value>(),
        "before": course.before.iter().map(part).collect::<Value>(),
        "after": course.after.iter().map(part).collect::<Value>(),
    })
}

fn part(part: &Part) -> Value {
    json!({
        "role": role(part.role),
        "service": part.service,
        "span_id": part.span_id.to_string(),
        "seconds": part.nanos as f64 / 1e9,
    })
}

fn role(role: Role) -> &'static str {
    match role {
        Role::Client => "client",
        Role::Gateway => "gateway",
        Role::Retrieval => "retrieval",
        Role::Service => "service",
    }
}

fn hypothesis(hypothesis: &Hypothesis, statements: &Statements) -> Value {
    let facts = |facts: &[Fact]| {
        facts
            .iter()
            .map(|one| fact(one, statements))
            .collect::<Value>()
    };
    json!({
        "cause": hypothesis.cause.as_str(),
        "standing": hypothesis.standing.as_str(),
        "for": facts(&hypothesis.facts_for),
        "against": facts(&hypothesis.facts_against),
    })
}

fn fact(fact: &Fact, statements: &Statements) -> Value {
    json!({
        "text": fact.text,
        "source": fact.source.to_string(),
        "strength": fact.strength.as_str(),
        "sql": statements.of(&fact.source),
    })
}

fn batches(sums: BatchSums, companions: &[Companion]) -> Value {
    json!({
        "steps": sums.n_batches,
        "duration_ns": sums.duration_ns,
        "share_ns": sums.share_ns,
        "estimated_ns": sums.estimated_ns,
        "unshared_steps": sums.n_unshared,
        "participants_max": sums.participants_max,
        "companions": companions.iter().map(|companion| json!({
            "request_id": companion.name,
            "steps": companion.n_batches,
            "tokens": companion.tokens,
        })).collect::<Value>(),
    })
}

//! An explanation for people.

use correlate::{Cause, Explanation, Fact, Link, Phase, Standing};
use query::explain::Subject;

use crate::show::text::printable;

const TEXT_CHARS_MAX: usize = 160;

pub(super) fn render(subject: &Subject, explanation: &Explanation) -> String {
    let mut out = String::new();
    head(subject, &mut out);
    out.push_str(&format!("\n{}\n", verdict(explanation)));
    phases(explanation, subject, &mut out);
    course(explanation, &mut out);
    hypotheses(explanation, &mut out);
    batches(explanation, subject, &mut out);
    if !explanation.open.is_empty() {
        out.push_str("\nCannot be concluded:\n");
        for open in &explanation.open {
            out.push_str(&format!("  - {open}\n"));
        }
    }
    out
}

fn head(subject: &Subject, out: &mut String) {
    out.push_str(&format!("Trace {}", subject.trace_id));
    match &subject.request {
        Some(request) => {
            let known = [
                ("request", &request.request_id),
                ("model", &request.model),
                ("pod", &request.pod),
                ("outcome", &request.outcome),
            ];
            for (name, value) in known {
                if let Some(value) = value {
                    out.push_str(&format!(", {name} {}", printable(value, TEXT_CHARS_MAX)));
                }
            }
            out.push('\n');
            if request.stitched {
                out.push_str("The trace context did not reach the engine; its span was found by the request id.\n");
            }
        }
        None => out.push_str(", no engine span\n"),
    }
    if subject.n_requests > 1 {
        out.push_str(&format!(
            "The trace has {} requests; this is the longest (`--span` takes another).\n",
            subject.n_requests
        ));
    }
}

fn verdict(explanation: &Explanation) -> String {
    let phase = explanation.slow_phase.map_or("", |phase| match phase {
        Phase::Before => " before the engine",
        Phase::Queue => " in the engine's queue",
        Phase::Prefill => " in prefill",
        Phase::Decode => " in decode",
        Phase::Delivery => " after the engine",
    });
    match explanation.verdict {
        Cause::Usual => {
            "Verdict: usual. No phase clearly exceeds what is usual for requests like it."
                .to_owned()
        }
        Cause::Unknown => {
            format!("Verdict: unknown. The time was lost{phase}; the facts do not say why.")
        }
        cause => format!(
            "Verdict: {}. The time was lost{phase}: {}.",
            cause.as_str(),
            words(cause)
        ),
    }
}

fn words(cause: Cause) -> &'static str {
    match cause {
        Cause::Usual | Cause::Unknown => "",
        Cause::Client => "the client took it before it sent the request on",
        Cause::Gateway => "the gateway held the request back",
        Cause::Retrieval => "the search for documents took it",
        Cause::Service => "a service before the engine took it",
        Cause::Xid => "a GPU error stopped the engine",
        Cause::Ecc => "memory of a GPU had errors that could not be corrected",
        Cause::PrefixCache => "less of its prompt than usual was in the prefix cache",
        Cause::InputLength => "its own prompt is longer than usual",
        Cause::Queueing => "more requests came than the engine takes at once",
        Cause::KvCache => "the KV cache had no room",
        Cause::LongPrefill => "long prompts of others took the engine's steps",
        Cause::ThermalThrottle => "a GPU was slowed by heat",
        Cause::PowerThrottle => "a GPU was slowed by an external power brake",
        Cause::Nvlink => "the link between GPUs made errors",
        Cause::Delivery => "the answer was taken slowly after the engine was done",
    }
}

fn phases(explanation: &Explanation, subject: &Subject, out: &mut String) {
    if explanation.phases.is_empty() {
        return;
    }
    let n = subject.facts.cohort.n_requests;
    out.push_str(&format!(
        "\nPhases (usual: median of {n} requests like it)\n"
    ));
    let mut in_time = explanation.phases.clone();
    in_time.sort_by_key(|phase| phase.phase as u8);
    for phase in in_time {
        let usual = phase
            .usual_s
            .map_or("unknown".to_owned(), |usual| format!("{usual:.3} s"));
        let mark = if Some(phase.phase) == explanation.slow_phase {
            "  <-- exceeds the usual most"
        } else {
            ""
        };
        out.push_str(&format!(
            "  {:<9} {:>9.3} s  usual {usual:>9}{mark}\n",
            phase.phase.as_str(),
            phase.seconds
        ));
    }
}

fn course(explanation: &Explanation, out: &mut String) {
    let Some(course) = &explanation.course else {
        return;
    };
    let link = match course.link {
        Link::TraceContext => "trace context",
        Link::RequestId => "request id, as the trace context was lost",
        Link::None => "nothing: no engine span is known",
    };
    out.push_str(&format!("\nWay to the engine (linked by {link})\n"));
    for hop in &course.hops {
        let seconds = (hop.span.end_unix_nano - hop.span.start_unix_nano) as f64 / 1e9;
        let name = printable(&hop.span.name, TEXT_CHARS_MAX);
        out.push_str(&format!(
            "  {seconds:>9.3} s  {}: {name}\n",
            printable(&hop.span.service, TEXT_CHARS_MAX)
        ));
    }
    if let Some(ahead) = course.clock_ahead_nanos {
        out.push_str(&format!(
            "  The clock of the engine's host seems {:.3} s ahead; its times are corrected here, not where they are stored.\n",
            ahead as f64 / 1e9
        ));
    }
}

fn hypotheses(explanation: &Explanation, out: &mut String) {
    if explanation.hypotheses.is_empty() {
        return;
    }
    out.push_str("\nRuled out in this order\n");
    for hypothesis in &explanation.hypotheses {
        let mark = match hypothesis.standing {
            Standing::Supported => '+',
            Standing::Contradicted => '-',
            Standing::Undecided => '?',
        };
        out.push_str(&format!(
            "  {mark} {}: {}\n",
            hypothesis.cause.as_str(),
            hypothesis.standing.as_str()
        ));
        let mut say = |sign: &str, fact: &Fact| {
            out.push_str(&format!(
                "      {sign} {} [{}; {}]\n",
                printable(&fact.text, TEXT_CHARS_MAX),
                fact.strength.as_str(),
                printable(&fact.source.to_string(), TEXT_CHARS_MAX)
            ));
        };
        hypothesis
            .facts_for
            .iter()
            .for_each(|fact| say("for:", fact));
        hypothesis
            .facts_against
            .iter()
            .for_each(|fact| say("against:", fact));
    }
}

/// The steps that it was in, and who was in them too.
fn batches(explanation: &Explanation, subject: &Subject, out: &mut String) {
    let Some(sums) = explanation.batches else {
        return;
    };
    let seconds = |nanos: i64| nanos as f64 / 1e9;
    out.push_str(&format!(
        "\nBatches: {} steps of the engine, {:.3} s in all\n",
        sums.n_batches,
        seconds(sums.duration_ns)
    ));
    if sums.n_unshared < sums.n_batches {
        let estimated = if sums.estimated_ns > 0 {
            format!(", {:.3} s of it estimated", seconds(sums.estimated_ns))
        } else {
            String::new()
        };
        out.push_str(&format!(
            "  its share of that time is {:.3} s{estimated}\n",
            seconds(sums.share_ns)
        ));
    }
    if sums.n_unshared > 0 {
        out.push_str(&format!(
            "  its share of {} steps is not known: the engine did not say when they were, or how many took part\n",
            sums.n_unshared
        ));
    }
    if let Some(most) = sums.participants_max {
        out.push_str(&format!("  up to {most} requests were in one step\n"));
    }
    for companion in &subject.facts.batches.companions {
        let tokens = companion
            .tokens
            .map_or(String::new(), |tokens| format!(", {tokens} tokens"));
        out.push_str(&format!(
            "  with {}: {} steps{tokens}\n",
            printable(&companion.name, TEXT_CHARS_MAX),
            companion.n_batches
        ));
    }
}

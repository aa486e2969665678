//! Attempts, choices and halves: what the engine requests of one operation are to each other.
//!
//! An operation is what arrived at a gateway's door, or a call where no door is known. Its engine requests, and its calls
//! that reached no engine, are in order of time:
//!
//! - *choices*: the same id and parent, at the same time, in one engine (n > 1);
//! - *halves*: the same id in two engines, the first of which generated no more than one token of the same prompt and
//!   began before the other; or what their engines say of themselves;
//! - *attempts*: one after another that had failed, of the same prompt where both are known (models may differ: a fallback
//!   may cut a prompt otherwise). All but the last are superseded.
//!
//! Requests that follow on one that went well are requests of their own, as an agent's are.

use otlp::SpanId;
use tables::requests::{Outcome, Request};

use super::{NANOS_PER_SECOND, SLACK_NANOS, chain};
use crate::call::{Call, Kind};
use crate::join::{engine_key, interval};

/// Requests and rows of a trace, and the calls that they belong to.
pub(super) struct Operations<'a> {
    pub(super) calls: &'a [Call],
    pub(super) outer: &'a [Option<usize>],
    /// Place of the call of each request.
    pub(super) of_request: Vec<Option<usize>>,
    /// Places of the calls that leave rows.
    pub(super) rows: &'a [usize],
}

impl Operations<'_> {
    /// The call that stands for the whole operation.
    pub(super) fn of_call(&self, place: usize) -> usize {
        let service = &self.calls[place].row.service_name;
        let is_door = |place: &usize| {
            let call = &self.calls[*place];
            call.kind == Kind::Door && call.row.service_name == *service
        };
        chain(self.outer, place).find(is_door).unwrap_or(place)
    }

    /// The operation of each request.
    pub(super) fn of_requests(&self) -> impl Iterator<Item = Option<usize>> {
        let places = self.of_request.iter();
        places.map(|place| place.map(|place| self.of_call(place)))
    }
}

/// What was found of the rows of calls, in the order of [`Operations::rows`].
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) superseded_rows: Vec<bool>,
    pub(super) attempts_of_rows: Vec<Option<(i64, i64)>>,
    pub(super) operations_of_rows: Vec<Option<SpanId>>,
}

/// One attempt.
#[derive(Debug)]
struct Try {
    start: i64,
    end: i64,
    has_failed: bool,
    input_tokens: Option<i64>,
    model: Option<String>,
    /// Its requests: choices, or halves with the prefill half first.
    requests: Vec<usize>,
    is_halves: bool,
    /// Place in [`Operations::rows`], where it is a call that reached no engine.
    row: Option<usize>,
}

/// Numbers attempts and choices and names halves.
pub(super) fn number(requests: &mut [Request], operations: &Operations<'_>) -> Found {
    let n_rows = operations.rows.len();
    let mut found = Found {
        superseded_rows: vec![false; n_rows],
        attempts_of_rows: vec![None; n_rows],
        operations_of_rows: vec![None; n_rows],
    };
    let mut members: Vec<(usize, Try)> = Vec::new();
    for (place, operation) in operations.of_requests().enumerate() {
        let request = &requests[place];
        if let Some(operation) = operation
            && !request.wrapper
        {
            members.push((operation, of_request(place, request)));
        }
    }
    for (row, place) in operations.rows.iter().enumerate() {
        let operation = operations.of_call(*place);
        members.push((operation, of_row(row, &operations.calls[*place].row)));
    }
    members.sort_by_key(|(operation, each)| {
        (
            *operation,
            each.start,
            each.row,
            each.requests.first().copied(),
        )
    });
    let mut members = members.into_iter().peekable();
    while let Some((operation, first)) = members.next() {
        let mut tries = vec![first];
        while let Some((_, next)) = members.next_if(|(other, _)| *other == operation) {
            tries.push(next);
        }
        let tries = joined(tries, requests);
        let series = series(&tries);
        let is_whole = series.len() == 1;
        for series in series {
            let tries = &tries[series];
            note(requests, tries, &mut found);
            // One that led to several things has none of their times.
            let whole = is_whole.then_some(operation);
            let call = whole.or_else(|| first_call(tries, operations));
            if let Some(call) = call {
                let call = &operations.calls[call].row;
                name(requests, tries, call.span_id, &mut found);
                measure(requests, tries, call.start_time_unix_nano);
            }
        }
    }
    found
}

fn of_request(place: usize, request: &Request) -> Try {
    let (start, end) = interval(request);
    Try {
        start,
        end,
        has_failed: request.outcome != Outcome::Ok,
        input_tokens: request.input_tokens,
        model: request.model.clone(),
        requests: vec![place],
        is_halves: false,
        row: None,
    }
}

fn of_row(row: usize, call: &Request) -> Try {
    Try {
        row: Some(row),
        requests: Vec::new(),
        ..of_request(0, call)
    }
}

/// Choices of one request and halves of one become one attempt.
fn joined(tries: Vec<Try>, requests: &mut [Request]) -> Vec<Try> {
    let mut joined: Vec<Try> = Vec::with_capacity(tries.len());
    for next in tries {
        let Some(last) = joined.last_mut() else {
            joined.push(next);
            continue;
        };
        let pair = last.requests.first().zip(next.requests.first());
        let (is_choice, is_half) = match pair {
            Some((first, other)) => {
                let (first, other) = (&requests[*first], &requests[*other]);
                (
                    !last.is_halves && is_choice(first, other),
                    last.requests.len() == 1 && is_decode_half(first, other),
                )
            }
            None => (false, false),
        };
        if !is_choice && !is_half {
            joined.push(next);
            continue;
        }
        if is_half {
            last.is_halves = true;
            for place in &last.requests {
                requests[*place].stage = requests[*place].stage.or(Some("prefill"));
                requests[*place].superseded = true;
            }
            for place in &next.requests {
                requests[*place].stage = requests[*place].stage.or(Some("decode"));
            }
            last.has_failed = next.has_failed;
        } else {
            last.has_failed &= next.has_failed;
        }
        last.end = last.end.max(next.end);
        last.requests.extend(next.requests);
    }
    joined
}

/// Are both choices of one request?
fn is_choice(first: &Request, other: &Request) -> bool {
    first.request_id.is_some()
        && first.request_id == other.request_id
        && first.parent_span_id == other.parent_span_id
        && engine_key(first) == engine_key(other)
        && interval(other).0 < interval(first).1
}

/// Is the other the decode half of the first?
fn is_decode_half(first: &Request, other: &Request) -> bool {
    if (first.stage, other.stage) == (Some("prefill"), Some("decode")) {
        return true;
    }
    let is_same = first.request_id.is_some() && first.request_id == other.request_id;
    let is_first_token = first.output_tokens.is_some_and(|n_tokens| n_tokens <= 1)
        && other.output_tokens.is_some_and(|n_tokens| n_tokens >= 1);
    is_same
        && is_first_token
        && engine_key(first).is_some()
        && engine_key(first) != engine_key(other)
        && first.input_tokens == other.input_tokens
        && !matches!(first.outcome, Outcome::Error | Outcome::Cancelled)
}

/// Ranges of attempts at one thing.
fn series(tries: &[Try]) -> Vec<std::ops::Range<usize>> {
    let mut series: Vec<std::ops::Range<usize>> = Vec::new();
    for (place, next) in tries.iter().enumerate() {
        let before = place.checked_sub(1).map(|place| &tries[place]);
        match (before, series.last_mut()) {
            (Some(before), Some(last)) if is_next_attempt(before, next) => last.end = place + 1,
            _ => series.push(place..place + 1),
        }
    }
    series
}

fn is_next_attempt(before: &Try, next: &Try) -> bool {
    let is_other_model =
        before.model.is_some() && next.model.is_some() && before.model != next.model;
    let is_same_prompt = is_other_model
        || before.input_tokens.is_none()
        || next.input_tokens.is_none()
        || before.input_tokens == next.input_tokens;
    before.has_failed && is_same_prompt && next.start >= before.end.saturating_sub(SLACK_NANOS)
}

fn note(requests: &mut [Request], tries: &[Try], found: &mut Found) {
    let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let attempts = count(tries.len());
    for (place, each) in tries.iter().enumerate() {
        let (attempt, is_last) = (count(place + 1), place + 1 == tries.len());
        for (choice, place) in each.requests.iter().enumerate() {
            let request = &mut requests[*place];
            request.attempt = Some(attempt);
            request.attempts = Some(attempts);
            request.superseded |= !is_last;
            if each.requests.len() > 1 && !each.is_halves {
                request.choice = Some(count(choice + 1));
            }
        }
        if let Some(row) = each.row {
            found.superseded_rows[row] = !is_last;
            found.attempts_of_rows[row] = Some((attempt, attempts));
        }
    }
}

/// The call of the first attempt.
fn first_call(tries: &[Try], operations: &Operations<'_>) -> Option<usize> {
    let first = tries.first()?;
    let row = first.row.map(|row| operations.rows[row]);
    let of_request = || operations.of_request[*first.requests.first()?];
    row.or_else(of_request)
}

fn name(requests: &mut [Request], tries: &[Try], operation: SpanId, found: &mut Found) {
    for each in tries {
        for place in &each.requests {
            requests[*place].operation_span_id = Some(operation);
        }
        if let Some(row) = each.row {
            found.operations_of_rows[row] = Some(operation);
        }
    }
}

/// Time from the start of the operation to the first token of the attempt that counts: that of the prefill half, where
/// there is one.
fn measure(requests: &mut [Request], tries: &[Try], from: u64) {
    let Some(last) = tries.last() else {
        return;
    };
    let first_half = last
        .requests
        .first()
        .filter(|_| last.is_halves)
        .and_then(|place| first_token(&requests[*place], from));
    for place in &last.requests {
        let request = &mut requests[*place];
        if !request.superseded {
            request.operation_ttft_s = first_half.or_else(|| first_token(request, from));
        }
    }
}

/// Seconds from `from` to a request's first token, on the clock of its call.
fn first_token(request: &Request, from: u64) -> Option<f64> {
    let after = interval(request).0 - i64::try_from(from).ok().filter(|from| *from > 0)?;
    #[expect(
        clippy::cast_precision_loss,
        reason = "a duration in seconds needs no nanoseconds"
    )]
    let after_s = after as f64 / NANOS_PER_SECOND;
    let seconds = after_s - request.clock_skew_s.unwrap_or(0.0) + request.engine_ttft_s?;
    Some(seconds).filter(|seconds| *seconds >= 0.0)
}

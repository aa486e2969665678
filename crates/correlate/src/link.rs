//! Within one trace: which call each engine request answers, and which calls none answers.
//!
//! In this order, the first that says something:
//!
//! 1. a call with the engine's request id, in whose time the engine's span lies, or the only one with it;
//! 2. the nearest call among the ancestors of the engine's span;
//! 3. the only call in whose time the engine's span lies, or the innermost of several around each other, if nothing
//!    links another request to it: gateways that pass on their caller's context make the engine their sibling.
//!
//! A call around another call that has a row, or around an engine request, has no row: it restates it. What remains are calls
//! without an engine request in their trace. The door of a gateway's own service says how they ended: only it sees that
//! whoever had asked is gone.
//!
//! Of a trace that was not kept, calls, engine spans and the root are known and nothing between: there a door is around
//! its gateway's call, and an application's call around a gateway's, if it is so in time.
//!
//! Bounds: parents are followed [`DEPTH_MAX`] steps, and times are compared among up to [`BY_TIME_MAX`] calls; beyond, less
//! is linked.

mod attempts;
mod delivery;

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use otlp::SpanId;
use tables::requests::{LinkMethod, Outcome, Position, Request};

use crate::call::{Call, Kind, place_ttft};
use crate::join::{engine_key, interval};

pub use delivery::TraceSpan;

/// Steps that are followed from a span to its ancestors.
const DEPTH_MAX: usize = 256;

/// Calls of one trace that are compared by time.
const BY_TIME_MAX: usize = 64;

/// What clocks of hosts that keep time may differ by.
const SLACK_NANOS: i64 = 5_000_000;

const NANOS_PER_SECOND: f64 = 1e9;

/// Links the engine requests of one trace to its calls, numbers attempts and choices, and sets what was measured at the
/// positions around the engine. `spans` are the others of the trace, as far as they are known. Gives the calls that no
/// engine request of the trace answers and that leave a row.
pub fn link(requests: &mut [Request], mut calls: Vec<Call>, spans: &[TraceSpan]) -> Vec<Call> {
    if requests.is_empty() && calls.is_empty() {
        return calls;
    }
    forget_frontends(requests, &mut calls);
    let tree = Tree::new(requests, &calls, spans);
    let outer: Vec<Option<usize>> = (0..calls.len())
        .map(|place| tree.around(&calls, place))
        .collect();
    let of_request = tree.link(requests, &calls, &outer);
    let mut is_told = vec![false; calls.len()];
    for (request, linked) in requests.iter_mut().zip(&of_request) {
        let Some((place, method)) = *linked else {
            continue;
        };
        request.call_span_id = Some(calls[place].row.span_id);
        request.link_method = Some(method);
        request.clock_skew_s = clock_skew_s(&calls[place].row, interval(request));
        for place in chain(&outer, place) {
            is_told[place] = true;
            let call = &calls[place];
            place_ttft(request, call.ttft_s, call.row.position);
            request.chunks = request.chunks.or(call.row.chunks);
        }
    }
    let rows = rows(&mut calls, &outer, &mut is_told);
    let places = of_request
        .iter()
        .map(|linked| linked.map(|(place, _)| place));
    let operations = attempts::Operations {
        calls: &calls,
        outer: &outer,
        of_request: places.collect(),
        rows: &rows,
    };
    let found = attempts::number(requests, &operations);
    delivery::measure(requests, &operations, spans);
    let of_rows = found.superseded_rows.into_iter();
    let of_rows = of_rows.zip(found.attempts_of_rows);
    let of_rows = of_rows.zip(found.operations_of_rows);
    let mut all: Vec<Option<Call>> = calls.into_iter().map(Some).collect();
    let rows = rows.into_iter().zip(of_rows);
    rows.filter_map(|(place, ((superseded, attempts), operation))| {
        let mut call = all[place].take()?;
        call.row.superseded = superseded;
        call.row.attempt = attempts.map(|(attempt, _)| attempt);
        call.row.attempts = attempts.map(|(_, attempts)| attempts);
        call.row.operation_span_id = operation;
        Some(call)
    })
    .collect()
}

/// An engine's own web server is a door too: it is no gateway in front of it.
fn forget_frontends(requests: &[Request], calls: &mut Vec<Call>) {
    let engines: Vec<_> = requests.iter().filter_map(engine_key).collect();
    calls.retain(|call| {
        call.kind != Kind::Door
            || engine_key(&call.row).is_none_or(|process| !engines.contains(&process))
    });
}

/// Places of the calls that leave a row, and what the calls around them know of them.
fn rows(calls: &mut [Call], outer: &[Option<usize>], is_told: &mut [bool]) -> Vec<usize> {
    let depth = |place: usize| chain(outer, place).count();
    let mut inner_first: Vec<(usize, usize)> = (0..calls.len())
        .map(|place| (depth(place), place))
        .collect();
    inner_first.sort_by_key(|(depth, place)| (std::cmp::Reverse(*depth), *place));
    let mut rows = Vec::new();
    for (_, place) in inner_first {
        if is_told[place] || !calls[place].leaves_row() {
            continue;
        }
        for around in chain(outer, place).skip(1) {
            is_told[around] = true;
            if let Ok([inner, around]) = calls.get_disjoint_mut([place, around]) {
                learn(inner, around);
            }
        }
        rows.push(place);
    }
    rows.sort_unstable();
    rows
}

/// Takes over what a call around it knows better.
fn learn(call: &mut Call, around: &Call) {
    place_ttft(&mut call.row, around.ttft_s, around.row.position);
    call.row.chunks = call.row.chunks.or(around.row.chunks);
    let is_same_service =
        call.row.service_name.is_some() && call.row.service_name == around.row.service_name;
    if around.kind != Kind::Door || !is_same_service {
        return;
    }
    if call.row.outcome == Outcome::Ok && around.row.outcome != Outcome::Ok {
        call.row.outcome = around.row.outcome;
        call.row.error_type = around.row.error_type.clone();
    }
    call.row.http_status_code = call.row.http_status_code.or(around.row.http_status_code);
    for id in &around.ids {
        if !call.ids.contains(id) {
            call.ids.push(id.clone());
        }
    }
}

/// A call and those around it, from the inside.
fn chain(outer: &[Option<usize>], place: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(place), |place| outer[*place]).take(DEPTH_MAX)
}

/// How far the engine's clock seems ahead of its caller's, in seconds: its time must lie in the call's, and is in the
/// middle of what is possible. `None` where it does, or cannot. A client's call may end with the head of the answer.
pub(crate) fn clock_skew_s(call: &Request, (start, end): (i64, i64)) -> Option<f64> {
    let (call_start, call_end) = interval(call);
    let earliest = start.checked_sub(call_start)?;
    let latest = end.checked_sub(call_end)?;
    let is_within = earliest >= 0 && latest <= 0;
    let is_possible = latest <= earliest;
    let may_end_early = call.position == Position::App && earliest >= 0;
    if is_within || !is_possible || may_end_early {
        return None;
    }
    #[expect(
        clippy::cast_precision_loss,
        reason = "a difference of clocks in seconds needs no nanoseconds"
    )]
    let nanos = (latest + (earliest - latest) / 2) as f64;
    Some(nanos / NANOS_PER_SECOND)
}

/// Does the time of a call hold this one?
pub(crate) fn holds((from, to): (i64, i64), (start, end): (i64, i64)) -> bool {
    start >= from.saturating_sub(SLACK_NANOS) && end <= to.saturating_add(SLACK_NANOS)
}

/// May a gateway's call have come through this door?
fn is_door_of(door: &Call, call: &Call) -> bool {
    door.kind == Kind::Door
        && call.kind == Kind::Model
        && call.row.position == Position::Gateway
        && door.row.service_name == call.row.service_name
}

fn length(row: &Request) -> i64 {
    let (start, end) = interval(row);
    end.saturating_sub(start)
}

/// Who is whose parent, and which calls have an id.
struct Tree<'a> {
    parents: HashMap<SpanId, Option<SpanId>>,
    calls: HashMap<SpanId, usize>,
    /// Up to [`BY_TIME_MAX`] of each.
    ids: HashMap<&'a str, Vec<usize>>,
}

impl<'a> Tree<'a> {
    fn new(requests: &[Request], calls: &'a [Call], spans: &[TraceSpan]) -> Self {
        let of_calls = calls.iter().map(|call| &call.row);
        let rows = requests.iter().chain(of_calls);
        let rows = rows.map(|row| (row.span_id, row.parent_span_id));
        let others = spans.iter().map(|span| (span.span_id, span.parent_span_id));
        let mut ids: HashMap<&str, Vec<usize>> = HashMap::new();
        for (place, call) in calls.iter().enumerate() {
            for id in &call.ids {
                let named = ids.entry(id).or_default();
                if named.len() < BY_TIME_MAX {
                    named.push(place);
                }
            }
        }
        let places = calls.iter().enumerate();
        Self {
            parents: rows.chain(others).collect(),
            calls: places
                .map(|(place, call)| (call.row.span_id, place))
                .collect(),
            ids,
        }
    }

    /// The nearest call above a span, and whether the way up was followed to a root or to that call.
    fn above(&self, parent: Option<SpanId>) -> (Option<usize>, bool) {
        let mut at = parent;
        for _ in 0..DEPTH_MAX {
            let Some(span) = at else {
                return (None, true);
            };
            if let Some(place) = self.calls.get(&span) {
                return (Some(*place), true);
            }
            match self.parents.get(&span) {
                Some(parent) => at = *parent,
                None => break,
            }
        }
        (None, false)
    }

    /// The call around a call.
    fn around(&self, calls: &[Call], place: usize) -> Option<usize> {
        let inner = &calls[place];
        let above = self.above(inner.row.parent_span_id);
        let is_own_door = |place: usize| is_door_of(&calls[place], inner);
        if !above.0.is_some_and(is_own_door)
            && let Some(door) = self.door_beside(calls, place)
        {
            return Some(door);
        }
        match above {
            (Some(above), _) => return Some(above).filter(|above| *above != place),
            (None, true) => return None,
            (None, false) => {}
        }
        if calls.len() > BY_TIME_MAX {
            return None;
        }
        let may_be = |(outer_place, outer): &(usize, &Call)| {
            let is_other =
                *outer_place != place && self.above(outer.row.parent_span_id).0 != Some(place);
            let is_around = match (outer.kind, inner.kind) {
                (Kind::Model | Kind::Agent, Kind::Model | Kind::Door) => {
                    outer.row.position == Position::App && inner.row.position == Position::Gateway
                }
                _ => false,
            };
            is_other && is_around && holds(interval(&outer.row), interval(&inner.row))
        };
        let around = calls.iter().enumerate().filter(may_be);
        around
            .min_by_key(|(_, call)| length(&call.row))
            .map(|(place, _)| place)
    }

    /// The door through which a gateway's call came, where it is not above it: `LiteLLM` makes both children of the span
    /// that its caller named. Of several that are open, the last that opened before it.
    fn door_beside(&self, calls: &[Call], place: usize) -> Option<usize> {
        let inner = &calls[place];
        if calls.len() > BY_TIME_MAX {
            return None;
        }
        let may_be = |(door_place, door): &(usize, &Call)| {
            is_door_of(door, inner)
                && holds(interval(&door.row), interval(&inner.row))
                && self.above(door.row.parent_span_id).0 != Some(place)
                && *door_place != place
        };
        let doors = calls.iter().enumerate().filter(may_be);
        doors
            .max_by_key(|(_, door)| interval(&door.row).0)
            .map(|(place, _)| place)
    }

    /// The call that names the id of a request: the shortest in whose time it lies, or the only one.
    fn by_id(&self, request: &Request, calls: &[Call]) -> Option<usize> {
        let id = request.request_id_normalised.as_deref()?;
        let named = self.ids.get(id)?;
        let around = named
            .iter()
            .filter(|place| holds(interval(&calls[**place].row), interval(request)));
        let shortest = around.min_by_key(|place| length(&calls[**place].row));
        let only = || named.first().filter(|_| named.len() == 1);
        shortest.or_else(only).copied()
    }

    /// The call of each request and how it is known.
    fn link(
        &self,
        requests: &[Request],
        calls: &[Call],
        outer: &[Option<usize>],
    ) -> Vec<Option<(usize, LinkMethod)>> {
        let strong = requests.iter().map(|request| {
            let above = self.above(request.parent_span_id).0;
            let named = self.by_id(request, calls);
            match (named, above) {
                (Some(named), Some(above)) if chain(outer, above).any(|place| place == named) => {
                    Some((above, LinkMethod::Trace))
                }
                (Some(named), _) => Some((named, LinkMethod::RequestId)),
                (None, Some(above)) => Some((above, LinkMethod::Trace)),
                (None, None) => None,
            }
        });
        let strong: Vec<_> = strong.collect();
        if calls.len() > BY_TIME_MAX {
            return strong;
        }
        let mut is_taken = vec![false; calls.len()];
        for (place, _) in strong.iter().flatten() {
            for place in chain(outer, *place) {
                is_taken[place] = true;
            }
        }
        let all = requests.iter().zip(strong);
        let linked = all.map(|(request, strong)| {
            let by_time = || Some((by_time(request, calls, &is_taken)?, LinkMethod::TraceTime));
            strong.or_else(by_time)
        });
        linked.collect()
    }
}

/// The innermost call in whose time a request lies, if all of them lie around each other.
fn by_time(request: &Request, calls: &[Call], is_taken: &[bool]) -> Option<usize> {
    let around = calls.iter().enumerate().filter(|(place, call)| {
        call.kind != Kind::Agent
            && !is_taken[*place]
            && holds(interval(&call.row), interval(request))
            // One that names another request answers that one.
            && (call.ids.is_empty() || request.request_id_normalised.is_none() || call.kind == Kind::Door)
    });
    let mut around: Vec<_> = around.collect();
    around.sort_by_key(|(_, call)| length(&call.row));
    let is_nested = around
        .windows(2)
        .all(|pair| holds(interval(&pair[1].1.row), interval(&pair[0].1.row)));
    around
        .first()
        .filter(|_| is_nested)
        .map(|(place, _)| *place)
}

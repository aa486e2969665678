//! Over traces: which engine requests answered a call that has none in its own trace.
//!
//! The context was lost between the two, and a request id is what both say. Ids are reused, so time decides: an engine
//! request belongs to the one call of its id in whose time it lies. Where it lies in none, clocks may differ: then it
//! belongs to the only call that there is, if it fits into that by up to [`SKEW_MAX_NANOS`]. Where two calls could be meant,
//! none is linked, and that is said. Calls at different positions (a gateway's and an application's) do not contest each
//! other: both restate the same engine request.
//!
//! A call may have several engine requests: choices, prompts of one call, attempts.
//!
//! An engine's span that came late is looked for by its trace too: its parent, or the only call of the trace in whose
//! time it lies.
//!
//! Bounds: engine requests and calls are remembered for a time, and up to [`REMEMBERED_MAX`] of both, the oldest
//! going first. An id that [`PER_KEY_MAX`] have is no id: nothing is linked by it.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use otlp::{SpanId, TraceId};
use tables::requests::{LinkMethod, Outcome, Position, Quality, Request};

use crate::call::Call;
use crate::join::interval;
use crate::link::{clock_skew_s, holds};

/// Engine requests and calls that are remembered: about 200 bytes each.
const REMEMBERED_MAX: usize = 1 << 17;

/// Engine requests and calls with one id.
const PER_KEY_MAX: usize = 64;

/// By how much clocks may differ, where nothing but the id speaks.
const SKEW_MAX_NANOS: i64 = 60_000_000_000;

/// What two may have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Id(Arc<str>),
    Trace(TraceId),
}

#[derive(Clone, Copy, Debug)]
struct Engine {
    trace_id: TraceId,
    span_id: SpanId,
    parent_span_id: Option<SpanId>,
    start: i64,
    end: i64,
    seen_unix_nano: i64,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    trace_id: TraceId,
    span_id: SpanId,
    position: Position,
    start: i64,
    end: i64,
}

/// All that has one key.
#[derive(Debug, Default)]
struct Known {
    engines: Vec<Engine>,
    calls: Vec<Window>,
}

/// What is known of who answered a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// No engine request is known that did.
    Unknown,
    /// One may have, and it may have been another's.
    Ambiguous,
    /// These did.
    By {
        /// Trace and span of each, in order of time.
        engines: Vec<(TraceId, SpanId)>,
        /// How it is known.
        method: LinkMethod,
        /// How far the engine's clock seems ahead.
        clock_skew_s: Option<f64>,
        /// When the last of them was seen.
        seen_unix_nano: i64,
    },
}

/// Engine requests and calls of recent traffic, by request id.
#[derive(Debug)]
pub struct Stitching {
    remembered_nanos: i64,
    known: HashMap<Key, Known>,
    /// In order of arrival; one entry for each place in `known`.
    order: VecDeque<(i64, Key, bool)>,
}

impl Stitching {
    /// Remembers nothing yet, and what it is told for this long.
    #[must_use]
    pub fn new(remembered_nanos: i64) -> Self {
        Self {
            remembered_nanos,
            known: HashMap::new(),
            order: VecDeque::new(),
        }
    }

    /// Takes an engine request that is seen `now`; one that is known stays as it was.
    pub fn take_request(&mut self, request: &Request, now: i64) {
        let id = request.request_id_normalised.as_deref();
        let id = id.filter(|id| !id.is_empty());
        let late = request.late.then_some(Key::Trace(request.trace_id));
        let (start, end) = interval(request);
        let engine = Engine {
            trace_id: request.trace_id,
            span_id: request.span_id,
            parent_span_id: request.parent_span_id,
            start,
            end,
            seen_unix_nano: now,
        };
        for key in id.map(|id| Key::Id(id.into())).into_iter().chain(late) {
            let known = self.known.entry(key.clone()).or_default();
            let is_same = |other: &Engine| {
                (other.trace_id, other.span_id) == (engine.trace_id, engine.span_id)
            };
            if known.engines.len() < PER_KEY_MAX && !known.engines.iter().any(is_same) {
                known.engines.push(engine);
                self.order.push_back((now, key, true));
            }
        }
        self.forget(now);
    }

    /// Takes a call that no engine request of its trace answered.
    pub fn take_call(&mut self, call: &Call, now: i64) {
        let (start, end) = interval(&call.row);
        let window = Window {
            trace_id: call.row.trace_id,
            span_id: call.row.span_id,
            position: call.row.position,
            start,
            end,
        };
        for key in keys(call) {
            let known = self.known.entry(key.clone()).or_default();
            let is_same = |other: &Window| {
                (other.trace_id, other.span_id) == (window.trace_id, window.span_id)
            };
            if known.calls.len() < PER_KEY_MAX && !known.calls.iter().any(is_same) {
                known.calls.push(window);
                self.order.push_back((now, key, false));
            }
        }
        self.forget(now);
    }

    /// Who answered a call that was taken, as far as is known.
    #[must_use]
    pub fn answer(&self, call: &Call) -> Answer {
        let mut engines: Vec<(Engine, LinkMethod)> = Vec::new();
        let mut is_ambiguous = false;
        for key in keys(call) {
            let Some(known) = self.known.get(&key) else {
                continue;
            };
            if known.is_full() {
                is_ambiguous = true;
                continue;
            }
            for engine in &known.engines {
                let whose = match key {
                    Key::Id(_) => known.whose(engine, call.row.position),
                    Key::Trace(_) => known.whose_in_trace(engine),
                };
                let is_this = |window: &&Window| {
                    (window.trace_id, window.span_id) == (call.row.trace_id, call.row.span_id)
                };
                match whose.as_slice() {
                    [(window, method)] if is_this(&window) => {
                        let is_known = engines.iter().any(|(other, _)| {
                            (other.trace_id, other.span_id) == (engine.trace_id, engine.span_id)
                        });
                        if !is_known {
                            engines.push((*engine, *method));
                        }
                    }
                    [_] | [] => {}
                    several => is_ambiguous |= several.iter().any(|(window, _)| is_this(&window)),
                }
            }
        }
        engines.sort_by_key(|(engine, _)| (engine.start, engine.trace_id, engine.span_id));
        let last_seen = engines
            .iter()
            .map(|(engine, _)| engine.seen_unix_nano)
            .max();
        match (engines.first(), last_seen) {
            (Some((first, method)), Some(seen_unix_nano)) => Answer::By {
                method: *method,
                clock_skew_s: clock_skew_s(&call.row, (first.start, first.end)),
                seen_unix_nano,
                engines: engines
                    .iter()
                    .map(|(engine, _)| (engine.trace_id, engine.span_id))
                    .collect(),
            },
            _ if is_ambiguous => Answer::Ambiguous,
            _ => Answer::Unknown,
        }
    }

    /// The row of a call, with what is known of who answered it.
    #[must_use]
    pub fn row(&self, mut call: Call) -> Request {
        match self.answer(&call) {
            Answer::By {
                engines,
                method,
                clock_skew_s,
                ..
            } => call.answered(engines, method, clock_skew_s),
            Answer::Ambiguous => call.row.quality.push(Quality::RequestIdAmbiguous),
            Answer::Unknown if call.row.outcome == Outcome::Ok => {
                call.row.quality.push(Quality::EngineSpanMissing);
            }
            Answer::Unknown => {}
        }
        call.row
    }

    /// Forgets what was seen long ago, and the oldest of what is too much.
    fn forget(&mut self, now: i64) {
        let keeps_from = now.saturating_sub(self.remembered_nanos);
        while let Some((_, key, is_engine)) = self.order.front()
            && (self.order.len() > REMEMBERED_MAX
                || self
                    .order
                    .front()
                    .is_some_and(|(seen, ..)| *seen < keeps_from))
        {
            if let Some(known) = self.known.get_mut(key) {
                // Both are in the order in which they came.
                if *is_engine && !known.engines.is_empty() {
                    known.engines.remove(0);
                } else if !is_engine && !known.calls.is_empty() {
                    known.calls.remove(0);
                }
                if known.engines.is_empty() && known.calls.is_empty() {
                    self.known.remove(key);
                }
            }
            self.order.pop_front();
        }
    }
}

fn keys(call: &Call) -> impl Iterator<Item = Key> {
    let ids = call.ids.iter().filter(|id| !id.is_empty());
    let ids = ids.map(|id| Key::Id(id.as_str().into()));
    ids.chain(std::iter::once(Key::Trace(call.row.trace_id)))
}

impl Known {
    /// So many have it that it tells none of them.
    fn is_full(&self) -> bool {
        self.engines.len() >= PER_KEY_MAX || self.calls.len() >= PER_KEY_MAX
    }

    /// The calls at a position that may be whom an engine request with their id answered: one if it is certain.
    fn whose(&self, engine: &Engine, position: Position) -> Vec<(Window, LinkMethod)> {
        let calls = self.calls.iter().filter(|call| call.position == position);
        let holding = calls.clone().filter(|call| call.holds(engine));
        let holding: Vec<_> = holding.map(|call| (*call, LinkMethod::RequestId)).collect();
        if !holding.is_empty() {
            return holding;
        }
        let near = calls.clone().filter(|call| call.may_hold(engine));
        let near: Vec<_> = near.map(|call| (*call, LinkMethod::RequestId)).collect();
        let n_calls = calls.count();
        // Another call with the id, even at another time, makes a difference of clocks a guess.
        if near.len() == 1 && n_calls > 1 {
            return Vec::new();
        }
        near
    }

    /// The call of its own trace that a late engine request answered.
    fn whose_in_trace(&self, engine: &Engine) -> Vec<(Window, LinkMethod)> {
        let parent = self
            .calls
            .iter()
            .find(|call| Some(call.span_id) == engine.parent_span_id);
        if let Some(parent) = parent {
            return vec![(*parent, LinkMethod::Trace)];
        }
        match self.calls.as_slice() {
            [only] if only.holds(engine) => vec![(*only, LinkMethod::TraceTime)],
            _ => Vec::new(),
        }
    }
}

impl Window {
    fn holds(&self, engine: &Engine) -> bool {
        holds((self.start, self.end), (engine.start, engine.end))
    }

    /// Could it hold it, if clocks differ?
    fn may_hold(&self, engine: &Engine) -> bool {
        let earliest = engine.start.saturating_sub(self.start);
        let latest = engine.end.saturating_sub(self.end);
        latest <= earliest && earliest >= -SKEW_MAX_NANOS && latest <= SKEW_MAX_NANOS
    }
}

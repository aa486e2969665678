//! The way of a request from the root of its trace to its engine.
//!
//! Each hop is a span that was waiting for the next one: before it called on, it did something itself, or had something else
//! done (a search), and after the answer it may have gone on. Clocks of hosts differ: the engine's interval must lie
//! within that of whoever waited for it, and where it does not, it is moved to the middle of what is possible. Stored
//! times stay as they are; the correction is said.

use otlp::SpanId;

use super::{EngineFact, SpanFact};

/// How the engine's span was found to belong to the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Parent and child.
    TraceContext,
    /// The context was lost; both name the same request id.
    RequestId,
    /// No engine span is known, or nothing links it.
    None,
}

/// What a hop is to the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Who asked.
    Client,
    /// Who routes to models.
    Gateway,
    /// A search for documents.
    Retrieval,
    /// Any other service.
    Service,
}

/// Time that one place took, outside the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// What it is.
    pub role: Role,
    /// Its service.
    pub service: String,
    /// The span that says so.
    pub span_id: SpanId,
    /// Its name.
    pub name: String,
    /// How long, in nanoseconds.
    pub nanos: i64,
}

/// A span on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The span.
    pub span: SpanFact,
    /// What it is.
    pub role: Role,
}

/// The way of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Course {
    /// From the root on; without the engine.
    pub hops: Vec<Hop>,
    /// How the engine belongs to it.
    pub link: Link,
    /// Nanoseconds that the engine's host seems ahead of the last hop's; `None` where nothing contradicts equal clocks.
    pub clock_ahead_nanos: Option<i64>,
    /// From the root's start to the engine's (corrected), by place, longest first.
    pub before: Vec<Part>,
    /// From the engine's end (corrected) to the root's, by place, longest first.
    pub after: Vec<Part>,
}

impl Course {
    /// Time before the engine.
    #[must_use]
    pub fn before_nanos(&self) -> i64 {
        self.before.iter().map(|part| part.nanos).sum()
    }

    /// Time after the engine.
    #[must_use]
    pub fn after_nanos(&self) -> i64 {
        self.after.iter().map(|part| part.nanos).sum()
    }
}

/// The way to the engine, or to the last span that called a model where no engine is known; `None` without spans.
pub(super) fn course(spans: &[SpanFact], engine: Option<&EngineFact>) -> Option<Course> {
    let (last, link) = last_hop(spans, engine)?;
    let hops = ancestors(spans, last);
    let gateways: Vec<&str> = gateways(spans);
    let interval = engine
        .filter(|_| link != Link::None)
        .map(|engine| (engine.start_unix_nano, engine.end_unix_nano));
    let ahead = interval.and_then(|interval| clock_ahead(&hops, interval));
    let within =
        interval.map(|(start, end)| (start - ahead.unwrap_or(0), end - ahead.unwrap_or(0)));
    let mut before = Vec::new();
    for (place, span) in hops.iter().enumerate() {
        let next = hops.get(place + 1);
        let next_start = next
            .map(|next| next.start_unix_nano)
            .or(within.map(|(start, _)| start));
        let Some(next_start) = next_start else {
            continue;
        };
        let (searched, own) = split(spans, span, next.map(|next| next.span_id), next_start);
        before.extend(searched);
        before.push(part(role(span, place == 0, &gateways), span, own));
    }
    let mut after = after(&hops, within.map(|(_, end)| end), &gateways);
    before.sort_by_key(|part| std::cmp::Reverse(part.nanos));
    after.sort_by_key(|part| std::cmp::Reverse(part.nanos));
    let hops = hops.iter().enumerate().map(|(place, span)| Hop {
        span: (*span).clone(),
        role: role(span, place == 0, &gateways),
    });
    Some(Course {
        hops: hops.collect(),
        link,
        clock_ahead_nanos: ahead,
        before,
        after,
    })
}

/// How long each hop went on after what it waited for was over. The span of a call that streams ends with the head of the
/// answer: a hop lasts at least as long as what is below it.
fn after(hops: &[&SpanFact], engine_end: Option<i64>, gateways: &[&str]) -> Vec<Part> {
    let Some(mut reached) = engine_end else {
        return Vec::new();
    };
    let mut after = Vec::with_capacity(hops.len());
    for (place, span) in hops.iter().enumerate().rev() {
        let nanos = (span.end_unix_nano - reached).max(0);
        reached = reached.max(span.end_unix_nano);
        after.push(part(role(span, place == 0, gateways), span, nanos));
    }
    after
}

fn part(role: Role, span: &SpanFact, nanos: i64) -> Part {
    Part {
        role,
        service: span.service.clone(),
        span_id: span.span_id,
        name: span.name.clone(),
        nanos,
    }
}

/// The span that waited for the engine, and how that is known.
fn last_hop<'a>(
    spans: &'a [SpanFact],
    engine: Option<&EngineFact>,
) -> Option<(&'a SpanFact, Link)> {
    if let Some(engine) = engine {
        let own = spans
            .iter()
            .find(|span| Some(span.span_id) == engine.span_id);
        let parent = own.and_then(|own| own.parent_span_id);
        if let Some(parent) = spans.iter().find(|span| Some(span.span_id) == parent) {
            return Some((parent, Link::TraceContext));
        }
        let is_same =
            |span: &&SpanFact| engine.request_id.is_some() && span.response_id == engine.request_id;
        // Of several that name it, the one that waited shortest was the nearest.
        let named = spans
            .iter()
            .filter(is_same)
            .min_by_key(|span| span.end_unix_nano - span.start_unix_nano);
        if let Some(named) = named {
            return Some((nearest_client(spans, named), Link::RequestId));
        }
    }
    let is_engine =
        |span: &&SpanFact| Some(span.span_id) == engine.and_then(|engine| engine.span_id);
    let called = spans
        .iter()
        .filter(|span| span.response_id.is_some() && !is_engine(span));
    let last = called.min_by_key(|span| span.end_unix_nano - span.start_unix_nano);
    let root = || {
        spans
            .iter()
            .find(|span| span.parent_span_id.is_none() && !is_engine(span))
    };
    last.or_else(root).map(|span| (span, Link::None))
}

/// The deepest span below `span` that waited for another service to the end: what called the engine in fact, where the
/// one that knows the request id is further up.
fn nearest_client<'a>(spans: &'a [SpanFact], span: &'a SpanFact) -> &'a SpanFact {
    let mut at = span;
    // As deep as there are spans: a cycle of parents ends there.
    for _ in 0..spans.len() {
        let last_called = spans
            .iter()
            .filter(|child| child.parent_span_id == Some(at.span_id) && !child.is_retrieval)
            .max_by_key(|child| (child.end_unix_nano - child.start_unix_nano, child.span_id));
        let half = (at.end_unix_nano - at.start_unix_nano) / 2;
        match last_called {
            Some(child) if child.end_unix_nano - child.start_unix_nano >= half => at = child,
            Some(_) | None => break,
        }
    }
    at
}

/// From the root to `last`.
fn ancestors<'a>(spans: &'a [SpanFact], last: &'a SpanFact) -> Vec<&'a SpanFact> {
    let mut way = vec![last];
    let mut at = last;
    while let Some(parent) = at.parent_span_id {
        let Some(parent) = spans.iter().find(|span| span.span_id == parent) else {
            break;
        };
        if way.iter().any(|known| known.span_id == parent.span_id) {
            break;
        }
        way.push(parent);
        at = parent;
    }
    way.reverse();
    way
}

/// Services that saw the model's answer with its id.
fn gateways(spans: &[SpanFact]) -> Vec<&str> {
    spans
        .iter()
        .filter(|span| span.response_id.is_some())
        .map(|span| span.service.as_str())
        .collect()
}

fn role(span: &SpanFact, is_root: bool, gateways: &[&str]) -> Role {
    if gateways.contains(&span.service.as_str()) {
        Role::Gateway
    } else if is_root && span.is_client {
        Role::Client
    } else if span.is_retrieval {
        Role::Retrieval
    } else {
        Role::Service
    }
}

/// What `span` had searched before it handed on at `next_start`, and the rest of that time, which is its own.
fn split(
    spans: &[SpanFact],
    span: &SpanFact,
    on_path: Option<SpanId>,
    next_start: i64,
) -> (Vec<Part>, i64) {
    let whole = (next_start - span.start_unix_nano).max(0);
    let searches = spans.iter().filter(|child| {
        child.parent_span_id == Some(span.span_id)
            && Some(child.span_id) != on_path
            && child.is_retrieval
    });
    let mut left = whole;
    let mut parts = Vec::new();
    for search in searches {
        let from = search.start_unix_nano.max(span.start_unix_nano);
        let nanos = (search.end_unix_nano.min(next_start) - from).clamp(0, left);
        left -= nanos;
        if nanos > 0 {
            parts.push(part(Role::Retrieval, search, nanos));
        }
    }
    (parts, left)
}

/// How far the engine's clock is ahead of that of whoever waited for it, if its interval does not lie within. A call that
/// streams may end before the engine does; whoever made that call has waited to the end.
fn clock_ahead(hops: &[&SpanFact], (start, end): (i64, i64)) -> Option<i64> {
    let earliest = start - hops.last()?.start_unix_nano;
    let nearest = hops.iter().rev().find(|span| !span.is_client);
    let latest = end - nearest.or(hops.last())?.end_unix_nano;
    // Within: earliest >= 0 >= latest. Moving by any amount between the two puts it within.
    let is_within = earliest >= 0 && latest <= 0;
    let is_possible = latest <= earliest;
    (!is_within && is_possible).then(|| latest + (earliest - latest) / 2)
}

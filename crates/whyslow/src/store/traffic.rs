//! When requests ran, kept or not: for how many ran beside each.
//!
//! Bounded by the time since they were seen and by their number, the oldest going first: what ran longer ago than
//! that beside a request is not counted.
//!
//! Every release asks, so what is remembered is kept sorted, and answers share it: a release costs what it brings, not
//! what ran in its time.
//!
//! A start reads back when requests ran. One that comes again from the log is known by its ids then, and counts once.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use arrow::array::RecordBatch;
use correlate::{Intervals, Traffic, engine_key, interval};
use otlp::{SpanId, TraceId};
use tables::requests::{Position, Request};

use super::reload::{Row, Wanted, rows};

/// Intervals that are remembered: 16 bytes each.
const INTERVALS_MAX: usize = 1 << 20;

/// What is forgotten together: intervals, and time in which they were seen.
const BUCKET_INTERVALS_MAX: usize = 1 << 16;
const BUCKET_NANOS: i64 = 30_000_000_000;

/// Intervals of requests by engine.
#[derive(Debug)]
pub(super) struct Running {
    remembered_nanos: i64,
    buckets: VecDeque<Bucket>,
    n_intervals: usize,
    /// Hashes of the ids of requests that were read back.
    reloaded: HashSet<u64>,
}

#[derive(Debug)]
struct Bucket {
    since_unix_nano: i64,
    n_intervals: usize,
    engines: HashMap<Arc<str>, OfEngine>,
}

/// Intervals of one engine.
#[derive(Debug, Default)]
struct OfEngine {
    sorted: Arc<Intervals>,
    /// Not yet in `sorted`.
    new: Vec<(i64, i64)>,
}

impl Running {
    pub(super) fn new(remembered_nanos: i64) -> Self {
        Self {
            remembered_nanos,
            buckets: VecDeque::new(),
            n_intervals: 0,
            reloaded: HashSet::new(),
        }
    }

    /// What a start reads back of `requests`.
    pub(super) fn wanted(&self) -> Wanted {
        Wanted {
            columns: &[
                "trace_id",
                "span_id",
                "parent_span_id",
                "position",
                "request_id_normalised",
                "service_instance_id",
                "k8s_namespace_name",
                "k8s_pod_name",
                "k8s_pod_uid",
                "start_time_unix_nano",
                "duration_ns",
                "wrapper",
                "late",
            ],
            time: "start_time",
            nanos: self.remembered_nanos,
            rows_max: INTERVALS_MAX - BUCKET_INTERVALS_MAX,
        }
    }

    /// Takes a request of before the start.
    pub(super) fn reload(&mut self, request: &Request, now: i64) {
        // The same row twice would be an error of the table, and one request: `add` leaves out the second.
        self.add(request, now);
        self.reloaded.insert(id(request));
    }

    /// What comes from now on was not there before the start.
    pub(super) fn end_reload(&mut self) {
        self.reloaded = HashSet::new();
    }

    /// Takes a request that is seen `now`; one of no known engine, or one that another restates, is not counted.
    pub(super) fn add(&mut self, request: &Request, now: i64) {
        let Some(engine) = engine_key(request).filter(|_| !request.wrapper) else {
            return;
        };
        if !self.reloaded.is_empty() && self.reloaded.contains(&id(request)) {
            return;
        }
        let (start, end) = interval(request);
        let is_room = |bucket: &Bucket| {
            bucket.n_intervals < BUCKET_INTERVALS_MAX && now - bucket.since_unix_nano < BUCKET_NANOS
        };
        if !self.buckets.back().is_some_and(is_room) {
            self.forget(now);
            self.buckets.push_back(Bucket {
                since_unix_nano: now,
                n_intervals: 0,
                engines: HashMap::new(),
            });
        }
        let Some(bucket) = self.buckets.back_mut() else {
            return;
        };
        bucket.n_intervals += 1;
        self.n_intervals += 1;
        let of_engine = bucket.engines.entry(Arc::from(engine)).or_default();
        of_engine.new.push((start, end));
    }

    fn forget(&mut self, now: i64) {
        let keeps_from = now.saturating_sub(self.remembered_nanos);
        while self.buckets.front().is_some_and(|oldest| {
            self.n_intervals > INTERVALS_MAX - BUCKET_INTERVALS_MAX
                || oldest.since_unix_nano < keeps_from
        }) {
            let oldest = self.buckets.pop_front();
            self.n_intervals -= oldest.map_or(0, |oldest| oldest.n_intervals);
        }
    }

    /// What ran on these engines at any time in `from..=to`, and maybe at others.
    pub(super) fn during<'a>(
        &mut self,
        engines: impl IntoIterator<Item = &'a str>,
        from: i64,
        to: i64,
    ) -> Traffic {
        let mut wanted: Vec<&str> = engines.into_iter().collect();
        wanted.sort_unstable();
        wanted.dedup();
        let mut parts = Vec::new();
        for engine in wanted {
            let name: Arc<str> = Arc::from(engine);
            for bucket in &mut self.buckets {
                let Some(of_engine) = bucket.engines.get_mut(engine) else {
                    continue;
                };
                let part = of_engine.sorted();
                if part.any_in(from, to) {
                    parts.push((Arc::clone(&name), Arc::clone(part)));
                }
            }
        }
        Traffic::of_parts(parts)
    }
}

impl OfEngine {
    fn sorted(&mut self) -> &Arc<Intervals> {
        if !self.new.is_empty() {
            Arc::make_mut(&mut self.sorted).extend(self.new.drain(..));
        }
        &self.sorted
    }
}

fn id(request: &Request) -> u64 {
    let mut hasher = DefaultHasher::new();
    (request.trace_id, request.span_id).hash(&mut hasher);
    hasher.finish()
}

/// Stored engine requests: when they ran, on which engine, and by which ids others know them.
pub(super) fn stored_requests(batches: &[RecordBatch]) -> impl Iterator<Item = Request> {
    let of_engine = |row: &Row<'_>| row.text("position") == Some(Position::Engine.as_str());
    rows(batches).filter(of_engine).filter_map(stored)
}

fn stored(row: Row<'_>) -> Option<Request> {
    let text = |name: &str| row.text(name).map(str::to_owned);
    let trace_id = TraceId::parse_hex(row.text("trace_id")?).ok()?;
    let span_id = SpanId::parse_hex(row.text("span_id")?).ok()?;
    let start = u64::try_from(row.int("start_time_unix_nano")?).ok()?;
    let length = u64::try_from(row.int("duration_ns").unwrap_or(0)).unwrap_or(0);
    let parent = row.text("parent_span_id");
    Some(Request {
        parent_span_id: parent.and_then(|id| SpanId::parse_hex(id).ok()),
        request_id_normalised: text("request_id_normalised"),
        late: row.bool("late").unwrap_or(false),
        service_instance_id: text("service_instance_id"),
        k8s_namespace_name: text("k8s_namespace_name"),
        k8s_pod_name: text("k8s_pod_name"),
        k8s_pod_uid: text("k8s_pod_uid"),
        start_time_unix_nano: start,
        end_time_unix_nano: start.saturating_add(length),
        wrapper: row.bool("wrapper").unwrap_or(false),
        ..Request::new(trace_id, span_id)
    })
}

#[cfg(test)]
mod tests {
    use otlp::{SpanId, TraceId};
    use tables::requests::Request;

    use super::{BUCKET_NANOS, Running};

    fn request(engine: &str, start: u64, end: u64) -> Request {
        let trace_id = TraceId::from_slice(&[1; 16]).unwrap();
        let span_id = SpanId::from_slice(&[1; 8]).unwrap();
        Request {
            service_instance_id: Some(engine.to_owned()),
            start_time_unix_nano: start,
            end_time_unix_nano: end,
            ..Request::new(trace_id, span_id)
        }
    }

    #[test]
    fn requests_are_counted_by_engine_and_those_that_others_restate_are_not() {
        let mut running = Running::new(BUCKET_NANOS);
        running.add(&request("a", 10, 20), 0);
        running.add(&request("a", 15, 40), 0);
        running.add(&request("b", 15, 40), 0);
        let wrapper = Request {
            wrapper: true,
            ..request("a", 10, 50)
        };
        running.add(&wrapper, 0);
        let traffic = running.during(["a", "c", "a"], 0, 100);
        assert_eq!(traffic.running_at("a", 15), Some(2));
        assert_eq!(traffic.overlapping("a", 20, 30), Some(1));
        assert_eq!(traffic.running_at("b", 15), None, "was not asked for");
        let traffic = running.during(["a"], 30, 100);
        assert_eq!(traffic.overlapping("a", 30, 100), Some(1));
    }

    #[test]
    fn nothing_is_known_of_a_time_in_which_nothing_ran() {
        let mut running = Running::new(BUCKET_NANOS);
        running.add(&request("a", 10, 20), 0);
        running.add(&request("a", 100, 120), 0);
        let traffic = running.during(["a"], 40, 60);
        assert_eq!(traffic.overlapping("a", 40, 60), None);
    }

    #[test]
    fn what_was_seen_long_ago_is_forgotten() {
        let mut running = Running::new(2 * BUCKET_NANOS);
        for round in 0..10 {
            running.add(&request("a", 10, 20), round * BUCKET_NANOS);
        }
        let traffic = running.during(["a"], 0, 100);
        assert_eq!(traffic.running_at("a", 10), Some(3));
        assert_eq!(running.n_intervals, 3);
    }
}

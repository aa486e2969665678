//! Undecided traces.
//!
//! Limits: 200 bytes per trace here, plus its entry in the map by id and its list of services: at
//! most 256 bytes in all, and 32 to 59 bytes per span. Beside that 104 bytes for a trace whose
//! `tracestate` has an entry `ot`, and for every trace where there is an `adaptive` policy. Memory of decided traces is used again for
//! new ones and not given back.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::ops::{Index, IndexMut};

use otlp::TraceId;
use otlp::span::SpanSummary;

use crate::adaptive::KeyHashes;
use crate::arrival::Arrival;
use crate::atoms::AtomSet;
use crate::decision::SpanHandle;
use crate::extras::{Extras, Upstream};
use crate::keyed_hash::KeyedState;
use crate::services::ServiceId;
use crate::spans::SpanList;
use crate::threshold::Randomness;
use crate::timers::{Links, Timers};

/// Services listed per trace; a trace with more is listed with its first.
pub const SERVICES_PER_TRACE_MAX: usize = 64;

/// Place of an undecided trace; used again after its decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot(
    /// Counted from 1, so that links take 4 bytes.
    NonZeroU32,
);

impl Slot {
    #[expect(
        clippy::expect_used,
        reason = "2^32 undecided traces would take 700 GB"
    )]
    fn at(idx: usize) -> Self {
        let number = u32::try_from(idx + 1).ok().and_then(NonZeroU32::new);
        Self(number.expect("fewer than 2^32 traces are undecided at once"))
    }

    fn idx(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// One undecided trace: the fold over its spans.
#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) trace_id: TraceId,
    pub(crate) atoms: AtomSet,
    /// Earliest start that is not 0; `u64::MAX` if there is none.
    pub(crate) start_time_unix_nano: u64,
    pub(crate) end_time_unix_nano: u64,
    pub(crate) first_seen_unix_nano: u64,
    pub(crate) due_unix_nano: u64,
    pub(crate) n_bytes: u64,
    pub(crate) spans: SpanList,
    pub(crate) services: Vec<ServiceId>,
    root: Root,
    pub(crate) n_error_spans: u32,
    pub(crate) links: Links,
    /// Its batches, if they are judged as they arrive; `atoms` are then those of the last one.
    pub(crate) arrival: Option<Box<Arrival>>,
    /// Under `trigger` rules: the last span that was new, and when a root or a match ends the waiting
    /// (`u64::MAX` for never).
    pub(crate) last_seen_unix_nano: u64,
    pub(crate) ends_unix_nano: u64,
    extras: Option<Box<Extras>>,
    /// The due time is that of a root, not of the first span (under `trigger` rules: not of a match).
    pub(crate) is_due_by_root: bool,
    /// A span of it links to another trace; to which ones is in `linked`.
    pub(crate) has_links: bool,
}

const _: () = assert!(
    size_of::<Trace>() <= 200,
    "part of the budget of 256 bytes per trace"
);

/// The root that started first, of several at once the one with the lowest handle, and how many there are; without
/// the padding of a nested handle.
#[derive(Debug, Clone, Copy, Default)]
struct Root {
    start_time_unix_nano: u64,
    position: u64,
    offset: u32,
    n_roots: u32,
}

impl Root {
    fn handle(self) -> SpanHandle {
        SpanHandle {
            position: self.position,
            offset: self.offset,
        }
    }

    fn set_handle(&mut self, handle: SpanHandle) {
        self.position = handle.position;
        self.offset = handle.offset;
    }
}

impl Trace {
    pub(crate) fn new(trace_id: TraceId, first_seen_unix_nano: u64, due_unix_nano: u64) -> Self {
        Self {
            trace_id,
            atoms: AtomSet::EMPTY,
            start_time_unix_nano: u64::MAX,
            end_time_unix_nano: 0,
            first_seen_unix_nano,
            due_unix_nano,
            n_bytes: 0,
            spans: SpanList::default(),
            services: Vec::new(),
            root: Root::default(),
            n_error_spans: 0,
            links: Links::default(),
            arrival: None,
            last_seen_unix_nano: first_seen_unix_nano,
            ends_unix_nano: u64::MAX,
            extras: None,
            is_due_by_root: false,
            has_links: false,
        }
    }

    pub(crate) fn add_root(&mut self, start_time_unix_nano: u64, handle: SpanHandle) {
        let earliest = self.root;
        let of_earliest = (earliest.start_time_unix_nano, earliest.handle());
        if earliest.n_roots == 0 || (start_time_unix_nano, handle) < of_earliest {
            self.root.start_time_unix_nano = start_time_unix_nano;
            self.root.set_handle(handle);
        }
        self.root.n_roots = earliest.n_roots.saturating_add(1);
    }

    pub(crate) fn root(&self) -> Option<SpanHandle> {
        (self.root.n_roots > 0).then(|| self.root.handle())
    }

    pub(crate) fn n_roots(&self) -> u32 {
        self.root.n_roots
    }

    /// Another copy of a span takes the place of the one before. Gives where that one was.
    pub(crate) fn replace(&mut self, place: usize, handle: SpanHandle) -> SpanHandle {
        let before = self.spans.replace(place, handle);
        if self.root() == Some(before) {
            self.root.set_handle(handle);
        }
        before
    }

    /// Under `trigger` rules: a root or a match ends the waiting then, unless another does before; of both at once
    /// the root.
    pub(crate) fn end_at(&mut self, ends_unix_nano: u64, is_by_root: bool) {
        let is_sooner = ends_unix_nano < self.ends_unix_nano;
        if is_sooner || (is_by_root && ends_unix_nano == self.ends_unix_nano) {
            self.ends_unix_nano = ends_unix_nano;
            self.is_due_by_root = is_by_root;
        }
    }

    /// Widens the trace's times. A start of 0 is not set and does not count.
    pub(crate) fn add_times(&mut self, start_time_unix_nano: u64, end_time_unix_nano: u64) {
        if start_time_unix_nano != 0 {
            self.start_time_unix_nano = self.start_time_unix_nano.min(start_time_unix_nano);
        }
        self.end_time_unix_nano = self.end_time_unix_nano.max(end_time_unix_nano);
    }

    pub(crate) fn add_service(&mut self, service: ServiceId) {
        // Spans of one service come together: the last one is the likely one.
        if self.services.last() == Some(&service)
            || self.services.len() >= SERVICES_PER_TRACE_MAX
            || self.services.contains(&service)
        {
            return;
        }
        if self.services.len() == self.services.capacity() {
            self.services.reserve_exact(self.services.len().max(2));
        }
        self.services.push(service);
    }

    pub(crate) fn duration_ns(&self) -> u64 {
        self.end_time_unix_nano
            .saturating_sub(self.start_time_unix_nano)
    }

    pub(crate) fn services_heap_bytes(&self) -> usize {
        self.services.capacity() * size_of::<ServiceId>()
    }

    /// Takes note of what a span adds to the extras. Gives the heap that this took.
    pub(crate) fn add_extras(
        &mut self,
        summary: &SpanSummary<'_>,
        keys: Option<KeyHashes>,
    ) -> usize {
        if keys.is_none() && !summary.trace_state.contains("ot=") {
            return 0;
        }
        let before = self.extras_heap_bytes();
        let extras = self.extras.get_or_insert_default();
        extras.add(summary, keys);
        self.extras_heap_bytes() - before
    }

    pub(crate) fn extras_heap_bytes(&self) -> usize {
        self.extras.as_ref().map_or(0, |_| size_of::<Extras>())
    }

    /// What decides in choices by chance.
    pub(crate) fn randomness(&self) -> Randomness {
        self.upstream().randomness(&self.trace_id)
    }

    /// What samplers before this one have said.
    pub(crate) fn upstream(&self) -> Upstream {
        let extras = self.extras.as_ref();
        extras.map_or(Upstream::default(), |extras| extras.upstream())
    }

    /// Its values of the keys of `adaptive` policies.
    pub(crate) fn keys(&self) -> KeyHashes {
        let extras = self.extras.as_ref();
        extras.map_or(KeyHashes::default(), |extras| extras.keys)
    }
}

/// Storage of traces by slot, in chunks, so that growing moves nothing.
#[derive(Debug, Default)]
pub(crate) struct Traces {
    chunks: Vec<Vec<Trace>>,
    free: Vec<Slot>,
}

const CHUNK: usize = 1024;

impl Traces {
    fn add(&mut self, trace: Trace) -> Slot {
        if let Some(slot) = self.free.pop() {
            self[slot] = trace;
            return slot;
        }
        let idx = match self.chunks.last() {
            Some(chunk) => (self.chunks.len() - 1) * CHUNK + chunk.len(),
            None => 0,
        };
        if idx.is_multiple_of(CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        self.chunks[idx / CHUNK].push(trace);
        Slot::at(idx)
    }

    fn take(&mut self, slot: Slot) -> Trace {
        let vacant = Trace::new(self[slot].trace_id, 0, 0);
        self.free.push(slot);
        std::mem::replace(&mut self[slot], vacant)
    }

    fn heap_bytes(&self) -> usize {
        self.chunks.len() * CHUNK * size_of::<Trace>() + self.free.capacity() * size_of::<Slot>()
    }
}

impl Index<Slot> for Traces {
    type Output = Trace;

    fn index(&self, slot: Slot) -> &Trace {
        &self.chunks[slot.idx() / CHUNK][slot.idx() % CHUNK]
    }
}

impl IndexMut<Slot> for Traces {
    fn index_mut(&mut self, slot: Slot) -> &mut Trace {
        &mut self.chunks[slot.idx() / CHUNK][slot.idx() % CHUNK]
    }
}

/// All undecided traces, by id and by due time.
#[derive(Debug)]
pub(crate) struct PendingTraces {
    by_id: HashMap<TraceId, Slot, KeyedState>,
    traces: Traces,
    timers: Timers,
    /// The trace found last: spans of one trace come together.
    last: Option<(TraceId, Slot)>,
}

impl PendingTraces {
    pub(crate) fn new() -> Self {
        Self {
            by_id: HashMap::with_hasher(KeyedState::new()),
            traces: Traces::default(),
            timers: Timers::default(),
            last: None,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(crate) fn find(&mut self, trace_id: &TraceId) -> Option<Slot> {
        if let Some((last, slot)) = self.last
            && last == *trace_id
        {
            return Some(slot);
        }
        let slot = *self.by_id.get(trace_id)?;
        self.last = Some((*trace_id, slot));
        Some(slot)
    }

    /// Adds a trace that `find` did not find.
    pub(crate) fn open(
        &mut self,
        trace_id: TraceId,
        now_unix_nano: u64,
        due_unix_nano: u64,
    ) -> Slot {
        let slot = self
            .traces
            .add(Trace::new(trace_id, now_unix_nano, due_unix_nano));
        self.by_id.insert(trace_id, slot);
        self.timers.insert(&mut self.traces, slot);
        self.last = Some((trace_id, slot));
        slot
    }

    pub(crate) fn trace(&self, slot: Slot) -> &Trace {
        &self.traces[slot]
    }

    pub(crate) fn trace_mut(&mut self, slot: Slot) -> &mut Trace {
        &mut self.traces[slot]
    }

    /// All undecided traces, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Trace> {
        self.by_id.values().map(|slot| &self.traces[*slot])
    }

    /// A trace, and the hash of span ids.
    pub(crate) fn trace_and_hash(&mut self, slot: Slot) -> (&mut Trace, &KeyedState) {
        (&mut self.traces[slot], self.by_id.hasher())
    }

    /// Moves a trace to an earlier due time; never to a later one. Whether it was moved.
    pub(crate) fn hasten(&mut self, slot: Slot, due_unix_nano: u64) -> bool {
        if due_unix_nano >= self.traces[slot].due_unix_nano {
            return false;
        }
        self.timers.remove(&mut self.traces, slot);
        self.traces[slot].due_unix_nano = due_unix_nano;
        self.timers.insert(&mut self.traces, slot);
        true
    }

    /// Moves a trace to a later due time.
    pub(crate) fn postpone(&mut self, slot: Slot, due_unix_nano: u64) {
        self.timers.remove(&mut self.traces, slot);
        self.traces[slot].due_unix_nano = due_unix_nano;
        self.timers.insert(&mut self.traces, slot);
    }

    /// The trace that is due next, if it is due.
    pub(crate) fn first_due(&self, now_unix_nano: u64) -> Option<Slot> {
        self.timers.first_due(&self.traces, now_unix_nano)
    }

    /// The trace that is due next.
    pub(crate) fn first(&self) -> Option<Slot> {
        self.timers.first()
    }

    pub(crate) fn take_by_id(&mut self, trace_id: &TraceId) -> Option<Trace> {
        let slot = *self.by_id.get(trace_id)?;
        Some(self.take(slot))
    }

    pub(crate) fn take(&mut self, slot: Slot) -> Trace {
        self.timers.remove(&mut self.traces, slot);
        let trace = self.traces.take(slot);
        self.by_id.remove(&trace.trace_id);
        self.last = None;
        trace
    }

    /// All undecided traces, taken out, in no order.
    pub(crate) fn into_traces(self) -> impl Iterator<Item = Trace> {
        let Self {
            by_id, mut traces, ..
        } = self;
        by_id.into_values().map(move |slot| traces.take(slot))
    }

    /// Of the traces themselves, without room for more.
    pub(crate) fn used_bytes(&self) -> usize {
        self.len() * (size_of::<Trace>() + size_of::<(TraceId, Slot)>())
    }

    /// Of the traces themselves; what their spans hold is counted by the caller.
    pub(crate) fn heap_bytes(&self) -> usize {
        // Each place of the map has a byte of control, and one in eight places stays free.
        let map = self.by_id.capacity() / 7 * 8 * (size_of::<(TraceId, Slot)>() + 1);
        self.traces.heap_bytes() + map
    }
}

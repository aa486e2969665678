//! Batches that are not written, gathered from the releases that show them.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::Arc,
};

use arrow::array::RecordBatch;
use otlp::{SpanId, TraceId};
use tables::batches::{BatchesBuilder, Participant, Worker};

use super::{
    BatchSource, BatchTimes, ClosedBatches, Sighting,
    closed::{Hash, Key, is_near},
    settle,
};

/// 2000-01-01T00:00:00Z: earlier times are of clocks that do not count from 1970.
const PLAUSIBLE_MIN_UNIX_NANO: u64 = 946_684_800_000_000_000;

/// How far the clock of an engine may be ahead of ours.
const AHEAD_NANOS: u64 = 24 * 3_600 * 1_000_000_000;

/// Up to this many participants are compared one by one.
const PAIRWISE_MAX: usize = 32;

/// A batch that is not written.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) batch_id: Arc<str>,
    pub(super) step: Option<i64>,
    pub(super) worker: Arc<Worker>,
    pub(super) dp_rank: Option<i64>,
    pub(super) model: Option<Arc<str>>,
    /// The time that it is known by.
    pub(super) around: (u64, u64),
    is_around_exact: bool,
    /// Earliest start and earliest end, by where they are from.
    pub(super) times: [Option<(u64, u64)>; BatchTimes::COUNT],
    pub(super) size: Option<u64>,
    pub(super) batch_tokens: Option<u64>,
    pub(super) span: Option<(TraceId, SpanId)>,
    pub(super) lists: [List; BatchSource::COUNT],
    pub(super) ends_before_start: bool,
    pub(super) received_unix_nano: u64,
    key: Key,
}

/// What tells one participant from another: its span, or its request id where no trace is known.
type Identity = (Option<TraceId>, Option<SpanId>, Option<Arc<str>>);

fn identity(one: &Participant) -> Identity {
    let id = one.request_id.as_ref();
    let id = id.filter(|_| one.trace_id.is_none());
    (one.trace_id, one.span_id, id.cloned())
}

/// Participants as one source names them.
#[derive(Debug, Default)]
pub(super) struct List {
    pub(super) participants: Vec<Participant>,
    /// Places, once there are many.
    places: HashMap<Identity, usize>,
    /// Places of those whose tokens two sightings say differently.
    pub(super) tokens_differ: BTreeSet<usize>,
}

impl List {
    /// Adds one, or what is new about one that is named already; says whether it is another one.
    fn add(&mut self, one: Participant) -> bool {
        let id = identity(&one);
        let known = if self.participants.len() <= PAIRWISE_MAX {
            let mut all = self.participants.iter();
            all.position(|known| identity(known) == id)
        } else {
            if self.places.is_empty() {
                let all = self.participants.iter().enumerate();
                self.places = all.map(|(place, one)| (identity(one), place)).collect();
            }
            self.places.get(&id).copied()
        };
        let Some(place) = known else {
            if !self.places.is_empty() {
                self.places.insert(id, self.participants.len());
            }
            self.participants.push(one);
            return true;
        };
        let known = &mut self.participants[place];
        if known.tokens.is_some() && one.tokens.is_some() && known.tokens != one.tokens {
            self.tokens_differ.insert(place);
        }
        known.tokens = known.tokens.or(one.tokens);
        known.phase = known.phase.or(one.phase);
        if known.request_id.is_none() {
            known.request_id = one.request_id;
            known.request_id_normalised = one.request_id_normalised;
        }
        false
    }
}

impl Open {
    fn new(key: Key, sighting: &Sighting, received_unix_nano: u64) -> Self {
        Self {
            batch_id: Arc::clone(&sighting.batch_id),
            step: sighting.step,
            worker: Arc::clone(&sighting.worker),
            dp_rank: sighting.dp_rank,
            model: None,
            around: sighting.around,
            is_around_exact: sighting.times.is_some(),
            times: [None; BatchTimes::COUNT],
            size: None,
            batch_tokens: None,
            span: None,
            lists: Default::default(),
            ends_before_start: false,
            received_unix_nano,
            key,
        }
    }

    /// Takes what a sighting says; gives the number of participants that are new.
    fn add(&mut self, sighting: Sighting) -> usize {
        let (from, to) = sighting.around;
        match (self.is_around_exact, sighting.times.is_some()) {
            (false, true) => (self.around, self.is_around_exact) = ((from, to), true),
            (false, false) => self.around = (self.around.0.min(from), self.around.1.max(to)),
            (true, _) => {}
        }
        match sighting.times {
            Some((kind, start, end)) if start <= end => {
                let slot = &mut self.times[kind as usize];
                let (first, last) = slot.unwrap_or((start, end));
                *slot = Some((first.min(start), last.min(end)));
            }
            Some(_) => self.ends_before_start = true,
            None => {}
        }
        self.size = self.size.max(sighting.size);
        self.batch_tokens = self.batch_tokens.max(sighting.batch_tokens);
        self.span = self.span.or(sighting.span);
        if self.model.is_none() {
            self.model = sighting.model;
        }
        let list = &mut self.lists[sighting.source as usize];
        let mut n_new = 0;
        for one in sighting.participants {
            n_new += usize::from(list.add(one));
        }
        n_new
    }

    /// Is everything known that is ever needed?
    fn is_complete(&self) -> bool {
        let listed = self.lists.iter().map(|list| list.participants.len());
        let most = listed.max().unwrap_or(0) as u64;
        self.size.is_some_and(|size| most >= size) && self.times.iter().any(Option::is_some)
    }
}

/// A release and the batches that it showed first.
#[derive(Debug)]
struct Waiting {
    sequence: i64,
    batches: Vec<u64>,
}

/// What is settled of a release.
#[derive(Debug)]
pub struct Settled {
    /// Its sequence.
    pub sequence: i64,
    /// Rows of `batches`; several where one would be too large, none where it showed no batch first.
    pub rows: Vec<RecordBatch>,
}

/// Gathers batches until the releases that showed them first are settled, in order.
#[derive(Debug)]
pub struct BatchWindow {
    closed: ClosedBatches,
    is_all_listed: bool,
    open: HashMap<u64, Open>,
    next: u64,
    by_key: HashMap<Key, Vec<u64>>,
    waiting: VecDeque<Waiting>,
    /// Settled releases that are not known to be committed, and the first end of their batches.
    settled: VecDeque<(i64, u64)>,
    n_participants: usize,
    n_late: u64,
    n_untimed: u64,
    rows: BatchesBuilder,
}

impl BatchWindow {
    /// Nothing waits; `closed` is what was written before.
    #[must_use]
    pub fn new(closed: ClosedBatches, is_all_listed: bool) -> Self {
        Self {
            closed,
            is_all_listed,
            open: HashMap::new(),
            next: 0,
            by_key: HashMap::new(),
            waiting: VecDeque::new(),
            settled: VecDeque::new(),
            n_participants: 0,
            n_late: 0,
            n_untimed: 0,
            rows: BatchesBuilder::new(),
        }
    }

    /// Takes what a release shows; sequences rise.
    pub fn take(
        &mut self,
        sequence: i64,
        decided_unix_nano: u64,
        sightings: impl IntoIterator<Item = Sighting>,
    ) {
        let mut batches = Vec::new();
        for sighting in sightings {
            self.see(sighting, decided_unix_nano, &mut batches);
        }
        self.waiting.push_back(Waiting { sequence, batches });
    }

    fn see(&mut self, sighting: Sighting, decided: u64, batches: &mut Vec<u64>) {
        let (from, to) = sighting.around;
        if from < PLAUSIBLE_MIN_UNIX_NANO || to > decided.saturating_add(AHEAD_NANOS) {
            self.n_untimed += 1;
            return;
        }
        let key = key(&sighting);
        let of_key = self.by_key.get(&key).into_iter().flatten();
        let known = of_key.into_iter().copied().find(|id| {
            let open = self.open.get(id);
            open.is_some_and(|open| is_near(open.around, sighting.around))
        });
        let id = match known {
            Some(id) => id,
            None if self.closed.is_closed(key, sighting.around) => {
                self.n_late += 1;
                return;
            }
            None => {
                let id = self.next;
                self.next += 1;
                self.open.insert(id, Open::new(key, &sighting, decided));
                self.by_key.entry(key).or_default().push(id);
                batches.push(id);
                id
            }
        };
        if let Some(open) = self.open.get_mut(&id) {
            self.n_participants += open.add(sighting);
        }
    }

    /// The first release that waits.
    #[must_use]
    pub fn first(&self) -> Option<i64> {
        self.waiting.front().map(|release| release.sequence)
    }

    /// Is all known of the batches of the first release?
    #[must_use]
    pub fn is_first_complete(&self) -> bool {
        let first = self.waiting.front();
        first.is_some_and(|release| {
            let mut batches = release.batches.iter().filter_map(|id| self.open.get(id));
            batches.all(Open::is_complete)
        })
    }

    /// Settles the batches of the first release with what is known of them.
    pub fn settle_first(&mut self) -> Option<Settled> {
        let release = self.waiting.pop_front()?;
        let mut rows = Vec::new();
        let mut first_end = u64::MAX;
        for id in &release.batches {
            let Some(open) = self.open.remove(id) else {
                continue;
            };
            let key = open.key;
            if let Some(of_key) = self.by_key.get_mut(&key) {
                of_key.retain(|other| other != id);
                if of_key.is_empty() {
                    self.by_key.remove(&key);
                }
            }
            let listed = open.lists.iter().map(|list| list.participants.len());
            self.n_participants -= listed.sum::<usize>();
            first_end = first_end.min(open.around.1);
            self.closed.insert(key, open.around, release.sequence);
            settle::append(open, self.is_all_listed, &mut self.rows, &mut rows);
        }
        if !self.rows.is_empty() {
            rows.push(self.rows.finish());
        }
        self.settled.push_back((release.sequence, first_end));
        Some(Settled {
            sequence: release.sequence,
            rows,
        })
    }

    /// The table has everything through this release: what no later one can show is forgotten.
    pub fn committed(&mut self, through: i64) {
        while self
            .settled
            .pop_front_if(|(settled, _)| *settled <= through)
            .is_some()
        {}
        let settled = self.settled.iter().map(|(_, end)| *end);
        let open = self.open.values().map(|open| open.around.1);
        let low = settled.chain(open).min().unwrap_or(u64::MAX);
        self.closed.committed(through, low);
    }

    /// The batches that are written, or about to be.
    #[must_use]
    pub const fn closed(&self) -> &ClosedBatches {
        &self.closed
    }

    /// Participants that wait, as often as they were named.
    #[must_use]
    pub const fn n_participants(&self) -> usize {
        self.n_participants
    }

    /// Sightings of batches that were written before, or may have been.
    #[must_use]
    pub const fn n_late(&self) -> u64 {
        self.n_late
    }

    /// Sightings whose time cannot be.
    #[must_use]
    pub const fn n_untimed(&self) -> u64 {
        self.n_untimed
    }
}

/// Engine and rank, id and step.
fn key(sighting: &Sighting) -> Key {
    let text = |hash: Hash, text: Option<&str>| {
        let text = text.unwrap_or_default();
        let length = text.len() as u64;
        hash.bytes(&length.to_le_bytes()).bytes(text.as_bytes())
    };
    let number = |hash: Hash, number: Option<i64>| match number {
        Some(number) => hash.bytes(&[1]).bytes(&number.to_le_bytes()),
        None => hash.bytes(&[0]),
    };
    let worker = &sighting.worker;
    let parts = if worker.k8s_pod_uid.is_some() {
        [worker.k8s_pod_uid.as_deref(), None, None]
    } else if worker.k8s_pod_name.is_some() {
        [
            worker.k8s_cluster_name.as_deref(),
            worker.k8s_namespace_name.as_deref(),
            worker.k8s_pod_name.as_deref(),
        ]
    } else {
        [
            worker.host_name.as_deref(),
            worker.service_name.as_deref(),
            worker.service_instance_id.as_deref(),
        ]
    };
    let engine = number(parts.into_iter().fold(Hash::new(), text), sighting.dp_rank);
    let batch = number(text(engine, Some(&sighting.batch_id)), sighting.step);
    Key {
        engine: engine.get(),
        batch: batch.get(),
    }
}

//! The spans of one undecided trace: 32 bytes each, and in long lists 6 to 11 more to find a span by its id.
//!
//! A span id stands in a list once: a sender that did not get its answer sends again.

use std::hash::BuildHasher;

use otlp::SpanId;
use otlp::span::{SpanSummary, StatusCode};

use crate::decision::SpanHandle;
use crate::keyed_hash::KeyedState;

/// What a span reports, as far as anyone asks beside the policies. Given with the span: the sampler does not know how
/// to tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reports {
    /// Itself only.
    #[default]
    Itself,
    /// A call to a model, as its caller or a gateway saw it.
    Call,
    /// A request, as the engine saw it.
    Request,
}

impl Reports {
    /// Is it more than itself?
    pub const fn is_more(self) -> bool {
        matches!(self, Self::Call | Self::Request)
    }
}

/// A span that waited for its trace's decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PendingSpan {
    /// Its id.
    pub span_id: SpanId,
    /// Its parent; `None` for a root.
    pub parent_span_id: Option<SpanId>,
    /// Where its bytes are.
    pub handle: SpanHandle,
    /// Given with the span.
    pub reports: Reports,
}

/// A span as it waits. The same facts as [`PendingSpan`], without the padding that a nested handle
/// brings.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    position: u64,
    offset: u32,
    span_id: SpanId,
    parent_span_id: Option<SpanId>,
    reports: Reports,
    is_error: bool,
}

const _: () = assert!(
    size_of::<Waiting>() == 32,
    "the budget is 32 bytes per span"
);

/// Spans in order of arrival (after a restart, carried ones stand where they were carried to).
#[derive(Debug, Default)]
pub(crate) struct SpanList {
    spans: Vec<Waiting>,
    /// Of a list that is too long to be searched.
    places: Option<Box<Places>>,
}

/// A list up to this long is searched, which costs less than a hash.
const SEARCHED_MAX: usize = 16;

/// Places of spans by their id: open addressing with linear probing, a place plus 1 or 0. A power of two, at most
/// three quarters full, so a probe always ends.
#[derive(Debug)]
struct Places {
    slots: Vec<u32>,
}

/// What has become of a span that was to be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Added {
    /// It is in the list.
    New,
    /// One with its id was there before, at this place.
    Known(usize),
}

impl SpanList {
    /// Adds a span, if none with its id is there.
    pub(crate) fn add(&mut self, span: PendingSpan, is_error: bool, hash: &KeyedState) -> Added {
        if let Some(place) = self.find(span.span_id, hash) {
            return Added::Known(place);
        }
        if self.spans.len() == self.spans.capacity() {
            // By half, not by doubling: at most 48 bytes per span, where doubling may take 64.
            self.spans.reserve_exact((self.spans.len() / 2).max(2));
        }
        self.spans.push(Waiting {
            position: span.handle.position,
            offset: span.handle.offset,
            span_id: span.span_id,
            parent_span_id: span.parent_span_id,
            reports: span.reports,
            is_error,
        });
        if self.spans.len() > SEARCHED_MAX {
            self.note_last(hash);
        }
        Added::New
    }

    /// The place of the span with this id.
    pub(crate) fn find(&self, span_id: SpanId, hash: &KeyedState) -> Option<usize> {
        let Some(places) = &self.places else {
            return self.spans.iter().position(|span| span.span_id == span_id);
        };
        let mut slot = places.home(span_id, hash);
        loop {
            let place = (places.slots[slot] as usize).checked_sub(1)?;
            if self.spans[place].span_id == span_id {
                return Some(place);
            }
            slot = places.next(slot);
        }
    }

    /// Enters the last span into the index, which is made or grown where needed.
    fn note_last(&mut self, hash: &KeyedState) {
        let n_spans = self.spans.len();
        let fits = |places: &Places| n_spans <= places.slots.len() / 4 * 3;
        match &mut self.places {
            Some(places) if fits(places) => places.enter(&self.spans, n_spans - 1, hash),
            _ => {
                let n_slots = (n_spans + n_spans / 3 + 1).next_power_of_two();
                let mut places = Box::new(Places {
                    slots: vec![0; n_slots],
                });
                for place in 0..n_spans {
                    places.enter(&self.spans, place, hash);
                }
                self.places = Some(places);
            }
        }
    }

    /// Another copy takes a span's place. Gives where its bytes were.
    pub(crate) fn replace(&mut self, place: usize, handle: SpanHandle) -> SpanHandle {
        let span = &mut self.spans[place];
        let before = SpanHandle {
            position: span.position,
            offset: span.offset,
        };
        span.position = handle.position;
        span.offset = handle.offset;
        before
    }

    /// Where the spans are.
    pub(crate) fn handles(&self) -> impl Iterator<Item = SpanHandle> + '_ {
        self.spans.iter().map(|span| SpanHandle {
            position: span.position,
            offset: span.offset,
        })
    }

    /// Does this version take the place of the one that is there? An error is not lost because a copy
    /// without it came first.
    pub(crate) fn is_superseded(&self, place: usize, by: &SpanSummary<'_>) -> bool {
        by.status_code == StatusCode::Error && !self.spans[place].is_error
    }

    pub(crate) fn set_error(&mut self, place: usize) {
        self.spans[place].is_error = true;
    }

    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }

    /// Heap that is held.
    pub(crate) fn heap_bytes(&self) -> usize {
        let places = self.places.as_ref().map_or(0, |places| {
            size_of::<Places>() + places.slots.capacity() * size_of::<u32>()
        });
        self.spans.capacity() * size_of::<Waiting>() + places
    }

    /// All ids, sorted, in place of what was there.
    pub(crate) fn sorted_ids(&self, out: &mut Vec<SpanId>) {
        out.clear();
        out.extend(self.spans.iter().map(|span| span.span_id));
        out.sort_unstable();
    }

    /// Ids of spans with an error, sorted, in place of what was there.
    pub(crate) fn sorted_error_ids(&self, out: &mut Vec<SpanId>) {
        out.clear();
        let errors = self.spans.iter().filter(|span| span.is_error);
        out.extend(errors.map(|span| span.span_id));
        out.sort_unstable();
    }

    /// Spans whose parent is not among these; `sorted` are their ids.
    pub(crate) fn count_orphans(&self, sorted: &[SpanId]) -> usize {
        let is_orphan = |span: &&Waiting| {
            span.parent_span_id
                .is_some_and(|id| sorted.binary_search(&id).is_err())
        };
        self.spans.iter().filter(is_orphan).count()
    }

    /// Spans that report a request to an engine.
    pub(crate) fn count_requests(&self) -> usize {
        let requests = self.spans.iter();
        requests
            .filter(|span| span.reports == Reports::Request)
            .count()
    }

    pub(crate) fn into_pending_spans(self) -> Vec<PendingSpan> {
        self.spans.into_iter().map(Waiting::into_pending).collect()
    }
}

impl Waiting {
    fn into_pending(self) -> PendingSpan {
        PendingSpan {
            span_id: self.span_id,
            parent_span_id: self.parent_span_id,
            handle: SpanHandle {
                position: self.position,
                offset: self.offset,
            },
            reports: self.reports,
        }
    }
}

impl Places {
    fn enter(&mut self, spans: &[Waiting], place: usize, hash: &KeyedState) {
        let mut slot = self.home(spans[place].span_id, hash);
        while self.slots[slot] != 0 {
            slot = self.next(slot);
        }
        self.slots[slot] = u32::try_from(place + 1).unwrap_or(0);
    }

    fn home(&self, span_id: SpanId, hash: &KeyedState) -> usize {
        // Only the low bits are kept.
        hash.hash_one(span_id) as usize & (self.slots.len() - 1)
    }

    fn next(&self, slot: usize) -> usize {
        (slot + 1) & (self.slots.len() - 1)
    }
}

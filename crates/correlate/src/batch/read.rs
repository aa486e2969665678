//! The spans of one trace to what they say of batches.
//!
//! | form | a span or event of this kind | its times |
//! | --- | --- | --- |
//! | batch span | name in `spans`, or a batch id and links into other traces | said, else the span's |
//! | attributes | a batch id on a request's span | said, else none: the span is the request's |
//! | attributes | a batch id and a step on a stage below it | said, else the span's |
//! | events | a batch id on an event of any of them | said, else from the event on to the end of its stage or the next event |
//!
//! A batch span without an id of its own (TGI's `batch`) must say how many took part; its span id is the batch's.
//!
//! Participants of stages are the request's span above them; where that is not in the same release (late spans), the trace
//! is known and the span is not.

use std::{collections::HashMap, sync::Arc};

use otlp::{
    SpanId,
    attribute::{self, Attributes, Value},
    export::SpanAt,
    span::{self, Event, SpanSummary},
};
use tables::batches::{Participant, Worker};

use super::{
    BatchNames, BatchSource, BatchTimes, Sighting,
    names::{Field, Keys},
};
use crate::{engine, error::Result, request_id};

/// Longest text that is taken of a sender.
const TEXT_BYTES_MAX: usize = 256;

/// Engines that are remembered by the bytes of their resource; all are forgotten when there are more.
const WORKERS_MAX: usize = 4_096;

/// Levels between a stage and its request: engines have three.
const ANCESTORS_MAX: usize = 16;

/// A span of a trace.
#[derive(Clone, Copy, Debug)]
pub struct SeenSpan<'a> {
    /// Its bytes.
    pub at: SpanAt<'a>,
    /// See [`crate::is_request_span`].
    pub is_request: bool,
}

/// Reads what spans say of batches.
#[derive(Debug)]
pub struct BatchReader {
    keys: Keys,
    span_names: Vec<String>,
    workers: HashMap<Box<[u8]>, Vec<Arc<Worker>>>,
}

/// Values of one list of attributes, by what they are for.
#[derive(Debug, Default)]
struct Values<'a> {
    values: [Option<(usize, Value<'a>)>; Field::COUNT],
}

impl<'a> Values<'a> {
    /// Of repeated keys the last, of several keys the first of the list.
    fn read(attributes: Attributes<'a>, keys: &Keys) -> otlp::Result<Self> {
        let mut values = Self::default();
        for attribute in attributes {
            let (key, value) = attribute?;
            let Some((field, rank)) = keys.find(key) else {
                continue;
            };
            let slot = &mut values.values[field as usize];
            let is_better = slot.is_none_or(|(known, _)| rank <= known);
            if is_better && !matches!(value, Value::Empty) {
                *slot = Some((rank, value));
            }
        }
        Ok(values)
    }

    fn get(&self, field: Field) -> Option<Value<'a>> {
        self.values[field as usize].map(|(_, value)| value)
    }

    fn text(&self, field: Field) -> Option<Arc<str>> {
        let mut text = String::new();
        self.get(field)?.write_text(&mut text);
        let end = text.floor_char_boundary(TEXT_BYTES_MAX);
        text.truncate(end);
        (!text.is_empty()).then(|| text.into())
    }

    fn int(&self, field: Field) -> Option<i64> {
        self.get(field)?.as_i64_lenient()
    }

    /// A negative count is none.
    fn count(&self, field: Field) -> Option<u64> {
        self.int(field)
            .and_then(|number| u64::try_from(number).ok())
    }

    fn phase(&self) -> Option<&'static str> {
        let text = self.text(Field::Phase)?;
        let is = |word: &str| text.eq_ignore_ascii_case(word);
        if is("prefill") || is("extend") {
            Some("prefill")
        } else if is("decode") {
            Some("decode")
        } else if is("mixed") {
            Some("mixed")
        } else {
            None
        }
    }

    /// Start and end as said; `start` is what is known of the start otherwise.
    fn times(&self, start: Option<u64>) -> Option<(u64, u64)> {
        let start = self.count(Field::Start).or(start)?;
        let length = || Some(start.saturating_add(self.count(Field::Duration)?));
        Some((start, self.count(Field::End).or_else(length)?))
    }
}

/// The request that a span is of.
#[derive(Clone, Debug)]
struct Owner {
    /// Without what a step did for it.
    participant: Participant,
    model: Option<Arc<str>>,
}

/// Who is whose parent in a trace, by places.
#[derive(Debug)]
struct Tree {
    places: HashMap<SpanId, usize>,
    parents: Vec<Option<SpanId>>,
}

impl Tree {
    fn new(spans: &[SeenSpan<'_>]) -> Self {
        let mut tree = Self {
            places: HashMap::with_capacity(spans.len()),
            parents: Vec::with_capacity(spans.len()),
        };
        for (place, span) in spans.iter().enumerate() {
            let summary = SpanSummary::read(span.at.span).ok();
            tree.parents
                .push(summary.and_then(|summary| summary.parent_span_id));
            if let Some(summary) = summary {
                tree.places.insert(summary.span_id, place);
            }
        }
        tree
    }

    fn parent(&self, place: usize) -> Option<usize> {
        self.places.get(&(*self.parents.get(place)?)?).copied()
    }
}

impl BatchReader {
    /// By these names.
    #[must_use]
    pub fn new(names: &BatchNames) -> Self {
        Self {
            keys: Keys::new(names),
            span_names: names.spans.clone(),
            workers: HashMap::new(),
        }
    }

    /// Appends what the spans of one trace say, in their order.
    ///
    /// # Errors
    /// [`crate::Error::Span`] if the bytes are not spans that `otlp::export::check` accepts; what was read before stays.
    pub fn read(&mut self, spans: &[SeenSpan<'_>], sightings: &mut Vec<Sighting>) -> Result<()> {
        let mut tree = None;
        for (place, span) in spans.iter().enumerate() {
            self.span(spans, place, &mut tree, sightings)
                .map_err(|source| crate::Error::Span {
                    offset: span.at.offset,
                    source,
                })?;
        }
        Ok(())
    }

    fn span(
        &mut self,
        spans: &[SeenSpan<'_>],
        place: usize,
        tree: &mut Option<Tree>,
        sightings: &mut Vec<Sighting>,
    ) -> otlp::Result<()> {
        let SeenSpan { at, is_request } = spans[place];
        let values = Values::read(attribute::of_span(at.span), &self.keys)?;
        let has_id = values.get(Field::BatchId).is_some();
        let mut said = Vec::new();
        for event in span::events(at.span) {
            let event = event?;
            let of_event = Values::read(event.attributes(), &self.keys)?;
            if of_event.get(Field::BatchId).is_some() {
                said.push((event, of_event));
            }
        }
        let may_be_batch = has_id || !is_request && values.get(Field::Size).is_some();
        if said.is_empty() && !may_be_batch {
            return Ok(());
        }
        let summary = SpanSummary::read(at.span)?;
        if !is_request && self.is_batch_span(&summary, at.span, &values)? {
            sightings.push(self.batch_span(&at, &summary, &values)?);
        } else if has_id && (is_request || values.get(Field::Step).is_some()) {
            let owner = self.owner(tree, spans, place, &summary)?;
            sightings.extend(self.attributes(&at, &summary, &values, owner, is_request)?);
        }
        if !said.is_empty() {
            let owner = self.owner(tree, spans, place, &summary)?;
            self.events(&at, &summary, said, &owner, is_request, sightings)?;
        }
        Ok(())
    }

    fn is_batch_span(
        &self,
        summary: &SpanSummary<'_>,
        span: &[u8],
        values: &Values<'_>,
    ) -> otlp::Result<bool> {
        let has_id = values.get(Field::BatchId).is_some();
        if self.span_names.iter().any(|name| name == summary.name) {
            return Ok(has_id || summary.has_links);
        }
        if !has_id || !summary.has_links {
            return Ok(false);
        }
        for link in span::links(span) {
            // Links within a trace chain the stages of one request.
            if link?.trace_id.is_some_and(|id| id != summary.trace_id) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn batch_span(
        &mut self,
        at: &SpanAt<'_>,
        summary: &SpanSummary<'_>,
        values: &Values<'_>,
    ) -> otlp::Result<Sighting> {
        let mut participants = Vec::new();
        let mut n_unnamed = u64::from(summary.dropped_links_count);
        for link in span::links(at.span) {
            let link = link?;
            let of_link = Values::read(link.attributes(), &self.keys)?;
            match link.trace_id {
                Some(trace_id) => participants.push(Participant {
                    phase: of_link.phase().or(values.phase()),
                    tokens: of_link.count(Field::Tokens),
                    ..participant(trace_id, link.span_id, of_link.text(Field::RequestId))
                }),
                None => n_unnamed = n_unnamed.saturating_add(1),
            }
        }
        let own = (summary.start_time_unix_nano, summary.end_time_unix_nano);
        let times = match values.times(None) {
            Some((start, end)) => (BatchTimes::Reported, start, end),
            None => (BatchTimes::BatchSpan, own.0, own.1),
        };
        let named = values.text(Field::BatchId);
        let batch_id = named.unwrap_or_else(|| summary.span_id.to_string().into());
        let size = values.count(Field::Size).or_else(|| {
            let distinct = distinct(&participants).saturating_add(n_unnamed);
            Some(distinct).filter(|n| *n > 0)
        });
        let source = (BatchSource::BatchSpan, self.worker(at, summary)?);
        Ok(Sighting {
            size,
            span: Some((summary.trace_id, summary.span_id)),
            participants,
            ..sighting(values, source, batch_id, Some(times), own)
        })
    }

    fn attributes(
        &mut self,
        at: &SpanAt<'_>,
        summary: &SpanSummary<'_>,
        values: &Values<'_>,
        owner: Owner,
        is_request: bool,
    ) -> otlp::Result<Option<Sighting>> {
        let own = (summary.start_time_unix_nano, summary.end_time_unix_nano);
        let said = values.times(None);
        let times = match said {
            Some((start, end)) => Some((BatchTimes::Reported, start, end)),
            None if is_request => None,
            None => Some((BatchTimes::StageSpan, own.0, own.1)),
        };
        let Some(batch_id) = values.text(Field::BatchId) else {
            return Ok(None);
        };
        let one = Participant {
            phase: values.phase(),
            tokens: values.count(Field::Tokens),
            ..owner.participant
        };
        let worker = self.worker(at, summary)?;
        let said = sighting(
            values,
            (BatchSource::SpanAttribute, worker),
            batch_id,
            times,
            own,
        );
        Ok(Some(Sighting {
            model: said.model.clone().or(owner.model),
            participants: vec![one],
            ..said
        }))
    }

    fn events(
        &mut self,
        at: &SpanAt<'_>,
        summary: &SpanSummary<'_>,
        mut said: Vec<(Event<'_>, Values<'_>)>,
        owner: &Owner,
        is_request: bool,
        sightings: &mut Vec<Sighting>,
    ) -> otlp::Result<()> {
        said.sort_by_key(|(event, _)| event.time_unix_nano);
        let worker = self.worker(at, summary)?;
        let span = (summary.start_time_unix_nano, summary.end_time_unix_nano);
        let is_stage = !is_request && said.len() == 1;
        for (place, (event, values)) in said.iter().enumerate() {
            let Some(batch_id) = values.text(Field::BatchId) else {
                continue;
            };
            let time = Some(event.time_unix_nano).filter(|time| *time > 0);
            let next = said.get(place + 1).map(|(next, _)| next.time_unix_nano);
            let times = match (values.times(time), time) {
                (Some((start, end)), _) => Some((BatchTimes::Reported, start, end)),
                (None, Some(start)) if is_stage => Some((BatchTimes::StageSpan, start, span.1)),
                (None, Some(start)) => Some((BatchTimes::NextEvent, start, next.unwrap_or(span.1))),
                (None, None) => None,
            };
            let source = (BatchSource::SpanEvent, Arc::clone(&worker));
            sightings.push(Sighting {
                model: owner.model.clone(),
                participants: vec![Participant {
                    phase: values.phase(),
                    tokens: values.count(Field::Tokens),
                    ..owner.participant.clone()
                }],
                ..sighting(values, source, batch_id, times, span)
            });
        }
        Ok(())
    }

    /// The request that a span belongs to: itself, or the nearest above it.
    fn owner(
        &self,
        tree: &mut Option<Tree>,
        spans: &[SeenSpan<'_>],
        place: usize,
        summary: &SpanSummary<'_>,
    ) -> otlp::Result<Owner> {
        let mut at = Some(place);
        for _ in 0..ANCESTORS_MAX {
            let Some(span) = at.and_then(|at| spans.get(at)) else {
                break;
            };
            if span.is_request {
                let values = Values::read(attribute::of_span(span.at.span), &self.keys)?;
                let span_id = SpanSummary::read(span.at.span)?.span_id;
                let id = values.text(Field::RequestId);
                return Ok(Owner {
                    participant: participant(summary.trace_id, Some(span_id), id),
                    model: values.text(Field::Model),
                });
            }
            let tree = tree.get_or_insert_with(|| Tree::new(spans));
            at = at.and_then(|at| tree.parent(at));
        }
        Ok(Owner {
            participant: participant(summary.trace_id, None, None),
            model: None,
        })
    }

    fn worker(&mut self, at: &SpanAt<'_>, summary: &SpanSummary<'_>) -> otlp::Result<Arc<Worker>> {
        let scope = otlp::scope::read(at.scope)?;
        let kind = engine::engine_of(summary.name, scope.name).map(engine::Engine::as_str);
        let mut known = self.workers.get(at.resource).into_iter().flatten();
        if let Some(worker) = known.find(|worker| worker.engine == kind) {
            return Ok(Arc::clone(worker));
        }
        if self.workers.len() >= WORKERS_MAX {
            self.workers.clear();
        }
        let worker = Arc::new(read_worker(kind, at.resource)?);
        let of_resource = self.workers.entry(at.resource.into()).or_default();
        of_resource.push(Arc::clone(&worker));
        Ok(worker)
    }
}

/// What the attributes of a span or an event say of a batch, whoever is in it; where they give no times, it was around
/// those of the span.
fn sighting(
    values: &Values<'_>,
    (source, worker): (BatchSource, Arc<Worker>),
    batch_id: Arc<str>,
    times: Option<(BatchTimes, u64, u64)>,
    span: (u64, u64),
) -> Sighting {
    let (from, to) = times.map_or(span, |(_, start, end)| (start, end));
    Sighting {
        source,
        worker,
        dp_rank: values.int(Field::DpRank),
        batch_id,
        step: values.int(Field::Step),
        times,
        around: (from, to.max(from)),
        size: values.count(Field::Size),
        batch_tokens: values.count(Field::BatchTokens),
        model: values.text(Field::Model),
        span: None,
        participants: Vec::new(),
    }
}

fn participant(
    trace_id: otlp::TraceId,
    span_id: Option<SpanId>,
    id: Option<Arc<str>>,
) -> Participant {
    let normalised = id.as_deref().map(|id| Arc::from(request_id::normalise(id)));
    Participant {
        trace_id: Some(trace_id),
        span_id,
        request_id: id,
        request_id_normalised: normalised,
        phase: None,
        tokens: None,
    }
}

fn distinct(participants: &[Participant]) -> u64 {
    let ids = participants.iter().map(|one| (one.trace_id, one.span_id));
    let mut ids: Vec<_> = ids.collect();
    ids.sort_unstable();
    ids.dedup();
    ids.len() as u64
}

fn read_worker(engine: Option<&'static str>, resource: &[u8]) -> otlp::Result<Worker> {
    let mut worker = Worker {
        engine,
        ..Worker::default()
    };
    for attribute in attribute::of_resource(resource) {
        let (key, value) = attribute?;
        let slot = match key {
            "service.name" => &mut worker.service_name,
            "service.instance.id" => &mut worker.service_instance_id,
            "k8s.cluster.name" => &mut worker.k8s_cluster_name,
            "k8s.namespace.name" => &mut worker.k8s_namespace_name,
            "k8s.pod.name" => &mut worker.k8s_pod_name,
            "k8s.pod.uid" => &mut worker.k8s_pod_uid,
            "k8s.node.name" => &mut worker.k8s_node_name,
            "host.name" => &mut worker.host_name,
            _ => continue,
        };
        let mut text = String::new();
        value.write_text(&mut text);
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        *slot = (!text.is_empty()).then(|| text.into());
    }
    Ok(worker)
}

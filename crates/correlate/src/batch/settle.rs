//! A gathered batch to its rows.

use arrow::array::RecordBatch;
use tables::batches::{Batch, BatchesBuilder, Participant, Share};

use super::{
    BatchSource, BatchTimes,
    share::{ShareMethod, Shares, share},
    window::{List, Open},
};

const SOURCES: [BatchSource; BatchSource::COUNT] = [
    BatchSource::SpanAttribute,
    BatchSource::SpanEvent,
    BatchSource::BatchSpan,
    BatchSource::Reported,
];

/// How a share of nobody in particular is marked.
const REMAINDER: &str = "remainder";

/// Appends the rows of one batch. `finished` takes what has no room.
pub(super) fn append(
    open: Open,
    is_all_listed: bool,
    rows: &mut BatchesBuilder,
    finished: &mut Vec<RecordBatch>,
) {
    let (batch, participants, is_assumed) = settled(open, is_all_listed);
    let (shares, is_estimated) = shares(&batch, &participants, is_assumed);
    let method = shares.as_ref().and_then(|shares| shares.method);
    let mut push = |participant: Option<&Participant>, share: Share| {
        let mut appended = rows.append(&batch, participant, share);
        if appended.as_ref().is_err_and(tables::Error::is_full) {
            finished.push(rows.finish());
            appended = rows.append(&batch, participant, share);
        }
        debug_assert!(appended.is_ok(), "an empty builder has room");
    };
    for (place, participant) in participants.iter().enumerate() {
        let listed = shares.as_ref().and_then(|shares| shares.listed.as_ref());
        let share = Share {
            nanos: listed.and_then(|listed| listed.get(place).copied()),
            method: method.map(ShareMethod::as_str),
            estimated: is_estimated,
        };
        push(Some(participant), share);
    }
    let n_listed = participants.len() as u64;
    let is_whole = batch.participant_count == Some(n_listed) && n_listed > 0;
    if !is_whole {
        let share = Share {
            nanos: shares.map(|shares| shares.remainder),
            method: Some(REMAINDER),
            estimated: is_estimated,
        };
        push(None, share);
    }
}

/// The batch, its participants, and whether their number is an assumption.
fn settled(mut open: Open, is_all_listed: bool) -> (Batch, Vec<Participant>, bool) {
    let mut quality = Vec::new();
    let best = SOURCES.into_iter().max_by_key(|source| {
        let n_listed = open.lists[*source as usize].participants.len();
        (n_listed, *source)
    });
    let source = if open.span.is_some() && is_nobody_listed(&open) {
        BatchSource::BatchSpan
    } else {
        best.unwrap_or(BatchSource::SpanAttribute)
    };
    let list = std::mem::take(&mut open.lists[source as usize]);
    let tokens_differ = !list.tokens_differ.is_empty();
    let participants = own_participants(list);
    let n_listed = participants.len() as u64;
    if open.size.is_some_and(|size| size < n_listed) {
        quality.push("more_than_size");
    }
    let said = open.size.map(|size| size.max(n_listed));
    let is_assumed = said.is_none() && is_all_listed && n_listed > 0;
    let mut kinds = BatchTimes::ALL.into_iter().rev();
    let times = kinds.find_map(|kind| Some((kind, open.times[kind as usize]?)));
    if open.ends_before_start {
        quality.push("end_before_start");
    }
    if tokens_differ {
        quality.push("tokens_differ");
    }
    let tokens = participants.iter().filter_map(|one| one.tokens);
    let listed_tokens = tokens.fold(0, u64::saturating_add);
    if open.batch_tokens.is_some_and(|all| all < listed_tokens) {
        quality.push("tokens_over_batch");
    }
    let batch = Batch {
        batch_id: open.batch_id,
        step: open.step,
        worker: open.worker,
        dp_rank: open.dp_rank,
        model: open.model,
        interval: times.map(|(_, times)| times),
        interval_source: times.map(|(kind, _)| kind.as_str()),
        near_unix_nano: open.around.0,
        batch_tokens: open.batch_tokens,
        participant_count: said.or(is_assumed.then_some(n_listed)),
        listed_count: n_listed,
        source: source.as_str(),
        span: open.span,
        quality,
        received_unix_nano: open.received_unix_nano,
    };
    (batch, participants, is_assumed)
}

fn is_nobody_listed(open: &Open) -> bool {
    open.lists.iter().all(|list| list.participants.is_empty())
}

/// Without those whose span is not known where another of their trace is, and without tokens that contradict each other.
fn own_participants(list: List) -> Vec<Participant> {
    let mut participants = list.participants;
    for place in list.tokens_differ {
        participants[place].tokens = None;
    }
    let is_unnamed = |one: &Participant| one.trace_id.is_some() && one.span_id.is_none();
    if participants.iter().any(is_unnamed) {
        let named = participants.iter().filter(|one| !is_unnamed(one));
        let named: std::collections::HashSet<_> = named.map(|one| one.trace_id).collect();
        participants.retain(|one| !is_unnamed(one) || !named.contains(&one.trace_id));
    }
    let id = |one: &Participant| (one.trace_id, one.span_id, one.request_id.clone());
    participants.sort_by_cached_key(id);
    participants
}

/// Shares of the batch's time, and whether they rest on an assumption; `None` where its time is not known.
fn shares(batch: &Batch, participants: &[Participant], is_assumed: bool) -> (Option<Shares>, bool) {
    let Some((start, end)) = batch.interval else {
        return (None, false);
    };
    let tokens: Vec<_> = participants.iter().map(|one| one.tokens).collect();
    let shares = share(
        end - start,
        &tokens,
        batch.participant_count,
        batch.batch_tokens,
    );
    let is_next = batch.interval_source == Some(BatchTimes::NextEvent.as_str());
    let is_estimated = shares.method == Some(ShareMethod::Equal) || is_next || is_assumed;
    (Some(shares), is_estimated)
}

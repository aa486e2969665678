//! Judging a report: as a whole, and with the entry's place where something is wrong.
//!
//! A message of two bytes becomes a struct of hundreds, so entries are counted on the bytes before anything is decoded.

use otlp::wire::{Fields, Value};
use prost::Message;

use crate::{
    Kind,
    error::{Error, Result},
    messages::{
        Batch, Observation, Participant, Phase, Placement, ReportBatchesRequest,
        ReportPlacementsRequest, Worker,
    },
};

/// Placements of one request.
pub const PLACEMENTS_MAX: usize = 4096;

/// Batches of one request.
pub const BATCHES_MAX: usize = 1024;

/// Participants of all batches of a request.
pub const PARTICIPANTS_MAX: usize = 65_536;

/// The longest text. Names of Kubernetes have at most 253 bytes.
pub const TEXT_BYTES_MAX: usize = 1024;

/// The highest rank; no fleet has as many.
const RANK_MAX: u32 = 1 << 20;

/// Field of the batches' participants.
const PARTICIPANTS: u32 = 10;

/// What a report that can be used holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Placements or batches. An observation counts as one more, as it says something even without any.
    pub n_entries: u64,
}

/// Can all of this report be used?
///
/// # Errors
/// The first thing that is wrong.
pub fn check(kind: Kind, body: &[u8]) -> Result<Checked> {
    let n_entries = match kind {
        Kind::Placements => {
            let request = read_placements(body)?;
            let n_observations = usize::from(request.observation.is_some());
            request.placements.len().saturating_add(n_observations)
        }
        Kind::Batches => read_batches(body)?.batches.len(),
    };
    Ok(Checked {
        n_entries: n_entries as u64,
    })
}

/// Reads and judges a report of placements.
///
/// # Errors
/// The first thing that is wrong.
pub fn read_placements(body: &[u8]) -> Result<ReportPlacementsRequest> {
    const UNREADABLE: Error = Error::Unreadable {
        message: "whyslow.v1.ReportPlacementsRequest",
    };
    let n_entries = messages(body, 1).count();
    at_most(PLACEMENTS_MAX, "placements", n_entries)?;
    let request = ReportPlacementsRequest::decode(body).map_err(|_| UNREADABLE)?;
    let observation = request.observation.as_ref();
    if let Some(observation) = observation {
        check_observation(observation)?;
    }
    for (idx, placement) in request.placements.iter().enumerate() {
        let entry = Entry {
            list: "placements",
            idx,
        };
        check_placement(&entry, placement, observation.is_some())?;
    }
    Ok(request)
}

/// Reads and judges a report of batches.
///
/// # Errors
/// The first thing that is wrong.
pub fn read_batches(body: &[u8]) -> Result<ReportBatchesRequest> {
    const UNREADABLE: Error = Error::Unreadable {
        message: "whyslow.v1.ReportBatchesRequest",
    };
    at_most(BATCHES_MAX, "batches", messages(body, 1).count())?;
    let participants = messages(body, 1).map(|batch| messages(batch, PARTICIPANTS).count());
    at_most(PARTICIPANTS_MAX, "participants", participants.sum())?;
    let request = ReportBatchesRequest::decode(body).map_err(|_| UNREADABLE)?;
    for (idx, batch) in request.batches.iter().enumerate() {
        let entry = Entry {
            list: "batches",
            idx,
        };
        check_batch(&entry, batch)?;
    }
    Ok(request)
}

/// The messages in a field of a message; up to where the bytes are none, which decoding will say.
pub(crate) fn messages(body: &[u8], field: u32) -> impl Iterator<Item = &[u8]> {
    let readable = Fields::new(body).map_while(Result::ok);
    readable.filter_map(move |(number, value)| match value {
        Value::Bytes(message) if number == field => Some(message),
        _ => None,
    })
}

fn at_most(limit: usize, field: &'static str, n_entries: usize) -> Result<()> {
    if n_entries > limit {
        return Err(Error::TooMany { field, limit });
    }
    Ok(())
}

/// Place of an entry.
struct Entry {
    list: &'static str,
    idx: usize,
}

impl Entry {
    fn require(&self, holds: bool, field: &str, problem: &'static str) -> Result<()> {
        if holds {
            return Ok(());
        }
        let (list, idx) = (self.list, self.idx);
        Err(Error::Invalid {
            place: format!("{list}[{idx}].{field}"),
            problem,
        })
    }

    fn text(&self, field: &str, text: &str) -> Result<()> {
        let is_short = text.len() <= TEXT_BYTES_MAX;
        self.require(is_short, field, "is longer than 1024 bytes")?;
        let is_plain = !text.chars().any(char::is_control);
        self.require(is_plain, field, "has control characters")
    }

    fn time(&self, field: &str, unix_nano: u64) -> Result<()> {
        self.require(
            is_time(unix_nano),
            field,
            "must be nanoseconds since 1970, after the year 2000",
        )
    }

    fn worker(&self, worker: &Worker) -> Result<()> {
        for (field, text) in [
            ("worker.cluster", &worker.cluster),
            ("worker.namespace", &worker.namespace),
            ("worker.pod", &worker.pod),
            ("worker.pod_uid", &worker.pod_uid),
            ("worker.container", &worker.container),
            ("worker.node", &worker.node),
        ] {
            self.text(field, text)?;
        }
        Ok(())
    }

    fn rank(&self, field: &str, rank: Option<u32>) -> Result<()> {
        let is_rank = rank.is_none_or(|rank| rank < RANK_MAX);
        self.require(is_rank, field, "is no rank")
    }
}

/// Seconds and milliseconds given by mistake lie in 1970; what does not fit 63 bits, after 2262.
fn is_time(unix_nano: u64) -> bool {
    const YEAR_2000: u64 = 946_684_800_000_000_000;
    (YEAR_2000..=i64::MAX as u64).contains(&unix_nano)
}

fn check_observation(observation: &Observation) -> Result<()> {
    let require = |holds: bool, field: &str, problem| {
        let place = format!("observation.{field}");
        if holds {
            Ok(())
        } else {
            Err(Error::Invalid { place, problem })
        }
    };
    let node = &observation.node;
    let is_name = !node.is_empty() && node.len() <= TEXT_BYTES_MAX;
    require(is_name, "node", "must name the node that was looked at")?;
    let at = observation.observed_unix_nano;
    let problem = "must be nanoseconds since 1970, after the year 2000";
    require(is_time(at), "observed_unix_nano", problem)?;
    let before = observation.unchanged_until_unix_nano;
    let is_before = before.is_none_or(|before| is_time(before) && before <= at);
    let problem = "must not be after `observed_unix_nano`";
    require(is_before, "unchanged_until_unix_nano", problem)
}

fn check_placement(entry: &Entry, placement: &Placement, is_observed: bool) -> Result<()> {
    let worker = placement.worker.as_ref();
    let has_pod =
        worker.is_some_and(|worker| !(worker.pod.is_empty() && worker.pod_uid.is_empty()));
    let problem = "must name the pod by `pod` or `pod_uid`";
    entry.require(has_pod, "worker", problem)?;
    if let Some(worker) = worker {
        entry.worker(worker)?;
    }
    entry.rank("dp_rank", placement.dp_rank)?;
    entry.rank("pp_rank", placement.pp_rank)?;
    entry.rank("tp_rank", placement.tp_rank)?;
    entry.text("device_name", &placement.device_name)?;
    let is_named =
        is_observed && placement.gpu_uuid.is_empty() && !placement.device_name.is_empty();
    let problem = "is no UUID of a GPU such as `GPU-6e0bb1a2-0a4c-4f0e-9d53-1c2b3a495867`; an index is not enough";
    let is_device = is_named || is_gpu_uuid(&placement.gpu_uuid);
    entry.require(is_device, "gpu_uuid", problem)?;
    if is_observed {
        return Ok(());
    }
    entry.time("valid_from_unix_nano", placement.valid_from_unix_nano)?;
    if let Some(to) = placement.valid_to_unix_nano {
        entry.time("valid_to_unix_nano", to)?;
        let is_after = to > placement.valid_from_unix_nano;
        let problem = "must be after `valid_from_unix_nano`";
        entry.require(is_after, "valid_to_unix_nano", problem)?;
    }
    Ok(())
}

fn check_batch(entry: &Entry, batch: &Batch) -> Result<()> {
    entry.text("batch_id", &batch.batch_id)?;
    entry.require(!batch.batch_id.is_empty(), "batch_id", "is required")?;
    entry.text("service_name", &batch.service_name)?;
    entry.text("service_instance_id", &batch.service_instance_id)?;
    entry.text("model", &batch.model)?;
    let worker = batch.worker.as_ref();
    let has_pod =
        worker.is_some_and(|worker| !(worker.pod.is_empty() && worker.pod_uid.is_empty()));
    let has_engine = has_pod || !batch.service_instance_id.is_empty();
    let problem = "or `worker.pod` or `worker.pod_uid` must name the engine";
    entry.require(has_engine, "service_instance_id", problem)?;
    if let Some(worker) = worker {
        entry.worker(worker)?;
    }
    entry.rank("dp_rank", batch.dp_rank)?;
    entry.time("start_unix_nano", batch.start_unix_nano)?;
    entry.time("end_unix_nano", batch.end_unix_nano)?;
    let is_after = batch.end_unix_nano >= batch.start_unix_nano;
    let problem = "must not be before `start_unix_nano`";
    entry.require(is_after, "end_unix_nano", problem)?;
    for (idx, participant) in batch.participants.iter().enumerate() {
        check_participant(entry, idx, participant)?;
    }
    let n_listed = batch.participants.len();
    let n_all = batch
        .participant_count
        .map(|n| usize::try_from(n).unwrap_or(usize::MAX));
    let is_all = n_all.is_none_or(|n_all| n_all >= n_listed);
    let problem = "is less than the participants that are listed";
    entry.require(is_all, "participant_count", problem)
}

fn check_participant(entry: &Entry, idx: usize, participant: &Participant) -> Result<()> {
    let Participant {
        trace_id,
        span_id,
        request_id,
        phase,
        tokens,
    } = participant;
    let problem = if !is_id(trace_id, 16) {
        "has a `trace_id` that is neither empty nor 16 bytes with one that is not 0"
    } else if !is_id(span_id, 8) {
        "has a `span_id` that is neither empty nor 8 bytes with one that is not 0"
    } else if trace_id.is_empty() && request_id.is_empty() {
        "must name the request by `trace_id` or `request_id`"
    } else if request_id.len() > TEXT_BYTES_MAX {
        "has a `request_id` longer than 1024 bytes"
    } else if Phase::try_from(*phase).is_err() {
        "has a `phase` that is none"
    } else if tokens.is_some_and(|tokens| i64::try_from(tokens).is_err()) {
        "has more `tokens` than 63 bits hold"
    } else {
        return Ok(());
    };
    entry.require(false, &format!("participants[{idx}]"), problem)
}

/// Absent, or an id.
fn is_id(bytes: &[u8], n_bytes: usize) -> bool {
    bytes.is_empty() || bytes.len() == n_bytes && bytes.iter().any(|byte| *byte != 0)
}

/// Is this the UUID of a GPU or a MIG instance, as drivers and frameworks write it? `GPU-` and `MIG-` may be left out;
/// old drivers call a MIG instance `MIG-GPU-<uuid>/<gi>/<ci>`.
#[must_use]
pub fn is_gpu_uuid(text: &str) -> bool {
    const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];
    let is_number = |text: &str| {
        !text.is_empty() && text.len() <= 3 && text.bytes().all(|b| b.is_ascii_digit())
    };
    let uuid = match strip_prefix(text, "MIG-GPU-") {
        Some(rest) => {
            let mut parts = rest.split('/');
            let uuid = parts.next().unwrap_or_default();
            if parts.clone().count() != 2 || !parts.all(is_number) {
                return false;
            }
            uuid
        }
        None => strip_prefix(text, "GPU-")
            .or_else(|| strip_prefix(text, "MIG-"))
            .unwrap_or(text),
    };
    let groups = uuid.split('-');
    groups.clone().count() == GROUPS.len()
        && groups.zip(GROUPS).all(|(group, n_digits)| {
            group.len() == n_digits && group.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
}

/// In any case.
fn strip_prefix<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let (head, rest) = text.split_at_checked(prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then_some(rest)
}

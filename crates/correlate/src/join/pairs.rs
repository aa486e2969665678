//! Pairs of request and device, and what there is between them before any sample is read.

use super::{
    KeptRequest, SampleIndex, Settings, Traffic,
    series::{Place, Series},
};
use crate::placement::{Held, MissingLink, Placement, Placements};

/// How far a device's values speak about one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attribution {
    /// Nobody else ran on the device.
    Exclusive,
    /// Other requests ran on the same engine.
    SharedBatch,
    /// Other pods held the device.
    SharedGpu,
    /// Only the node is known.
    NodeOnly,
    /// Nothing is known.
    Unmapped,
}

impl Attribution {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::SharedBatch => "shared_batch",
            Self::SharedGpu => "shared_gpu",
            Self::NodeOnly => "node_only",
            Self::Unmapped => "unmapped",
        }
    }
}

/// One row of evidence in the making.
#[derive(Debug)]
pub(crate) struct Pair<'a> {
    /// Place of the request.
    pub(crate) request: usize,
    pub(crate) placement: Option<&'a Placement>,
    pub(crate) is_disputed: bool,
    pub(crate) n_other_pods: usize,
    pub(crate) n_other_requests: Option<usize>,
    pub(crate) attribution: Attribution,
    pub(crate) missing: Option<MissingLink>,
    pub(crate) series: Option<&'a Series>,
    /// The request's time on the device.
    pub(crate) start: i64,
    pub(crate) end: i64,
    /// Its samples.
    pub(crate) place: Place,
    /// Samples of the minutes before.
    pub(crate) baseline: Place,
}

/// All pairs of some requests, in the order of the requests.
#[derive(Debug)]
pub(crate) struct Pairs<'a> {
    pub(crate) rows: Vec<Pair<'a>>,
}

impl<'a> Pairs<'a> {
    pub(crate) fn new(
        requests: &[KeptRequest],
        samples: &'a SampleIndex,
        placements: &'a Placements,
        traffic: &Traffic,
        settings: Settings,
    ) -> Self {
        let mut rows = Vec::with_capacity(requests.len());
        for (place, request) in requests.iter().enumerate() {
            let (start, end) = (request.start_unix_nano, request.end_unix_nano);
            match placements.held_by(&request.pod, start, end) {
                Ok(held) => rows.extend(held.into_iter().map(|held| {
                    let mut pair = mapped(place, request, &held, traffic);
                    pair.series = samples.of(&held.placement.device);
                    pair
                })),
                Err(missing) => rows.push(unmapped(place, request, missing, traffic)),
            }
        }
        let mut pairs = Self { rows };
        pairs.find_samples(settings);
        pairs
    }

    fn find_samples(&mut self, settings: Settings) {
        let away_max = nanos(settings.nearest_max);
        let baseline = nanos(settings.baseline);
        for pair in &mut self.rows {
            let Some(series) = pair.series else { continue };
            pair.place = series.place(pair.start, pair.end, away_max);
            pair.baseline = series.before(pair.start, baseline);
        }
        for pair in &mut self.rows {
            if pair.missing.is_none() && pair.place.is_empty() {
                pair.missing = Some(MissingLink::GpuSamples);
            }
        }
    }
}

fn mapped<'a>(place: usize, request: &KeptRequest, held: &Held<'a>, traffic: &Traffic) -> Pair<'a> {
    let (start, end) = held.during;
    let n_other_requests = others(request, start, end, traffic);
    let attribution = match n_other_requests {
        _ if held.n_other_pods > 0 => Attribution::SharedGpu,
        Some(0) => Attribution::Exclusive,
        // Where nobody can say that it ran alone, it is not said.
        Some(_) | None => Attribution::SharedBatch,
    };
    Pair {
        request: place,
        placement: Some(held.placement),
        is_disputed: held.is_disputed,
        n_other_pods: held.n_other_pods,
        n_other_requests,
        attribution,
        missing: None,
        series: None,
        start,
        end,
        place: Place::NONE,
        baseline: Place::NONE,
    }
}

/// Activity of a node is never pinned on one request: the row names the node and carries no values.
fn unmapped<'a>(
    place: usize,
    request: &KeptRequest,
    missing: MissingLink,
    traffic: &Traffic,
) -> Pair<'a> {
    let (start, end) = (request.start_unix_nano, request.end_unix_nano);
    Pair {
        request: place,
        placement: None,
        is_disputed: false,
        n_other_pods: 0,
        n_other_requests: others(request, start, end, traffic),
        attribution: match request.node {
            Some(_) => Attribution::NodeOnly,
            None => Attribution::Unmapped,
        },
        missing: Some(missing),
        series: None,
        start,
        end,
        place: Place::NONE,
        baseline: Place::NONE,
    }
}

fn others(request: &KeptRequest, start: i64, end: i64, traffic: &Traffic) -> Option<usize> {
    let running = traffic.overlapping(request.engine.as_deref()?, start, end)?;
    Some(running.saturating_sub(1))
}

pub(crate) fn nanos(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

//! Pairs of request and device, and what there is between them before any sample is read.

use super::{
    KeptRequest, SampleIndex, Settings, Traffic,
    series::{Around, Place, Series},
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
    /// Samples around it.
    pub(crate) around: Option<Around>,
    /// Share of it that samples describe.
    pub(crate) coverage: Option<f64>,
}

/// All pairs of some requests, in the order of the requests.
#[derive(Debug)]
pub(crate) struct Pairs<'a> {
    pub(crate) rows: Vec<Pair<'a>>,
    /// Rows with samples, those of one device one after the other in the order of their starts: what one of them read of
    /// the device is still in the cache for the next.
    pub(crate) by_device: Vec<usize>,
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
                Ok(held) => {
                    // Mostly one count is that of all its devices.
                    let mut last = None;
                    for held in held {
                        let n_others = match last {
                            Some((during, n_others)) if during == held.during => n_others,
                            Some(_) | None => others(request, held.during, traffic),
                        };
                        last = Some((held.during, n_others));
                        let mut pair = mapped(place, &held, n_others);
                        pair.series = samples.of(&held.placement.device);
                        rows.push(pair);
                    }
                }
                Err(missing) => rows.push(unmapped(place, request, missing, traffic)),
            }
        }
        let by_device = by_device(&rows);
        let mut pairs = Self { rows, by_device };
        pairs.find_samples(settings);
        pairs
    }

    fn find_samples(&mut self, settings: Settings) {
        let away_max = nanos(settings.nearest_max);
        let baseline = nanos(settings.baseline);
        for row in &self.by_device {
            let pair = &mut self.rows[*row];
            let Some(series) = pair.series else { continue };
            let stretch = series.stretch(pair.start, pair.end);
            pair.place = series.place(&stretch, away_max);
            pair.baseline = series.before(&stretch, baseline);
            pair.around = series.around(&stretch, away_max);
            pair.coverage = Some(series.coverage(&stretch));
        }
        for pair in &mut self.rows {
            if pair.missing.is_none() && pair.place.is_empty() {
                pair.missing = Some(MissingLink::GpuSamples);
            }
        }
    }
}

/// Rows with samples, by device and start; any order of the devices will do.
fn by_device(rows: &[Pair<'_>]) -> Vec<usize> {
    let mut keys: Vec<(usize, i64, usize)> = Vec::with_capacity(rows.len());
    for (row, pair) in rows.iter().enumerate() {
        let device = pair.series.map(|series| std::ptr::from_ref(series).addr());
        keys.extend(device.map(|device| (device, pair.start, row)));
    }
    keys.sort_unstable();
    keys.into_iter().map(|(.., row)| row).collect()
}

fn mapped<'a>(place: usize, held: &Held<'a>, n_other_requests: Option<usize>) -> Pair<'a> {
    let (start, end) = held.during;
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
        around: None,
        coverage: None,
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
        n_other_requests: others(request, (start, end), traffic),
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
        around: None,
        coverage: None,
    }
}

fn others(request: &KeptRequest, (start, end): (i64, i64), traffic: &Traffic) -> Option<usize> {
    let running = traffic.overlapping(request.engine.as_deref()?, start, end)?;
    Some(running.saturating_sub(1))
}

pub(crate) fn nanos(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

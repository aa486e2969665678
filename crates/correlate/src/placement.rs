//! Placements over time: which pod held which GPU from when to when, and who says so.
//!
//! A placement is a half-open interval of time in which a pod held a device. Several sources tell of them; for one
//! request the best source that knows its pod *at that time* is believed, and others only show up where they
//! disagree. A pod is found by its UID, else by cluster, namespace and name; a request that names no pod, or one that
//! fits several, is not guessed at. Every break of the chain has a name ([`MissingLink`]).
//!
//! Sources differ in what they know: the worker that reports itself knows its rank; the kubelet's `PodResources` and exporter
//! labels know no UID, so that a pod recreated under its name cannot be told from the one before except by time.

mod change;
mod observed;
mod reported;

use std::{collections::HashMap, sync::Arc};

use crate::device::Device;

pub use change::{CONFIRMED_EVERY_NANOS, Change, Event};
pub use observed::{HeldOnNode, HolderParts, Observed};
pub use reported::Reported;

/// Who says that a pod holds a device, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// The worker process itself.
    Reported,
    /// The kubelet's `PodResources`.
    PodResources,
    /// Labels of the GPU exporter.
    ExporterLabels,
    /// A file that somebody wrote.
    StaticFile,
}

impl Source {
    /// All of them, best first.
    pub const ALL: [Self; 4] = [
        Self::Reported,
        Self::PodResources,
        Self::ExporterLabels,
        Self::StaticFile,
    ];

    /// As stored.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reported => "reported",
            Self::PodResources => "pod_resources",
            Self::ExporterLabels => "exporter_labels",
            Self::StaticFile => "static_file",
        }
    }
}

/// What a pod is known by. Texts that are not known are `None`; an empty text says nothing and must not be given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pod {
    /// `k8s.cluster.name`.
    pub cluster: Option<Arc<str>>,
    /// `k8s.namespace.name`.
    pub namespace: Option<Arc<str>>,
    /// `k8s.pod.name`.
    pub name: Option<Arc<str>>,
    /// `k8s.pod.uid`.
    pub uid: Option<Arc<str>>,
}

impl Pod {
    /// Can they be the same pod? Both know its UID, or both its name and nothing else speaks against it.
    #[must_use]
    pub fn fits(&self, other: &Self) -> bool {
        fn agree(one: Option<&Arc<str>>, other: Option<&Arc<str>>) -> bool {
            one.is_none() || other.is_none() || one == other
        }
        if self.uid.is_some() && other.uid.is_some() {
            return self.uid == other.uid;
        }
        self.name.is_some()
            && self.name == other.name
            && agree(self.namespace.as_ref(), other.namespace.as_ref())
            && agree(self.cluster.as_ref(), other.cluster.as_ref())
    }
}

/// Ranks of the worker process that holds a device; only a worker knows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ranks {
    /// Data parallel.
    pub dp: Option<i64>,
    /// Pipeline parallel.
    pub pp: Option<i64>,
    /// Tensor parallel.
    pub tp: Option<i64>,
}

impl Ranks {
    /// Is any of them known?
    #[must_use]
    pub const fn is_known(&self) -> bool {
        self.dp.is_some() || self.pp.is_some() || self.tp.is_some()
    }
}

/// How much a placement is worth: see [`Placements::confidence`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Confidence {
    /// Somebody's word alone, or disputed, or of a pod that may be another of that name.
    Low,
    /// Observed by somebody who does not hold the device, or said of a pod by its name alone.
    Medium,
    /// Said by the worker or the kubelet of one pod, and nobody says otherwise.
    High,
}

impl Confidence {
    /// As stored.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }

    const fn one_less(self) -> Self {
        match self {
            Self::Low | Self::Medium => Self::Low,
            Self::High => Self::Medium,
        }
    }
}

/// A pod held a device in `valid_from..valid_to`, nanoseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// What was held.
    pub device: Device,
    /// By whom.
    pub pod: Pod,
    /// Container in the pod.
    pub container: Option<Arc<str>>,
    /// `k8s.node.name`.
    pub node: Option<Arc<str>>,
    /// Of the worker process.
    pub ranks: Ranks,
    /// From when on.
    pub valid_from_unix_nano: i64,
    /// Until when; `None` while nobody said that it ended.
    pub valid_to_unix_nano: Option<i64>,
    /// Who says so.
    pub source: Source,
}

impl Placement {
    /// From when on and until when, where an open one holds for ever.
    const fn interval(&self) -> (i64, i64) {
        let to = match self.valid_to_unix_nano {
            Some(to) => to,
            None => i64::MAX,
        };
        (self.valid_from_unix_nano, to)
    }

    /// The part of `start..end` in which it holds. A moment (`start == end`) is within a placement that holds it.
    #[must_use]
    pub fn during(&self, start: i64, end: i64) -> Option<(i64, i64)> {
        let from = self.valid_from_unix_nano.max(start);
        let to = self.valid_to_unix_nano.unwrap_or(i64::MAX).min(end);
        let holds_moment =
            start == end && from <= start && self.valid_to_unix_nano.is_none_or(|to| start < to);
        (from < to || holds_moment).then_some((from, to.max(from)))
    }
}

/// Where the chain from a request to a device breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MissingLink {
    /// The request's span names no pod.
    Pod,
    /// It names a pod that fits several.
    PodAmbiguous,
    /// No source places the pod on a device at that time.
    Placement,
    /// The device is known; there is no sample of it near that time.
    GpuSamples,
}

impl MissingLink {
    /// As stored.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pod => "pod",
            Self::PodAmbiguous => "pod_ambiguous",
            Self::Placement => "placement",
            Self::GpuSamples => "gpu_samples",
        }
    }
}

/// Devices of a pod during some time.
#[derive(Clone, Debug, PartialEq)]
pub struct Held<'a> {
    /// The placement that says so.
    pub placement: &'a Placement,
    /// The part of the time in which it was held.
    pub during: (i64, i64),
    /// Pods that held the device in that part of the time too, by the word of the same source.
    pub n_other_pods: usize,
    /// Does another source place this pod on other devices at that time?
    pub is_disputed: bool,
}

/// All placements that are known, indexed by pod name, UID and device.
#[derive(Clone, Debug, Default)]
pub struct Placements {
    all: Vec<Placement>,
    by_name: HashMap<Arc<str>, Vec<u32>>,
    by_uid: HashMap<Arc<str>, Vec<u32>>,
    by_device: HashMap<Device, Vec<u32>>,
}

impl Placements {
    /// Takes placements in any order.
    #[must_use]
    pub fn new(mut all: Vec<Placement>) -> Self {
        all.sort_by(|one, other| {
            (one.source, one.valid_from_unix_nano, &one.device).cmp(&(
                other.source,
                other.valid_from_unix_nano,
                &other.device,
            ))
        });
        let mut placements = Self::default();
        for (place, placement) in (0_u32..).zip(&all) {
            let Pod { name, uid, .. } = &placement.pod;
            let texts = [
                (name, &mut placements.by_name),
                (uid, &mut placements.by_uid),
            ];
            for (text, index) in texts {
                if let Some(text) = text {
                    index.entry(Arc::clone(text)).or_default().push(place);
                }
            }
            let devices = &mut placements.by_device;
            devices
                .entry(placement.device.clone())
                .or_default()
                .push(place);
        }
        placements.all = all;
        placements
    }

    /// All of them, best source first.
    #[must_use]
    pub fn all(&self) -> &[Placement] {
        &self.all
    }

    /// The devices that `pod` held in `start..end`, by the best source that knows it then.
    ///
    /// # Errors
    /// The link that is missing.
    pub fn held_by(&self, pod: &Pod, start: i64, end: i64) -> Result<Vec<Held<'_>>, MissingLink> {
        if pod.name.is_none() && pod.uid.is_none() {
            return Err(MissingLink::Pod);
        }
        let mut found: Vec<(&Placement, (i64, i64))> = self
            .candidates(pod)
            .filter_map(|placement| Some((placement, placement.during(start, end)?)))
            .collect();
        let Some(best) = found.iter().map(|(placement, _)| placement.source).min() else {
            return Err(MissingLink::Placement);
        };
        let others: Vec<&Device> = found
            .iter()
            .filter(|(placement, _)| placement.source != best)
            .map(|(placement, _)| &placement.device)
            .collect();
        let is_disputed = !others.is_empty()
            && others.iter().any(|device| {
                found
                    .iter()
                    .all(|(placement, _)| placement.source != best || placement.device != **device)
            });
        found.retain(|(placement, _)| placement.source == best);
        if is_ambiguous(pod, &found) {
            return Err(MissingLink::PodAmbiguous);
        }
        Ok(merged(found)
            .into_iter()
            .map(|(placement, during)| Held {
                placement,
                during,
                n_other_pods: self.n_other_pods(placement, during),
                is_disputed,
            })
            .collect())
    }

    /// Does somebody say otherwise of the time of this placement, which is one of these? Another source places the pod on
    /// a device on which this source does not, or the same rank of the pod is on another device too.
    #[must_use]
    pub fn is_disputed(&self, placement: &Placement) -> bool {
        let (start, end) = placement.interval();
        let others: Vec<&Placement> = self
            .candidates(&placement.pod)
            .filter(|other| other.during(start, end).is_some())
            .collect();
        let is_with_us = |device: &Device| {
            let mut ours = others
                .iter()
                .filter(|other| other.source == placement.source);
            ours.any(|ours| ours.device == *device)
        };
        others.iter().any(|other| {
            let is_other_source = other.source != placement.source;
            let is_same_rank = other.ranks.is_known()
                && other.ranks == placement.ranks
                && other.container == placement.container
                && other.device != placement.device;
            (is_other_source && !is_with_us(&other.device)) || (!is_other_source && is_same_rank)
        })
    }

    /// How much a placement is worth. Of the worker's and the kubelet's word much, of what exporters show less, of what
    /// a file says least; and one step less where somebody says otherwise, or where the pod is known by a name without
    /// its namespace.
    #[must_use]
    pub fn confidence(&self, placement: &Placement) -> Confidence {
        let of_source = match placement.source {
            Source::Reported | Source::PodResources => Confidence::High,
            Source::ExporterLabels => Confidence::Medium,
            Source::StaticFile => Confidence::Low,
        };
        let Pod { namespace, uid, .. } = &placement.pod;
        let is_vague = uid.is_none() && namespace.is_none();
        if is_vague || self.is_disputed(placement) {
            of_source.one_less()
        } else {
            of_source
        }
    }

    /// Other pods that held the device in the time of this placement, by the word of the same source.
    #[must_use]
    pub fn other_pod_count(&self, placement: &Placement) -> usize {
        self.n_other_pods(placement, placement.interval())
    }

    fn candidates<'a, 'p>(
        &'a self,
        pod: &'p Pod,
    ) -> impl Iterator<Item = &'a Placement> + use<'a, 'p> {
        let by_uid = self.under(&self.by_uid, pod.uid.as_ref());
        // Those with a UID were found by it, or are another pod of that name.
        let by_name = self
            .under(&self.by_name, pod.name.as_ref())
            .filter(move |placement| pod.uid.is_none() || placement.pod.uid.is_none());
        by_uid.chain(by_name.filter(move |placement| pod.fits(&placement.pod)))
    }

    fn under<'a>(
        &'a self,
        index: &'a HashMap<Arc<str>, Vec<u32>>,
        key: Option<&Arc<str>>,
    ) -> impl Iterator<Item = &'a Placement> + use<'a> {
        let places = key
            .and_then(|key| index.get(key))
            .map_or(&[][..], Vec::as_slice);
        places.iter().map(|place| &self.all[*place as usize])
    }

    /// How many other pods held the device then, by the same source: what another source calls them may be
    /// another name for the same pod.
    fn n_other_pods(&self, placement: &Placement, (start, end): (i64, i64)) -> usize {
        let places = self
            .by_device
            .get(&placement.device)
            .map_or(&[][..], Vec::as_slice);
        let mut others: Vec<&Pod> = Vec::new();
        for other in places.iter().map(|place| &self.all[*place as usize]) {
            let is_other = other.source == placement.source
                && other.during(start, end).is_some()
                && !other.pod.fits(&placement.pod)
                && !others.iter().any(|known| known.fits(&other.pod));
            if is_other {
                others.push(&other.pod);
            }
        }
        others.len()
    }
}

/// A name without a namespace (or cluster) may be that of several pods; they are not guessed apart.
fn is_ambiguous(pod: &Pod, found: &[(&Placement, (i64, i64))]) -> bool {
    if pod.uid.is_some()
        && found
            .iter()
            .all(|(placement, _)| placement.pod.uid.is_some())
    {
        return false;
    }
    let keys = |at: usize| {
        let Pod {
            cluster, namespace, ..
        } = &found[at].0.pod;
        (cluster, namespace)
    };
    (1..found.len()).any(|at| keys(at) != keys(0))
}

/// Placements of one pod on one device that follow or overlap each other become one stretch of time, so that a
/// device is never counted twice for one request.
fn merged(mut found: Vec<(&Placement, (i64, i64))>) -> Vec<(&Placement, (i64, i64))> {
    found.sort_by(|(one, during), (other, other_during)| {
        (&one.device, during.0).cmp(&(&other.device, other_during.0))
    });
    let mut stretches: Vec<(&Placement, (i64, i64))> = Vec::with_capacity(found.len());
    for (placement, (from, to)) in found {
        match stretches.last_mut() {
            Some((last, (_, end)))
                if last.device == placement.device
                    && last.ranks == placement.ranks
                    && from <= *end =>
            {
                *end = (*end).max(to);
            }
            Some(_) | None => stretches.push((placement, (from, to))),
        }
    }
    stretches
}

#[cfg(test)]
mod tests;

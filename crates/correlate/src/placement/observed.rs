//! Placements out of repeated observations: exporter labels and polled `PodResources` say who holds a device now,
//! never since when.
//!
//! An observation at one scrape describes the time since the scrape before it, as a scraped value does. While a pod
//! is seen again, its placement stays open; when the device is seen without it, the placement ends at that
//! scrape. A device that is not seen at all says nothing: exporters lose devices and labels for a while, and the
//! placement lives on for [`Observed::KEPT_UNSEEN_NANOS`].

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::{
    Placement, Pod, Ranks, Source,
    change::{CONFIRMED_EVERY_NANOS, Change, Event},
};
use crate::device::Device;

/// Devices that are followed at most; more are not.
const DEVICES_MAX: usize = 1 << 16;

/// Who held a device at a scrape.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Holder {
    pod: Pod,
    container: Option<Arc<str>>,
    node: Option<Arc<str>>,
}

#[derive(Clone, Debug)]
struct Open {
    holder: Holder,
    from: i64,
    seen: i64,
    /// When a change was made of it last.
    told: i64,
}

/// Turns observations of one source into placements.
#[derive(Clone, Debug)]
pub struct Observed {
    source: Source,
    open: HashMap<Device, Vec<Open>>,
    /// When each device was seen last, with or without a pod.
    seen: HashMap<Device, i64>,
    /// When any device was seen last.
    newest: i64,
    /// Devices of before a restart that were not observed since. When they were seen last is told once in an hour.
    restored: HashSet<Device>,
    changes: Vec<Change>,
}

/// A pod, its container and its node.
pub type HolderParts = (Pod, Option<Arc<str>>, Option<Arc<str>>);

/// Devices of a node, and the pods and containers that hold them.
pub type HeldOnNode = HashMap<Device, Vec<(Pod, Option<Arc<str>>)>>;

impl Observed {
    /// A placement that was not seen again for this long, because its device was not, has ended when it was seen last.
    pub const KEPT_UNSEEN_NANOS: i64 = 10 * 60 * 1_000_000_000;

    /// Nothing observed yet.
    #[must_use]
    pub fn new(source: Source) -> Self {
        Self {
            source,
            open: HashMap::new(),
            seen: HashMap::new(),
            newest: i64::MIN,
            restored: HashSet::new(),
            changes: Vec::new(),
        }
    }

    /// A scrape at `at` saw `device` held by these pods, and by no other. Scrapes of one device must come in order
    /// of time; one that does not is not used.
    pub fn observe(
        &mut self,
        device: &Device,
        holders: impl IntoIterator<Item = HolderParts>,
        at: i64,
    ) {
        let before = self.seen.get(device).copied();
        let is_room = before.is_some() || self.seen.len() < DEVICES_MAX;
        if !is_room || before.is_some_and(|before| before >= at) {
            return;
        }
        self.seen.insert(device.clone(), at);
        self.newest = self.newest.max(at);
        let kept = Self::kept_nanos(self.restored.remove(device));
        let is_gap = before.is_some_and(|before| at - before > kept);
        let mut open = self.open.remove(device).unwrap_or_default();
        if is_gap {
            self.close_all(device, open.drain(..));
        }
        let since = before.filter(|_| !is_gap).unwrap_or(at);
        let mut still: Vec<Open> = Vec::new();
        for (pod, container, node) in holders {
            let holder = Holder {
                pod,
                container,
                node,
            };
            if still.iter().any(|known| known.holder == holder) {
                continue;
            }
            let before = open.iter().position(|known| known.holder == holder);
            let (from, told, event) = match before.map(|place| open.swap_remove(place)) {
                Some(known) if at - known.told < CONFIRMED_EVERY_NANOS => {
                    (known.from, known.told, None)
                }
                Some(known) => (known.from, at, Some(Event::Confirmed)),
                None => (since, at, Some(Event::Opened)),
            };
            let now = Open {
                holder,
                from,
                seen: at,
                told,
            };
            if let Some(event) = event {
                self.tell(device, &now, None, event);
            }
            still.push(now);
        }
        // Somebody else, or nobody, held it by `at`; when it changed hands is not known. The new holder has the
        // time since the last scrape, so that no moment has two holders where there never were two.
        self.close_all(device, open.into_iter());
        if !still.is_empty() {
            self.open.insert(device.clone(), still);
        }
    }

    /// How long a device is believed to be as it was seen last. One of before a restart was seen after it was told last,
    /// as long as that process ran.
    const fn kept_nanos(is_restored: bool) -> i64 {
        if is_restored {
            Self::KEPT_UNSEEN_NANOS + CONFIRMED_EVERY_NANOS
        } else {
            Self::KEPT_UNSEEN_NANOS
        }
    }

    /// A look at `at` saw all devices of a node that are held: those that are not among them are held by nobody. Looks
    /// before it, the last of them at `unchanged_until`, saw what was observed last.
    pub fn observe_node(
        &mut self,
        node: &Arc<str>,
        held: HeldOnNode,
        unchanged_until: Option<i64>,
        at: i64,
    ) {
        self.newest = self.newest.max(at);
        let is_on_node = |open: &Open| open.holder.node.as_ref() == Some(node);
        let until = unchanged_until.filter(|until| *until < at);
        let mut held = held;
        for (device, open) in &mut self.open {
            for known in open.iter_mut().filter(|known| is_on_node(known)) {
                known.seen = known.seen.max(until.unwrap_or(known.seen));
                held.entry(device.clone()).or_default();
            }
        }
        for (device, pods) in held {
            // Whoever holds a device and did not in the look before holds it since then.
            if let Some(until) = until.filter(|until| at - until <= Self::KEPT_UNSEEN_NANOS)
                && self.seen.len() < DEVICES_MAX
            {
                let seen = self.seen.entry(device.clone()).or_insert(until);
                *seen = (*seen).max(until);
            }
            let holders = pods.into_iter();
            let holders = holders.map(|(pod, container)| (pod, container, Some(Arc::clone(node))));
            self.observe(&device, holders, at);
        }
    }

    /// Ends what was not seen for [`Self::KEPT_UNSEEN_NANOS`] while others were. By the time of observations and no
    /// clock: they may be of long ago.
    pub fn expire(&mut self) {
        let (newest, restored) = (self.newest, &self.restored);
        let gone = self.seen.extract_if(|device, seen| {
            let kept = Self::kept_nanos(restored.contains(device));
            *seen < newest.saturating_sub(kept)
        });
        let gone: Vec<Device> = gone.map(|(device, _)| device).collect();
        for device in gone {
            self.restored.remove(&device);
            let open = self.open.remove(&device).unwrap_or_default();
            self.close_all(&device, open.into_iter());
        }
    }

    /// Takes back what was known of a placement before a restart. One that has ended is not known here any more; but
    /// who saw its device before then says nothing new.
    pub fn restore(&mut self, placement: Placement, observed: i64) {
        let observed = observed.max(placement.valid_to_unix_nano.unwrap_or(i64::MIN));
        let seen = self
            .seen
            .entry(placement.device.clone())
            .or_insert(observed);
        *seen = (*seen).max(observed);
        self.newest = self.newest.max(observed);
        if placement.valid_to_unix_nano.is_some() {
            return;
        }
        self.restored.insert(placement.device.clone());
        let open = self.open.entry(placement.device).or_default();
        open.push(Open {
            holder: Holder {
                pod: placement.pod,
                container: placement.container,
                node: placement.node,
            },
            from: placement.valid_from_unix_nano,
            seen: observed,
            told: observed,
        });
    }

    fn close_all(&mut self, device: &Device, ended: impl Iterator<Item = Open>) {
        for open in ended {
            let end = open.seen.max(open.from);
            self.tell(device, &open, Some(end), Event::Ended);
        }
    }

    fn tell(&mut self, device: &Device, open: &Open, to: Option<i64>, event: Event) {
        let placement = self.placement(device, open, to);
        self.changes.push(Change {
            placement,
            event,
            observed_unix_nano: open.seen,
        });
    }

    fn placement(
        &self,
        device: &Device,
        open: &Open,
        valid_to_unix_nano: Option<i64>,
    ) -> Placement {
        Placement {
            device: device.clone(),
            pod: open.holder.pod.clone(),
            container: open.holder.container.clone(),
            node: open.holder.node.clone(),
            ranks: Ranks::default(),
            valid_from_unix_nano: open.from,
            valid_to_unix_nano,
            source: self.source,
        }
    }

    /// What has changed since this was asked last. What has ended does not change any more.
    pub fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// Who holds a device.
    #[must_use]
    pub fn holders(&self, device: &Device) -> Vec<HolderParts> {
        let open = self.open.get(device).into_iter().flatten();
        open.map(|open| {
            let Holder {
                pod,
                container,
                node,
            } = open.holder.clone();
            (pod, container, node)
        })
        .collect()
    }

    /// Placements that hold.
    #[must_use]
    pub fn open(&self) -> Vec<Placement> {
        let each = self
            .open
            .iter()
            .flat_map(|(device, open)| open.iter().map(move |open| (device, open)));
        each.map(|(device, open)| self.placement(device, open, None))
            .collect()
    }

    /// How many placements hold.
    #[must_use]
    pub fn n_open(&self) -> usize {
        self.open.values().map(Vec::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashMap, sync::Arc};

    use super::{Event, Observed, Placement};
    use crate::{Device, Pod, Source};

    const SECOND: i64 = 1_000_000_000;

    fn pod(name: &str) -> (Pod, Option<Arc<str>>, Option<Arc<str>>) {
        let pod = Pod {
            name: Some(name.into()),
            ..Pod::default()
        };
        (pod, None, None)
    }

    /// `(name, from, to)` in seconds of all placements, the open ones last.
    fn placements(scrapes: &[(i64, &[&str])]) -> Vec<(String, i64, Option<i64>)> {
        let device = Device::parse("GPU-0a1b2c3d", None).expect("a device");
        let mut observed = Observed::new(Source::ExporterLabels);
        for (at, pods) in scrapes {
            observed.observe(&device, pods.iter().map(|name| pod(name)), at * SECOND);
        }
        let ended = observed.take_changes().into_iter();
        let ended = ended.filter(|change| change.event == Event::Ended);
        let mut all: Vec<Placement> = ended.map(|change| change.placement).collect();
        all.extend(observed.open());
        let seconds = |at: i64| at / SECOND;
        let told = all.into_iter().map(|placement| {
            let name = placement
                .pod
                .name
                .map(|name| name.to_string())
                .unwrap_or_default();
            (
                name,
                seconds(placement.valid_from_unix_nano),
                placement.valid_to_unix_nano.map(seconds),
            )
        });
        told.collect()
    }

    #[test]
    fn a_pod_that_is_seen_again_keeps_its_placement() {
        assert_eq!(
            placements(&[(10, &["a"]), (20, &["a"]), (30, &["a"])]),
            [("a".into(), 10, None)]
        );
    }

    #[test]
    fn the_next_pod_has_the_time_since_the_last_scrape() {
        let told = placements(&[(10, &["a"]), (20, &["a"]), (30, &["b"])]);
        assert_eq!(told, [("a".into(), 10, Some(20)), ("b".into(), 20, None)]);
    }

    #[test]
    fn labels_that_vanish_end_it_and_a_device_that_is_not_scraped_does_not() {
        let told = placements(&[(10, &["a"]), (20, &["a"]), (30, &[])]);
        assert_eq!(told, [("a".into(), 10, Some(20))]);
        let told = placements(&[(10, &["a"]), (20, &["a"]), (320, &["a"])]);
        assert_eq!(told, [("a".into(), 10, None)]);
        let told = placements(&[(10, &["a"]), (20, &["a"]), (920, &["a"])]);
        assert_eq!(told, [("a".into(), 10, Some(20)), ("a".into(), 920, None)]);
    }

    /// `(number of the device, pod, from, to)` of what has become of it since, in seconds.
    fn changes(observed: &mut Observed) -> Vec<(&'static str, String, i64, Option<i64>)> {
        let changes = observed.take_changes().into_iter();
        let mut told: Vec<_> = changes
            .map(|change| {
                let Placement {
                    pod,
                    valid_from_unix_nano,
                    valid_to_unix_nano,
                    ..
                } = change.placement;
                let name = pod.name.map(|name| name.to_string()).unwrap_or_default();
                let seconds = |at: i64| at / SECOND;
                let to = valid_to_unix_nano.map(seconds);
                (
                    change.event.as_str(),
                    name,
                    seconds(valid_from_unix_nano),
                    to,
                )
            })
            .collect();
        told.sort();
        told
    }

    fn look(observed: &mut Observed, pods: &[(u32, &str)], unchanged_until: Option<i64>, at: i64) {
        let node: Arc<str> = "n".into();
        let mut held: HashMap<Device, Vec<_>> = HashMap::new();
        for (number, name) in pods {
            let device = Device::parse(&format!("GPU-{number:08x}"), None).expect("a device");
            let (pod, container, _) = pod(name);
            held.entry(device).or_default().push((pod, container));
        }
        let until = unchanged_until.map(|until| until * SECOND);
        observed.observe_node(&node, held, until, at * SECOND);
    }

    /// Looks are told only when something has changed, so the one before may be long ago.
    #[test]
    fn a_look_at_a_node_ends_what_it_does_not_see_where_it_was_seen_last() {
        let mut observed = Observed::new(Source::PodResources);
        look(&mut observed, &[(1, "a"), (2, "b")], None, 10);
        let opened = |name: &str, from| ("opened", name.to_owned(), from, None);
        let ended = |name: &str, from, to| ("ended", name.to_owned(), from, Some(to));
        assert_eq!(changes(&mut observed), [opened("a", 10), opened("b", 10)]);
        // `a` has gone to the third device, `b` is where it was.
        look(&mut observed, &[(2, "b"), (3, "a")], Some(90), 100);
        assert_eq!(
            changes(&mut observed),
            [ended("a", 10, 90), opened("a", 90)]
        );
        look(&mut observed, &[], Some(190), 200);
        assert_eq!(
            changes(&mut observed),
            [ended("a", 90, 190), ended("b", 10, 190)]
        );
        // Looks in between saw that nobody held it.
        look(&mut observed, &[(2, "c")], Some(390), 400);
        assert_eq!(changes(&mut observed), [opened("c", 390)]);
        // The same look again, and one from the past.
        look(&mut observed, &[(2, "c")], Some(390), 400);
        look(&mut observed, &[], Some(290), 300);
        assert_eq!(changes(&mut observed), []);
    }

    #[test]
    fn a_look_at_one_node_says_nothing_of_another() {
        let mut observed = Observed::new(Source::PodResources);
        look(&mut observed, &[(1, "a")], None, 10);
        observed.observe_node(
            &"other".into(),
            HashMap::new(),
            Some(10 * SECOND),
            20 * SECOND,
        );
        assert_eq!(observed.n_open(), 1);
    }

    fn observed_elsewhere(observed: &mut Observed, at: i64) {
        let nothing = HashMap::new();
        observed.observe_node(&"other".into(), nothing, None, at * SECOND);
    }

    #[test]
    fn what_is_not_seen_for_long_has_ended_and_what_was_known_before_a_restart_goes_on() {
        let mut observed = Observed::new(Source::PodResources);
        look(&mut observed, &[(1, "a")], None, 10);
        look(&mut observed, &[(1, "a")], Some(120), 130);
        observed.take_changes();
        let mut again = Observed::new(Source::PodResources);
        for placement in observed.open() {
            again.restore(placement, 130 * SECOND);
        }
        // A look half an hour later: it was seen meanwhile, and nobody was told.
        look(&mut again, &[(1, "a")], None, 1900);
        assert_eq!(changes(&mut again), []);
        observed_elsewhere(&mut again, 2400);
        again.expire();
        assert_eq!(changes(&mut again), []);
        observed_elsewhere(&mut again, 2600);
        again.expire();
        let ended = ("ended", "a".to_owned(), 10, Some(1900));
        assert_eq!(changes(&mut again), [ended]);
        assert_eq!(again.n_open(), 0);
    }

    #[test]
    fn what_holds_is_said_again_every_hour() {
        let mut observed = Observed::new(Source::PodResources);
        look(&mut observed, &[(1, "a")], None, 0);
        observed.take_changes();
        for minute in 1..150 {
            look(
                &mut observed,
                &[(1, "a")],
                Some(minute * 60 - 10),
                minute * 60,
            );
        }
        let told: Vec<_> = changes(&mut observed);
        assert_eq!(told.len(), 2);
        assert!(told.iter().all(|(event, ..)| *event == "confirmed"));
    }

    #[test]
    fn sharing_pods_are_all_kept_and_a_scrape_from_the_past_is_not_used() {
        let mut told = placements(&[(10, &["a", "b", "a"]), (20, &["b", "a"]), (15, &["c"])]);
        told.sort();
        assert_eq!(told, [("a".into(), 10, None), ("b".into(), 10, None)]);
    }
}

//! Placements out of repeated observations: exporter labels and polled `PodResources` say who holds a device now,
//! never since when.
//!
//! An observation at one scrape describes the time since the scrape before it, as a scraped value does. While a pod
//! is seen again, its placement stays open; when the device is seen without it, the placement ends at that
//! scrape. A device that is not seen at all says nothing: exporters lose devices and labels for a while, and the
//! placement lives on for [`Observed::KEPT_UNSEEN_NANOS`].

use std::{collections::HashMap, sync::Arc};

use super::{Placement, Pod, Ranks, Source};
use crate::device::Device;

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
}

/// Turns observations of one source into placements.
#[derive(Clone, Debug)]
pub struct Observed {
    source: Source,
    open: HashMap<Device, Vec<Open>>,
    /// When each device was seen last, with or without a pod.
    seen: HashMap<Device, i64>,
    closed: Vec<Placement>,
}

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
            closed: Vec::new(),
        }
    }

    /// A scrape at `at` saw `device` held by these pods, and by no other. Scrapes of one device must come in order
    /// of time; one that does not is not used.
    pub fn observe(
        &mut self,
        device: &Device,
        holders: impl IntoIterator<Item = (Pod, Option<Arc<str>>, Option<Arc<str>>)>,
        at: i64,
    ) {
        let before = self.seen.get(device).copied();
        if before.is_some_and(|before| before >= at) {
            return;
        }
        self.seen.insert(device.clone(), at);
        let is_gap = before.is_some_and(|before| at - before > Self::KEPT_UNSEEN_NANOS);
        let mut open = self.open.remove(device).unwrap_or_default();
        if is_gap {
            for ended in open.drain(..) {
                let end = ended.seen;
                self.close(device, ended, end);
            }
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
            let from = match open.iter().position(|known| known.holder == holder) {
                Some(place) => open.swap_remove(place).from,
                None => since,
            };
            still.push(Open {
                holder,
                from,
                seen: at,
            });
        }
        for ended in open {
            // Somebody else, or nobody, held it by `at`; when it changed hands is not known. The new holder has the
            // time since the last scrape, so that no moment has two holders where there never were two.
            let end = ended.seen;
            self.close(device, ended, end);
        }
        if !still.is_empty() {
            self.open.insert(device.clone(), still);
        }
    }

    fn close(&mut self, device: &Device, open: Open, end: i64) {
        let placement = self.placement(device, &open, Some(end));
        // Seen once and gone: it held the device at one moment, which a half-open interval cannot say.
        if placement.valid_from_unix_nano < end {
            self.closed.push(placement);
        }
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

    /// Placements that have ended since this was asked last; they do not change any more.
    pub fn take_closed(&mut self) -> Vec<Placement> {
        std::mem::take(&mut self.closed)
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
}

#[cfg(test)]
mod tests {
    use super::Observed;
    use crate::{Device, Pod, Source};

    const SECOND: i64 = 1_000_000_000;

    fn pod(
        name: &str,
    ) -> (
        Pod,
        Option<std::sync::Arc<str>>,
        Option<std::sync::Arc<str>>,
    ) {
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
        let mut all = observed.take_closed();
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

    #[test]
    fn sharing_pods_are_all_kept_and_a_scrape_from_the_past_is_not_used() {
        let mut told = placements(&[(10, &["a", "b", "a"]), (20, &["b", "a"]), (15, &["c"])]);
        told.sort();
        assert_eq!(told, [("a".into(), 10, None), ("b".into(), 10, None)]);
    }
}

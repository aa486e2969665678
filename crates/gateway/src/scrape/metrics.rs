//! How scraping goes, by receiver and target.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::ask::Failure;
use crate::metrics::Text;

/// Counters of all receivers that scrape. Locked once per scrape.
#[derive(Debug, Default)]
pub(crate) struct Scraping(Mutex<BTreeMap<String, OfReceiver>>);

#[derive(Debug, Default)]
struct OfReceiver {
    n_scrapes: u64,
    n_overlapped: u64,
    n_failed: [u64; Failure::ALL.len()],
    targets: BTreeMap<String, OfTarget>,
}

#[derive(Debug, Default)]
struct OfTarget {
    is_up: bool,
    n_points: u64,
    n_skipped: u64,
}

impl Scraping {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, OfReceiver>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn count_scrape(&self, receiver: &str, url: &str, n_points: u64, n_skipped: u64) {
        let mut receivers = self.lock();
        let of_receiver = receivers.entry(receiver.to_owned()).or_default();
        of_receiver.n_scrapes = of_receiver.n_scrapes.saturating_add(1);
        let target = of_receiver.targets.entry(url.to_owned()).or_default();
        target.is_up = true;
        target.n_points = n_points;
        target.n_skipped = target.n_skipped.saturating_add(n_skipped);
    }

    pub(super) fn count_failure(&self, receiver: &str, url: &str, failure: Failure) {
        let mut receivers = self.lock();
        let of_receiver = receivers.entry(receiver.to_owned()).or_default();
        if let Some(n_failed) = of_receiver.n_failed.get_mut(failure.idx()) {
            *n_failed = n_failed.saturating_add(1);
        }
        let target = of_receiver.targets.entry(url.to_owned()).or_default();
        // Nothing is known of a target that was not asked.
        target.is_up &= failure == Failure::Refused;
    }

    pub(super) fn set_overlapped(&self, receiver: &str, n_overlapped: u64) {
        let mut receivers = self.lock();
        let of_receiver = receivers.entry(receiver.to_owned()).or_default();
        of_receiver.n_overlapped = n_overlapped;
    }

    /// Forgets targets that are gone.
    pub(super) fn keep_targets(&self, receiver: &str, urls: &HashSet<&str>) {
        let mut receivers = self.lock();
        let of_receiver = receivers.entry(receiver.to_owned()).or_default();
        of_receiver
            .targets
            .retain(|url, _| urls.contains(url.as_str()));
    }

    pub(crate) fn render(&self, text: &mut Text) {
        let receivers = self.lock();
        if receivers.is_empty() {
            return;
        }
        text.counter("gateway_scrapes_total", "Scrapes, by how they ended.");
        for (receiver, of_receiver) in receivers.iter() {
            let mut sample = |result, n| {
                let labels = [("receiver", receiver.as_str()), ("result", result)];
                text.sample("gateway_scrapes_total", &labels, n);
            };
            sample("ok", of_receiver.n_scrapes);
            sample("overlapped", of_receiver.n_overlapped);
            for (result, n) in Failure::ALL.iter().zip(of_receiver.n_failed) {
                sample(result, n);
            }
        }
        type Pick = fn(&OfTarget) -> u64;
        let families: [(&str, bool, &str, Pick); 3] = [
            (
                "gateway_scrape_up",
                false,
                "Did the last scrape of the target work?",
                |target| u64::from(target.is_up),
            ),
            (
                "gateway_scrape_points",
                false,
                "Points of the last scrape that worked.",
                |target| target.n_points,
            ),
            (
                "gateway_scrape_lines_skipped_total",
                true,
                "Lines that cannot be read.",
                |target| target.n_skipped,
            ),
        ];
        for (name, is_counter, help, pick) in families {
            if is_counter {
                text.counter(name, help);
            } else {
                text.gauges(name, help);
            }
            for (receiver, of_receiver) in receivers.iter() {
                for (url, target) in &of_receiver.targets {
                    let labels = [("receiver", receiver.as_str()), ("target", url.as_str())];
                    text.sample(name, &labels, pick(target));
                }
            }
        }
    }
}

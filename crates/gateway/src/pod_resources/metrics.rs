//! How looking at the kubelet goes, by receiver.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::ask::Failure;
use crate::metrics::Text;

/// Counters of all receivers that look. Locked once per look.
#[derive(Debug, Default)]
pub(crate) struct Watching(Mutex<BTreeMap<String, OfReceiver>>);

#[derive(Debug, Default)]
struct OfReceiver {
    is_up: bool,
    n_looks: u64,
    n_failed: [u64; Failure::ALL.len()],
    n_reports: u64,
    n_placements: u64,
}

impl Watching {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, OfReceiver>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn count_look(&self, receiver: &str, n_placements: u64, is_reported: bool) {
        let mut receivers = self.lock();
        let of_receiver = receivers.entry(receiver.to_owned()).or_default();
        of_receiver.is_up = true;
        of_receiver.n_looks = of_receiver.n_looks.saturating_add(1);
        let n_reports = u64::from(is_reported);
        of_receiver.n_reports = of_receiver.n_reports.saturating_add(n_reports);
        of_receiver.n_placements = n_placements;
    }

    pub(super) fn count_failure(&self, receiver: &str, failure: Failure) {
        let mut receivers = self.lock();
        let of_receiver = receivers.entry(receiver.to_owned()).or_default();
        if let Some(n_failed) = of_receiver.n_failed.get_mut(failure.idx()) {
            *n_failed = n_failed.saturating_add(1);
        }
        // Nothing is known of a kubelet that was not asked.
        of_receiver.is_up &= failure == Failure::Refused;
    }

    pub(crate) fn render(&self, text: &mut Text) {
        let receivers = self.lock();
        if receivers.is_empty() {
            return;
        }
        let name = "gateway_pod_resources_looks_total";
        text.counter(name, "Looks at the kubelet's devices, by how they ended.");
        for (receiver, of_receiver) in receivers.iter() {
            let failed = Failure::ALL.into_iter().zip(of_receiver.n_failed);
            for (result, n) in [("ok", of_receiver.n_looks)].into_iter().chain(failed) {
                let labels = [("receiver", receiver.as_str()), ("result", result)];
                text.sample(name, &labels, n);
            }
        }
        let name = "gateway_pod_resources_reports_total";
        let help = "Looks that were reported: the first, those that saw something else, and some to say that it is the same.";
        text.counter(name, help);
        for (receiver, of_receiver) in receivers.iter() {
            let labels = [("receiver", receiver.as_str())];
            text.sample(name, &labels, of_receiver.n_reports);
        }
        type Pick = fn(&OfReceiver) -> u64;
        let gauges: [(&str, &str, Pick); 2] = [
            (
                "gateway_pod_resources_up",
                "Did the last look work?",
                |of_receiver| u64::from(of_receiver.is_up),
            ),
            (
                "gateway_pod_resources_placements",
                "Containers on devices that the last look saw.",
                |of_receiver| of_receiver.n_placements,
            ),
        ];
        for (name, help, pick) in gauges {
            text.gauges(name, help);
            for (receiver, of_receiver) in receivers.iter() {
                let labels = [("receiver", receiver.as_str())];
                text.sample(name, &labels, pick(of_receiver));
            }
        }
    }
}

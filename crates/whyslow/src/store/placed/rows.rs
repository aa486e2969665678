//! Changes of placements into rows of `placements`.

use std::collections::HashMap;

use arrow::array::RecordBatch;
use correlate::{Change, Placement, Placements};
use tables::placements::{PlacementRow, PlacementsBuilder};

/// One row for each interval that has changed, as it is after the last of its changes.
pub(super) fn of(changes: &[Change], all: &Placements, time_unix_nano: u64) -> Vec<RecordBatch> {
    let ids: Vec<String> = changes
        .iter()
        .map(|change| placement_id(&change.placement))
        .collect();
    let last: HashMap<&str, usize> = ids
        .iter()
        .enumerate()
        .map(|(idx, id)| (id.as_str(), idx))
        .collect();
    let mut builder = PlacementsBuilder::new();
    let mut batches = Vec::new();
    for (idx, (change, id)) in changes.iter().zip(&ids).enumerate() {
        if last.get(id.as_str()) != Some(&idx) {
            continue;
        }
        let mig_instance = change.placement.device.mig_instance();
        let mig_instance = mig_instance.map(|number| number.to_string());
        let row = PlacementRow {
            time_unix_nano,
            placement_id: id,
            mig_instance: mig_instance.as_deref(),
            ..row(change, all)
        };
        if builder.append(&row).is_err() {
            batches.push(builder.finish());
            // There is room in an empty one.
            builder.append(&row).ok();
        }
    }
    batches.push(builder.finish());
    batches
}

fn row<'a>(change: &'a Change, all: &Placements) -> PlacementRow<'a> {
    let Change {
        placement,
        event,
        observed_unix_nano,
    } = change;
    let Placement {
        device,
        pod,
        container,
        node,
        ranks,
        ..
    } = placement;
    let from = placement.valid_from_unix_nano;
    PlacementRow {
        event: event.as_str(),
        source: placement.source.as_str(),
        valid_from_unix_nano: (from != i64::MIN).then_some(from),
        valid_to_unix_nano: placement.valid_to_unix_nano,
        observed_unix_nano: Some(*observed_unix_nano),
        confidence: all.confidence(placement).as_str(),
        disputed: all.is_disputed(placement),
        other_pod_count: i64::try_from(all.other_pod_count(placement)).ok(),
        cluster: pod.cluster.as_deref(),
        namespace: pod.namespace.as_deref(),
        pod: pod.name.as_deref(),
        pod_uid: pod.uid.as_deref(),
        container: container.as_deref(),
        node: node.as_deref(),
        gpu_uuid: device.uuid(),
        dp_rank: ranks.dp,
        pp_rank: ranks.pp,
        tp_rank: ranks.tp,
        ..PlacementRow::default()
    }
}

/// Names an interval: the same whenever the same is said of the same worker, device and start.
pub(super) fn placement_id(placement: &Placement) -> String {
    let Placement {
        device,
        pod,
        container,
        ranks,
        valid_from_unix_nano,
        source,
        ..
    } = placement;
    let texts = [&pod.cluster, &pod.namespace, &pod.name, &pod.uid, container];
    let numbers = [
        ranks.dp,
        ranks.pp,
        ranks.tp,
        device.mig_instance().map(i64::from),
    ];
    let mut hash = Fnv::new();
    hash.text(Some(source.as_str()));
    hash.text(Some(device.uuid()));
    for text in texts {
        hash.text(text.as_deref());
    }
    for number in numbers {
        hash.text(number.map(|number| number.to_string()).as_deref());
    }
    hash.text(Some(&valid_from_unix_nano.to_string()));
    format!("{:016x}", hash.0)
}

/// FNV-1a, 64 bits (<http://www.isthe.com/chongo/tech/comp/fnv/>): the ids are stored, so the function must stay.
struct Fnv(u64);

impl Fnv {
    const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// A text, or that there is none; texts after each other cannot be mistaken for others.
    fn text(&mut self, text: Option<&str>) {
        let bytes = text.unwrap_or_default().as_bytes();
        let end = [u8::from(text.is_some()), 0xff];
        for byte in bytes.iter().chain(&end) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

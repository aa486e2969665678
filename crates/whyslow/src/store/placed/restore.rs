//! What a start reads back of `placements`: of each interval the newest row.
//!
//! What holds is said once an hour, so the last hours have all of it, and what has ended in them.

use std::collections::HashMap;

use arrow::array::RecordBatch;
use correlate::{CONFIRMED_EVERY_NANOS, Device, Placement, Pod, Ranks, Source};

use super::{ENDED_MAX, Placed};
use crate::store::reload::{Row, Wanted, rows};

/// Which rows are wanted: two hours, and half an hour in which requests may still be decided.
pub(in crate::store) const WANTED: Wanted = Wanted {
    columns: &[
        "time_unix_nano",
        "placement_id",
        "source",
        "valid_from_unix_nano",
        "valid_to_unix_nano",
        "observed_time_unix_nano",
        "k8s_cluster_name",
        "k8s_namespace_name",
        "k8s_pod_name",
        "k8s_pod_uid",
        "k8s_container_name",
        "k8s_node_name",
        "gpu_uuid",
        "mig_instance",
        "dp_rank",
        "pp_rank",
        "tp_rank",
    ],
    time: "time",
    nanos: CONFIRMED_EVERY_NANOS * 2 + CONFIRMED_EVERY_NANOS / 2,
    rows_max: 1 << 18,
};

impl Placed {
    /// Takes back what was known before; how many intervals.
    pub(in crate::store) fn restore(&mut self, batches: &[RecordBatch]) -> usize {
        let mut newest: HashMap<&str, (i64, Row<'_>)> = HashMap::new();
        for row in rows(batches) {
            let Some(id) = row.text("placement_id") else {
                continue;
            };
            let time = row.int("time_unix_nano").unwrap_or_default();
            let known = newest.entry(id).or_insert((time, row));
            if time > known.0 {
                *known = (time, row);
            }
        }
        let mut intervals: Vec<(Placement, i64)> = Vec::new();
        for (id, (_, row)) in newest {
            let Some((placement, observed)) = placement(row) else {
                continue;
            };
            if placement.source == Source::StaticFile {
                // The file is read anew.
                self.stored_of_file.insert(id.to_owned());
            } else {
                intervals.push((placement, observed));
            }
        }
        // The table gives them in no order, and where there are too many the oldest are left out.
        intervals.sort_by_key(|(placement, observed)| {
            (placement.valid_to_unix_nano.is_some(), -*observed)
        });
        let n_intervals = intervals.len();
        for (placement, observed) in intervals {
            let from = placement.valid_from_unix_nano;
            let has_held = placement.valid_to_unix_nano.is_some_and(|to| from < to);
            let observer = match placement.source {
                Source::Reported => {
                    self.reported.restore(placement, observed);
                    continue;
                }
                Source::PodResources => &mut self.looked,
                Source::ExporterLabels => &mut self.labelled,
                Source::StaticFile => continue,
            };
            observer.restore(placement.clone(), observed);
            if has_held && self.ended.len() < ENDED_MAX {
                self.ended.push(placement);
            }
        }
        self.ended
            .sort_by_key(|placement| placement.valid_to_unix_nano);
        n_intervals
    }
}

/// The placement of a row and when it was observed last; `None` for a row that this program did not write.
fn placement(row: Row<'_>) -> Option<(Placement, i64)> {
    let text = |name| row.text(name).map(Into::into);
    let source = row.text("source")?;
    let source = Source::ALL
        .into_iter()
        .find(|known| known.as_str() == source)?;
    let mig_instance = match row.text("mig_instance") {
        None => None,
        Some(number) => Some(number.parse().ok()?),
    };
    let from = row.int("valid_from_unix_nano").unwrap_or(i64::MIN);
    let placement = Placement {
        device: Device::parse(row.text("gpu_uuid")?, mig_instance)?,
        pod: Pod {
            cluster: text("k8s_cluster_name"),
            namespace: text("k8s_namespace_name"),
            name: text("k8s_pod_name"),
            uid: text("k8s_pod_uid"),
        },
        container: text("k8s_container_name"),
        node: text("k8s_node_name"),
        ranks: Ranks {
            dp: row.int("dp_rank"),
            pp: row.int("pp_rank"),
            tp: row.int("tp_rank"),
        },
        valid_from_unix_nano: from,
        valid_to_unix_nano: row.int("valid_to_unix_nano"),
        source,
    };
    Some((
        placement,
        row.int("observed_time_unix_nano").unwrap_or(from),
    ))
}

//! Table `placements`: which pod held which GPU from when to when, and who says so.
//!
//! # Decided
//!
//! *A row is what was known of an interval at a time*: one when it was opened, one when it has ended, and one an hour
//! while it holds, so that the last hours tell all that hold. Rows are never changed. Of the rows of one interval
//! (`placement_id`) the one with the highest `time_unix_nano` counts; there are no two. The view `placement_intervals`
//! shows these.
//!
//! *Nobody is put right*: where sources disagree, the intervals of each are here, marked `disputed`. Which one evidence
//! believes is in `evidence.placement_source`.
//!
//! *Intervals are half open*: an interval holds at `valid_from` and not any more at `valid_to`. One that ends where it
//! begins was seen once and holds at no time.

use crate::{
    column::{Column, ColumnType::*, SortKey, Spec},
    error::Result,
    row::{Rows, offer_rows},
    time,
};

/// Table `placements`.
pub static SPEC: Spec = Spec {
    name: "placements",
    doc: "One row per interval in which a pod held a GPU and each time at which more was known of it: opened, confirmed, ended. The newest row of a `placement_id` counts.",
    columns: COLUMNS,
    sort: &[SortKey::ascending("time")],
    bloom: &[],
    stats: &["time"],
    retention_days: 30,
};

const COLUMNS: &[Column] = &[
    Column::new("date", Date, "Day on which this was known (UTC); the partition.").key().source("time"),
    Column::new("time", Time, "When this was known.").key().source("computed"),
    Column::new("time_unix_nano", Int, "The same, exact.").key().unit("ns").source("computed"),
    Column::new("placement_id", Text, "Names the interval: source, pod, container, ranks, GPU and start.").key().source("computed"),
    Column::new("event", Text, "What has become of the interval: opened, confirmed or ended.").key().source("computed"),
    Column::new("source", Text, "Who says so: reported, pod_resources, exporter_labels or static_file.").key().source("computed"),
    Column::new("valid_from", Time, "Since when the pod held the GPU; NULL: always.").source("valid_from_unix_nano"),
    Column::new("valid_from_unix_nano", Int, "The same, exact.").unit("ns").source("report, or the look before the first that saw it"),
    Column::new("valid_to", Time, "From when on it held it no more; NULL while it holds.").source("valid_to_unix_nano"),
    Column::new("valid_to_unix_nano", Int, "The same, exact.").unit("ns").source("report, or the last look that saw it"),
    Column::new("observed_time", Time, "When the source said last that it holds.").source("report or look"),
    Column::new("observed_time_unix_nano", Int, "The same, exact.").unit("ns").source("report or look"),
    Column::new("confidence", Text, "high: the worker's or the kubelet's word, undisputed; medium: exporters' labels, or high with a doubt; low: a file, or medium with a doubt. Doubts: disputed, or a pod without UID and namespace.").key().source("computed"),
    Column::new("disputed", Bool, "Whether another source placed the pod elsewhere then, or the same rank was on two GPUs.").key().source("computed"),
    Column::new("other_pod_count", Int, "Other pods that held the GPU in that time, by the same source.").source("computed"),
    Column::new("k8s_cluster_name", Text, "Cluster.").source("k8s.cluster.name"),
    Column::new("k8s_namespace_name", Text, "Namespace.").source("k8s.namespace.name"),
    Column::new("k8s_pod_name", Text, "Pod.").source("k8s.pod.name"),
    Column::new("k8s_pod_uid", Text, "UID of the pod; the kubelet does not tell it.").source("k8s.pod.uid"),
    Column::new("k8s_container_name", Text, "Container.").source("k8s.container.name"),
    Column::new("k8s_node_name", Text, "Node.").source("k8s.node.name"),
    Column::new("gpu_uuid", Text, "GPU, `GPU-` or `MIG-` and lower-case hex.").key().source("report, device id or label"),
    Column::new("mig_instance", Text, "GPU instance id of a MIG instance.").source("report, device id or label"),
    Column::new("dp_rank", Int, "Data parallel rank of the worker.").source("report or file"),
    Column::new("pp_rank", Int, "Pipeline parallel rank of the worker.").source("report or file"),
    Column::new("tp_rank", Int, "Tensor parallel rank of the worker.").source("report or file"),
];

/// A row of [`SPEC`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlacementRow<'a> {
    /// When this was known, nanoseconds since 1970.
    pub time_unix_nano: u64,
    /// Names the interval.
    pub placement_id: &'a str,
    /// What has become of it.
    pub event: &'a str,
    /// Who says so.
    pub source: &'a str,
    /// Start; `None`: always.
    pub valid_from_unix_nano: Option<i64>,
    /// End; `None` while it holds.
    pub valid_to_unix_nano: Option<i64>,
    /// When the source said last that it holds.
    pub observed_unix_nano: Option<i64>,
    /// How much it is worth.
    pub confidence: &'a str,
    /// Does somebody say otherwise?
    pub disputed: bool,
    /// Other pods on the device.
    pub other_pod_count: Option<i64>,
    /// `k8s.cluster.name`.
    pub cluster: Option<&'a str>,
    /// `k8s.namespace.name`.
    pub namespace: Option<&'a str>,
    /// `k8s.pod.name`.
    pub pod: Option<&'a str>,
    /// `k8s.pod.uid`.
    pub pod_uid: Option<&'a str>,
    /// `k8s.container.name`.
    pub container: Option<&'a str>,
    /// `k8s.node.name`.
    pub node: Option<&'a str>,
    /// The GPU.
    pub gpu_uuid: &'a str,
    /// Its MIG instance.
    pub mig_instance: Option<&'a str>,
    /// Data parallel rank.
    pub dp_rank: Option<i64>,
    /// Pipeline parallel rank.
    pub pp_rank: Option<i64>,
    /// Tensor parallel rank.
    pub tp_rank: Option<i64>,
}

/// Builds batches of [`SPEC`].
#[derive(Debug)]
pub struct PlacementsBuilder {
    rows: Rows,
}

offer_rows!(PlacementsBuilder);

impl PlacementsBuilder {
    /// An empty builder.
    pub fn new() -> Self {
        Self {
            rows: Rows::new(&SPEC),
        }
    }

    /// Appends one row.
    ///
    /// # Errors
    /// [`crate::Error::Full`] if the batch must be finished first; it is unchanged then.
    pub fn append(&mut self, row: &PlacementRow<'_>) -> Result<()> {
        const NANOS_PER_MICRO: i64 = 1_000;
        self.rows.check_room()?;
        let rows = &mut self.rows;
        let at = row.time_unix_nano;
        let micros = |nanos: i64| nanos.div_euclid(NANOS_PER_MICRO);
        rows.date("date", time::partition_date(at, at));
        rows.time("time", at);
        rows.int(
            "time_unix_nano",
            Some(i64::try_from(at).unwrap_or(i64::MAX)),
        );
        rows.text("placement_id", Some(row.placement_id));
        rows.text("event", Some(row.event));
        rows.text("source", Some(row.source));
        rows.micros("valid_from", row.valid_from_unix_nano.map(micros));
        rows.int("valid_from_unix_nano", row.valid_from_unix_nano);
        rows.micros("valid_to", row.valid_to_unix_nano.map(micros));
        rows.int("valid_to_unix_nano", row.valid_to_unix_nano);
        rows.micros("observed_time", row.observed_unix_nano.map(micros));
        rows.int("observed_time_unix_nano", row.observed_unix_nano);
        rows.text("confidence", Some(row.confidence));
        rows.bool("disputed", Some(row.disputed));
        rows.int("other_pod_count", row.other_pod_count);
        rows.text("k8s_cluster_name", row.cluster);
        rows.text("k8s_namespace_name", row.namespace);
        rows.text("k8s_pod_name", row.pod);
        rows.text("k8s_pod_uid", row.pod_uid);
        rows.text("k8s_container_name", row.container);
        rows.text("k8s_node_name", row.node);
        rows.text("gpu_uuid", Some(row.gpu_uuid));
        rows.text("mig_instance", row.mig_instance);
        rows.int("dp_rank", row.dp_rank);
        rows.int("pp_rank", row.pp_rank);
        rows.int("tp_rank", row.tp_rank);
        rows.end_row();
        Ok(())
    }
}

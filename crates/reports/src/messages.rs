//! Package `whyslow.v1` of `proto/whyslow/v1/reports.proto`; the meaning of each field is there.

/// Who holds which GPU.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ReportPlacementsRequest {
    /// The placements.
    #[prost(message, repeated, tag = "1")]
    pub placements: Vec<Placement>,
    /// Set by an observer of a whole node.
    #[prost(message, optional, tag = "2")]
    pub observation: Option<Observation>,
}

/// A look at all devices of a node.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Observation {
    /// Node that was looked at.
    #[prost(string, tag = "1")]
    pub node: String,
    /// When.
    #[prost(fixed64, tag = "2")]
    pub observed_unix_nano: u64,
    /// When the same observer last saw what it reported before.
    #[prost(fixed64, optional, tag = "3")]
    pub unchanged_until_unix_nano: Option<u64>,
}

/// Who runs, as far as it is known; empty texts are not known.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Worker {
    /// `k8s.cluster.name`.
    #[prost(string, tag = "1")]
    pub cluster: String,
    /// `k8s.namespace.name`.
    #[prost(string, tag = "2")]
    pub namespace: String,
    /// `k8s.pod.name`.
    #[prost(string, tag = "3")]
    pub pod: String,
    /// `k8s.pod.uid`.
    #[prost(string, tag = "4")]
    pub pod_uid: String,
    /// `k8s.container.name`.
    #[prost(string, tag = "5")]
    pub container: String,
    /// `k8s.node.name`.
    #[prost(string, tag = "6")]
    pub node: String,
}

/// A worker process holds a GPU, or a MIG instance of one.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Placement {
    /// The worker.
    #[prost(message, optional, tag = "1")]
    pub worker: Option<Worker>,
    /// Data parallel rank.
    #[prost(uint32, optional, tag = "2")]
    pub dp_rank: Option<u32>,
    /// Pipeline parallel rank.
    #[prost(uint32, optional, tag = "3")]
    pub pp_rank: Option<u32>,
    /// Tensor parallel rank.
    #[prost(uint32, optional, tag = "4")]
    pub tp_rank: Option<u32>,
    /// UUID of the device.
    #[prost(string, tag = "5")]
    pub gpu_uuid: String,
    /// GPU instance id, where the UUID is that of the whole GPU.
    #[prost(uint32, optional, tag = "6")]
    pub mig_instance: Option<u32>,
    /// From when on.
    #[prost(fixed64, tag = "7")]
    pub valid_from_unix_nano: u64,
    /// Until when.
    #[prost(fixed64, optional, tag = "8")]
    pub valid_to_unix_nano: Option<u64>,
    /// What the device is called on its node, where that is no UUID.
    #[prost(string, tag = "9")]
    pub device_name: String,
}

/// Which requests ran together.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ReportBatchesRequest {
    /// The batches.
    #[prost(message, repeated, tag = "1")]
    pub batches: Vec<Batch>,
}

/// One scheduling step of an engine, or several that ran the same requests.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Batch {
    /// The engine's own number or name of it.
    #[prost(string, tag = "1")]
    pub batch_id: String,
    /// Number of the step.
    #[prost(uint64, optional, tag = "2")]
    pub step: Option<u64>,
    /// `service.name` of the engine.
    #[prost(string, tag = "3")]
    pub service_name: String,
    /// `service.instance.id` of the engine.
    #[prost(string, tag = "4")]
    pub service_instance_id: String,
    /// Where the engine runs.
    #[prost(message, optional, tag = "5")]
    pub worker: Option<Worker>,
    /// Data parallel rank of the engine.
    #[prost(uint32, optional, tag = "6")]
    pub dp_rank: Option<u32>,
    /// The model.
    #[prost(string, tag = "7")]
    pub model: String,
    /// Start.
    #[prost(fixed64, tag = "8")]
    pub start_unix_nano: u64,
    /// End.
    #[prost(fixed64, tag = "9")]
    pub end_unix_nano: u64,
    /// The requests in it.
    #[prost(message, repeated, tag = "10")]
    pub participants: Vec<Participant>,
    /// How many ran in it, where not all are listed.
    #[prost(uint32, optional, tag = "11")]
    pub participant_count: Option<u32>,
}

/// A request in a batch.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Participant {
    /// 16 bytes, or empty.
    #[prost(bytes = "vec", tag = "1")]
    pub trace_id: Vec<u8>,
    /// 8 bytes, or empty.
    #[prost(bytes = "vec", tag = "2")]
    pub span_id: Vec<u8>,
    /// Request id.
    #[prost(string, tag = "3")]
    pub request_id: String,
    /// What the batch did for it.
    #[prost(enumeration = "Phase", tag = "4")]
    pub phase: i32,
    /// Tokens of it that the batch computed.
    #[prost(uint64, optional, tag = "5")]
    pub tokens: Option<u64>,
}

/// What a batch did for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Phase {
    /// Not known.
    Unspecified = 0,
    /// Prefill.
    Prefill = 1,
    /// Decode.
    Decode = 2,
    /// Both, in one step.
    Mixed = 3,
}

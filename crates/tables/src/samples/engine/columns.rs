//! The columns of `engine_samples`.

use crate::column::{Column, ColumnType, ColumnType::*, SortKey, Spec};

/// Table `engine_samples`.
pub static SPEC: Spec = Spec {
    name: "engine_samples",
    doc: "One row per scrape and inference engine. A difference covers the time since the sample before (`interval_ns`).",
    columns: COLUMNS,
    sort: &[
        SortKey::ascending("time_unix_nano"),
        SortKey::ascending("service_instance_id"),
    ],
    bloom: &[],
    stats: &["time"],
    retention_days: 14,
};

/// Columns around the measured ones, and the measured ones with their field.
macro_rules! table {
    (
        before: [$($before:expr,)*]
        gauges: [$($gauge:ident $gauge_name:literal $gauge_type:ident $gauge_unit:literal $gauge_doc:literal,)*]
        between: [$($between:expr,)*]
        counters: [$($counter:ident $total:literal $delta:literal $unit:literal $doc:literal,)*]
        after: [$($after:expr,)*]
    ) => {
        const COLUMNS: &[Column] = &[
            $($before,)*
            $(Column::new($gauge_name, $gauge_type, $gauge_doc).unit($gauge_unit).source("metric name"),)*
            $($between,)*
            $(
                Column::new($total, Int, $doc).unit($unit).source("metric name"),
                Column::new($delta, Int, "Of that, since the sample before.").unit($unit).source("computed"),
            )*
            $($after,)*
        ];

        /// A column of a gauge.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum EngineGauge {
            $(#[doc = $gauge_doc] $gauge,)*
        }

        impl EngineGauge {
            /// All of them in the order of the columns.
            pub const ALL: &[Self] = &[$(Self::$gauge,)*];

            /// Name of its column.
            pub const fn column(self) -> &'static str {
                match self { $(Self::$gauge => $gauge_name,)* }
            }

            pub(super) const fn data_type(self) -> ColumnType {
                match self { $(Self::$gauge => $gauge_type,)* }
            }

            /// Is it a share, 0 to 1?
            pub(super) const fn is_ratio(self) -> bool {
                matches!(self.data_type(), Float) && self.unit_is_one()
            }

            const fn unit_is_one(self) -> bool {
                let unit = match self { $(Self::$gauge => $gauge_unit,)* };
                matches!(unit.as_bytes(), b"1")
            }
        }

        /// The columns of a counter.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum EngineCounter {
            $(#[doc = $doc] $counter,)*
        }

        impl EngineCounter {
            /// All of them in the order of the columns.
            pub const ALL: &[Self] = &[$(Self::$counter,)*];

            /// Name of the column of the total.
            pub const fn column(self) -> &'static str {
                match self { $(Self::$counter => $total,)* }
            }

            /// Name of the column of the difference.
            pub const fn delta_column(self) -> &'static str {
                match self { $(Self::$counter => $delta,)* }
            }
        }
    };
}

table! {
    before: [
        Column::new("date", Date, "Day of the sample (UTC); the partition.").key().source("time_unix_nano"),
        Column::new("time", Time, "When it was scraped.").key().source("time_unix_nano"),
        Column::new("time_unix_nano", Int, "The same, exact.").key().unit("ns").source("time_unix_nano"),
        Column::new("engine", Text, "Program: vllm or sglang.").key().source("metric name"),
        Column::new("model", Text, "Model that it serves.").source("label model_name"),
        Column::new("engine_index", Text, "Index among the data-parallel engines of a server.").source("label engine, dp_rank"),
        Column::new("rank", Text, "Rank or replica, where each has its own series.").source("label tp_rank, pp_rank, moe_ep_rank, WorkerId, replica, engine_type"),
        Column::new("service_name", Text, "Scrape job.").source("resource service.name, else label job"),
        Column::new("service_instance_id", Text, "Scrape target.").source("resource service.instance.id, else label instance"),
        Column::new("k8s_cluster_name", Text, "Kubernetes cluster.").source("resource k8s.cluster.name"),
        Column::new("k8s_namespace_name", Text, "Kubernetes namespace.").source("resource k8s.namespace.name, else label namespace"),
        Column::new("k8s_pod_name", Text, "Pod.").source("resource k8s.pod.name, else label pod"),
        Column::new("k8s_pod_uid", Text, "Pod, unique over time.").source("resource k8s.pod.uid"),
        Column::new("k8s_container_name", Text, "Container in the pod.").source("resource k8s.container.name, else label container"),
        Column::new("k8s_node_name", Text, "Kubernetes node.").source("resource k8s.node.name, else label node"),
        Column::new("host_name", Text, "Host.").source("resource host.name"),
    ]
    gauges: [
        RequestsRunning "requests_running" Int "requests" "Requests in execution batches.",
        RequestsWaiting "requests_waiting" Int "requests" "Requests that wait to be scheduled.",
        RequestsWaitingCapacity "requests_waiting_capacity" Int "requests" "Of them, for lack of capacity.",
        RequestsWaitingDeferred "requests_waiting_deferred" Int "requests" "Of them, deferred by a passing constraint.",
        RequestsSwapped "requests_swapped" Int "requests" "Requests swapped to the host (old engines).",
        KvCacheUsage "kv_cache_usage" Float "1" "Share of the KV cache in use, 0 to 1.",
        CpuKvCacheUsage "cpu_kv_cache_usage" Float "1" "The same of the cache on the host (old engines).",
        KvTokensUsed "kv_tokens_used" Int "tokens" "Tokens in the KV cache.",
        PrefixCacheHitRate "prefix_cache_hit_rate" Float "1" "Share of prompt tokens found in the prefix cache, as the engine averages it.",
        GenerationTokensPerS "generation_tokens_per_s" Float "tokens/s" "Throughput as the engine averages it.",
    ]
    between: [
        Column::new("interval_ns", Int, "Time since the sample before; NULL for the first.").unit("ns").source("computed"),
    ]
    counters: [
        Preemptions "preemptions_total" "preemptions_delta" "" "Preemptions.",
        PromptTokens "prompt_tokens_total" "prompt_tokens_delta" "tokens" "Prompt tokens processed.",
        GenerationTokens "generation_tokens_total" "generation_tokens_delta" "tokens" "Tokens generated.",
        PromptTokensCached "prompt_tokens_cached_total" "prompt_tokens_cached_delta" "tokens" "Prompt tokens found in a cache.",
        PromptTokensRecomputed "prompt_tokens_recomputed_total" "prompt_tokens_recomputed_delta" "tokens" "Prompt tokens computed again.",
        PrefixCacheQueries "prefix_cache_queries_total" "prefix_cache_queries_delta" "tokens" "Looked up in the prefix cache (blocks in old engines).",
        PrefixCacheHits "prefix_cache_hits_total" "prefix_cache_hits_delta" "tokens" "Found in the prefix cache (blocks in old engines).",
        ExternalPrefixCacheQueries "external_prefix_cache_queries_total" "external_prefix_cache_queries_delta" "tokens" "Looked up in the external prefix cache.",
        ExternalPrefixCacheHits "external_prefix_cache_hits_total" "external_prefix_cache_hits_delta" "tokens" "Found in the external prefix cache.",
        RequestsFinished "requests_finished_total" "requests_finished_delta" "requests" "Requests that ended, for whatever reason.",
        RequestsAborted "requests_aborted_total" "requests_aborted_delta" "requests" "Of them, aborted.",
        RequestsFailed "requests_failed_total" "requests_failed_delta" "requests" "Of them, failed.",
        AdmissionRejections "admission_rejections_total" "admission_rejections_delta" "requests" "Requests that were not admitted.",
        CorruptedRequests "corrupted_requests_total" "corrupted_requests_delta" "requests" "Requests with NaN in their output.",
        Iterations "iterations_total" "iterations_delta" "" "Engine steps.",
        IterationTokens "iteration_tokens_total" "iteration_tokens_delta" "tokens" "Tokens of all engine steps.",
    ]
    after: [
        Column::new("iteration_tokens_max_le", Int, "Upper bound of the largest step since the sample before: long prefills show here.").unit("tokens").source("computed"),
        Column::new("quality", TextList, "Why values are missing or doubtful.").source("mapping"),
        Column::new("received_time", Time, "When it was received.").source("intake"),
    ]
}

//! Spans into export requests, as the batch processor of an OpenTelemetry SDK does it.

use std::collections::BTreeMap;

use super::Export;
use super::message::{Message, Value};
use super::plan::N_REPLICAS;

/// Delay and size of the Python SDK's `BatchSpanProcessor`.
const DELAY_NANOS: u64 = 5_000_000_000;
const SPANS_MAX: usize = 512;

/// A process that exports its own spans; the order is that of equal due times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sender {
    ChatWeb,
    LlmGateway,
    RagApi,
    Vllm { replica_idx: u8 },
}

impl Sender {
    const fn service(self) -> &'static str {
        match self {
            Self::ChatWeb => "chat-web",
            Self::LlmGateway => "llm-gateway",
            Self::RagApi => "rag-api",
            Self::Vllm { .. } => "vllm",
        }
    }

    /// When in its cycle of five seconds it exports: processes do not start together.
    fn phase_nanos(self) -> u64 {
        match self {
            Self::ChatWeb => 300_000_000,
            Self::LlmGateway => 1_700_000_000,
            Self::RagApi => 2_900_000_000,
            Self::Vllm { replica_idx } => 4_100_000_000 + u64::from(replica_idx) * 400_000_000,
        }
    }

    fn resource(self) -> Message {
        let replica_idx = if let Self::Vllm { replica_idx } = self {
            replica_idx
        } else {
            0
        };
        let service = self.service();
        let (pod, pod_uid) = (pod(service, replica_idx), pod_uid(service, replica_idx));
        let node = engine_node(replica_idx);
        let node = if matches!(self, Self::Vllm { .. }) {
            node.as_str()
        } else {
            "cpu-node-01"
        };
        let resource = Message::default().attributes(
            1,
            &[
                ("telemetry.sdk.language", Value::Str("python")),
                ("telemetry.sdk.name", Value::Str("opentelemetry")),
                ("telemetry.sdk.version", Value::Str("1.45.2")),
                ("service.name", Value::Str(service)),
                ("k8s.namespace.name", Value::Str(NAMESPACE)),
                ("k8s.pod.name", Value::Str(&pod)),
                ("k8s.pod.uid", Value::Str(&pod_uid)),
                ("k8s.node.name", Value::Str(node)),
            ],
        );
        match self {
            Self::Vllm { .. } => resource.attributes(
                1,
                &[
                    (
                        "vllm.instrumenting_module_name",
                        Value::Str("vllm.llm_engine"),
                    ),
                    ("vllm.process_id", Value::Str("1")),
                ],
            ),
            Self::ChatWeb | Self::LlmGateway | Self::RagApi => resource,
        }
    }
}

/// `k8s.namespace.name` of all pods.
pub(crate) const NAMESPACE: &str = "llm";

/// `k8s.pod.name` of a replica of the engine.
#[must_use]
pub fn engine_pod(replica_idx: u8) -> String {
    pod(Sender::Vllm { replica_idx }.service(), replica_idx)
}

/// `k8s.pod.uid` of a replica of the engine.
pub(crate) fn engine_pod_uid(replica_idx: u8) -> String {
    pod_uid(Sender::Vllm { replica_idx }.service(), replica_idx)
}

/// `k8s.node.name` of a replica of the engine.
pub(crate) fn engine_node(replica_idx: u8) -> String {
    format!("gpu-node-{:02}", replica_idx % N_REPLICAS + 1)
}

fn pod(service: &str, replica_idx: u8) -> String {
    format!("{service}-7c9d5b8f6-{replica_idx}x2k4")
}

fn pod_uid(service: &str, replica_idx: u8) -> String {
    format!(
        "0f6a3c1e-0000-4000-8000-{:08x}{replica_idx:04x}",
        service.len()
    )
}

/// Spans by sender, moment of export and scope.
#[derive(Debug, Default)]
pub(super) struct Batches {
    spans: BTreeMap<(u64, Sender), Vec<(&'static str, Message)>>,
}

impl Batches {
    pub(super) fn add(
        &mut self,
        sender: Sender,
        scope: &'static str,
        end_unix_nano: u64,
        span: Message,
    ) {
        let phase = sender.phase_nanos();
        let cycle = end_unix_nano.saturating_sub(phase) / DELAY_NANOS + 1;
        let due_unix_nano = cycle.saturating_mul(DELAY_NANOS).saturating_add(phase);
        self.spans
            .entry((due_unix_nano, sender))
            .or_default()
            .push((scope, span));
    }

    pub(super) fn into_exports(self) -> Vec<Export> {
        let mut exports = Vec::new();
        for ((due_unix_nano, sender), spans) in self.spans {
            for spans in spans.chunks(SPANS_MAX) {
                exports.push(Export {
                    service: sender.service(),
                    due_unix_nano,
                    n_spans: u32::try_from(spans.len()).unwrap_or(u32::MAX),
                    body: body(sender, spans),
                });
            }
        }
        exports
    }
}

fn body(sender: Sender, spans: &[(&'static str, Message)]) -> Vec<u8> {
    let mut by_scope: BTreeMap<&str, Message> = BTreeMap::new();
    for (scope, span) in spans {
        let of_scope = by_scope.remove(scope).unwrap_or_else(|| {
            Message::default().message(1, &Message::default().bytes(1, scope.as_bytes()))
        });
        by_scope.insert(*scope, of_scope.message(2, span));
    }
    let resource_spans = by_scope.values().fold(
        Message::default().message(1, &sender.resource()),
        |resource_spans, of_scope| resource_spans.message(2, of_scope),
    );
    Message::default().message(1, &resource_spans).into_bytes()
}

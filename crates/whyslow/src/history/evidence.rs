//! Stored spans and requests as what is known of a trace.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use anyhow::Context as _;
use arrow::array::{Array as _, AsArray as _, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use otlp::TraceId;
use otlp::encode::Writer;
use sampler::partial::{Part, PartialTrace, Reading, Replay, Why};
use tables::redact::Redaction;
use tables::spans::{Attribute, Holder, Loss, StoredSpan, StoredValue};

use super::rows::{cells, text};

/// Ways to read one span before its doubtful attributes count as lost.
const READINGS_MAX: usize = 64;

/// Attributes that engine requests tell, with their column in `requests`. The column may come from
/// another spelling of the key: such a claim is likely, not certain.
const CLAIMS: [(&str, &str); 16] = [
    ("gen_ai.request.model", "model"),
    ("gen_ai.response.model", "model"),
    ("gen_ai.request.id", "request_id"),
    ("gen_ai.operation.name", "operation"),
    ("gen_ai.usage.input_tokens", "input_tokens"),
    ("gen_ai.usage.output_tokens", "output_tokens"),
    ("gen_ai.latency.e2e", "e2e_s"),
    ("gen_ai.latency.time_to_first_token", "engine_ttft_s"),
    ("gen_ai.latency.time_in_queue", "queue_s"),
    ("gen_ai.latency.time_in_model_prefill", "prefill_s"),
    ("gen_ai.latency.time_in_model_decode", "decode_s"),
    ("gen_ai.latency.time_in_model_inference", "inference_s"),
    ("k8s.namespace.name", "k8s_namespace_name"),
    ("k8s.pod.name", "k8s_pod_name"),
    ("k8s.node.name", "k8s_node_name"),
    ("host.name", "host_name"),
];

/// Turns rows into evidence for one set of policies.
#[derive(Debug)]
pub(crate) struct Reader {
    redaction: Redaction,
    /// What the policies look at.
    parts: Vec<Part>,
    resource_keys: HashSet<Box<str>>,
    span_keys: HashSet<Box<str>>,
    event_keys: HashSet<Box<str>>,
}

impl Reader {
    pub(crate) fn new(replay: &Replay, redaction: &Redaction) -> Self {
        let mut reader = Self {
            redaction: redaction.clone(),
            parts: replay.parts().to_vec(),
            resource_keys: HashSet::new(),
            span_keys: HashSet::new(),
            event_keys: HashSet::new(),
        };
        for part in &reader.parts {
            match part {
                Part::ResourceAttribute(key) => reader.resource_keys.insert(key.clone()),
                Part::SpanAttribute(key) => reader.span_keys.insert(key.clone()),
                Part::EventAttribute(key) => reader.event_keys.insert(key.clone()),
                Part::Name | Part::StatusMessage | Part::TraceState | Part::EventName => continue,
            };
        }
        reader
    }

    fn is_read(&self, holder: Holder, key: &str) -> bool {
        match holder {
            Holder::Resource => self.resource_keys.contains(key),
            Holder::Span => self.span_keys.contains(key),
            Holder::Event(_) => self.event_keys.contains(key),
            Holder::Link(_) => false,
        }
    }

    /// Adds a stored span, with what of it is lost.
    pub(crate) fn add_span(
        &self,
        replay: &Replay,
        trace: &mut PartialTrace,
        span: &StoredSpan,
    ) -> anyhow::Result<()> {
        let (readings, open) = span.readings(READINGS_MAX, |holder, key| self.is_read(holder, key));
        let mut lost: Vec<(Part, Why)> = self
            .parts
            .iter()
            .filter_map(|part| Some((part.clone(), why(self.lost(span, part)?))))
            .collect();
        lost.extend(
            open.into_iter()
                .filter_map(|open| Some((part(open)?, Why::Type))),
        );
        let readings = readings.iter().map(|restored| Reading {
            resource: &restored.resource,
            span: &restored.span,
        });
        replay
            .add_span(trace, &readings.collect::<Vec<_>>(), &lost)
            .with_context(|| format!("read the stored span {}", span.span_id))
    }

    fn lost(&self, span: &StoredSpan, part: &Part) -> Option<Loss> {
        match part {
            Part::ResourceAttribute(key) => span.lost(Holder::Resource, key, &self.redaction),
            Part::SpanAttribute(key) => span.lost(Holder::Span, key, &self.redaction),
            Part::EventAttribute(key) => span.lost(Holder::Event(0), key, &self.redaction),
            Part::Name => span.lost_name(),
            Part::StatusMessage => span.lost_status_message(&self.redaction),
            Part::TraceState => span.lost_trace_state(),
            Part::EventName => span.lost_event_name(),
        }
    }

    /// Values of the keys that the policies look at, in the order of their finding, each once.
    pub(crate) fn note_values(&self, span: &StoredSpan, out: &mut BTreeMap<String, Vec<String>>) {
        for attribute in &span.attributes {
            if !self.is_read(attribute.holder, &attribute.key) {
                continue;
            }
            if let Some(Some(value)) = attribute.readings.first() {
                let values = out.entry(attribute.key.clone()).or_default();
                let text = value.to_text();
                if !values.contains(&text) {
                    values.push(text);
                }
            }
        }
    }

    /// Do the policies look at the names of services?
    pub(crate) fn reads_services(&self) -> bool {
        self.resource_keys.contains("service.name")
    }

    /// Says of a trace without its spans which services are in it.
    pub(super) fn claim_services(
        &self,
        replay: &Replay,
        trace: &mut PartialTrace,
        services: &[String],
    ) -> anyhow::Result<()> {
        if !self.reads_services() {
            return Ok(());
        }
        for service in services {
            let service = StoredValue::Str(service.clone());
            replay.claim(trace, &resource("service.name", &service), true)?;
        }
        Ok(())
    }

    /// The columns of `requests` that tell what the policies look at.
    pub(super) fn request_columns(&self) -> Option<String> {
        let columns: BTreeSet<&str> = self.claims().map(|(_, column)| column).collect();
        let columns: Vec<&str> = columns.into_iter().collect();
        Some(columns.join(", ")).filter(|columns| !columns.is_empty())
    }

    fn claims(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let is_read = |key: &str| self.span_keys.contains(key) || self.resource_keys.contains(key);
        CLAIMS.into_iter().filter(move |(key, _)| is_read(key))
    }

    /// Says what rows of `requests` tell of traces without their spans.
    pub(super) fn claim_requests(
        &self,
        replay: &Replay,
        batch: &RecordBatch,
        places: &HashMap<TraceId, usize>,
        traces: &mut [PartialTrace],
    ) -> anyhow::Result<()> {
        let ids = cells(batch, "trace_id")?;
        for (key, column) in self.claims() {
            let column = cells(batch, column)?;
            for row in 0..batch.num_rows() {
                let id = text(&ids, row)?.unwrap_or_default();
                let id = TraceId::parse_hex(&id).ok();
                let Some(place) = id.and_then(|id| places.get(&id)) else {
                    continue;
                };
                if column.is_null(row) {
                    continue;
                }
                let value = match column.data_type() {
                    DataType::Utf8 => StoredValue::Str(column.as_string::<i32>().value(row).into()),
                    DataType::Int64 => {
                        StoredValue::Int(column.as_primitive::<Int64Type>().value(row))
                    }
                    _ => {
                        let number = cast(&column, &DataType::Float64)?;
                        StoredValue::Double(number.as_primitive::<Float64Type>().value(row))
                    }
                };
                replay.claim(&mut traces[*place], &resource(key, &value), false)?;
            }
        }
        Ok(())
    }
}

/// A `Resource` message with one attribute.
fn resource(key: &str, value: &StoredValue) -> Vec<u8> {
    let mut out = Writer::default();
    value.write_attribute(1, key, &mut out);
    out.finish()
}

fn why(loss: Loss) -> Why {
    match loss {
        Loss::Redacted => Why::Redacted,
        Loss::Cut => Why::Cut,
    }
}

fn part(attribute: &Attribute) -> Option<Part> {
    let key = attribute.key.as_str().into();
    Some(match attribute.holder {
        Holder::Resource => Part::ResourceAttribute(key),
        Holder::Span => Part::SpanAttribute(key),
        Holder::Event(_) => Part::EventAttribute(key),
        Holder::Link(_) => return None,
    })
}

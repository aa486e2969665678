//! What was sent, and what comes back.

use std::collections::{BTreeMap, BTreeSet};

use ::otlp::TraceId;
use ::otlp::testing::{AnyValue as Built, TimeSpan as _, tid, trace};
use expect_test::{Expect, expect};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, Span, TracesData};
use prost::Message as _;
use tables::redact::{self, Content};

use super::{restored, stored};
use crate::tests::support::{Fixture, captured, config, fixture, spans_with};

const KEEP: redact::Config = redact::Config {
    content: Content::Keep,
    keys: Vec::new(),
    keep_keys: Vec::new(),
    value_bytes_max: None,
};

/// A span with what surrounds it, in a form that can be compared.
#[derive(Debug, Clone, PartialEq)]
struct Whole {
    resource: Resource,
    resource_schema_url: String,
    scope: InstrumentationScope,
    span: Span,
}

/// Every span by its id: attributes by key, the last of a key; without what is never stored.
fn by_id(all: Vec<ResourceSpans>) -> BTreeMap<Vec<u8>, Whole> {
    let mut spans = BTreeMap::new();
    for resource_spans in all {
        let mut resource = resource_spans.resource.unwrap_or_default();
        settle(&mut resource.attributes);
        for scope_spans in resource_spans.scope_spans {
            let mut scope = scope_spans.scope.unwrap_or_default();
            scope.attributes.clear();
            for mut span in scope_spans.spans {
                settle(&mut span.attributes);
                span.events
                    .iter_mut()
                    .for_each(|event| settle(&mut event.attributes));
                span.links
                    .iter_mut()
                    .for_each(|link| settle(&mut link.attributes));
                // A status without content and none are the same.
                span.status.get_or_insert_default();
                let whole = Whole {
                    resource: resource.clone(),
                    resource_schema_url: resource_spans.schema_url.clone(),
                    scope: scope.clone(),
                    span,
                };
                spans.insert(whole.span.span_id.clone(), whole);
            }
        }
    }
    spans
}

fn settle(attributes: &mut Vec<KeyValue>) {
    let known = std::mem::take(attributes).into_iter();
    let by_key: BTreeMap<String, KeyValue> = known.map(|pair| (pair.key.clone(), pair)).collect();
    *attributes = by_key.into_values().collect();
}

/// Spans of `sent` and of `back`, attribute by attribute; what differs is collected as `key: sent -> back`.
fn differences(mut sent: Whole, mut back: Whole, found: &mut BTreeSet<String>) {
    let id = back.span.span_id.clone();
    let mut compare = |sent: &mut Vec<KeyValue>, back: &mut Vec<KeyValue>, place: &str| {
        let (sent, back) = (std::mem::take(sent), std::mem::take(back));
        let back: BTreeMap<_, _> = back
            .into_iter()
            .map(|pair| (pair.key, pair.value))
            .collect();
        for pair in &sent {
            let (sent, back) = (kind(pair.value.as_ref()), back.get(&pair.key));
            if back != Some(&pair.value) {
                let line = match back {
                    Some(back) => format!("{}: {sent} -> {}", pair.key, kind(back.as_ref())),
                    // Of hundreds that begin alike.
                    None => format!("{}: gone", beginning(&pair.key)),
                };
                found.insert(format!("{place} {line}"));
            }
        }
        for key in back
            .keys()
            .filter(|key| sent.iter().all(|pair| pair.key != **key))
        {
            found.insert(format!("{place} {key}: none -> there"));
        }
    };
    compare(
        &mut sent.resource.attributes,
        &mut back.resource.attributes,
        "resource",
    );
    compare(&mut sent.span.attributes, &mut back.span.attributes, "span");
    assert_eq!(sent.span.events.len(), back.span.events.len(), "{id:?}");
    for (sent, back) in sent.span.events.iter_mut().zip(&mut back.span.events) {
        compare(&mut sent.attributes, &mut back.attributes, "event");
    }
    for (sent, back) in sent.span.links.iter_mut().zip(&mut back.span.links) {
        compare(&mut sent.attributes, &mut back.attributes, "link");
    }
    assert_eq!(sent, back, "{id:?}");
}

/// The first two words of a key.
fn beginning(key: &str) -> String {
    let words: Vec<&str> = key.splitn(3, '.').collect();
    match words.as_slice() {
        [first, second, _] => format!("{first}.{second}.*"),
        _ => key.to_owned(),
    }
}

fn kind(value: Option<&AnyValue>) -> &'static str {
    match value.and_then(|value| value.value.as_ref()) {
        None => "empty",
        Some(Value::StringValue(_)) => "text",
        Some(Value::BoolValue(_)) => "boolean",
        Some(Value::IntValue(_)) => "whole number",
        Some(Value::DoubleValue(_)) => "double",
        Some(Value::ArrayValue(_)) => "list",
        Some(Value::KvlistValue(_)) => "map",
        Some(Value::BytesValue(_)) => "bytes",
        Some(_) => "other",
    }
}

fn decoded(body: &[u8]) -> Vec<ResourceSpans> {
    TracesData::decode(body).unwrap().resource_spans
}

/// Stores a capture, the first half committed, the second not, and reads back `every`th trace.
async fn check(capture: &str, redaction: &redact::Config, every: usize, expected: Expect) {
    let fixture = fixture(&config()).await;
    let bodies = captured(capture);
    let mut sent: BTreeMap<Vec<u8>, Vec<(Vec<u8>, Whole)>> = BTreeMap::new();
    for (sequence, body) in (1..).zip(&bodies) {
        fixture.append("spans", sequence, spans_with(redaction, body));
        if sequence == i64::try_from(bodies.len() / 2).unwrap() {
            fixture.commit("spans", sequence).await;
        }
        for (span_id, whole) in by_id(decoded(body)) {
            let trace_id = whole.span.trace_id.clone();
            sent.entry(trace_id).or_default().push((span_id, whole));
        }
    }
    let mut found = BTreeSet::new();
    for (trace_id, sent) in sent.into_iter().step_by(every) {
        let trace_id = TraceId::from_slice(&trace_id).unwrap();
        let mut back = by_id(restored(&fixture, trace_id).await);
        let sent: BTreeMap<_, _> = sent.into_iter().collect();
        assert_eq!(sent.len(), back.len(), "{trace_id}");
        for (span_id, sent) in sent {
            let back = back.remove(&span_id).unwrap();
            differences(sent, back, &mut found);
        }
    }
    let found: String = found.into_iter().map(|line| line + "\n").collect();
    expected.assert_eq(&found);
}

#[tokio::test]
async fn captured_traces_come_back_as_they_were_sent() {
    let expected = expect![[r#"
        resource vllm.process_id: text -> whole number
        span error.code: text -> whole number
        span gen_ai.cost.discount_amount: double -> whole number
        span gen_ai.cost.discount_percent: double -> whole number
        span gen_ai.cost.input_cost: double -> whole number
        span gen_ai.cost.margin_fixed_amount: double -> whole number
        span gen_ai.cost.margin_percent: double -> whole number
        span gen_ai.cost.margin_total_amount: double -> whole number
        span gen_ai.cost.original_cost: double -> whole number
        span gen_ai.cost.output_cost: double -> whole number
        span gen_ai.cost.tool_usage_cost: double -> whole number
        span gen_ai.cost.total_cost: double -> whole number
        span gen_ai.operation.*: gone
        span gen_ai.request.temperature: double -> whole number
        span gen_ai.request.top_p: double -> whole number
        span http.flavor: text -> double
        span metadata.applied_guardrails: text -> list
        span metadata.usage_object: text -> map
        span metadata.user_api_key_auth_metadata: text -> map
        span metadata.user_api_key_spend: double -> whole number
        span network.protocol.version: text -> double
    "#]];
    check("real-chain", &KEEP, 3, expected).await;
}

#[tokio::test]
async fn what_is_removed_by_default_is_all_that_is_missing() {
    let expected = expect![[r#"
        event exception.stacktrace: text -> text
        resource vllm.process_id: text -> whole number
        span error.code: text -> whole number
        span error.stack_trace: text -> text
        span gen_ai.cost.discount_amount: double -> whole number
        span gen_ai.cost.discount_percent: double -> whole number
        span gen_ai.cost.input_cost: double -> whole number
        span gen_ai.cost.margin_fixed_amount: double -> whole number
        span gen_ai.cost.margin_percent: double -> whole number
        span gen_ai.cost.margin_total_amount: double -> whole number
        span gen_ai.cost.original_cost: double -> whole number
        span gen_ai.cost.output_cost: double -> whole number
        span gen_ai.cost.tool_usage_cost: double -> whole number
        span gen_ai.cost.total_cost: double -> whole number
        span gen_ai.input.*: gone
        span gen_ai.operation.*: gone
        span gen_ai.output.*: gone
        span gen_ai.request.temperature: double -> whole number
        span gen_ai.request.top_p: double -> whole number
        span hidden_params: gone
        span http.flavor: text -> double
        span http.url: text -> text
        span input.value: gone
        span llm.hosted_vllm.*: gone
        span llm.input_messages.*: gone
        span llm.invocation_parameters: gone
        span llm.output_messages.*: gone
        span llm.prompt_template.*: gone
        span metadata.applied_guardrails: gone
        span metadata.cold_storage_object_key: gone
        span metadata.mcp_tool_call_metadata: gone
        span metadata.prompt_management_metadata: gone
        span metadata.requester_custom_headers: gone
        span metadata.requester_ip_address: gone
        span metadata.requester_metadata: gone
        span metadata.routing_decision: gone
        span metadata.spend_logs_metadata: gone
        span metadata.team_alias: gone
        span metadata.team_id: gone
        span metadata.usage_object: gone
        span metadata.used_client_oauth_token: gone
        span metadata.user_agent: gone
        span metadata.user_api_key_alias: gone
        span metadata.user_api_key_auth_metadata: gone
        span metadata.user_api_key_budget_reset_at: gone
        span metadata.user_api_key_end_user_id: gone
        span metadata.user_api_key_hash: gone
        span metadata.user_api_key_max_budget: gone
        span metadata.user_api_key_org_alias: gone
        span metadata.user_api_key_org_id: gone
        span metadata.user_api_key_project_alias: gone
        span metadata.user_api_key_project_id: gone
        span metadata.user_api_key_request_route: gone
        span metadata.user_api_key_spend: gone
        span metadata.user_api_key_team_alias: gone
        span metadata.user_api_key_team_id: gone
        span metadata.user_api_key_team_max_budget: gone
        span metadata.user_api_key_team_spend: gone
        span metadata.user_api_key_user_email: gone
        span metadata.user_api_key_user_id: gone
        span metadata.user_api_key_user_max_budget: gone
        span metadata.user_api_key_user_spend: gone
        span metadata.vector_store_request_metadata: gone
        span metadata: gone
        span network.protocol.version: text -> double
        span output.value: gone
        span retrieval.documents.*: gone
    "#]];
    check("real-broken", &redact::Config::default(), 5, expected).await;
}

async fn one(fixture: &Fixture, body: &[u8]) -> (Whole, Whole) {
    fixture.append("spans", 1, spans_with(&KEEP, body));
    let mut back = by_id(restored(fixture, tid(1)).await);
    let mut sent = by_id(decoded(body));
    assert_eq!((sent.len(), back.len()), (1, 1));
    (sent.pop_first().unwrap().1, back.pop_first().unwrap().1)
}

/// Keys with a column of their own come from there, with events, links, status and flags as they were.
#[tokio::test]
async fn every_field_that_is_stored_comes_back() {
    let fixture = fixture(&config()).await;
    let body = trace(1)
        .service("vllm")
        .resource_attribute("k8s.pod.uid", "u1")
        .resource_attribute("other", "x")
        .scope("engine", "0.32")
        .span("llm_request", 5.ms())
        .error()
        .flags(0x301)
        .trace_state("a=b")
        .attribute("gen_ai.request.model", "qwen")
        .attribute("gen_ai.usage.prompt_tokens", Built::Int(17))
        .attribute("gen_ai.latency.e2e", Built::Double(2.0))
        .attribute("http.response.status_code", Built::Int(503))
        .attribute("flag", Built::Bool(true))
        .attribute("double", Built::Double(2.5))
        .attribute(
            "list",
            Built::Array(vec![Built::Int(1), Built::Str("a".to_owned())]),
        )
        .event("first", 1.ms())
        .event_attribute("n", Built::Int(1))
        .link(7, 8)
        .link_attribute("why", "retry")
        .build();
    let (sent, back) = one(&fixture, &body).await;
    assert_eq!(sent, back);
}

/// What the head of `trace` says of maps: they hold text.
#[tokio::test]
async fn a_text_that_reads_as_a_number_comes_back_as_one() {
    let fixture = fixture(&config()).await;
    let body = trace(1)
        .span("s", 5.ms())
        .attribute("number", "42")
        .attribute("padded", "042")
        .attribute("bytes", Built::Bytes(vec![1, 2, 3]))
        .build();
    let (sent, back) = one(&fixture, &body).await;
    let mut found = BTreeSet::new();
    differences(sent, back, &mut found);
    let found: Vec<_> = found.iter().map(String::as_str).collect();
    assert_eq!(
        found,
        [
            "span bytes: bytes -> text",
            "span number: text -> whole number"
        ]
    );
}

/// Readers of protobuf stop at 100 messages.
#[tokio::test]
async fn a_deep_value_comes_back_as_its_text() {
    let fixture = fixture(&config()).await;
    let deep = (0..50).fold(Built::Int(1), |inner, _| Built::Array(vec![inner]));
    let body = trace(1).span("s", 5.ms()).attribute("deep", deep).build();
    fixture.append("spans", 1, spans_with(&KEEP, &body));
    let back = restored(&fixture, tid(1)).await;
    let [value] = back[0].scope_spans[0].spans[0].attributes.as_slice() else {
        panic!("{back:?}");
    };
    let text = "[".repeat(50) + "1" + &"]".repeat(50);
    assert_eq!(
        value.value.clone().unwrap().value,
        Some(Value::StringValue(text))
    );
}

#[tokio::test]
async fn neighbours_share_their_resource_also_across_pieces() {
    let fixture = fixture(&config()).await;
    let mut export = trace(1).service("a").span("root", 5.ms());
    for number in 0..1_000 {
        let service = if number % 2 == 0 { "a" } else { "b" };
        export = export.service(service).span("s", 1.ms());
    }
    fixture.append("spans", 1, spans_with(&KEEP, &export.build()));
    let pieces = super::super::protobuf(stored(&fixture, tid(1)).await.unwrap());
    assert!(pieces.count() > 2);
    let all = restored(&fixture, tid(1)).await;
    let counts = all
        .iter()
        .map(|of| (of.scope_spans.len(), of.scope_spans[0].spans.len()));
    assert_eq!(counts.collect::<Vec<_>>(), [(1, 501), (1, 500)]);
}

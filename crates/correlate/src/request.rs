//! One engine span to one row of `requests`.

use otlp::{
    attribute::{self, Attributes, Value},
    export::SpanAt,
    span::{SpanSummary, StatusCode},
};
use tables::requests::{Measure, Quality, Reason, Request};

use crate::{
    engine,
    error::{Error, Result},
    latency::{self, SentTimes},
    outcome::{self, Evidence},
    request_id,
};

/// Reads the request that an engine span reports ([`crate::is_request_span`]). Decision, policy,
/// lateness and time of receipt are for the caller to fill in.
///
/// # Errors
/// [`Error::Span`] if the bytes are not a span that `otlp::export::check` accepts.
pub fn request(at: &SpanAt<'_>) -> Result<Request> {
    read(at).map_err(|source| Error::Span {
        offset: at.offset,
        source,
    })
}

fn read(at: &SpanAt<'_>) -> otlp::Result<Request> {
    let summary = SpanSummary::read(at.span)?;
    let scope = otlp::scope::read(at.scope)?;
    let sent = Sent::read(attribute::of_span(at.span))?;
    let mut request = Request {
        parent_span_id: summary.parent_span_id,
        start_time_unix_nano: summary.start_time_unix_nano,
        end_time_unix_nano: summary.end_time_unix_nano,
        engine: engine::engine_of(summary.name, scope.name).map(engine::Engine::as_str),
        stage: engine::sglang_role(summary.name)
            .and_then(stage)
            .or_else(|| stage(&text(sent.disagg_role)?)),
        ..Request::new(summary.trace_id, summary.span_id)
    };
    read_resource(&mut request, at.resource)?;
    if summary.dropped_attributes_count > 0 {
        request.quality.push(Quality::AttributesDropped);
    }
    fill_identity(&mut request, &sent);
    fill_tokens(
        &mut request,
        &sent.input_tokens,
        &sent.output_tokens,
        &sent.cached_tokens,
    );
    let is_generating = outcome::is_generating(request.operation.as_deref());
    latency::fill(&mut request, &sent.times, is_generating);
    fill_outcome(&mut request, &sent, summary.status_code, is_generating);
    Ok(request)
}

/// What the attributes say; of repeated keys, the last.
#[derive(Debug, Default)]
struct Sent<'a> {
    times: SentTimes<'a>,
    request_id: Option<Value<'a>>,
    rid: Option<Value<'a>>,
    dynamo_request_id: Option<Value<'a>>,
    operation: Option<Value<'a>>,
    response_model: Option<Value<'a>>,
    request_model: Option<Value<'a>>,
    model: Option<Value<'a>>,
    disagg_role: Option<Value<'a>>,
    bootstrap_room: Option<Value<'a>>,
    input_tokens: [Option<Value<'a>>; 3],
    output_tokens: [Option<Value<'a>>; 3],
    cached_tokens: [Option<Value<'a>>; 2],
    max_tokens: Option<Value<'a>>,
    temperature: Option<Value<'a>>,
    top_p: Option<Value<'a>>,
    finish_reasons: Option<Value<'a>>,
    finish_reason: Option<Value<'a>>,
    cancelled: Option<Value<'a>>,
    error_type: Option<Value<'a>>,
    error_kind: Option<Value<'a>>,
}

impl<'a> Sent<'a> {
    fn read(attributes: Attributes<'a>) -> otlp::Result<Self> {
        let mut sent = Self::default();
        for attribute in attributes {
            let (key, value) = attribute?;
            sent.times.note(key, value);
            if let Some(slot) = sent.slot(key) {
                *slot = Some(value).filter(|value| !matches!(value, Value::Empty));
            }
        }
        Ok(sent)
    }

    fn slot(&mut self, key: &str) -> Option<&mut Option<Value<'a>>> {
        Some(match key {
            "gen_ai.request.id" => &mut self.request_id,
            "rid" => &mut self.rid,
            "request_id" => &mut self.dynamo_request_id,
            "gen_ai.operation.name" => &mut self.operation,
            "gen_ai.response.model" => &mut self.response_model,
            "gen_ai.request.model" => &mut self.request_model,
            "model" => &mut self.model,
            "disagg_role" => &mut self.disagg_role,
            "bootstrap_room" => &mut self.bootstrap_room,
            "gen_ai.usage.input_tokens" => &mut self.input_tokens[0],
            "gen_ai.usage.prompt_tokens" => &mut self.input_tokens[1],
            "input_tokens" => &mut self.input_tokens[2],
            "gen_ai.usage.output_tokens" => &mut self.output_tokens[0],
            "gen_ai.usage.completion_tokens" => &mut self.output_tokens[1],
            "output_tokens" => &mut self.output_tokens[2],
            "gen_ai.usage.cache_read.input_tokens" => &mut self.cached_tokens[0],
            "gen_ai.usage.cached_tokens" => &mut self.cached_tokens[1],
            "gen_ai.request.max_tokens" => &mut self.max_tokens,
            "gen_ai.request.temperature" => &mut self.temperature,
            "gen_ai.request.top_p" => &mut self.top_p,
            "gen_ai.response.finish_reasons" => &mut self.finish_reasons,
            "finish_reason" => &mut self.finish_reason,
            "cancelled" => &mut self.cancelled,
            "error.type" => &mut self.error_type,
            "error_kind" => &mut self.error_kind,
            _ => return None,
        })
    }
}

pub(crate) fn read_resource(request: &mut Request, resource: &[u8]) -> otlp::Result<()> {
    for attribute in attribute::of_resource(resource) {
        let (key, value) = attribute?;
        let slot = match key {
            "service.name" => &mut request.service_name,
            "service.instance.id" => &mut request.service_instance_id,
            "k8s.cluster.name" => &mut request.k8s_cluster_name,
            "k8s.namespace.name" => &mut request.k8s_namespace_name,
            "k8s.pod.name" => &mut request.k8s_pod_name,
            "k8s.pod.uid" => &mut request.k8s_pod_uid,
            "k8s.container.name" => &mut request.k8s_container_name,
            "k8s.node.name" => &mut request.k8s_node_name,
            "host.name" => &mut request.host_name,
            _ => continue,
        };
        *slot = text(Some(value));
    }
    Ok(())
}

fn fill_identity(request: &mut Request, sent: &Sent<'_>) {
    request.request_id = text(sent.request_id.or(sent.rid).or(sent.dynamo_request_id));
    let id = request.request_id.as_deref();
    request.request_id_normalised = id.map(|id| request_id::normalise(id).to_owned());
    let named = id.and_then(request_id::operation).map(str::to_owned);
    request.operation = text(sent.operation).or(named);
    request.model = text(sent.response_model.or(sent.request_model).or(sent.model));
    request.bootstrap_room = text(sent.bootstrap_room);
    request.max_tokens = sent.max_tokens.and_then(|value| value.as_i64_lenient());
    request.temperature = number(sent.temperature);
    request.top_p = number(sent.top_p);
}

/// Sets the tokens of a request; of several values the first counts.
pub(crate) fn fill_tokens(
    request: &mut Request,
    input: &[Option<Value<'_>>],
    output: &[Option<Value<'_>>],
    cached: &[Option<Value<'_>>],
) {
    let quality = &mut request.quality;
    let mut count = |measure, values: &[Option<Value<'_>>]| {
        let value = values.iter().flatten().next()?;
        let reason = match value.as_i64_lenient() {
            Some(n_tokens) if n_tokens >= 0 => return Some(n_tokens),
            Some(_) => Reason::Negative,
            None => Reason::NotANumber,
        };
        quality.push(Quality::Unusable(measure, reason));
        None
    };
    request.input_tokens = count(Measure::InputTokens, input);
    request.output_tokens = count(Measure::OutputTokens, output);
    request.cached_tokens = count(Measure::CachedTokens, cached);
    if request
        .cached_tokens
        .zip(request.input_tokens)
        .is_some_and(|(cached, input)| cached > input)
    {
        quality.push(Quality::Unusable(Measure::CachedTokens, Reason::OverInput));
        request.cached_tokens = None;
    }
}

fn fill_outcome(request: &mut Request, sent: &Sent<'_>, status: StatusCode, is_generating: bool) {
    let reasons = sent.finish_reasons.or(sent.finish_reason);
    let finish_reasons = reasons.map_or_else(Vec::new, |value| tables::texts(&value));
    request.error_type = text(sent.error_type.or(sent.error_kind));
    request.outcome = outcome::outcome(&Evidence {
        status_code: status,
        finish_reasons: &finish_reasons,
        is_cancelled: text(sent.cancelled).as_deref() == Some("true"),
        has_error_type: request.error_type.is_some(),
        is_generating,
        output_tokens: request.output_tokens,
    });
    request.finish_reason = Some(finish_reasons.join(",")).filter(|reasons| !reasons.is_empty());
}

fn stage(role: &str) -> Option<&'static str> {
    if role.eq_ignore_ascii_case("prefill") {
        Some("prefill")
    } else if role.eq_ignore_ascii_case("decode") {
        Some("decode")
    } else {
        None
    }
}

/// The value as text; `None` for none and for empty text.
pub(crate) fn text(value: Option<Value<'_>>) -> Option<String> {
    let mut text = String::new();
    value?.write_text(&mut text);
    Some(text).filter(|text| !text.is_empty())
}

pub(crate) fn number(value: Option<Value<'_>>) -> Option<f64> {
    value?.as_f64_lenient().filter(|number| number.is_finite())
}

//! Which spans are calls to a model, and what one says of itself.
//!
//! | call | span | guarded by |
//! | --- | --- | --- |
//! | of a gateway | `litellm_request`; `ChatCompletion` and the like of Envoy AI Gateway | a `gen_ai.` or `llm.` attribute |
//! | of any caller | `{operation} {model}` of the `GenAI` conventions: `chat x`, `embeddings x` | a `gen_ai.` attribute |
//! | of an agent | `invoke_agent x`, `invoke_workflow x` | a `gen_ai.` attribute |
//! | at a gateway's door | kind SERVER, a route such as `POST /v1/chat/completions`; Dynamo's `http-request` | - |
//!
//! # Decided
//!
//! *By name*, because it is asked of every span of all traffic: spans of client libraries that are named after a class
//! (`ChatOpenAI`) are not looked at. What they know, the gateway or the engine knows too; where neither reports, the row
//! is missing.
//!
//! *A call's outcome* is what its caller got. A door's span whose answer broke off because the other side had gone is
//! `cancelled`, whatever status had been sent before.

mod chunks;
mod sent;

use otlp::{
    SpanId, TraceId, attribute,
    export::SpanAt,
    span::{SpanKind, SpanSummary, StatusCode},
};
use tables::requests::{LinkMethod, Outcome, Position, Quality, Request};

use self::sent::Sent;

pub(crate) use self::chunks::{chunks_of, first_chunk_s, seconds};

use crate::{
    error::{Error, Result},
    outcome::{self, Evidence},
    request::{fill_tokens, number, read_resource, text},
    request_id,
};

/// What kind of call a span reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One call to a model.
    Model,
    /// What arrived at the door of a gateway; calls may stand below it.
    Door,
    /// The work of an agent; calls may stand below it.
    Agent,
}

/// A call to a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The row that it leaves where no engine request of its trace answered it.
    pub row: Request,
    /// Ids that an engine may know it by, normalised, each once.
    pub ids: Vec<String>,
    pub(crate) kind: Kind,
    /// Time to the first chunk of the answer, in seconds.
    pub(crate) ttft_s: Option<f64>,
}

impl Call {
    pub(crate) const fn has_usage(&self) -> bool {
        self.row.input_tokens.is_some() || self.row.output_tokens.is_some()
    }

    /// Does it leave a row, if nothing below it tells of the same? A gateway's call always does; what applications
    /// and agents say counts where it is the only account of tokens; a door where it failed, or names the request.
    pub(crate) fn leaves_row(&self) -> bool {
        match (self.kind, self.row.position) {
            (Kind::Model, Position::Gateway) => true,
            (Kind::Model | Kind::Agent, _) => self.has_usage(),
            (Kind::Door, _) => !self.ids.is_empty() || self.row.outcome != Outcome::Ok,
        }
    }

    /// Does it leave a row where nothing else of its trace is known, because it came late? A door's calls have rows of
    /// their own.
    #[must_use]
    pub fn leaves_row_alone(&self) -> bool {
        self.kind != Kind::Door && self.leaves_row()
    }

    /// The row with its time to first chunk at its position.
    pub(crate) fn place_ttft(&mut self) {
        let position = self.row.position;
        place_ttft(&mut self.row, self.ttft_s, position);
    }

    /// These engine requests, of other traces or late ones of its own, answered it; the row restates them.
    pub(crate) fn answered(
        &mut self,
        engines: Vec<(TraceId, SpanId)>,
        method: LinkMethod,
        clock_skew_s: Option<f64>,
    ) {
        self.row.engine_spans = engines;
        self.row.link_method = Some(method);
        self.row.clock_skew_s = clock_skew_s;
        self.row.wrapper = true;
    }
}

/// Sets the time to first token of a position, if it is not set.
pub(crate) fn place_ttft(row: &mut Request, ttft_s: Option<f64>, position: Position) {
    let place = match position {
        Position::Gateway => &mut row.gateway_ttft_s,
        Position::App => &mut row.app_ttft_s,
        Position::Engine => return,
    };
    *place = place.or(ttft_s);
}

/// Is this a span by which a caller or a gateway reports a call to a model? Almost every span is refused by the first
/// letter of its name; broken bytes are no call.
#[inline]
pub fn is_call_span(summary: &SpanSummary<'_>, span: &[u8]) -> bool {
    match kind(summary) {
        None => false,
        Some(Kind::Door) => true,
        Some(Kind::Model | Kind::Agent) => {
            let mut attributes = attribute::of_span(span).map_while(otlp::Result::ok);
            attributes.any(|(key, _)| key.starts_with("gen_ai.") || key.starts_with("llm."))
        }
    }
}

fn kind(summary: &SpanSummary<'_>) -> Option<Kind> {
    let name = summary.name;
    let word = || name.split(' ').next().unwrap_or_default();
    let named = match name.as_bytes().first()? {
        b'l' if name == "litellm_request" => Some(Kind::Model),
        b'C' if matches!(name, "ChatCompletion" | "Completion" | "CreateEmbeddings") => {
            Some(Kind::Model)
        }
        b'c' | b'e' | b'g' | b'r' | b't'
            if matches!(
                word(),
                "chat" | "text_completion" | "embeddings" | "generate_content" | "rerank"
            ) =>
        {
            Some(Kind::Model)
        }
        b'i' if matches!(word(), "invoke_agent" | "invoke_workflow") => Some(Kind::Agent),
        b'h' if name == "http-request" => Some(Kind::Door),
        _ => None,
    };
    let is_door = || summary.kind == SpanKind::Server && is_model_route(name);
    named.or_else(|| is_door().then_some(Kind::Door))
}

/// Does a span's name hold the route of a call to a model?
fn is_model_route(name: &str) -> bool {
    if name.ends_with("/chat/completions") {
        return true;
    }
    let Some((before, route)) = name.split_once("/v1/") else {
        return false;
    };
    let first = route.split(['/', ' ', '?']).next().unwrap_or_default();
    let is_known = matches!(
        first,
        "chat" | "completions" | "embeddings" | "responses" | "rerank"
    );
    is_known && !before.starts_with("GET") && !name.ends_with(" http send")
}

/// Reads the call that a span reports ([`is_call_span`]). Decision, policy, lateness and time of receipt are for
/// the caller to fill in.
///
/// # Errors
/// [`Error::Span`] if the bytes are not a span that `otlp::export::check` accepts.
pub fn call(at: &SpanAt<'_>) -> Result<Call> {
    read(at).map_err(|source| Error::Span {
        offset: at.offset,
        source,
    })
}

fn read(at: &SpanAt<'_>) -> otlp::Result<Call> {
    let summary = SpanSummary::read(at.span)?;
    let scope = otlp::scope::read(at.scope)?.name;
    let kind = kind(&summary).unwrap_or(Kind::Model);
    let sent = Sent::read(at.span)?;
    let (start, end) = (summary.start_time_unix_nano, summary.end_time_unix_nano);
    let mut row = Request {
        parent_span_id: summary.parent_span_id,
        start_time_unix_nano: start,
        end_time_unix_nano: end,
        e2e_s: (start > 0 && end >= start).then(|| seconds(end - start)),
        ..Request::new(summary.trace_id, summary.span_id)
    };
    read_resource(&mut row, at.resource)?;
    row.position = position(kind, scope, row.service_name.as_deref());
    if summary.dropped_attributes_count > 0 {
        row.quality.push(Quality::AttributesDropped);
    }
    row.request_id = sent.ids.first().cloned();
    let mut ids: Vec<String> = Vec::new();
    for id in &sent.ids {
        let id = request_id::normalise(id);
        if !ids.iter().any(|known| known == id) {
            ids.push(id.to_owned());
        }
    }
    row.request_id_normalised = ids.first().cloned();
    row.operation = text(sent.operation).map(operation);
    row.model = text(sent.response_model.or(sent.request_model).or(sent.model));
    row.max_tokens = sent.max_tokens.and_then(|value| value.as_i64_lenient());
    row.temperature = number(sent.temperature);
    row.top_p = number(sent.top_p);
    fill_tokens(
        &mut row,
        &sent.input_tokens,
        &sent.output_tokens,
        &sent.cached_tokens,
    );
    fill_outcome(&mut row, &sent, &summary, kind);
    let ttft_s = chunks::read(&mut row, at.span, scope, &sent);
    let mut call = Call {
        row,
        ids,
        kind,
        ttft_s,
    };
    call.place_ttft();
    Ok(call)
}

/// Gateways are known by their spans' scope or their service's name; whoever else calls a model is an application.
fn position(kind: Kind, scope: &str, service: Option<&str>) -> Position {
    let is_gateway_scope = || {
        ["litellm", "envoy", "envoyproxy/"]
            .iter()
            .any(|known| scope.starts_with(known))
    };
    let names = ["gateway", "litellm", "proxy", "router"];
    let is_gateway_service =
        || service.is_some_and(|service| names.iter().any(|name| service.contains(name)));
    match kind {
        Kind::Agent => Position::App,
        Kind::Door => Position::Gateway,
        Kind::Model if is_gateway_scope() || is_gateway_service() => Position::Gateway,
        Kind::Model => Position::App,
    }
}

/// The conventions' name of an operation that LiteLLM names after its function.
fn operation(name: String) -> String {
    let known = match name.as_str() {
        "acompletion" | "completion" => "chat",
        "atext_completion" => "text_completion",
        "aembedding" | "embedding" => "embeddings",
        "arerank" => "rerank",
        _ => return name,
    };
    known.to_owned()
}

fn fill_outcome(row: &mut Request, sent: &Sent<'_>, summary: &SpanSummary<'_>, kind: Kind) {
    let reasons = sent.finish_reasons.or(sent.finish_reason);
    let finish_reasons = reasons.map_or_else(Vec::new, |value| tables::texts(&value));
    let status = sent.http_status[0].or(sent.http_status[1]);
    let status = status.and_then(|value| value.as_i64_lenient());
    row.http_status_code = status.filter(|status| *status > 0);
    row.error_type = text(sent.error_type);
    let is_gone = row.http_status_code == Some(499)
        || text(sent.response_flags).is_some_and(|flags| flags.split(',').any(|flag| flag == "DC"))
        || kind == Kind::Door && row.error_type.as_deref().is_some_and(is_disconnect);
    let has_failed = row.http_status_code.is_some_and(|status| status >= 400);
    row.outcome = outcome::outcome(&Evidence {
        status_code: if has_failed {
            StatusCode::Error
        } else {
            summary.status_code
        },
        finish_reasons: &finish_reasons,
        is_cancelled: is_gone,
        has_error_type: row.error_type.is_some(),
        is_generating: kind == Kind::Model && outcome::is_generating(row.operation.as_deref()),
        output_tokens: row.output_tokens,
    });
    row.finish_reason = Some(finish_reasons.join(",")).filter(|reasons| !reasons.is_empty());
}

/// Does this class of error mean, in a server, that who had asked is gone?
fn is_disconnect(error_type: &str) -> bool {
    let names = [
        "ConnectionError",
        "ConnectionReset",
        "ClientDisconnect",
        "BrokenPipe",
        "BrokenResource",
        "CancelledError",
        "EndOfStream",
    ];
    names.iter().any(|name| error_type.contains(name))
}

#[cfg(test)]
mod tests {
    use super::{is_disconnect, is_model_route};

    #[test]
    fn routes_of_models_are_told_from_others() {
        for name in [
            "POST /v1/chat/completions",
            "POST /v1/chat",
            "pd_proxy POST /v1/chat",
            "POST /openai/deployments/x/chat/completions",
            "POST /v1/embeddings",
            "/v1/completions",
        ] {
            assert!(is_model_route(name), "{name}");
        }
        for name in [
            "",
            "GET /ask",
            "GET /v1/chat/history",
            "POST /v1/chatrooms",
            "POST /v1/orders",
            "POST /v1/chat http send",
            "/v1/",
        ] {
            assert!(!is_model_route(name), "{name}");
        }
    }

    #[test]
    fn a_class_of_error_tells_that_the_other_side_is_gone() {
        assert!(is_disconnect("ConnectionError"));
        assert!(is_disconnect("starlette.requests.ClientDisconnect"));
        assert!(!is_disconnect("litellm.proxy._types.ProxyException"));
    }
}

//! Which spans are engine requests.
//!
//! | engine | span | guarded by |
//! | --- | --- | --- |
//! | vLLM | `llm_request` | a `gen_ai.latency.*` attribute, or vLLM's scope |
//! | SGLang | ` Req 5f1c2d3e`, `prefill Req 5f1c2d3e` | SGLang's scope, or attribute `rid` |
//! | Dynamo | `engine.generate` | - |
//! | TensorRT-LLM | `llm_request`, or any name in its scope | `gen_ai.latency.e2e` |
//!
//! The guard of `llm_request` keeps out livekit's and other frameworks' spans of that name. Start-up
//! spans of vLLM have other names and none of the attributes, whatever their scope.

use otlp::{
    attribute,
    span::{SpanKind, SpanSummary},
};

/// An engine whose spans are recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    Vllm,
    Sglang,
    Dynamo,
    TensorrtLlm,
}

impl Engine {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
            Self::Dynamo => "dynamo",
            Self::TensorrtLlm => "tensorrt_llm",
        }
    }
}

/// Is this the span by which an engine reports one request? Almost every span is refused by its
/// name alone; broken bytes are no request.
#[inline]
pub fn is_request_span(summary: &SpanSummary<'_>, scope: &[u8], span: &[u8]) -> bool {
    match summary.name.len() {
        11 if summary.name == "llm_request" => {
            is_vllm_scope(scope_name(scope)) || has_latency(span)
        }
        15 if summary.name == "engine.generate" => true,
        12.. if is_sglang_name(summary.name) => {
            scope_name(scope) == SGLANG_SCOPE || has_key(span, |key| key == "rid")
        }
        _ => summary.kind == SpanKind::Server && is_tensorrt(scope, span),
    }
}

/// The engine behind a span that [`is_request_span`] accepted; `None` if its scope is not known.
pub(crate) fn engine_of(name: &str, scope: &str) -> Option<Engine> {
    if name == "engine.generate" {
        Some(Engine::Dynamo)
    } else if scope == SGLANG_SCOPE || is_sglang_name(name) {
        Some(Engine::Sglang)
    } else if is_tensorrt_scope(scope) {
        Some(Engine::TensorrtLlm)
    } else if is_vllm_scope(scope) {
        Some(Engine::Vllm)
    } else {
        None
    }
}

/// The role in front of SGLang's `Req`: half of a disaggregated request.
pub(crate) fn sglang_role(name: &str) -> Option<&str> {
    is_sglang_name(name).then(|| name.split_once(" Req ").map_or("", |(role, _)| role))
}

const SGLANG_SCOPE: &str = "sglang server";

/// `^\S* ?Req [0-9a-f-]{8}$`: the role, which is empty for a unified server, and the beginning of
/// the request id.
fn is_sglang_name(name: &str) -> bool {
    let Some((head, id)) = name
        .len()
        .checked_sub(8)
        .and_then(|at| name.split_at_checked(at))
    else {
        return false;
    };
    let is_id = id
        .bytes()
        .all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f' | b'-'));
    let Some(role) = head.strip_suffix("Req ").filter(|_| is_id) else {
        return false;
    };
    !role
        .strip_suffix(' ')
        .unwrap_or(role)
        .contains(char::is_whitespace)
}

fn is_vllm_scope(scope: &str) -> bool {
    matches!(scope, "vllm.llm_engine" | "vllm.tracing.otel")
}

fn is_tensorrt_scope(scope: &str) -> bool {
    ["trt.llm", "trtllm", "tensorrt_llm"]
        .iter()
        .any(|known| scope.starts_with(known))
}

fn is_tensorrt(scope: &[u8], span: &[u8]) -> bool {
    is_tensorrt_scope(scope_name(scope)) && has_key(span, |key| key == "gen_ai.latency.e2e")
}

fn has_latency(span: &[u8]) -> bool {
    has_key(span, |key| key.starts_with("gen_ai.latency."))
}

fn has_key(span: &[u8], is_wanted: impl Fn(&str) -> bool) -> bool {
    let mut attributes = attribute::of_span(span).map_while(otlp::Result::ok);
    attributes.any(|(key, _)| is_wanted(key))
}

fn scope_name(scope: &[u8]) -> &str {
    otlp::scope::read(scope).map_or("", |scope| scope.name)
}

#[cfg(test)]
mod tests {
    use super::{is_sglang_name, sglang_role};

    #[test]
    fn sglang_names_are_a_role_and_the_beginning_of_a_request_id() {
        for (name, role) in [
            (" Req 5f1c2d3e", ""),
            ("Req 5f1c2d3e", ""),
            ("prefill Req 5f1c2d3e", "prefill"),
            ("decode Req 0a-b1c2d", "decode"),
        ] {
            assert!(is_sglang_name(name), "{name}");
            assert_eq!(sglang_role(name), Some(role), "{name}");
        }
        for name in [
            "",
            "Req ",
            "Req 5f1c2d3",
            "Req 5F1C2D3E",
            " Req 5f1c2d3eff",
            "a b Req 5f1c2d3e",
            "  Req 5f1c2d3e",
            "HTTP Request 5f1c2d3e",
            "Req \u{e9}\u{e9}\u{e9}\u{e9}",
            "\u{1f916}\u{1f916}\u{1f916}",
        ] {
            assert!(!is_sglang_name(name), "{name}");
        }
    }
}

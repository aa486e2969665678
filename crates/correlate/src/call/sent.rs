//! The attributes of a call that are read.

use otlp::attribute::{self, Value};

use super::chunks::FIRST_CHUNK_KEYS;

/// What the attributes say; of repeated keys, the last.
#[derive(Debug, Default)]
pub(super) struct Sent<'a> {
    /// The best first.
    pub(super) ids: Vec<String>,
    pub(super) operation: Option<Value<'a>>,
    pub(super) response_model: Option<Value<'a>>,
    pub(super) request_model: Option<Value<'a>>,
    pub(super) model: Option<Value<'a>>,
    pub(super) input_tokens: [Option<Value<'a>>; 5],
    pub(super) output_tokens: [Option<Value<'a>>; 5],
    pub(super) cached_tokens: [Option<Value<'a>>; 2],
    pub(super) max_tokens: Option<Value<'a>>,
    pub(super) temperature: Option<Value<'a>>,
    pub(super) top_p: Option<Value<'a>>,
    pub(super) finish_reasons: Option<Value<'a>>,
    pub(super) finish_reason: Option<Value<'a>>,
    pub(super) error_type: Option<Value<'a>>,
    pub(super) http_status: [Option<Value<'a>>; 2],
    pub(super) response_flags: Option<Value<'a>>,
    pub(super) first_chunk: [Option<Value<'a>>; FIRST_CHUNK_KEYS.len()],
}

/// Attributes with an id, the best first: what the answer said, what was asked, what came along.
const ID_KEYS: [&str; 7] = [
    "gen_ai.response.id",
    "gen_ai.request.id",
    "http.request.header.x-request-id",
    "guid:x-request-id",
    "x_request_id",
    "request_id",
    "litellm.call_id",
];

impl<'a> Sent<'a> {
    pub(super) fn read(span: &'a [u8]) -> otlp::Result<Self> {
        let mut sent = Self::default();
        let mut ids = [None; ID_KEYS.len()];
        for attribute in attribute::of_span(span) {
            let (key, value) = attribute?;
            let value = Some(value).filter(|value| !matches!(value, Value::Empty));
            if let Some(place) = ID_KEYS.iter().position(|known| *known == key) {
                ids[place] = value;
            } else if let Some(place) = FIRST_CHUNK_KEYS.iter().position(|(known, _)| *known == key)
            {
                sent.first_chunk[place] = value;
            } else if let Some(slot) = sent.slot(key) {
                *slot = value;
            }
        }
        let texts = ids.iter().flatten().flat_map(tables::texts);
        sent.ids = texts.filter(|id| !id.is_empty()).collect();
        Ok(sent)
    }

    fn slot(&mut self, key: &str) -> Option<&mut Option<Value<'a>>> {
        Some(match key {
            "gen_ai.operation.name" => &mut self.operation,
            "gen_ai.response.model" => &mut self.response_model,
            "gen_ai.request.model" => &mut self.request_model,
            "llm.model_name" | "model" => &mut self.model,
            "gen_ai.usage.input_tokens" => &mut self.input_tokens[0],
            "gen_ai.usage.prompt_tokens" => &mut self.input_tokens[1],
            "llm.token_count.prompt" => &mut self.input_tokens[2],
            "ai.usage.promptTokens" => &mut self.input_tokens[3],
            "input_tokens" => &mut self.input_tokens[4],
            "gen_ai.usage.output_tokens" => &mut self.output_tokens[0],
            "gen_ai.usage.completion_tokens" => &mut self.output_tokens[1],
            "llm.token_count.completion" => &mut self.output_tokens[2],
            "ai.usage.completionTokens" => &mut self.output_tokens[3],
            "output_tokens" => &mut self.output_tokens[4],
            "gen_ai.usage.cache_read.input_tokens" => &mut self.cached_tokens[0],
            "llm.token_count.prompt_details.cache_read" => &mut self.cached_tokens[1],
            "gen_ai.request.max_tokens" => &mut self.max_tokens,
            "gen_ai.request.temperature" => &mut self.temperature,
            "gen_ai.request.top_p" => &mut self.top_p,
            "gen_ai.response.finish_reasons" => &mut self.finish_reasons,
            "llm.finish_reason" => &mut self.finish_reason,
            "error.type" => &mut self.error_type,
            "http.response.status_code" => &mut self.http_status[0],
            "http.status_code" => &mut self.http_status[1],
            "response_flags" => &mut self.response_flags,
            _ => return None,
        })
    }
}

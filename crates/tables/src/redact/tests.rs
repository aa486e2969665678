//! Tests of redaction: which keys go, which stay, and how text is cut.

use super::{Action, Config, Content, Place, Redaction, cut, strip_url};
use crate::Error;

fn redaction(config: &Config) -> Redaction {
    Redaction::new(config).unwrap()
}

#[track_caller]
fn check(place: Place, action: Action, keys: &[&str]) {
    let redaction = redaction(&Config::default());
    for key in keys {
        assert_eq!(redaction.action(place, key), action, "{key}");
    }
}

#[test]
fn content_is_dropped_whatever_the_convention() {
    check(
        Place::Plain,
        Action::Drop,
        &[
            "gen_ai.input.messages",
            "gen_ai.prompt",
            "gen_ai.prompt.0.content",
            "gen_ai.completion.12.finish_reason",
            "input.value",
            "llm.input_messages.0.message.content",
            "llm.output_messages.3.message.tool_calls.0.tool_call.function.arguments",
            "retrieval.documents.7.document.content",
            "embedding.embeddings.0.embedding.vector",
            "reranker.input_documents.1.document.content",
            "traceloop.entity.input",
            "ai.prompt.messages",
            "llm.hosted_vllm.choices",
            "metadata.user_api_key_user_email",
            "question",
            "http.request.header.authorization",
            "url.query",
            "db.statement",
            "db.chroma.get.where_document",
        ],
    );
}

#[test]
fn facts_failures_and_ids_stay() {
    check(
        Place::Plain,
        Action::Keep,
        &[
            "exception.type",
            "exception.message",
            "exception.stacktrace",
            "error.message",
            "user.id",
            "session.id",
            "gen_ai.usage.prompt_tokens",
            "gen_ai.prompt_name",
            "retrieval.documents.0.document.id",
            "llm.token_count.prompt",
            "llm.model_name",
            "http.request.header.x-request-id",
            "ai.response.msToFirstChunk",
            "",
        ],
    );
    check(
        Place::Plain,
        Action::StripUrl,
        &["url.full", "http.url", "http.target"],
    );
}

#[test]
fn a_content_event_keeps_only_what_it_is_about() {
    let redaction = redaction(&Config::default());
    assert_eq!(
        redaction.place_of_event("gen_ai.choice"),
        Place::ContentEvent
    );
    assert_eq!(
        redaction.place_of_event("db.search.result"),
        Place::ContentEvent
    );
    assert_eq!(redaction.place_of_event("exception"), Place::Plain);
    let place = Place::ContentEvent;
    check(
        place,
        Action::Drop,
        &["content", "message", "body", "db.query.result.document"],
    );
    check(
        place,
        Action::Keep,
        &[
            "finish_reason",
            "role",
            "gen_ai.system",
            "db.query.result.score",
        ],
    );
}

#[test]
fn the_raw_provider_span_loses_every_parameter() {
    check(
        Place::RawRequest,
        Action::Drop,
        &["llm.openai.anything", "llm.hosted_vllm.id"],
    );
    check(
        Place::RawRequest,
        Action::Keep,
        &["llm.model_name", "gen_ai.response.id"],
    );
}

#[test]
fn configured_keys_beat_kept_keys_and_kept_keys_beat_the_list() {
    let config = Config {
        keys: vec!["*.password".into(), "user.id".into(), "a*b*c".into()],
        keep_keys: vec!["llm.tools*".into(), "db.password".into()],
        ..Config::default()
    };
    let cases = [
        ("db.password", Action::Drop),
        ("user.id", Action::Drop),
        ("a1b2c", Action::Drop),
        ("abc", Action::Drop),
        ("acb", Action::Keep),
        ("llm.tools.0.tool.json_schema", Action::Keep),
        ("gen_ai.prompt", Action::Drop),
    ];
    let dropping = redaction(&config);
    let keeping = redaction(&Config {
        content: Content::Keep,
        ..config
    });
    for (key, action) in cases {
        assert_eq!(dropping.action(Place::Plain, key), action, "{key}");
    }
    assert_eq!(keeping.action(Place::Plain, "gen_ai.prompt"), Action::Keep);
    assert_eq!(keeping.action(Place::Plain, "user.id"), Action::Drop);
}

#[test]
fn unusable_settings_are_refused() {
    let empty = Config {
        keys: vec![String::new()],
        ..Config::default()
    };
    let error = empty.validate().unwrap_err();
    assert!(matches!(error, Error::Pattern { field: "keys", .. }) && error.is_config());
    let small = Config {
        value_bytes_max: Some(63),
        ..Config::default()
    };
    assert!(matches!(small.validate(), Err(Error::ValueLimit { .. })));
    let unlimited = Config {
        value_bytes_max: None,
        ..Config::default()
    };
    assert_eq!(redaction(&unlimited).value_bytes_max(), usize::MAX);
}

#[test]
fn text_is_cut_at_a_character_and_marked_within_the_limit() {
    for character in ["x", "\u{e9}", "\u{20ac}", "\u{1f916}"] {
        for n_before in 0..4 {
            let text = format!("{}{}", "a".repeat(n_before), character.repeat(100));
            for bytes_max in 0..text.len() {
                let mut scratch = String::from("old");
                let (kept, is_cut) = cut(&text, bytes_max, &mut scratch);
                assert!(is_cut && kept.len() <= bytes_max);
                let mark = format!("...[cut from {} bytes]", text.len());
                if bytes_max >= mark.len() {
                    let head = kept.strip_suffix(mark.as_str()).unwrap();
                    assert!(text.starts_with(head));
                    assert!(head.len() + mark.len() + character.len() > bytes_max);
                }
            }
            assert_eq!(
                cut(&text, text.len(), &mut String::new()),
                (text.as_str(), false)
            );
        }
    }
}

#[test]
fn urls_lose_query_fragment_and_credentials() {
    let cases = [
        ("http://h:8/v1/chat", "http://h:8/v1/chat"),
        ("http://h/v1?key=secret", "http://h/v1"),
        ("https://user:pass@h/p?q#f", "https://h/p"),
        ("https://h/p@q", "https://h/p@q"),
        ("https://h#f", "https://h"),
        ("/metrics?format=a", "/metrics"),
        ("user@h/p", "user@h/p"),
        ("http://a@b@h", "http://h"),
        ("", ""),
    ];
    for (url, stripped) in cases {
        assert_eq!(strip_url(url), stripped, "{url}");
    }
}

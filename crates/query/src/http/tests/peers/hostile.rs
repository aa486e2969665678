//! Requests that nobody should send, tokens, and limits.

use std::num::NonZeroUsize;
use std::sync::Arc;

use axum::Router;
use axum::http::Method;
use serde_json::json;
use transport::{BearerTokenAuth, Secret, TokenCheck};

use super::{A, JAEGER_TIME, TEMPO_TIME, V3_TIME, encoded, served, served_two, texts};
use crate::Config;
use crate::http::{Guard, guarded, router};
use crate::tests::support::config;

/// Texts that would mean something elsewhere.
const TEXTS: &[&str] = &[
    "'",
    "\"",
    "' OR '1'='1",
    "x'; DROP TABLE spans; --",
    "$1",
    "$99",
    "\\",
    "\0",
    "%00",
    "\u{202e}\u{1f4a9}",
    "{{}}",
    "/../../etc/passwd",
    "attributes['a']",
    "(SELECT 1)",
    "a\nb",
];

#[tokio::test]
async fn texts_of_others_are_values_and_never_a_part_of_a_statement() {
    let served = served().await;
    for text in TEXTS {
        let value = encoded(text);
        let tags = encoded(&json!({*text: *text}).to_string());
        let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
        let query = encoded(&format!("{{span.\"{quoted}\"=\"{quoted}\"}}"));
        for path in [
            format!("/api/traces?service={value}&operation={value}&{JAEGER_TIME}"),
            format!("/api/traces?service=gateway&tags={tags}&{JAEGER_TIME}"),
            format!("/api/v3/operations?service={value}"),
            format!("/api/operations?service={value}"),
            format!("/tempo/api/search?q={query}&{TEMPO_TIME}"),
        ] {
            let answer = served.json_of(&path).await;
            for list in ["data", "operations", "traces"] {
                assert_eq!(
                    answer[list].as_array().map_or(0, Vec::len),
                    0,
                    "{path}: {answer}"
                );
            }
        }
        let path =
            format!("/api/v3/traces?query.service_name={value}&query.attributes={tags}&{V3_TIME}");
        assert_eq!(served.get(&path).await.status, 404, "{path}");
    }
    let answer = served
        .json_of(&format!("/api/traces?service=gateway&{JAEGER_TIME}"))
        .await;
    assert_eq!(texts(&answer["data"], "traceID"), [A]);
}

/// Address, status, and a part of what is said.
const REFUSED: &[(&str, u16, &str)] = &[
    ("/api/traces/zz", 400, "not the id of a trace"),
    ("/api/traces/%27%20OR%201=1", 400, "not the id of a trace"),
    (
        "/api/traces/00000000000000000000000000000000",
        400,
        "not the id of a trace",
    ),
    (
        "/api/v3/traces/4bf92f3577b34da6a3ce929d0e0e47361",
        400,
        "not the id of a trace",
    ),
    ("/tempo/api/v2/traces/-", 400, "not the id of a trace"),
    ("/api/traces?traceID=zz", 400, "not the id of a trace"),
    ("/api/traces", 400, "`service` is missing"),
    ("/api/operations", 400, "`service` is missing"),
    (
        "/api/operations?service=a&spanKind=b",
        400,
        "`spanKind`: expected server",
    ),
    (
        "/api/traces?service=a&limit=0",
        400,
        "`limit`: expected a whole number above 0",
    ),
    ("/api/traces?service=a&limit=-1", 400, "`limit`"),
    (
        "/api/traces?service=a&limit=99999999999999999999999",
        400,
        "`limit`",
    ),
    (
        "/api/traces?service=a&start=2026-01-01",
        400,
        "`start`: expected a whole number",
    ),
    ("/api/traces?service=a&start=2&end=1", 400, "after its end"),
    (
        "/api/traces?service=a&minDuration=1",
        400,
        "`minDuration`: expected a time span",
    ),
    (
        "/api/traces?service=a&tags=%7B",
        400,
        "`tags`: expected a JSON object",
    ),
    (
        "/api/traces?service=a&tags=%7B%22a%22:%5B%5D%7D",
        400,
        "`tags`",
    ),
    (
        "/api/traces?service=a&tag=b",
        400,
        "`tag`: expected `key:value`",
    ),
    ("/api/dependencies?endTs=x", 400, "`endTs`"),
    (
        "/api/v3/traces?query.filter=%7B%7D",
        400,
        "`query.filter` is not supported",
    ),
    (
        "/api/v3/traces?query.pagination.pageSize=5",
        400,
        "is not supported",
    ),
    (
        "/api/v3/traces?query.start_time_min=yesterday",
        400,
        "RFC 3339",
    ),
    (
        "/tempo/api/search?q=%7B%7D%20%7C%20rate()",
        400,
        "a pipeline",
    ),
    ("/tempo/api/search?q=%7B", 400, "found the end"),
    ("/tempo/api/search?q=%7Bname=~%22(%22%7D", 400, "regex"),
    ("/tempo/api/search?tags=a", 400, "`tags`"),
    ("/tempo/api/search?minDuration=fast", 400, "`minDuration`"),
    ("/tempo/api/search?limit=x", 400, "`limit`"),
    ("/tempo/api/search?start=9&end=1", 400, "after its end"),
    (
        "/tempo/api/v2/search/tag/event:name/values",
        400,
        "a condition on events",
    ),
    (
        "/tempo/api/v2/traces/a?q=%7B%7D",
        400,
        "`q` is not supported",
    ),
    ("/tempo/api/metrics/query_range?q=x", 501, "by SQL"),
    ("/api/metrics/latencies?service=a", 501, "by SQL"),
];

#[tokio::test]
async fn what_cannot_be_answered_is_refused_with_a_reason() {
    let served = served().await;
    for (path, status, reason) in REFUSED {
        let reply = served.get(path).await;
        assert_eq!(reply.status.as_u16(), *status, "{path}: {}", reply.text());
        assert!(reply.text().contains(reason), "{path}: {}", reply.text());
    }
    for path in ["/api/archive/a", "/api/transform"] {
        let reply = served.send(Method::POST, path, &[], "").await.unwrap();
        assert_eq!(
            (reply.status.as_u16(), &reply.json()["errors"][0]["code"]),
            (501, &json!(501))
        );
    }
    for path in [
        "/api/traces?service=a",
        "/jaeger/api/v3/services",
        "/tempo/api/echo",
    ] {
        let reply = served.send(Method::POST, path, &[], "").await.unwrap();
        assert_eq!(reply.status, 405, "{path}");
    }
    assert_eq!(served.get("/tempo/api/v3/services").await.status, 404);
    assert_eq!(served.get("/jaeger/api/echo").await.status, 404);
}

#[tokio::test]
async fn huge_values_and_many_of_them_are_refused_or_answered() {
    let served = served().await;
    let many: serde_json::Map<_, _> = (0..100).map(|n| (n.to_string(), json!("x"))).collect();
    let long = "x".repeat(20_000);
    for (path, status) in [
        (format!("/api/traces?service={long}&{JAEGER_TIME}"), 200),
        (
            format!(
                "/api/traces?service=a&tags={}&{JAEGER_TIME}",
                encoded(&json!(many).to_string())
            ),
            400,
        ),
        (
            format!(
                "/tempo/api/search?q={}",
                encoded(&format!("{{name=\"{long}\"}}"))
            ),
            400,
        ),
        (
            format!("/tempo/api/search?tags={}", "a=b+".repeat(1_000)),
            400,
        ),
        (format!("/api/traces/{long}"), 400),
        (
            format!("/tempo/api/v2/search/tag/{long}/values?{TEMPO_TIME}"),
            400,
        ),
        (
            format!("/api/traces?service=a&start=0&end={}", i64::MAX),
            200,
        ),
    ] {
        let reply = served.get(&path).await;
        assert_eq!(reply.status.as_u16(), status, "{}", reply.text());
    }
}

#[tokio::test]
async fn a_trace_or_a_search_above_the_limit_is_refused_whole() {
    let limited = Config {
        trace_spans_max: 1,
        ..config()
    };
    let served = served_two(&limited).await;
    for (path, remedy) in [
        (format!("/api/traces/{A}"), "by SQL"),
        (format!("/api/v3/traces/{A}"), "by SQL"),
        (format!("/tempo/api/v2/traces/{A}"), "by SQL"),
        (
            format!("/api/traces?service=gateway&{JAEGER_TIME}"),
            "ask for fewer traces",
        ),
        (
            format!("/api/v3/traces?query.service_name=gateway&{V3_TIME}"),
            "ask for fewer traces",
        ),
    ] {
        let reply = served.get(&path).await;
        assert_eq!(reply.status, 422, "{path}: {}", reply.text());
        assert!(reply.text().contains("trace_spans_max"), "{}", reply.text());
        assert!(reply.text().contains(remedy), "{}", reply.text());
    }
    // What does not give whole traces is not concerned.
    let answer = served
        .json_of(&format!("/api/search?q=%7B%7D&{TEMPO_TIME}"))
        .await;
    assert_eq!(answer["traces"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_refusal_for_lack_of_places_says_when_to_come_again() {
    let limited = Config {
        statements_max: NonZeroUsize::MIN,
        statements_waiting_max: 0,
        ..config()
    };
    let served = served_two(&limited).await;
    let endless = "SELECT value FROM generate_series(1, 100000000000)";
    let held = served.fixture.engine.answer(endless, None).await.unwrap();
    let reply = served.get("/api/v3/services").await;
    drop(held);
    assert_eq!(reply.headers["retry-after"], "1");
    assert_eq!(reply.json()["error"]["httpCode"], 503);
}

#[tokio::test]
async fn where_tokens_are_asked_for_every_path_asks() {
    let unguarded = served().await;
    let settings = BearerTokenAuth {
        tokens: vec![Secret::new("secret")],
        ..BearerTokenAuth::default()
    };
    let tokens = TokenCheck::open("bearertokenauth", &settings).unwrap();
    let guard = Arc::new(Guard::new(Arc::new(tokens)));
    let router: Router = guarded(router(Arc::clone(&unguarded.fixture.engine)), guard);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let _detached = tokio::spawn(async move { axum::serve(listener, router).await });
    let served = super::Served {
        address,
        ..unguarded
    };
    for path in [
        "/api/services",
        "/api/v3/services",
        "/jaeger/api/v3/traces/a",
        "/api/echo",
        "/tempo/ready",
        "/tempo/api/search",
        "/tempo/api/v2/traces/a",
    ] {
        let reply = served.get(path).await;
        assert_eq!(reply.status, 401, "{path}");
        let reply = served
            .get_with(path, &[("authorization", "Bearer secret")])
            .await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
    }
}

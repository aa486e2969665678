//! Objectives as they are written, and what they match.

use otlp::{SpanId, TraceId};
use proptest::prelude::{Strategy, proptest};
use tables::requests::Request;

use super::{Band, Pattern};
use crate::config::{Config, parse};

const REST: &str = "
receivers: {otlp: {protocols: {grpc: {}}}}
exporters: {lake: {}}
service: {extensions: [slo], pipelines: {traces: {receivers: [otlp], exporters: [lake]}}}
";

fn load(slo: &str) -> Result<Config, String> {
    let yaml = format!("extensions:\n  slo:\n{slo}{REST}");
    let loaded = parse(&yaml, &|_| None).map_err(|error| error.to_string())?;
    Ok(loaded.config)
}

fn request(model: Option<&str>, tokens: (Option<i64>, Option<i64>)) -> Request {
    let mut request = Request::new(
        TraceId::from_slice(&[1; 16]).unwrap(),
        SpanId::from_slice(&[1; 8]).unwrap(),
    );
    request.model = model.map(str::to_owned);
    (request.input_tokens, request.output_tokens) = tokens;
    request
}

#[test]
fn an_objective_is_described_as_it_is_meant() {
    let config = load(
        "    objectives:
      - name: chat
        model: 'qwen*'
        input_band: [lt_128, lt_512]
        output_band: lt_2k
        ttft: {threshold: 500ms, target: 0.99}
        tpot: {threshold: 50ms, target: 0.95}
        e2e: {threshold: 1m30s, target: 0.999}
        errors: {target: 0.9995}
      - {name: all, ttft: {threshold: 2s, target: 0.9, position: client}}
",
    );
    let objectives = config.unwrap().slo.unwrap().objectives;
    let described: Vec<String> = objectives.iter().map(|o| o.describe()).collect();
    expect_test::expect![[r#"
        `chat` (model qwen*, input lt_128 or lt_512, output lt_2k): 99 % with ttft (at the engine) of at most 500ms; 95 % with tpot of at most 50ms; 99.9 % with e2e of at most 90s; 99.95 % without error
        `all` (all requests): 90 % with ttft (at the client) of at most 2s
    "#]]
    .assert_eq(&format!("{}\n", described.join("\n")));
}

#[test]
fn impossible_values_are_refused_with_place_and_remedy() {
    let one = |keys: &str| format!("    objectives:\n      - {{name: chat, {keys}}}\n");
    let mut said = String::new();
    for slo in [
        one("ttft: {threshold: 500ms, target: 99}"),
        one("ttft: {threshold: 500ms, target: 1}"),
        one("ttft: {threshold: 500ms, target: 0}"),
        one("ttft: {threshold: 500ms, target: .nan}"),
        one("ttft: {threshold: 0s, target: 0.99}"),
        one("ttft: {threshold: 500, target: 0.99}"),
        one("ttft: {target: 0.99}"),
        one("ttft: {threshold: 1s, target: 0.99, position: router}"),
        one("tpot: {threshold: 1s, target: 0.99, position: engine}"),
        one("errors: {threshold: 1s, target: 0.99}"),
        one("model: a"),
        one("model: '', errors: {target: 0.99}"),
        one("input_band: lt_3k, errors: {target: 0.99}"),
        one("output_band: [], errors: {target: 0.99}"),
        one("modle: a, errors: {target: 0.99}"),
        "    objectives: [{name: 'Chat!', errors: {target: 0.9}}]\n".to_owned(),
        "    objectives: [{name: a, errors: {target: 0.9}}, {name: a, errors: {target: 0.9}}]\n"
            .to_owned(),
        "    window: 1w\n".to_owned(),
        "    window: 365d\n".to_owned(),
        "    label_sets_max: 0\n".to_owned(),
    ] {
        said.push_str(&load(&slo).unwrap_err());
        said.push('\n');
    }
    expect_test::expect_file!["../../../testdata/slo_refused.txt"].assert_eq(&said);
}

#[test]
fn objectives_without_tables_are_refused() {
    let yaml = format!("extensions: {{slo: {{}}}}{REST}").replace("lake", "debug");
    let error = parse(&yaml, &|_| None).unwrap_err().to_string();
    assert!(
        error.starts_with("`extensions::slo` (line 1): counts"),
        "{error}"
    );
}

#[test]
fn a_request_is_matched_by_what_is_known_of_it() {
    let objective = |keys: &str| {
        let slo = format!("    objectives: [{{name: a, errors: {{target: 0.9}}{keys}}}]\n");
        load(&slo).unwrap().slo.unwrap().objectives.remove(0)
    };
    let known = request(Some("qwen3-8b"), (Some(128), Some(40_000)));
    let unknown = request(None, (None, None));
    for (keys, is_known, is_unknown) in [
        ("", true, true),
        (", model: qwen3-8b", true, false),
        (", model: qwen3", false, false),
        (", model: 'qwen*'", true, false),
        (", model: '*'", true, false),
        (", input_band: lt_512", true, false),
        (", input_band: lt_128", false, false),
        (
            ", input_band: [lt_128, lt_512], output_band: ge_32k",
            true,
            false,
        ),
        (", input_band: lt_512, output_band: lt_32k", false, false),
    ] {
        let objective = objective(keys);
        assert_eq!(objective.matches(&known), is_known, "{keys}");
        assert_eq!(objective.matches(&unknown), is_unknown, "{keys}");
    }
}

#[test]
fn bands_are_those_of_the_table() {
    for (n_tokens, band) in [
        (127, Band::Lt128),
        (128, Band::Lt512),
        (512, Band::Lt2k),
        (2_048, Band::Lt8k),
        (8_192, Band::Lt32k),
        (32_768, Band::Ge32k),
    ] {
        assert_eq!(tables::requests::band(n_tokens), band.as_str());
    }
}

/// `*` by trying every place where it may end.
fn naive(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern.split_first(), text.split_first()) {
        (None, _) => text.is_empty(),
        (Some((b'*', pattern)), _) => (0..=text.len()).any(|end| naive(pattern, &text[end..])),
        (Some((p, pattern)), Some((t, text))) => p == t && naive(pattern, text),
        (Some(_), None) => false,
    }
}

proptest! {
    #[test]
    fn a_pattern_matches_what_a_naive_search_matches(
        pattern in "[ab*]{1,6}".prop_map(Pattern),
        text in "[ab]{0,8}",
    ) {
        assert_eq!(pattern.matches(&text), naive(pattern.as_str().as_bytes(), text.as_bytes()));
    }
}

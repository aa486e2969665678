//! Sections that users copy: what is refused, and what is pointed out with its line.

use super::super::tree::Node;
use super::{Reviewed, review};

const C19: &str = include_str!("../../../../sampler/testdata/cases/C19.yaml");
const C22: &str = include_str!("../../../../sampler/testdata/cases/C22.yaml");
const C29: &str = include_str!("../../../../sampler/testdata/cases/C29.yaml");

/// The sections of one document of a case.
fn reviewed(yaml: &str) -> Vec<Reviewed> {
    review(&Node::parse(yaml).unwrap())
}

/// What is said about the only section of a document, one warning after the other.
fn warnings(yaml: &str) -> Vec<String> {
    let sections = reviewed(yaml);
    assert_eq!(sections.len(), 1, "{sections:?}");
    let warnings = sections.iter().flat_map(|section| &section.warnings);
    warnings
        .map(|warning| {
            assert!(warning.remedy.is_some_and(|remedy| !remedy.is_empty()));
            format!("{}: {}", warning.severity.as_str(), warning.fault)
        })
        .collect()
}

#[track_caller]
fn check(yaml: &str, expected: &[&str]) {
    assert_eq!(warnings(yaml), expected);
}

#[test]
fn c19_bounds_that_the_collector_reads_otherwise_are_pointed_out() {
    let documents: Vec<&str> = C19.split("---\n").collect();
    let [plain, zeros, doubles] = documents[..] else {
        panic!("three documents expected");
    };
    check(plain, &[]);
    check(
        zeros,
        &[
            "note: `processors::tail_sampling::policies[0]::numeric_attribute::min_value` (line 5): policy `zero-tokens`: 0 is a bound here; the Collector takes it for no bound",
            "note: `processors::tail_sampling::policies[0]::numeric_attribute::max_value` (line 5): policy `zero-tokens`: 0 is a bound here; the Collector takes it for no bound",
        ],
    );
    check(doubles, &[]);
    let as_collector =
        |document: &str| document.replace("policies:", "compat: collector\n    policies:");
    check(
        &as_collector(doubles),
        &[
            "warning: `processors::tail_sampling::policies[0]::numeric_attribute::key` (line 6): policy `slow-ttft`: a double counts as 0, so that latencies and costs never match",
        ],
    );
    // There two bounds of 0 are none, and without one the policy is refused.
    let refused = &reviewed(&as_collector(zeros))[0].config;
    assert!(
        refused
            .as_ref()
            .is_err_and(|e| e.to_string().contains("`zero-tokens`"))
    );
}

#[test]
fn c22_an_inverted_match_is_pointed_out() {
    let inverted = |key: &str, idx: usize, line: usize, name: &str| {
        format!(
            "warning: `processors::tail_sampling::policies[{idx}]::{key}::invert_match` (line {line}): policy `{name}`: \
             keeps every trace in which nothing matches, whatever other policies say (a Collector before v0.144 gives it a veto instead)"
        )
    };
    let documents: Vec<&str> = C22.split("---\n").collect();
    let [beside_another, alone, beside_everything] = documents[..] else {
        panic!("three documents expected");
    };
    let no_probes = inverted("string_attribute", 0, 5, "no-probes");
    check(beside_another, &[&no_probes]);
    check(alone, &[&no_probes]);
    check(
        beside_everything,
        &[
            "warning: `processors::tail_sampling::policies[0]::type` (line 5): policy `keep-all`: keeps every trace, so that only `drop` policies among the others matter",
            &inverted("boolean_attribute", 1, 6, "no-synthetic"),
            &inverted("numeric_attribute", 2, 7, "no-tiny"),
        ],
    );
}

#[test]
fn c29_is_refused_with_policy_and_key_or_starts_with_a_warning() {
    // Per document, what the refusal names; nothing for those that start.
    let named: [&[&str]; 13] = [
        &["policies[1]", "`p`", "twice"],
        &["latencey", "`latency`", "policies[0]"],
        &["policies[0]", "`name`"],
        &["policies[0]", "`p`", "status_codes", "error"],
        &["policies[0]", "`p`", "status_codes"],
        &["treshold_ms", "`threshold_ms`", "policies[0]"],
        &["`d`", "`x`", "string_attribute::value"],
        &["probabilistic", "latency", "policies[0]"],
        &["policies[0]", "`c`", "policy_order", "`b`"],
        &["decision_wait", "line 2"],
        &["policies"],
        &[],
        &[],
    ];
    let documents: Vec<&str> = C29.split("\n---\n").collect();
    assert_eq!(documents.len(), named.len());
    for (document, named) in documents.iter().zip(named) {
        let sections = reviewed(document);
        match &sections[0].config {
            Ok(_) => assert!(named.is_empty(), "{document}"),
            Err(error) => {
                let message = error.to_string();
                assert!(
                    message.starts_with("`processors::tail_sampling"),
                    "{message}"
                );
                assert!(!named.is_empty(), "{message}");
                for name in named {
                    assert!(message.contains(name), "`{name}` is not in: {message}");
                }
            }
        }
    }
    check(documents[11], &[]);
    let found = warnings(documents[12]);
    let starts = [
        "note: `processors::tail_sampling::expected_new_traces_per_sec` (line 2): has no effect",
        "warning: `processors::tail_sampling::decision_cache::sampled_cache_size` (line 2): 10 decisions",
        "warning: `processors::tail_sampling::decision_cache::non_sampled_cache_size` (line 2): 10 decisions",
        "note: `processors::tail_sampling::policies[0]::probabilistic::sampling_percentage` (line 2): policy `p`: is a percentage",
    ];
    assert_eq!(found.len(), starts.len(), "{found:#?}");
    for (warning, start) in found.iter().zip(starts) {
        assert!(warning.starts_with(start), "{warning}");
    }
}

#[test]
fn a_refused_policy_is_found_by_its_line_also_below_another() {
    let yaml = "\
processors:
  tail_sampling:
    policies:
      - {name: all, type: always_sample}
      - name: both
        type: and
        and:
          and_sub_policy:
            - {name: t, type: trace_flags}
            - {name: c, type: span_count, span_count: {min_spans: 5, max_spans: 3}}
";
    let refused = reviewed(yaml).remove(0).config.unwrap_err().to_string();
    let place = "`processors::tail_sampling::policies[1]` (line 5): policy `both/c`";
    assert!(refused.starts_with(place), "{refused}");
}

/// The Collector's own file, with components that do not exist here.
#[test]
fn every_section_is_read_whatever_else_the_file_has() {
    let yaml = "\
receivers: {otlp: {protocols: {grpc: {}}}, zipkin: {}}
processors:
  batch: {}
  tail_sampling/slow:
    policies:
      - name: slow
        type: latency
        latency:
          threshold_ms: 60000
  tail_sampling/broken: {policies: []}
exporters: {otlphttp: {endpoint: 'http://backend:4318'}}
";
    assert!(super::super::parse(yaml, &|_| None).is_err());
    let sections = reviewed(yaml);
    let paths: Vec<&str> = sections
        .iter()
        .map(|section| section.path.as_str())
        .collect();
    assert_eq!(
        paths,
        [
            "processors::tail_sampling/slow",
            "processors::tail_sampling/broken"
        ]
    );
    let found = &sections[0].warnings[0];
    assert_eq!(
        found.fault.path,
        "processors::tail_sampling/slow::policies[0]::latency::threshold_ms"
    );
    assert_eq!(found.fault.line, 9);
    assert!(sections[1].config.is_err());
}

#[test]
fn a_section_may_be_the_whole_file() {
    let sections = reviewed("tail_sampling/a: {policies: [{name: p, type: trace_flags}]}");
    assert_eq!(sections[0].path, "tail_sampling/a");
    assert!(sections[0].config.is_ok());
}

/// A condition that samples must mean the same in `whyslow sql`.
#[test]
fn columns_of_sql_conditions_are_columns_of_traces_and_no_other_is_without_an_answer() {
    use tables::ColumnType;
    let columns = tables::traces::SPEC.columns;
    for (name, is_truth) in sampler::SQL_COLUMNS {
        let found = columns.iter().find(|column| column.name == name);
        let found = found.map(|column| column.data_type);
        let want = if is_truth {
            ColumnType::Bool
        } else {
            ColumnType::Int
        };
        assert_eq!(found, Some(want), "{name}");
    }
    for column in columns {
        let yaml = format!(
            "tail_sampling: {{policies: [{{name: p, type: sql_condition, sql_condition: {{condition: '{} IS NULL'}}}}]}}",
            column.name
        );
        let refused = reviewed(&yaml)[0]
            .config
            .as_ref()
            .err()
            .map(ToString::to_string);
        let is_known = sampler::SQL_COLUMNS
            .iter()
            .any(|(name, _)| *name == column.name);
        match refused {
            None => assert!(is_known, "{}", column.name),
            Some(text) => assert!(
                text.contains("is not known when a trace is decided"),
                "{text}"
            ),
        }
    }
}

//! `whyslow simulate` and `whyslow why` on stored captures, against what the sampler itself decides of the
//! same captures.

use std::path::{Path, PathBuf};
use std::process::Command;

use expect_test::{Expect, expect};
use serde_json::Value;

use crate::harness::{ALL, SLOW_OR_FAILED, Site, capture, succeed, whyslow};

const STRICTER: &str = "      - {name: slower, type: latency, latency: {threshold_ms: 4000}}
      - {name: failed, type: status_code, status_code: {status_codes: [ERROR]}}
";

/// Attributes of spans and resources, promoted and not, numbers and booleans that are stored as text,
/// conditions on fields and events, a drop.
const ATTRIBUTES: &str = "      - name: probes
        type: drop
        drop: {drop_sub_policy: [{name: p, type: string_attribute, string_attribute: {key: http.method, values: [G.T], enabled_regex_matching: true}}]}
      - {name: exceptions, type: ottl_condition, ottl_condition: {spanevent: ['attributes[\"exception.type\"] != nil']}}
      - {name: tokens, type: numeric_attribute, numeric_attribute: {key: gen_ai.usage.total_tokens, min_value: 150}}
      - {name: cost, type: numeric_attribute, numeric_attribute: {key: gen_ai.cost.total_cost, max_value: 0.5}}
      - {name: input, type: numeric_attribute, numeric_attribute: {key: gen_ai.usage.input_tokens, max_value: 100}}
      - {name: streams, type: boolean_attribute, boolean_attribute: {key: llm.is_streaming, value: true}}
      - {name: answered, type: ottl_condition, ottl_condition: {span: ['IsRootSpan() and attributes[\"http.status_code\"] == 200']}}
      - {name: engine, type: string_attribute, string_attribute: {key: service.name, values: [vllm]}}
      - {name: many, type: span_count, span_count: {min_spans: 20}}
";

/// Traffic that was decided by these policies and stored.
fn stored(policies: &'static str, name: &str) -> Site {
    let site = Site::new(policies);
    let server = site.serve();
    server.replay(&capture(name), "grpc", false);
    server.stop();
    site
}

/// Policies in a file without a pipeline.
fn policies_in(folder: &Path, policies: &str) -> PathBuf {
    let path = folder.join("new.yaml");
    std::fs::write(&path, format!("tail_sampling:\n    policies:\n{policies}")).unwrap();
    path
}

fn command(name: &str, policies: &Path) -> Command {
    let mut command = whyslow();
    command.arg(name).arg("-c").arg(policies);
    command
}

fn text(command: &mut Command) -> String {
    String::from_utf8(succeed(command).stdout).unwrap()
}

fn simulated(site: &Site, policies: &str) -> Value {
    let path = policies_in(site.path(), policies);
    let mut command = command("simulate", &path);
    command
        .args(["--format", "json", "--data"])
        .arg(site.tables());
    serde_json::from_str(&text(&mut command)).unwrap()
}

/// Without what differs from run to run: folders, and the time of the decision.
fn check(shown: &str, site: &Site, expected: Expect) {
    let shown = shown.replace(&site.path().display().to_string(), "FOLDER");
    let lines = shown
        .lines()
        .map(|line| match line.split_once(", because ") {
            Some((decision, reason)) => {
                let (decision, _) = decision.rsplit_once(" at ").unwrap();
                format!("{decision} at TIME, because {reason}\n")
            }
            None => format!("{line}\n"),
        });
    expected.assert_eq(&lines.collect::<String>());
}

/// Traces, spans and bytes that are kept.
fn kept(site: &Site) -> Value {
    let sql =
        "SELECT count(*), sum(span_count), sum(size_bytes) FROM traces WHERE decision = 'sampled'";
    let row = site.stored(sql).remove(0);
    serde_json::json!({"traces": row[0], "spans": row[1], "bytes": row[2]})
}

#[test]
fn the_policies_that_decided_change_nothing() {
    for name in ["real-chain", "real-broken"] {
        let site = stored(SLOW_OR_FAILED, name);
        let report = simulated(&site, SLOW_OR_FAILED);
        assert_eq!(report["kept_before_not_now"]["traces"], 0, "{name}");
        assert_eq!(report["not_kept_before_kept_now"]["traces"], 0, "{name}");
        assert_eq!(report["now"]["unknown"]["traces"], 0, "{name}");
        assert_eq!(report["now"]["kept_for_certain"], kept(&site), "{name}");
        assert_eq!(report["doubts"], serde_json::json!([]), "{name}");
    }
}

#[test]
fn a_stricter_policy_keeps_what_the_sampler_keeps_with_it() {
    let site = stored(SLOW_OR_FAILED, "real-chain");
    let report = simulated(&site, STRICTER);
    assert_eq!(
        report["now"]["kept_for_certain"],
        kept(&stored(STRICTER, "real-chain"))
    );
    assert_eq!(report["now"]["unknown"]["traces"], 0);
    assert_eq!(report["not_kept_before_kept_now"]["traces"], 0);
}

/// With every span stored, restored spans are judged as the received ones are.
#[test]
fn of_stored_spans_attribute_policies_say_what_the_sampler_says() {
    let site = stored(ALL, "real-broken");
    let report = simulated(&site, ATTRIBUTES);
    let decided = stored(ATTRIBUTES, "real-broken");
    let kept_by = "SELECT policy, count(*) FROM traces WHERE decision = 'sampled' GROUP BY policy ORDER BY policy";
    let rows = decided.stored(kept_by);
    assert!(
        rows.len() >= 3,
        "too few policies match to prove anything: {rows:?}"
    );
    for row in rows {
        let policy = row[0].as_str().unwrap();
        assert_eq!(
            report["by_policy"][policy]["kept_now"], row[1],
            "{policy}: {report:#}"
        );
    }
    let dropped = decided.stored("SELECT count(*) FROM traces WHERE decision = 'dropped'");
    assert_eq!(report["now"]["dropped"]["traces"], dropped[0][0]);
    assert_eq!(report["now"]["unknown"]["traces"], 0, "{report:#}");
}

#[test]
fn the_report_names_changes_and_what_cannot_be_known() {
    let site = stored(SLOW_OR_FAILED, "real-chain");
    let attributes = "      - {name: slower, type: latency, latency: {threshold_ms: 4000}}
      - {name: engine, type: string_attribute, string_attribute: {key: service.name, values: [vllm]}}
      - {name: refused, type: numeric_attribute, numeric_attribute: {key: http.status_code, min_value: 500}}
";
    let path = policies_in(site.path(), attributes);
    let mut of_tables = command("simulate", &path);
    let shown = text(of_tables.arg("--data").arg(site.tables()));
    let server = site.serve();
    let mut of_server = command("simulate", &path);
    assert_eq!(text(of_server.args(["--server", &server.query])), shown);
    server.stop();
    check(
        &shown,
        &site,
        expect![[r#"
            The policies of `FOLDER/new.yaml` on 241 stored traces (17,680 spans, 6.6 MiB), begun from 2026-11-29T14:48:52Z to 2026-11-29T14:50:17Z

                          | traces |  spans |     size
            --------------+--------+--------+----------
             kept before  |     76 | 14,495 |  4.7 MiB
             kept now     |    144 | 17,148 |  5.0 MiB
             not kept now |     14 |    449 |  1.6 MiB
             unknown      |     83 |     83 | 12.4 KiB

             policy  | kept before | kept now | verdict likely | verdict unknown
            ---------+-------------+----------+----------------+-----------------
             slower  |           0 |       58 |              0 |               0
             engine  |           0 |       86 |             83 |               0
             refused |           0 |        0 |              0 |              83
             failed  |          12 |        - |              - |               -
             slow    |          64 |        - |              - |               -

             model | traces | kept before | kept now | unknown
            -------+--------+-------------+----------+---------
             -     |    241 |          76 |      144 |      83

            Kept before, not now: 14 traces, such as 17420e940144702bc6b789ef81365acc 38efbaebdb31ccd29bb183e11570266b 3a828159c9d22950eb25f8a1fc2e6a59 4770a08716e6fec353b97377b34e8ece 5d385e064363e5d900ed6b0272218fdc
            Not kept before, kept now: 82 traces, such as 0329602a1adbe533c7642bdee967ebdb 070d710920859634fe3c9c8f2b855c1f 08ab17151caa0c48340252a634aa4a20 0acd8be146e4099030f970583f9d52f9 0cb1e29c658cda1495e60af593bd04cf
            The kept traces, weighted with their `adjusted_count`, stand for 76 of 241 traces; of those 62 would be kept.

            What the stored rows do not say:
             policy  | needs                        | but                                       | traces unknown | likely
            ---------+------------------------------+-------------------------------------------+----------------+--------
             engine  | attribute `service.name`     | only services and engine requests tell it |             83 |      0
             refused | attribute `http.status_code` | the spans are not stored                  |             83 |      0
        "#]],
    );
    let nothing = ["--until", "2020-01-01", "--data"];
    let shown = text(command("simulate", &path).args(nothing).arg(site.tables()));
    check(
        &shown,
        &site,
        expect![[r#"
        The policies of `FOLDER/new.yaml` on 0 stored traces (0 spans, 0 B)

        There is nothing to decide: no stored trace began in this time.
    "#]],
    );
    let csv = text(
        command("simulate", &path)
            .args(["--format", "csv", "--data"])
            .arg(site.tables()),
    );
    assert!(
        csv.starts_with("section,item,measure,value\nbefore,kept,traces,76\n"),
        "{csv}"
    );
}

#[test]
fn why_shows_each_verdict_beside_the_decision() {
    let site = stored(SLOW_OR_FAILED, "real-chain");
    let (kept, not_kept) = (
        "17420e940144702bc6b789ef81365acc",
        "019f7781f2198825aa2d6c38c71c588c",
    );
    let more = format!(
        "{SLOW_OR_FAILED}      - {{name: route, type: string_attribute, string_attribute: {{key: http.route, values: [/ask]}}}}\n      - {{name: engine, type: string_attribute, string_attribute: {{key: service.name, values: [vllm]}}}}\n      - {{name: some, type: rate_limiting, rate_limiting: {{spans_per_second: 5}}}}\n"
    );
    let path = policies_in(site.path(), &more);
    let why = |id: &str| {
        text(
            command("why", &path)
                .args([id, "--data"])
                .arg(site.tables()),
        )
    };
    check(
        &why(kept),
        &site,
        expect![[r#"
        trace 17420e940144702bc6b789ef81365acc, `chat.ask` of chat-web, 244 ms, 20 spans, 8 errors, 146.7 KiB, begun 2026-11-29T14:49:24Z
        decided: sampled by `failed` at TIME, because the process stopped; stands for 1 of its kind
        20 of its 20 spans stored

        What the policies of `FOLDER/new.yaml` say of it now:
         policy | verdict            | evidence                                                       | rule
        --------+--------------------+----------------------------------------------------------------+-----------------------------------------
         slow   | not sampled        | 244 ms                                                         | longer than 2000 ms
         failed | sampled            | 8 spans with ERROR                                             | a span with status ERROR
         route  | sampled            | `http.route`: /ask, /v1/chat/completions                       | the attribute `http.route` being /ask
         engine | not sampled        | `service.name`: chat-web, rag-api, llm-gateway                 | the attribute `service.name` being vllm
         some   | likely not sampled | 20 spans; budget: how full it was depends on all traces before | up to 5 spans a second
        now: sampled by `failed`, as it was decided
    "#]],
    );
    check(
        &why(not_kept),
        &site,
        expect![[r#"
        trace 019f7781f2198825aa2d6c38c71c588c, `GET` of chat-web, 38.9 ms, 1 span, 0 errors, 153 B, begun 2026-11-29T14:49:36Z
        decided: not_sampled at TIME, because the process stopped
        its spans are not stored: it was not kept

        What the policies of `FOLDER/new.yaml` say of it now:
         policy | verdict            | evidence                                                                                      | rule
        --------+--------------------+-----------------------------------------------------------------------------------------------+-----------------------------------------
         slow   | not sampled        | 38.9 ms                                                                                       | longer than 2000 ms
         failed | not sampled        | 0 spans with ERROR                                                                            | a span with status ERROR
         route  | unknown            | attribute `http.route`: the spans are not stored                                              | the attribute `http.route` being /ask
         engine | likely not sampled | `service.name`: chat-web; attribute `service.name`: only services and engine requests tell it | the attribute `service.name` being vllm
         some   | likely sampled     | 1 span; budget: how full it was depends on all traces before                                  | up to 5 spans a second
        now: likely sampled, which is not what was decided: an assumption does not hold, or the policies were others
    "#]],
    );
    // The built-in default is not what decided, and says so where it matters.
    let long = site.stored(
        "SELECT trace_id FROM traces WHERE duration_ns > 2000000000 ORDER BY trace_id LIMIT 1",
    );
    let long = long[0][0].as_str().unwrap();
    let none = policies_in(
        site.path(),
        "      - {name: none, type: latency, latency: {threshold_ms: 3600000}}\n",
    );
    let shown = text(
        command("why", &none)
            .args([long, "--data"])
            .arg(site.tables()),
    );
    assert!(
        shown.contains("now: not_sampled, which contradicts the decision"),
        "{shown}"
    );
}

#[test]
fn an_unknown_trace_and_a_refused_file_have_their_exit_codes() {
    let site = stored(SLOW_OR_FAILED, "real-broken");
    let path = policies_in(site.path(), SLOW_OR_FAILED);
    let mut unknown = command("why", &path);
    let unknown = unknown
        .args(["00000000000000000000000000000001", "--data"])
        .arg(site.tables());
    let output = unknown.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("not decided yet"), "{message}");
    let path = policies_in(site.path(), "      - {name: slow, type: latencey}\n");
    for name in ["simulate", "why"] {
        let mut refused = command(name, &path);
        if name == "why" {
            refused.arg("00000000000000000000000000000001");
        }
        let output = refused.arg("--data").arg(site.tables()).output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(64), "{message}");
    }
    let path = policies_in(
        site.path(),
        "      - {name: all, type: always_sample}\n    sampling_strategy: span-ingest\n",
    );
    let output = command("simulate", &path)
        .arg("--data")
        .arg(site.tables())
        .output()
        .unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(
        message.contains("span-ingest") && output.status.code() == Some(1),
        "{message}"
    );
}

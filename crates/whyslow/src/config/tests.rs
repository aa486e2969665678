//! Configuration files of others' trouble, and the default.

use std::collections::HashMap;

use super::tree::{Node, Value};
use super::{Config, Error, LOCAL_YAML, Loaded, de, env, parse};

/// The part that cases leave out.
const REST: &str = "
receivers: {otlp: {protocols: {grpc: {}}}}
exporters: {lake: {}}
service: {pipelines: {traces: {receivers: [otlp], processors: [tail_sampling], exporters: [lake]}}}
";

fn load(yaml: &str) -> Result<Loaded, Error> {
    parse(yaml, &|_| None)
}

fn refused(yaml: &str) -> String {
    match load(yaml) {
        Ok(loaded) => panic!("accepted: {loaded:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn the_commented_example_is_the_built_in_default() {
    let loaded = load(LOCAL_YAML).unwrap();
    assert_eq!(loaded.warnings, []);
    assert_eq!(loaded.config, Config::default());
}

/// Keys that are commented out have no space behind `#`, or that of their depth.
#[test]
fn the_tls_tokens_and_objectives_of_the_commented_example_are_valid() {
    let mut is_key = false;
    let uncommented = |line: &str| {
        let rest = line.trim_start().strip_prefix('#').unwrap_or(" ");
        is_key = !rest.starts_with(' ') && !rest.is_empty() || is_key && rest.starts_with("  ");
        line.replacen('#', if is_key { "" } else { "#" }, 1)
    };
    let lines: Vec<String> = LOCAL_YAML.lines().map(uncommented).collect();
    let yaml = lines.join("\n");
    let yaml = yaml.replace(
        "extensions: [query",
        "extensions: [bearertokenauth, slo, query",
    );
    let config = load(&yaml).unwrap().config;
    let grpc = config.gateway.otlp.protocols.grpc.unwrap();
    let tls = grpc.tls.unwrap();
    assert_eq!(tls.client_ca_file, "/etc/whyslow/clients-ca-bundle.crt");
    assert_eq!(grpc.auth.unwrap().authenticator, "bearertokenauth");
    let settings = &config.gateway.authenticators.0["bearertokenauth"];
    assert_eq!(settings.filename, "/etc/whyslow/tokens");
    let objectives = config.slo.unwrap().objectives;
    assert_eq!(objectives.len(), 2);
    assert_eq!(objectives[0].promises.len(), 2);
}

#[test]
fn a_listener_that_others_can_reach_is_a_warning_with_its_line() {
    let rest = REST.replace("processors: [tail_sampling], ", "").replace(
        "grpc: {}",
        "grpc: {endpoint: '0.0.0.0:4317'}, http: {endpoint: 'localhost:4318'}",
    );
    let warnings = load(&rest).unwrap().warnings;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert_eq!(warnings[0].fault.path, "receivers::otlp::protocols::grpc");
    assert_eq!(warnings[0].fault.line, 2);
    assert!(warnings[0].remedy.unwrap().contains("listen on 127.0.0.1"));
}

#[test]
fn c67_a_misspelt_or_misplaced_key_is_refused_with_its_path() {
    let tail = "processors: {tail_sampling: {policies: [{name: all, type: always_sample}]}}\n";
    let service = "exporters: {lake: {}}\nservice: {pipelines: {traces: {receivers: [otlp], processors: [tail_sampling], exporters: [lake]}}}\n";
    for (yaml, path, near) in [
        (
            format!("{tail}{service}receivers: {{otlp: {{protocols: {{http: {{endpoint: '127.0.0.1:4318', tls_settings: {{cert_file: x}}}}}}}}}}"),
            "receivers::otlp::protocols::http::tls_settings",
            "Known here",
        ),
        (
            format!("{tail}{service}receivers: {{otlp: {{protocols: {{grcp: {{endpoint: '127.0.0.1:4317'}}}}}}}}"),
            "receivers::otlp::protocols::grcp",
            "did you mean `grpc`",
        ),
        (
            format!("processors: {{tail_sampling: {{decison_wait: 10s, policies: [{{name: all, type: always_sample}}]}}}}{REST}"),
            "processors::tail_sampling::decison_wait",
            "did you mean `decision_wait`",
        ),
        (
            "receivers: {otlp: {protocols: {grpc: {}}}}\nexporters: {parquett: {path: /tmp/spans}}\nservice: {pipelines: {traces: {receivers: [otlp], exporters: [parquet]}}}".to_owned(),
            "exporters::parquett",
            "unknown exporter",
        ),
    ] {
        let message = refused(&yaml);
        assert!(message.contains(&format!("`{path}`")), "{path} is not in: {message}");
        assert!(message.contains(near), "{near} is not in: {message}");
    }
}

#[test]
fn c67_a_component_that_no_pipeline_uses_is_a_warning() {
    let yaml = "receivers: {otlp: {protocols: {grpc: {}}}}\n\
                processors: {tail_sampling: {policies: [{name: all, type: always_sample}]}}\n\
                exporters: {lake: {}}\n\
                service: {pipelines: {traces: {receivers: [otlp], exporters: [lake]}}}";
    let warnings: Vec<String> = load(yaml)
        .unwrap()
        .warnings
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].starts_with("`processors::tail_sampling` (line 2)"),
        "{warnings:?}"
    );
}

#[test]
fn c67_a_duplicate_key_is_refused() {
    let yaml = format!(
        "processors:\n  tail_sampling:\n    decision_wait: 10s\n    decision_wait: 100s\n    policies: [{{name: all, type: always_sample}}]\n{REST}"
    );
    let message = refused(&yaml);
    assert!(
        message.contains("decision_wait") && message.contains("duplicate"),
        "{message}"
    );
}

#[test]
fn c13_a_limit_of_the_other_protocol_is_an_unknown_key() {
    let yaml = "processors: {tail_sampling: {policies: [{name: all, type: always_sample}]}}\nexporters: {lake: {}}\n\
                receivers: {otlp: {protocols: {http: {max_recv_msg_size_mib: 4}}}}\n\
                service: {pipelines: {traces: {receivers: [otlp], processors: [tail_sampling], exporters: [lake]}}}";
    let message = refused(yaml);
    assert!(
        message.contains("protocols::http::max_recv_msg_size_mib"),
        "{message}"
    );
}

/// Fields of case C68, typed as its comments say.
#[derive(Debug, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct C68 {
    port: u16,
    endpoint: String,
    braces: u16,
    zeros_text: String,
    hex_text: String,
    flag: bool,
    with_default: String,
    empty_default: String,
    unset: String,
    escaped: String,
    regex_group: String,
    regex_plain: String,
    naked: String,
    digit: String,
    secret: String,
    list: Vec<String>,
    quoted: String,
}

const C68_FIELDS: &str = r#"
port: ${env:PORT}
endpoint: "127.0.0.1:${env:PORT}"
braces: ${PORT}
zeros_text: ${env:ZEROS}
hex_text: ${env:HEX}
flag: ${env:BOOL}
with_default: ${env:NOPE:-fallback}
empty_default: ${env:EMPTY:-x}
unset: ${env:NOPE}
escaped: "$${env:PORT}"
regex_group: "^/v1/(.*)$$"
regex_plain: "^/v1/(.*)$"
naked: $HOME
digit: ${1}
secret: ${env:TOKEN}
list: ${env:LIST}
quoted: ${env:QUOTED}
"#;

#[test]
fn c68_environment_values_are_read_as_the_collector_reads_them() {
    let environment = HashMap::from([
        ("PORT", "4317"),
        ("ZEROS", "0123"),
        ("HEX", "0xdeadbeef"),
        ("BOOL", "true"),
        // Set and empty: the default is for variables that are not set, as upstream.
        ("EMPTY", ""),
        ("TOKEN", "p@$$w0rd$HOME"),
        ("LIST", "[a, b]"),
        ("QUOTED", "\"0123\""),
    ]);
    let mut node = Node::parse(C68_FIELDS).unwrap();
    let mut warnings = Vec::new();
    let lookup = |name: &str| environment.get(name).map(|value| (*value).to_owned());
    env::expand(&mut node, "", &lookup, &mut warnings);
    let fields: C68 = de::read(&node, "fields").unwrap();
    let owned = str::to_owned;
    assert_eq!(
        fields,
        C68 {
            port: 4317,
            endpoint: owned("127.0.0.1:4317"),
            braces: 4317,
            zeros_text: owned("0123"),
            hex_text: owned("0xdeadbeef"),
            flag: true,
            with_default: owned("fallback"),
            empty_default: owned(""),
            unset: owned(""),
            escaped: owned("${env:PORT}"),
            regex_group: owned("^/v1/(.*)$"),
            regex_plain: owned("^/v1/(.*)$"),
            naked: owned("$HOME"),
            digit: owned("${1}"),
            secret: owned("p@$$w0rd$HOME"),
            list: vec![owned("a"), owned("b")],
            quoted: owned("0123"),
        }
    );
    let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(
        warnings.iter().any(|w| w.contains("`NOPE` is not set")),
        "{warnings:?}"
    );
    assert!(
        warnings.iter().any(|w| w.contains("`${1}`")),
        "{warnings:?}"
    );
    assert!(
        !warnings.iter().any(|w| w.contains("p@")),
        "a secret is printed: {warnings:?}"
    );
}

#[test]
fn an_environment_value_of_the_wrong_type_names_the_field() {
    let yaml = format!(
        "processors: {{tail_sampling: {{num_traces: '${{env:N}}', policies: [{{name: all, type: always_sample}}]}}}}{REST}"
    );
    let error = parse(&yaml, &|_| Some("many".to_owned()))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("processors::tail_sampling::num_traces"),
        "{error}"
    );
}

#[test]
fn components_of_the_collector_that_are_not_needed_are_accepted_with_a_note() {
    let yaml = "receivers: {otlp: {protocols: {grpc: }}}\nprocessors: {batch: , memory_limiter: {check_interval: 1s}}\n\
                exporters: {lake: }\nservice: {pipelines: {traces: {receivers: [otlp], processors: [memory_limiter, batch], exporters: [lake]}}}";
    let loaded = load(yaml).unwrap();
    assert_eq!(loaded.warnings.len(), 2, "{:?}", loaded.warnings);
    assert_eq!(
        loaded.config.sampler.policies.len(),
        1,
        "without tail_sampling everything is kept"
    );
}

#[test]
fn a_first_tier_passes_everything_on_at_once_and_says_what_it_cannot_route_by() {
    let first_tier = |exporter: &str| {
        format!(
            "receivers: {{otlp: {{protocols: {{grpc: }}}}}}\nexporters:\n  loadbalancing: {exporter}\n\
             service: {{pipelines: {{traces: {{receivers: [otlp], exporters: [loadbalancing]}}}}}}"
        )
    };
    let loaded = load(&first_tier(
        "{timeout: 1s, protocol: {otlp: {tls: {insecure: true}}}, resolver: {dns: {hostname: a, port: 4317}}}",
    ));
    let loaded = loaded.unwrap();
    assert_eq!(loaded.config.sampler.decision_wait.as_nanos(), 0);
    assert_eq!(loaded.warnings.len(), 1, "{:?}", loaded.warnings);
    for (exporter, expected) in [
        (
            "{routing_key: service, resolver: {static: {hostnames: [a]}}}",
            "only `traceID`",
        ),
        (
            "{resolver: {k8s: {service: a}}}",
            "`exporters::loadbalancing` (line 3)",
        ),
        (
            "{resolver: {kubernetes: {service: a}}}",
            "exporters::loadbalancing::resolver::kubernetes",
        ),
    ] {
        let message = refused(&first_tier(exporter));
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn what_must_be_restarted_for_is_named() {
    let with = |yaml: &str| {
        load(&format!("processors: {{tail_sampling: {{policies: [{{name: all, type: always_sample}}]}}}}\n{yaml}")).unwrap().config
    };
    let before = with(REST);
    assert_eq!(before.parts_that_differ(&before), [""; 0]);
    let lines_moved = format!("\n\n{REST}");
    assert_eq!(before.parts_that_differ(&with(&lines_moved)), [""; 0]);
    let exporters = "exporters: {lake: {}}";
    let more = "exporters: {lake: {commit_interval: 1s}, debug: {}}";
    let after = REST
        .replace(exporters, more)
        .replace("[lake]", "[lake, debug]");
    assert_eq!(
        before.parts_that_differ(&with(&after)),
        ["exporters::lake", "exporters"]
    );
}

#[test]
fn what_is_not_built_or_not_there_is_said() {
    let all = "processors: {tail_sampling: {policies: [{name: all, type: always_sample}]}}\n";
    for (yaml, expected) in [
        (
            format!(
                "{all}exporters: {{lake: }}\nreceivers: {{otlp: {{protocols: {{grpc: }}}}, pod_resources: }}\nservice: {{pipelines: {{traces: {{receivers: [otlp, pod_resources], exporters: [lake]}}}}}}"
            ),
            "`pod_resources` gives metrics: name it in the `receivers` of a pipeline `metrics`",
        ),
        (
            format!("{all}exporters: {{lake: }}\nreceivers: {{otlp: {{protocols: {{grpc: }}}}}}\n"),
            "`service`: the key is missing",
        ),
        (
            format!(
                "{all}exporters: {{lake: }}\nreceivers: {{otlp: {{protocols: {{grpc: }}}}}}\nservice: {{pipelines: {{trace: {{receivers: [otlp], exporters: [lake]}}}}}}"
            ),
            "did you mean `traces`",
        ),
        (
            format!(
                "{all}exporters: {{lake: }}\nreceivers: {{otlp: {{protocols: {{grpc: }}}}}}\nservice: {{pipelines: {{traces: {{receivers: [otpl], exporters: [lake]}}}}}}"
            ),
            "names the receiver `otpl`",
        ),
        (
            format!(
                "{all}exporters: {{lake: {{commit_interval: 0s}}}}\nreceivers: {{otlp: {{protocols: {{grpc: }}}}}}\nservice: {{pipelines: {{traces: {{receivers: [otlp], exporters: [lake]}}}}}}"
            ),
            "commit_interval",
        ),
        (
            format!(
                "{all}exporters: {{lake: {{maintenance: {{vacuum_after: 48h}}}}}}\nreceivers: {{otlp: {{protocols: {{grpc: }}}}}}\nservice: {{pipelines: {{traces: {{receivers: [otlp], exporters: [lake]}}}}}}"
            ),
            "`maintenance::vacuum_after` must be from `1h` to `24h`",
        ),
        (
            format!(
                "{all}exporters: {{lake: {{maintenance: {{retention_days: {{span: 1}}}}}}}}\nreceivers: {{otlp: {{protocols: {{grpc: }}}}}}\nservice: {{pipelines: {{traces: {{receivers: [otlp], exporters: [lake]}}}}}}"
            ),
            "did you mean `spans`",
        ),
        ("procesors: {}".to_owned(), "did you mean `processors`"),
        ("[1, 2".to_owned(), "not valid YAML"),
    ] {
        let message = refused(&yaml);
        assert!(
            message.contains(expected),
            "`{expected}` is not in: {message}"
        );
    }
}

#[test]
fn a_policy_that_cannot_be_compiled_is_refused_when_the_file_is_loaded() {
    let yaml = format!(
        "processors: {{tail_sampling: {{policies: [{{name: limit, type: ottl_condition, ottl_condition: {{span: ['SHA256(name) == nil']}}}}]}}}}{REST}"
    );
    let message = refused(&yaml);
    assert!(
        message.contains("SHA256") && message.contains("limit"),
        "{message}"
    );
}

#[test]
fn an_empty_file_is_a_map_without_keys() {
    for yaml in ["", "# nothing\n", "---\n"] {
        assert_eq!(
            Node::parse(yaml).unwrap().value,
            Value::Map(Vec::new()),
            "{yaml:?}"
        );
    }
}

#[test]
fn words_that_yaml_1_1_takes_for_booleans_are_strings_where_strings_are_asked_for() {
    let head = "processors: {tail_sampling: {policies: [{name: p, type: string_attribute, \
                string_attribute: {key: k, values: [no, on, y, N]}}]}}\n";
    let loaded = load(&format!("{head}{REST}")).unwrap();
    let policy = format!("{:?}", loaded.config.sampler.policies);
    assert!(policy.contains(r#"["no", "on", "y", "N"]"#), "{policy}");
}

//! Configurations that others have published: each loads, or is refused with a reason.

use std::fs;
use std::path::{Path, PathBuf};

use sampler::Config;
use serde_json::{Value as Json, json};

/// Beside the checkout, where there is one; they are not ours to publish.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/sampling/configs")
}

/// Every `tail_sampling` section below a node, wherever the file has it.
fn sections<'a>(node: &'a Json, found: &mut Vec<&'a Json>) {
    match node {
        Json::Object(map) => {
            for (key, value) in map {
                if key == "tail_sampling" || key.starts_with("tail_sampling/") {
                    found.push(value);
                } else {
                    sections(value, found);
                }
            }
        }
        Json::Array(items) => items.iter().for_each(|item| sections(item, found)),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}

/// What is said of a section: `loads`, with its findings, or why not.
fn judge(section: &Json) -> Result<Vec<String>, String> {
    let config: Config =
        serde_json::from_value(section.clone()).map_err(|error| error.to_string())?;
    config.validate().map_err(|error| error.to_string())?;
    let findings = config.findings().into_iter();
    Ok(findings
        .map(|finding| {
            format!(
                "{}: `{}` {}",
                finding.severity.as_str(),
                finding.path(),
                finding.what
            )
        })
        .collect())
}

#[test]
fn public_configurations_load_or_are_refused_with_the_reason() {
    let Ok(entries) = fs::read_dir(folder()) else {
        println!("skipped: there is no {}", folder().display());
        return;
    };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut n_loaded = 0;
    for path in &paths {
        let name = path.file_name().unwrap().to_string_lossy();
        let text = fs::read_to_string(path).unwrap();
        let root: Json = serde_saphyr::from_str(&text).unwrap();
        let mut found = Vec::new();
        sections(&root, &mut found);
        if found.is_empty() {
            println!("no tail_sampling section: {name}");
        }
        for section in found {
            match judge(section) {
                Ok(findings) => {
                    n_loaded += 1;
                    println!("loads: {name}");
                    findings
                        .iter()
                        .for_each(|finding| println!("    {finding}"));
                    assert!(
                        !name.contains("INVALID"),
                        "{name} is invalid in the Collector"
                    );
                }
                Err(reason) => {
                    println!("refused: {name}\n    {reason}");
                    assert!(name.contains("INVALID"), "{name}: {reason}");
                    assert!(reason.contains("policy `"), "{name}: {reason}");
                }
            }
        }
    }
    assert!(n_loaded > 0);
}

/// The part of a published file that uses every type at once, so that it is tested everywhere.
#[test]
fn a_section_with_every_type_of_policy_loads_without_a_reason_to_refuse() {
    let section = json!({
        "drop_pending_traces_on_shutdown": true,
        "policies": [
            {"name": "b", "type": "bytes_limiting", "bytes_limiting": {"bytes_per_second": 2048, "burst_capacity": 4096}},
            {"name": "o", "type": "ottl_condition", "ottl_condition": {
                "error_mode": "ignore",
                "span": ["attributes[\"a\"] == \"x\"", "attributes[\"b\"] != \"x\""],
                "spanevent": ["name != \"e\"", "attributes[\"c\"] != \"x\""],
            }},
            {"name": "d", "type": "drop", "drop": {"drop_sub_policy": [
                {"name": "s", "type": "string_attribute", "string_attribute": {
                    "key": "url.path", "values": ["\\/health", "\\/metrics"], "enabled_regex_matching": true
                }}
            ]}},
        ]
    });
    let findings = judge(&section).unwrap();
    // `!=` without a value, three times; a path that is not anchored, twice; the budget; the order.
    assert!(findings.len() >= 5, "{findings:#?}");
}

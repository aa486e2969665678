//! Arrows between crates. An arrow that is added or removed is a decision: change this table and the
//! one in `crates/README.md` in a commit of its own.

use std::collections::BTreeSet;

use crate::tree::{files, read};

/// Crate and the crates of ours that it may use.
const ARROWS: [(&str, &[&str]); 13] = [
    ("otlp", &[]),
    ("wal", &[]),
    ("transport", &[]),
    ("reports", &["otlp"]),
    ("sampler", &["otlp"]),
    ("tables", &["otlp"]),
    ("correlate", &["otlp", "tables"]),
    ("lake", &["tables"]),
    (
        "gateway",
        &["otlp", "reports", "sampler", "transport", "wal"],
    ),
    (
        "query",
        &["correlate", "lake", "otlp", "tables", "transport"],
    ),
    ("loadgen", &["otlp", "transport"]),
    (
        "whyslow",
        &[
            "correlate",
            "gateway",
            "lake",
            "loadgen",
            "otlp",
            "query",
            "reports",
            "sampler",
            "tables",
            "transport",
            "wal",
        ],
    ),
    ("tidy", &[]),
];

/// Names below `[dependencies]` and `[build-dependencies]`. Tests may use more: `dev-dependencies`
/// are not arrows.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let mut section = String::new();
    let mut names = BTreeSet::new();
    for line in manifest.lines() {
        let line = line.trim();
        if line.starts_with('[') {
            section = line.trim_matches(['[', ']']).to_owned();
            let table = section
                .strip_prefix("dependencies.")
                .or_else(|| section.strip_prefix("build-dependencies."));
            names.extend(table.map(str::to_owned));
        } else if section == "dependencies" || section == "build-dependencies" {
            let name = line.split(['.', '=', ' ']).next().unwrap_or_default();
            if !name.is_empty() && !name.starts_with('#') {
                names.insert(name.to_owned());
            }
        }
    }
    names
}

#[test]
fn every_crate_is_in_the_table_and_uses_what_it_may() {
    let ours: BTreeSet<&str> = ARROWS.iter().map(|(name, _)| *name).collect();
    let mut manifests = files("crates", "Cargo.toml");
    manifests.retain(|path| path.matches('/').count() == 2);
    manifests.push("tests/tidy/Cargo.toml".to_owned());
    assert_eq!(manifests.len(), ARROWS.len(), "{manifests:?}");
    for path in manifests {
        let name = path.split('/').nth(1).unwrap();
        let (_, allowed) = ARROWS
            .iter()
            .find(|(known, _)| *known == name)
            .unwrap_or_else(|| panic!("{path}: not in the table of arrows"));
        let used = dependencies(&read(&path));
        let wrong: Vec<&String> = used
            .iter()
            .filter(|used| ours.contains(used.as_str()) && !allowed.contains(&used.as_str()))
            .collect();
        assert!(wrong.is_empty(), "{path}: may not depend on {wrong:?}");
    }
}

#[test]
fn the_map_of_crates_draws_the_same_arrows() {
    let map = read("crates/README.md");
    for (name, _) in ARROWS.iter().filter(|(name, _)| *name != "tidy") {
        assert!(
            map.contains(&format!("| `{name}` |")),
            "crates/README.md lacks `{name}`"
        );
    }
}

#[test]
fn dependencies_are_read_from_every_form() {
    let manifest = "[dependencies]\na.workspace = true\n# c\nb = \"1\"\n\n[dependencies.d]\nx = 1\n\
                    [dev-dependencies]\ne = \"1\"\n";
    let names: Vec<String> = dependencies(manifest).into_iter().collect();
    assert_eq!(names, ["a", "b", "d"]);
}

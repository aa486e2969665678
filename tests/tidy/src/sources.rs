//! Rules for source files: a head, a size that one can read, plain characters, no leftovers.

use crate::tree::{files, read};

/// Longest source file in lines.
pub(crate) const LINES_MAX: usize = 500;

/// Files that may be longer, each with its reason.
const LONG: [(&str, &str); 0] = [];

fn sources() -> Vec<String> {
    let mut sources = files("crates", ".rs");
    sources.extend(files("tests", ".rs"));
    sources
}

#[test]
fn every_source_file_says_what_it_is_for() {
    let without: Vec<String> = sources()
        .into_iter()
        .filter(|path| !read(path).starts_with("//!"))
        .collect();
    assert!(
        without.is_empty(),
        "these do not start with `//!`: {without:#?}"
    );
}

#[test]
fn no_source_file_is_longer_than_one_can_read() {
    let long: Vec<(String, usize)> = sources()
        .into_iter()
        .filter(|path| !LONG.iter().any(|(known, _)| known == path))
        .map(|path| (path.clone(), read(&path).lines().count()))
        .filter(|(_, lines)| *lines > LINES_MAX)
        .collect();
    assert!(long.is_empty(), "longer than {LINES_MAX} lines: {long:#?}");
}

#[test]
fn sources_and_documents_are_ascii() {
    let mut paths = sources();
    for (folder, ending) in [
        ("crates", ".toml"),
        ("crates", ".md"),
        ("storage", ".sql"),
        ("storage", ".md"),
        ("pipelines", ".yaml"),
        ("deploy", ".yml"),
        ("deploy", ".json"),
        ("deploy", ".sql"),
        ("deploy", ".md"),
    ] {
        paths.extend(files(folder, ending));
    }
    paths.extend(
        [
            "README.md",
            "CHANGELOG.md",
            "Cargo.toml",
            "docker-compose.yml",
        ]
        .map(str::to_owned),
    );
    for path in paths {
        for (idx, line) in read(&path).lines().enumerate() {
            assert!(line.is_ascii(), "{path}:{}: not ASCII: {line}", idx + 1);
        }
    }
}

#[test]
fn nothing_is_left_open_or_switched_off() {
    // Written apart, so that this file does not find itself.
    let words = [
        ["to", "do!("],
        ["unimple", "mented!("],
        ["#[ig", "nore"],
        ["#[al", "low("],
        ["#![al", "low("],
    ];
    for path in sources() {
        let text = read(&path);
        for word in words.map(|parts| parts.concat()) {
            assert!(
                !text.contains(&word),
                "{path}: `{word}`; finish it, or state a reason with `#[expect]`"
            );
        }
    }
}

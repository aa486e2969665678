//! Rules for the web page: its sources are read like all others, its built files are those of these sources.
//!
//! What is built (`crates/query/page`) is made by a program for a program: no rule for sources holds there.

use std::collections::BTreeMap;

use crate::sources::LINES_MAX;
use crate::tree::{files, read};

/// Where Vite writes what it was built from.
const BUILT_FROM: &str = "crates/query/page/sources.txt";

/// Most bytes of all built files: they are part of the binary, and of each clone.
const BUILT_BYTES_MAX: u64 = 1_500_000;

/// Folder, ending, and how a file begins to say what it is for; `None` where the format has no comments or is no source.
const SOURCES: [(&str, &str, Option<&str>); 8] = [
    ("web/src", ".ts", Some("// ")),
    ("web/src", ".css", Some("/* ")),
    ("web", "vite.config.ts", Some("// ")),
    ("web", ".html", None),
    ("web", ".md", None),
    ("web/public", ".svg", None),
    ("tests/page", ".mjs", Some("// ")),
    ("tests/page", ".md", None),
];

#[test]
fn sources_of_the_page_are_plain_short_and_say_what_they_are_for() {
    for (folder, ending, head) in SOURCES {
        for path in files(folder, ending) {
            let text = read(&path);
            let n_lines = text.lines().count();
            assert!(
                n_lines <= LINES_MAX,
                "{path}: {n_lines} lines, more than {LINES_MAX}"
            );
            assert!(text.is_ascii(), "{path}: not ASCII");
            if let Some(head) = head {
                assert!(
                    text.starts_with(head),
                    "{path}: does not start with `{head}`"
                );
            }
        }
    }
}

#[test]
fn the_built_page_is_that_of_its_sources() {
    let built = read(BUILT_FROM);
    let built: BTreeMap<&str, &str> = built
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(hash, path)| (path, hash))
        .collect();
    let mut paths = files("web/src", ".ts");
    paths.extend(files("web/src", ".css"));
    paths.extend(files("web/public", ".svg"));
    paths.extend(
        [
            "index.html",
            "package-lock.json",
            "package.json",
            "tsconfig.json",
            "vite.config.ts",
        ]
        .map(|name| format!("web/{name}")),
    );
    let now: BTreeMap<String, String> = paths
        .into_iter()
        .map(|path| {
            let hash = fingerprint(read(&path).as_bytes());
            (path.trim_start_matches("web/").to_owned(), hash)
        })
        .collect();
    let now: BTreeMap<&str, &str> = now
        .iter()
        .map(|(path, hash)| (path.as_str(), hash.as_str()))
        .collect();
    assert_eq!(
        now, built,
        "the sources of the page have changed since it was built: run `npm ci && npm run build` in `web/`"
    );
}

#[test]
fn the_built_page_is_small() {
    let mut n_bytes = 0;
    for ending in [".html", ".js", ".css", ".svg", ".txt"] {
        for path in files("crates/query/page", ending) {
            n_bytes += read(&path).len() as u64;
        }
    }
    assert!(
        n_bytes <= BUILT_BYTES_MAX,
        "{n_bytes} bytes, more than {BUILT_BYTES_MAX}"
    );
}

/// FNV-1a of 64 bits, as in `web/vite.config.ts`.
fn fingerprint(bytes: &[u8]) -> String {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

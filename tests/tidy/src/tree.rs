//! The files of the checkout.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders that hold nothing of ours.
const SKIPPED: [&str; 6] = [".git", "target", "node_modules", ".venv", ".work", "corpus"];

/// The root of the checkout.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// Text of a file below the root.
pub(crate) fn read(relative: &str) -> String {
    fs::read_to_string(root().join(relative)).unwrap_or_else(|e| panic!("{relative}: {e}"))
}

/// Every file below `relative` with this ending, as a path from the root, sorted.
pub(crate) fn files(relative: &str, ending: &str) -> Vec<String> {
    let mut found = Vec::new();
    walk(&root().join(relative), ending, &mut found);
    found.sort();
    assert!(!found.is_empty(), "no *{ending} below {relative}");
    found
}

fn walk(folder: &Path, ending: &str, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if !SKIPPED.contains(&name.as_str()) {
                walk(&path, ending, found);
            }
        } else if name.ends_with(ending) {
            let relative = path.strip_prefix(root()).unwrap();
            found.push(relative.to_string_lossy().into_owned());
        }
    }
}

//! Tests across modules: agreement with prost, real cases, payloads, fuzz corpora.

mod agreement;
mod arbitrary;
mod cases;
mod corpus;
mod metrics;
mod payloads;

use std::path::{Path, PathBuf};

/// A folder of this crate.
fn crate_path(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(relative)
}

/// Files of a folder with their names, sorted; empty if there is no folder.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut files: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read(&path).unwrap())
        })
        .collect();
    files.sort();
    files
}

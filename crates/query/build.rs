//! Lists the built web page (`page/`, made from `web/` at the root) as Rust, so that the binary holds it.
//!
//! It must not know what the files are for: `http::page` says how they are served.

use std::collections::hash_map::DefaultHasher;
use std::error::Error;
use std::fmt::Write as _;
use std::hash::Hasher as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let page = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("page");
    println!("cargo::rerun-if-changed=page");
    let mut paths = Vec::new();
    walk(&page, &mut paths)?;
    paths.sort();
    let mut list = String::from("&[\n");
    for path in paths {
        let mut hasher = DefaultHasher::new();
        hasher.write(&fs::read(&path)?);
        let (name, hash) = (path.strip_prefix(&page)?.display(), hasher.finish());
        writeln!(
            list,
            "    File {{ path: \"/{name}\", hash: 0x{hash:016x}, bytes: include_bytes!({path:?}) }},"
        )?;
    }
    list.push_str("]\n");
    fs::write(PathBuf::from(env::var("OUT_DIR")?).join("page.rs"), list)?;
    Ok(())
}

fn walk(folder: &Path, paths: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            walk(&path, paths)?;
        } else {
            paths.push(path);
        }
    }
    Ok(())
}

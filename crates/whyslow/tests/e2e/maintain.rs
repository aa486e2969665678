//! Maintenance of real tables: by hand, and in the background of a server.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::harness::http_get;
use crate::harness::{ALL, Site, succeed, whyslow};
use crate::kill::{bodies, send};

const N_SPANS: i64 = 17_680;

/// Facts that no maintenance may change.
const FACTS: &str = "SELECT count(*), count(DISTINCT span_id), sum(duration_ns), \
                     min(name), max(name), count(attributes['http.method']) FROM spans";

/// A capture is stored in four parts, each by a server of its own.
fn stored() -> Site {
    let bodies = bodies("real-chain");
    let site = Site::new(ALL);
    for part in bodies.chunks(23) {
        let server = site.serve();
        send(&server, part);
        server.stop();
    }
    site
}

fn n_parquet_files(folder: &Path) -> usize {
    let mut n_files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let is_folder = entry.file_type().unwrap().is_dir();
        let name = entry.file_name().into_string().unwrap();
        if is_folder && name != "_delta_log" {
            n_files += n_parquet_files(&entry.path());
        }
        n_files += usize::from(name.ends_with(".parquet"));
    }
    n_files
}

#[test]
fn maintenance_by_hand_merges_files_and_changes_no_row() {
    let site = stored();
    let facts = site.stored(FACTS);
    assert_eq!(facts[0][0].as_i64(), Some(N_SPANS));
    let spans = site.tables().join("spans");
    let n_files = n_parquet_files(&spans);
    let config = site.write_config();
    let maintain = |more: &[&str]| {
        let mut command = whyslow();
        command.args(["maintain", "-c"]).arg(&config).args(more);
        String::from_utf8(succeed(&mut command).stdout).unwrap()
    };
    let plan = maintain(&["--dry-run"]);
    assert!(plan.starts_with("This would be done at "), "{plan}");
    assert_eq!(n_parquet_files(&spans), n_files);
    let done = maintain(&[]);
    assert!(done.starts_with("This was done at "), "{done}");
    assert_eq!(site.stored(FACTS), facts);
    let n_more = n_parquet_files(&spans) - n_files;
    assert!(
        n_more > 0,
        "merged files are beside those that they replace: {done}"
    );
    maintain(&[]);
    assert_eq!(
        n_parquet_files(&spans),
        n_files + n_more,
        "nothing is left to do"
    );
}

#[test]
fn a_place_without_tables_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = whyslow();
    let output = command
        .args(["maintain", "--data"])
        .arg(folder.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("there is no table `"), "{text}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_server_maintains_its_tables_while_it_is_asked() {
    let site = stored();
    let facts = site.stored(FACTS);
    let site = site.maintaining_every("500ms");
    let server = site.serve();
    let begin = Instant::now();
    loop {
        assert_eq!(server.sql(FACTS), facts);
        let (_, metrics) = http_get(&format!("{}/metrics", server.query));
        let merged = metrics
            .lines()
            .find_map(|line| line.strip_prefix("lake_files_merged_total "));
        if merged.unwrap().parse::<u64>().unwrap() > 0 {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(300), "{metrics}");
    }
    assert_eq!(server.sql(FACTS), facts);
    server.stop();
}

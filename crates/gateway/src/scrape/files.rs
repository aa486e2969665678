//! Target groups out of files, as Prometheus' `file_sd_configs` has them: JSON or YAML.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use super::{FileSd, TargetGroup};

/// The largest file that is read.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// What the files said when they were readable last.
#[derive(Debug, Default)]
pub(super) struct Files {
    known: BTreeMap<PathBuf, Vec<TargetGroup>>,
    /// Files whose fault was told.
    faulty: BTreeMap<PathBuf, String>,
}

impl Files {
    /// Reads all files again. One that cannot be read keeps its targets, and is told of once; one that is gone has none.
    pub(super) fn refresh(&mut self, configs: &[FileSd]) {
        let mut known = BTreeMap::new();
        let named = configs.iter().flat_map(|config| &config.files);
        for path in named.flat_map(|pattern| paths(pattern)) {
            match read(&path) {
                Ok(groups) => {
                    self.faulty.remove(&path);
                    known.insert(path, groups);
                }
                Err(fault) => {
                    if self.faulty.get(&path) != Some(&fault) {
                        let path = path.display();
                        tracing::warn!(%path, fault, "targets cannot be read; those of before stay");
                        self.faulty.insert(PathBuf::from(path.to_string()), fault);
                    }
                    let before = self.known.remove(&path).unwrap_or_default();
                    known.insert(path, before);
                }
            }
        }
        self.known = known;
    }

    /// All groups that are known.
    pub(super) fn groups(&self) -> impl Iterator<Item = &TargetGroup> {
        self.known.values().flatten()
    }
}

/// The files that a name means; the last part may have a `*`.
fn paths(pattern: &str) -> Vec<PathBuf> {
    let path = Path::new(pattern);
    let name = path.file_name().and_then(|name| name.to_str());
    let Some((head, tail)) = name.and_then(|name| name.split_once('*')) else {
        return vec![path.to_owned()];
    };
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        Some(_) | None => Path::new("."),
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| {
                let rest = name.strip_prefix(head);
                rest.is_some_and(|rest| rest.len() >= tail.len() && rest.ends_with(tail))
            })
        })
        .collect();
    found.sort();
    found
}

fn read(path: &Path) -> Result<Vec<TargetGroup>, String> {
    let failed = |error: io::Error| error.to_string();
    if fs::metadata(path).map_err(failed)?.len() > FILE_BYTES_MAX {
        return Err(format!("is larger than {FILE_BYTES_MAX} bytes"));
    }
    let text = fs::read_to_string(path).map_err(failed)?;
    // JSON is YAML.
    serde_saphyr::from_str(&text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::{fs, time::Duration};

    use super::{FileSd, Files};

    #[test]
    fn files_are_read_again_and_a_broken_one_keeps_its_targets() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(
            path("a.json"),
            r#"[{"targets": ["a:1"], "labels": {"pod": "p"}}]"#,
        )
        .unwrap();
        fs::write(path("b.yaml"), "- targets: ['b:1', 'b:2']\n").unwrap();
        let config = |name: &str| FileSd {
            files: vec![path(name).display().to_string()],
            refresh_interval: Duration::from_secs(1),
        };
        let configs = [config("*.json"), config("b.yaml"), config("none.yaml")];
        let targets = |files: &Files| -> Vec<String> {
            let groups = files.groups();
            groups.flat_map(|group| group.targets.clone()).collect()
        };
        let mut files = Files::default();
        files.refresh(&configs);
        assert_eq!(targets(&files), ["a:1", "b:1", "b:2"]);
        fs::write(path("b.yaml"), "- targets: {").unwrap();
        fs::write(path("c.json"), r#"[{"targets": ["c:1"]}]"#).unwrap();
        files.refresh(&configs);
        assert_eq!(targets(&files), ["a:1", "b:1", "b:2", "c:1"]);
        fs::remove_file(path("a.json")).unwrap();
        files.refresh(&configs);
        assert_eq!(targets(&files), ["b:1", "b:2", "c:1"]);
    }
}

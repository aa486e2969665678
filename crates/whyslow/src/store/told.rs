//! How far all tables are, as a file beside the log.
//!
//! A table knows the last release of which it had rows. One that seldom has any (`gpu_samples` where nothing is scraped)
//! would have all that is left of the log repeated at each start. The file is written after the commits that it tells
//! of; a file that is older than they are costs repeats and nothing else.

use std::fs;
use std::path::{Path, PathBuf};

const NAME: &str = "committed";

/// The file.
#[derive(Debug)]
pub(super) struct Told {
    path: PathBuf,
    app_id: String,
}

impl Told {
    /// In the folder of the log.
    pub(super) fn new(folder: &Path, app_id: &str) -> Self {
        Self {
            path: folder.join(NAME),
            app_id: app_id.to_owned(),
        }
    }

    /// The release through which every table was committed; 0 where that is not known.
    pub(super) fn read(&self) -> i64 {
        let text = fs::read_to_string(&self.path).unwrap_or_default();
        let sequence = text
            .strip_suffix('\n')
            .and_then(|text| text.strip_prefix(&self.app_id))
            .and_then(|text| text.strip_prefix(' '));
        sequence
            .and_then(|sequence| sequence.parse().ok())
            .unwrap_or(0)
    }

    /// Every table is committed through this release.
    pub(super) fn write(&self, sequence: i64) {
        let new = self.path.with_extension("new");
        let text = format!("{} {sequence}\n", self.app_id);
        let written = fs::write(&new, text).and_then(|()| fs::rename(&new, &self.path));
        if let Err(error) = written {
            tracing::debug!(%error, "how far the tables are is not noted; the next start repeats more");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Told;

    #[test]
    fn only_a_whole_file_of_this_instance_counts() {
        let folder = tempfile::tempdir().unwrap();
        let told = Told::new(folder.path(), "one");
        assert_eq!(told.read(), 0);
        told.write(41);
        told.write(42);
        assert_eq!(told.read(), 42);
        assert_eq!(Told::new(folder.path(), "other").read(), 0);
        for torn in ["", "one", "one 4", "one x\n", "one 42", "one-more 4\n"] {
            std::fs::write(folder.path().join("committed"), torn).unwrap();
            assert_eq!(told.read(), 0, "{torn:?}");
        }
    }
}

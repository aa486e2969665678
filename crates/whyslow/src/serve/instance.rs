//! The name under which this data folder commits.
//!
//! Delta's application transaction needs an application id that is as old as the log: sequences count
//! from 1 in each log, so a new log must not meet the sequences of an old one. The id therefore lies
//! beside the segments and goes when they go.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use anyhow::Context as _;

const FILE: &str = "instance-id";

/// The id of the log in `directory`; a new one for a new log.
pub(super) fn read_or_create(directory: &Path) -> anyhow::Result<String> {
    let path = directory.join(FILE);
    match fs::read_to_string(&path) {
        Ok(id) if is_id(id.trim()) => return Ok(id.trim().to_owned()),
        Ok(_) => anyhow::bail!(
            "`{}` does not hold an instance id; it was damaged. Its tables know the id, see `_delta_log`",
            path.display()
        ),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => {
            return Err(error).with_context(|| format!("read `{}`", path.display()));
        }
    }
    fs::create_dir_all(directory)
        .with_context(|| format!("create the folder of the log `{}`", directory.display()))?;
    let id = format!("whyslow-{}", uuid::Uuid::new_v4().simple());
    // Written beside and renamed: a crash leaves no half id.
    let fresh = directory.join(format!("{FILE}.new"));
    let write = || {
        let mut file = fs::File::create(&fresh)?;
        file.write_all(id.as_bytes())?;
        file.sync_all()?;
        fs::rename(&fresh, &path)?;
        fs::File::open(directory)?.sync_all()
    };
    write().with_context(|| format!("write `{}`", path.display()))?;
    Ok(id)
}

fn is_id(text: &str) -> bool {
    let hex = text.strip_prefix("whyslow-").unwrap_or_default();
    hex.len() == 32 && hex.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::read_or_create;

    #[test]
    fn a_log_keeps_its_id_and_a_new_log_has_another() {
        let folder = tempfile::tempdir().unwrap();
        let a = folder.path().join("a");
        let id = read_or_create(&a).unwrap();
        assert_eq!(read_or_create(&a).unwrap(), id);
        assert_ne!(read_or_create(&folder.path().join("b")).unwrap(), id);
    }

    #[test]
    fn a_damaged_id_is_an_error_and_not_a_new_id() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("instance-id"), "whyslow-12").unwrap();
        let error = read_or_create(folder.path()).unwrap_err().to_string();
        assert!(error.contains("instance-id"), "{error}");
    }
}

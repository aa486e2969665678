//! Recovery from bytes that nobody vouches for: what the fuzz target runs, and its corpus as a test.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::SimDisk;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::position::Position;
use crate::segment::file_name;
use crate::wal::Wal;

const DIRECTORY: &str = "wal";
const SEGMENT_BYTES: u64 = 4096;

/// Recovers a log made of `input` and checks that nothing is invented and that the log goes on.
///
/// An even first byte: the rest are segment files, each a length (u16, little-endian) and its bytes. An odd one: the rest
/// are edits of a valid log of several segments, five bytes each: kind, file, offset (u16, little-endian), value.
///
/// # Panics
///
/// If recovery changes, reorders or invents a record, changes the folder while it refuses it, or cannot continue
/// what it has accepted.
pub fn check_recovery(input: &[u8]) {
    let Some((mode, rest)) = input.split_first() else {
        return;
    };
    let disk = SimDisk::new(1);
    if mode & 1 == 0 {
        put_files(&disk, rest);
        check(&disk, None);
    } else {
        let original = write_log(&disk);
        assert!(
            original.is_ok(),
            "cannot write the log to edit: {original:?}"
        );
        edit_files(&disk, rest);
        check(&disk, original.ok().as_ref());
    }
}

type Stored = BTreeMap<Position, Vec<u8>>;

fn config() -> Config {
    Config {
        segment_bytes: SEGMENT_BYTES,
        ..Config::in_directory(DIRECTORY)
    }
}

fn segment_path(number: u32) -> PathBuf {
    Path::new(DIRECTORY).join(file_name(number))
}

fn put_files(disk: &SimDisk, mut rest: &[u8]) {
    let mut number = 1;
    while let Some((length, after)) = rest.split_first_chunk::<2>() {
        let length = usize::from(u16::from_le_bytes(*length)).min(after.len());
        let (bytes, after) = after.split_at(length);
        disk.put_file(segment_path(number), bytes.to_vec());
        number = number.saturating_add(1);
        rest = after;
    }
}

/// A log of several segments, a part of it synced.
fn write_log(disk: &SimDisk) -> Result<Stored> {
    let mut stored = Stored::new();
    let (mut wal, _) = Wal::open(config(), disk.clone())?;
    for n in 0..24_u8 {
        let payload = vec![n; usize::from(n).saturating_mul(37)];
        stored.insert(wal.append(&[&payload])?, payload);
        match n {
            5 | 11 => wal.sync()?,
            _ => wal.flush()?,
        }
    }
    Ok(stored)
}

fn edit_files(disk: &SimDisk, edits: &[u8]) {
    let (edits, _) = edits.as_chunks::<5>();
    for &[kind, file, low, high, value] in edits {
        let path = segment_path(u32::from(file & 7).saturating_add(1));
        let Some(mut bytes) = disk.files().remove(&path) else {
            continue;
        };
        let offset = usize::from(u16::from_le_bytes([low, high])).min(bytes.len());
        match kind & 3 {
            0 => bytes.truncate(offset),
            1 => bytes.resize(bytes.len().saturating_add(usize::from(value)), 0),
            2 => {
                if let Some(byte) = bytes.get_mut(offset) {
                    *byte ^= value;
                }
            }
            _ if value == 0 => {
                disk.take_file(&path);
                continue;
            }
            _ => {
                let end = offset.saturating_add(value.into()).min(bytes.len());
                bytes.get_mut(offset..end).unwrap_or_default().fill(0);
            }
        }
        disk.put_file(path, bytes);
    }
}

fn check(disk: &SimDisk, original: Option<&Stored>) {
    let before = disk.files();
    let recovered = match reopen(disk) {
        Ok(recovered) => recovered,
        Err(error) => {
            let is_expected =
                error.is_corrupt() || matches!(error, Error::UnsupportedVersion { .. });
            assert!(is_expected, "recovery fails with: {error}");
            assert_eq!(
                disk.files(),
                before,
                "recovery refused the log and changed it"
            );
            return;
        }
    };
    if let (Some(original), Some((first, _))) = (original, recovered.first_key_value()) {
        let prefix: Stored = original
            .range(first..)
            .take(recovered.len())
            .map(|(position, payload)| (*position, payload.clone()))
            .collect();
        assert_eq!(
            recovered, prefix,
            "records are changed, missing or invented"
        );
    }
    let added = add_record(disk);
    assert!(added.is_ok(), "cannot append after recovery: {added:?}");
    let mut expected = recovered;
    expected.extend(added);
    let reopened = reopen(disk);
    assert!(
        reopened.is_ok(),
        "cannot open after an append: {reopened:?}"
    );
    assert_eq!(
        reopened.unwrap_or_default(),
        expected,
        "the log changed when it was opened again"
    );
}

fn reopen(disk: &SimDisk) -> Result<Stored> {
    let (wal, recovery) = Wal::open(config(), disk.clone())?;
    let stored: Stored = wal.iter().collect::<Result<_>>()?;
    assert_eq!(u64::try_from(stored.len()).ok(), Some(recovery.n_records));
    let mut payload = Vec::new();
    for (position, expected) in &stored {
        wal.reader().read(*position, &mut payload)?;
        assert_eq!(payload, *expected, "the reader disagrees at {position}");
    }
    Ok(stored)
}

fn add_record(disk: &SimDisk) -> Result<(Position, Vec<u8>)> {
    let (mut wal, _) = Wal::open(config(), disk.clone())?;
    let payload = b"after".to_vec();
    let position = wal.append(&[&payload])?;
    wal.flush()?;
    Ok((position, payload))
}

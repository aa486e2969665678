//! The same on the operating system's disk.

use std::fs;

use crate::{Config, Error, RealDisk, Result, Wal};

fn config(folder: &tempfile::TempDir) -> Config {
    let directory = folder.path().join("new").join("log");
    Config {
        segment_bytes: 4096,
        ..Config::in_directory(directory)
    }
}

#[test]
fn a_log_on_a_real_disk_is_read_back_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (mut wal, _) = Wal::open(config(&folder), RealDisk).unwrap();
    let mut records = Vec::new();
    for n in 0..100_u8 {
        let payload = vec![n; usize::from(n) * 10];
        records.push((wal.append(&[&payload]).unwrap(), payload));
    }
    wal.sync().unwrap();
    assert_eq!(wal.synced_position(), wal.next_position());
    let mut buffer = Vec::new();
    for (position, payload) in &records {
        wal.reader().read(*position, &mut buffer).unwrap();
        assert_eq!(buffer, *payload);
    }
    wal.append(&[b"not flushed"]).unwrap();
    drop(wal);

    let (mut wal, recovery) = Wal::open(config(&folder), RealDisk).unwrap();
    assert_eq!((recovery.n_records, recovery.torn_bytes), (100, 0));
    assert_eq!(wal.iter().collect::<Result<Vec<_>>>().unwrap(), records);
    let n_segments = wal.segments().count();
    let n_deleted = wal.delete_below(wal.next_position()).unwrap();
    assert_eq!(usize::try_from(n_deleted).unwrap(), n_segments - 1);
    // The lock file and the last segment.
    assert_eq!(fs::read_dir(config(&folder).directory).unwrap().count(), 2);
}

#[test]
fn a_torn_tail_on_a_real_disk_is_cut() {
    let folder = tempfile::tempdir().unwrap();
    let (mut wal, _) = Wal::open(config(&folder), RealDisk).unwrap();
    let position = wal.append(&[b"whole"]).unwrap();
    wal.flush().unwrap();
    let path = config(&folder).directory.join("0000000001.wal");
    let size_bytes = fs::metadata(&path).unwrap().len();
    assert_eq!(size_bytes, wal.bytes_on_disk());
    wal.append(&[b"torn"]).unwrap();
    wal.flush().unwrap();
    drop(wal);
    fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(size_bytes + 19)
        .unwrap();

    let (wal, recovery) = Wal::open(config(&folder), RealDisk).unwrap();
    assert_eq!(
        (recovery.torn_bytes, recovery.cut_at),
        (19, Some(wal.next_position()))
    );
    assert_eq!(fs::metadata(&path).unwrap().len(), size_bytes);
    let records = wal.iter().collect::<Result<Vec<_>>>().unwrap();
    assert_eq!(records, [(position, b"whole".to_vec())]);
}

#[test]
fn a_second_open_of_a_folder_is_refused_until_the_first_one_ends() {
    let folder = tempfile::tempdir().unwrap();
    let (wal, _) = Wal::open(config(&folder), RealDisk).unwrap();
    let reader = wal.reader();
    let error = Wal::open(config(&folder), RealDisk).unwrap_err();
    assert!(
        matches!(&error, Error::Locked { directory } if *directory == config(&folder).directory)
    );
    drop(wal);
    // A reader does not hold the folder.
    Wal::open(config(&folder), RealDisk).unwrap();
    drop(reader);
}

#[test]
fn a_file_in_place_of_the_folder_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("file");
    fs::write(&directory, b"").unwrap();
    let error = Wal::open(Config::in_directory(&directory), RealDisk).unwrap_err();
    assert!(
        error.to_string().contains(&directory.display().to_string()),
        "{error}"
    );
}

#[test]
fn salts_differ() {
    use crate::Disk;
    let salts: std::collections::BTreeSet<u32> = (0..64).map(|_| RealDisk.salt()).collect();
    assert!(salts.len() > 60);
}

//! The writer's promises, one by one.

use super::{DIRECTORY, all, config, fill, open, path, payload};
use crate::sim::{Fault, SimDisk};
use crate::{Config, Error, Position, Wal};

#[test]
fn a_second_open_is_refused_with_the_folder_and_a_remedy() {
    let disk = SimDisk::new(1);
    let (wal, _) = open(&disk).unwrap();
    let error = open(&disk).unwrap_err();
    assert!(error.is_locked());
    assert_eq!(
        error.to_string(),
        "the log folder `wal` is in use by another process; stop that process, or give this one a folder of its own"
    );
    drop(wal);
    open(&disk).unwrap();
}

#[test]
fn a_folder_is_locked_before_it_is_opened() {
    let disk = SimDisk::new(1);
    let folder = crate::Folder::lock(std::path::Path::new(DIRECTORY), disk.clone()).unwrap();
    assert!(open(&disk).unwrap_err().is_locked());
    let (mut wal, _) = Wal::open_in(folder, config()).unwrap();
    wal.append(&[b"x"]).unwrap();
    wal.flush().unwrap();
    assert!(open(&disk).unwrap_err().is_locked());
    drop(wal);
    open(&disk).unwrap();
}

#[test]
fn records_and_positions_are_the_same_after_a_restart() {
    let disk = SimDisk::new(1);
    let (mut wal, recovery) = open(&disk).unwrap();
    assert_eq!(
        (recovery.n_records, recovery.n_segments, recovery.torn_bytes),
        (0, 0, 0)
    );
    let mut records = fill(&mut wal, 40, |_, _| ());
    wal.flush().unwrap();
    assert!(records.is_sorted());
    assert_eq!(all(&wal), records);
    let (next, bytes) = (wal.next_position(), wal.bytes_on_disk());
    drop(wal);

    let (mut wal, recovery) = open(&disk).unwrap();
    assert_eq!((wal.next_position(), wal.bytes_on_disk()), (next, bytes));
    assert_eq!(
        (recovery.n_records, recovery.cut_at, recovery.torn_bytes),
        (40, None, 0)
    );
    assert_eq!(
        usize::try_from(recovery.n_segments).unwrap(),
        wal.segments().count()
    );
    let record_bytes: usize = records.iter().map(|(_, payload)| payload.len()).sum();
    assert_eq!(recovery.record_bytes, u64::try_from(record_bytes).unwrap());
    records.extend(fill(&mut wal, 5, |_, _| ()));
    wal.flush().unwrap();
    assert_eq!(all(&wal), records);
}

#[test]
fn a_reader_sees_only_what_was_flushed() {
    let (mut wal, _) = open(&SimDisk::new(1)).unwrap();
    let reader = wal.reader();
    let position = wal.append(&[b"one"]).unwrap();
    let mut buffer = b"before".to_vec();
    assert!(matches!(
        reader.read(position, &mut buffer),
        Err(Error::NotFlushed { .. })
    ));
    assert!(buffer.is_empty() && all(&wal).is_empty());
    wal.flush().unwrap();
    reader.clone().read(position, &mut buffer).unwrap();
    assert_eq!(buffer, b"one");
    assert_eq!(reader.flushed_position(), wal.next_position());
}

#[test]
fn a_position_that_is_no_records_is_refused() {
    let (mut wal, _) = open(&SimDisk::new(1)).unwrap();
    let records = fill(&mut wal, 40, |_, _| ());
    wal.flush().unwrap();
    wal.delete_below(Position::new(2, 0)).unwrap();
    let reader = wal.reader();
    let mut buffer = Vec::new();
    for segment in 0..6 {
        for offset in (0..5000).chain([u32::MAX - 1, u32::MAX]) {
            let position = Position::new(segment, offset);
            let result = reader.read(position, &mut buffer);
            match records.iter().find(|record| record.0 == position) {
                Some((_, payload)) if segment > 1 => assert_eq!(buffer, *payload),
                _ => assert!(result.is_err(), "{position}"),
            }
        }
    }
}

#[test]
fn a_record_over_the_limit_is_refused_with_both_numbers() {
    let config = Config {
        record_bytes_max: 100,
        ..config()
    };
    let (mut wal, _) = Wal::open(config, SimDisk::new(1)).unwrap();
    let error = wal.append(&[&[0; 60], &[0; 41]]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a record of 101 bytes is larger than the limit of 100"
    );
    let position = wal.append(&[&[0; 60], &[0; 40]]).unwrap();
    wal.flush().unwrap();
    assert_eq!(all(&wal), [(position, vec![0; 100])]);
}

#[test]
fn a_record_larger_than_a_segment_gets_one_of_its_own() {
    let disk = SimDisk::new(1);
    let (mut wal, _) = open(&disk).unwrap();
    let mut records = Vec::new();
    for len in [10_000, 10, 3_000_000, 20, 4096 - 40 - 16, 0] {
        let payload = vec![u8::try_from(len % 251).unwrap(); len];
        records.push((wal.append(&[&payload]).unwrap(), payload));
    }
    wal.flush().unwrap();
    let segments: Vec<_> = records
        .iter()
        .map(|(position, _)| position.segment())
        .collect();
    assert_eq!(segments, [1, 2, 3, 4, 5, 6]);
    assert_eq!(all(&wal), records);
    drop(wal);
    assert_eq!(all(&open(&disk).unwrap().0), records);
}

#[test]
fn numbers_out_of_range_are_refused_by_name() {
    let check = |config: Config, expected: &str| {
        let error = Wal::open(config, SimDisk::new(1)).unwrap_err();
        assert_eq!(error.to_string(), expected);
    };
    check(
        Config {
            segment_bytes: 4095,
            ..config()
        },
        "`segment_bytes` is 4095, but must be from 4096 to 4294967295",
    );
    check(
        Config {
            segment_bytes: 1 << 32,
            ..config()
        },
        "`segment_bytes` is 4294967296, but must be from 4096 to 4294967295",
    );
    check(
        Config {
            record_bytes_max: 0,
            ..config()
        },
        "`record_bytes_max` is 0, but must be from 1 to 4294967239",
    );
}

#[test]
fn whole_sealed_segments_below_the_low_water_mark_are_deleted() {
    let disk = SimDisk::new(1);
    let (mut wal, _) = open(&disk).unwrap();
    let records = fill(&mut wal, 60, |_, _| ());
    wal.flush().unwrap();
    let last = wal.next_position().segment();
    assert!(last > 4);
    let reader = wal.reader();
    let mut buffer = Vec::new();
    reader.read(records[0].0, &mut buffer).unwrap();

    assert_eq!(wal.delete_below(Position::MIN).unwrap(), 0);
    assert_eq!(wal.delete_below(Position::new(3, 100)).unwrap(), 2);
    assert_eq!(wal.segments().next().map(|segment| segment.number), Some(3));
    assert!(
        reader
            .read(records[0].0, &mut buffer)
            .unwrap_err()
            .is_deleted()
    );
    let kept: Vec<_> = records
        .iter()
        .filter(|(at, _)| at.segment() >= 3)
        .cloned()
        .collect();
    assert_eq!(all(&wal), kept);

    assert_eq!(
        wal.delete_below(Position::new(u32::MAX, 0)).unwrap(),
        last - 3
    );
    assert_eq!(
        wal.segments()
            .map(|segment| segment.number)
            .collect::<Vec<_>>(),
        [last]
    );
    drop(wal);
    let (wal, _) = open(&disk).unwrap();
    assert!(
        all(&wal)
            .iter()
            .all(|(position, _)| position.segment() == last)
    );
}

#[test]
fn an_iterator_ends_with_an_error_when_its_segment_is_deleted() {
    let (mut wal, _) = open(&SimDisk::new(1)).unwrap();
    let records = fill(&mut wal, 60, |_, _| ());
    wal.flush().unwrap();
    let mut iter = wal.iter();
    assert_eq!(iter.next().unwrap().unwrap(), records[0]);
    wal.delete_below(wal.next_position()).unwrap();
    let error = iter.find_map(Result::err).unwrap();
    assert!(error.is_deleted(), "{error}");
    assert!(iter.next().is_none());
}

#[test]
fn a_full_disk_refuses_the_records_and_the_log_goes_on_when_there_is_room() {
    for written_bytes in 0..80 {
        let disk = SimDisk::new(1);
        let (mut wal, _) = open(&disk).unwrap();
        let kept = wal.append(&[b"kept"]).unwrap();
        wal.flush().unwrap();
        let lost = wal.append(&[b"refused, one"]).unwrap();
        wal.append(&[b"refused, two"]).unwrap();
        disk.fail_call(disk.n_calls(), Fault::Full { written_bytes });
        let error = wal.flush().unwrap_err();
        assert!(error.is_full() && error.is_retryable() && !error.is_poisoned());
        assert_eq!(wal.next_position(), lost);
        // Nothing of the refused records is left, whether the process goes on or ends here.
        let (after, recovery) = open(&disk.after_kill()).unwrap();
        assert_eq!(all(&after), [(kept, b"kept".to_vec())]);
        assert_eq!(recovery.torn_bytes, 0);

        wal.flush().unwrap();
        let again = wal.append(&[b"again"]).unwrap();
        wal.sync().unwrap();
        assert_eq!(
            all(&wal),
            [(kept, b"kept".to_vec()), (again, b"again".to_vec())]
        );
    }
}

#[test]
fn a_disk_that_is_full_for_the_next_segment_refuses_one_record_only() {
    let disk = SimDisk::new(1);
    let (mut wal, _) = open(&disk).unwrap();
    let first = vec![1; 4000];
    let position = wal.append(&[&first]).unwrap();
    disk.set_capacity(Some(4060));
    assert!(wal.append(&[&[2; 200]]).unwrap_err().is_full());
    wal.flush().unwrap();
    assert_eq!(all(&wal), [(position, first.clone())]);
    disk.set_capacity(None);
    let next = wal.append(&[&[3; 200]]).unwrap();
    wal.flush().unwrap();
    let expected = [(position, first), (next, vec![3; 200])];
    assert_eq!(all(&wal), expected);
    assert_eq!(all(&open(&disk.after_kill()).unwrap().0), expected);
}

#[test]
fn a_failed_write_or_sync_poisons_until_the_restart() {
    let write: fn(&mut Wal<SimDisk>) -> crate::Result<()> = Wal::flush;
    let sync: fn(&mut Wal<SimDisk>) -> crate::Result<()> = Wal::sync;
    // The calls of `sync`: the write, the sync of each of two segments, that of the folder.
    for (action, call, named) in [
        (write, 0, "write to"),
        (sync, 1, "sync"),
        (sync, 2, "sync"),
        (sync, 3, "sync"),
    ] {
        let disk = SimDisk::new(1);
        let (mut wal, _) = open(&disk).unwrap();
        fill(&mut wal, 20, |_, _| ());
        wal.flush().unwrap();
        assert_eq!(wal.segments().count(), 2);
        let before = all(&wal);
        wal.append(&[b"more"]).unwrap();
        disk.fail_call(disk.n_calls() + call, Fault::Broken);
        let error = action(&mut wal).unwrap_err();
        assert!(
            error.to_string().starts_with(&format!("cannot {named} `")),
            "{error}"
        );

        let poisoned = [
            wal.append(&[b"x"]).map(|_| ()),
            wal.flush(),
            wal.sync(),
            wal.sync_handle().map(|_| ()),
            wal.delete_below(Position::MIN).map(|_| ()),
        ];
        for result in poisoned {
            let error = result.unwrap_err();
            assert!(error.is_poisoned() && !error.is_retryable());
            assert!(error.to_string().contains(named), "{error}");
        }
        // What is stored is still read, and a restart goes on with it.
        assert!(all(&wal).starts_with(&before));
        drop(wal);
        let (mut wal, _) = open(&disk).unwrap();
        wal.append(&[b"x"]).unwrap();
        wal.sync().unwrap();
    }
}

#[test]
fn a_sync_on_another_thread_covers_what_was_flushed_before_and_poisons_the_writer_if_it_fails() {
    let disk = SimDisk::new(1);
    let (mut wal, _) = open(&disk).unwrap();
    let synced = fill(&mut wal, 30, |_, _| ());
    wal.flush().unwrap();
    let handle = wal.sync_handle().unwrap();
    let through = handle.through();
    fill(&mut wal, 30, |_, _| ());
    wal.flush().unwrap();
    std::thread::spawn(move || handle.sync())
        .join()
        .unwrap()
        .unwrap();
    assert_eq!(wal.synced_position(), through);
    for seed in 0..20 {
        let (after, _) = open(&disk.after_power_failure(seed)).unwrap();
        assert!(all(&after).starts_with(&synced), "seed {seed}");
    }

    disk.fail_call(disk.n_calls(), Fault::Broken);
    let handle = wal.sync_handle().unwrap();
    std::thread::spawn(move || handle.sync())
        .join()
        .unwrap()
        .unwrap_err();
    assert!(wal.append(&[b"x"]).unwrap_err().is_poisoned());
    assert_eq!(wal.synced_position(), through);
}

#[test]
fn a_log_that_is_never_synced_keeps_few_segments_waiting() {
    let disk = SimDisk::new(1);
    let (mut wal, _) = open(&disk).unwrap();
    let records = fill(&mut wal, 300, |_, _| ());
    wal.flush().unwrap();
    let n_waiting = wal.next_position().segment() - wal.synced_position().segment();
    assert_eq!(n_waiting, 9);
    let synced = wal.synced_position();
    let n_synced = records
        .iter()
        .filter(|(position, _)| *position < synced)
        .count();
    for seed in 0..20 {
        let (after, _) = open(&disk.after_power_failure(seed)).unwrap();
        let kept = all(&after);
        assert!(
            kept.len() >= n_synced && records.starts_with(&kept),
            "seed {seed}"
        );
    }
}

#[test]
fn other_files_in_the_folder_are_left_alone() {
    let disk = SimDisk::new(1);
    let other = std::path::Path::new(DIRECTORY).join("notes.txt");
    disk.put_file(&other, b"mine".to_vec());
    let (mut wal, _) = open(&disk).unwrap();
    wal.append(&[&payload(3)]).unwrap();
    wal.flush().unwrap();
    assert_eq!(disk.files().get(&other), Some(&b"mine".to_vec()));
    assert!(disk.files().contains_key(&path(1)));
}

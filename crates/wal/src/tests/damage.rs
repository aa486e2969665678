//! Every prefix and every flipped byte of a log.

use super::{Record, Records, all, config, fill, open, path};
use crate::segment::HEADER_LEN;
use crate::sim::SimDisk;
use crate::{Defect, Error, Position, Wal};

/// How much of the log its writer has synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Synced {
    Nothing,
    EachRecord,
}

/// A log of three segments, and its records.
fn log(synced: Synced) -> (SimDisk, Records) {
    let disk = SimDisk::new(7);
    let (mut wal, _) = open(&disk).unwrap();
    let records = fill(&mut wal, 28, |_, wal| match synced {
        Synced::Nothing => {}
        Synced::EachRecord => wal.sync().unwrap(),
    });
    wal.flush().unwrap();
    assert_eq!(wal.segments().count(), 3, "{synced:?}");
    (disk, records)
}

fn file(disk: &SimDisk, segment: u32) -> Vec<u8> {
    disk.files().remove(&path(segment)).unwrap()
}

#[test]
fn every_prefix_of_a_log_gives_exactly_the_whole_records_before_the_cut() {
    for synced in [Synced::Nothing, Synced::EachRecord] {
        let (disk, records) = log(synced);
        for segment in (1..=3).rev() {
            let bytes = file(&disk, segment);
            for len in (0..=bytes.len()).rev() {
                disk.put_file(path(segment), bytes[..len].to_vec());
                check_prefix(&disk.after_kill(), &records, segment, len);
            }
            disk.take_file(&path(segment));
        }
    }
}

fn check_prefix(disk: &SimDisk, records: &[Record], segment: u32, len: usize) {
    let place = format!("segment {segment} cut to {len} bytes");
    let (wal, recovery) = open(disk).expect(&place);
    let is_whole = |(position, payload): &Record| {
        let end = usize::try_from(position.offset()).unwrap() + 16 + payload.len();
        position.segment() < segment || (position.segment() == segment && end <= len)
    };
    let whole: Records = records
        .iter()
        .filter(|record| is_whole(record))
        .cloned()
        .collect();
    assert_eq!(all(&wal), whole, "{place}");

    let kept_to = whole
        .iter()
        .filter(|(position, _)| position.segment() == segment);
    let kept_to = kept_to.map(|(position, payload)| {
        usize::try_from(position.offset()).unwrap() + 16 + payload.len()
    });
    let kept_to = kept_to
        .max()
        .unwrap_or(if len < HEADER_LEN { 0 } else { HEADER_LEN });
    assert_eq!(
        recovery.torn_bytes,
        u64::try_from(len - kept_to).unwrap(),
        "{place}"
    );
    assert_eq!(
        recovery.n_records,
        u64::try_from(whole.len()).unwrap(),
        "{place}"
    );
}

#[test]
fn every_flipped_byte_gives_an_error_or_fewer_records_never_another() {
    for synced in [Synced::Nothing, Synced::EachRecord] {
        let (disk, records) = log(synced);
        let (last, _) = records[records.len() - 1].clone();
        for segment in 1..=3 {
            let bytes = file(&disk, segment);
            for at in 0..bytes.len() {
                let mut flipped = bytes.clone();
                flipped[at] ^= [0x01, 0x80, 0xff][at % 3];
                disk.put_file(path(segment), flipped);
                let is_recovered = check_flip(&disk.after_kill(), &records);
                let is_before_last = Position::new(segment, u32::try_from(at).unwrap()) < last;
                if synced == Synced::EachRecord && is_before_last {
                    assert!(
                        !is_recovered,
                        "synced byte {at} of segment {segment} is cut"
                    );
                }
            }
            disk.put_file(path(segment), bytes);
        }
    }
}

/// Is the log opened, with fewer records?
fn check_flip(disk: &SimDisk, records: &[Record]) -> bool {
    let before = disk.files();
    match open(disk) {
        Ok((wal, recovery)) => {
            let kept = all(&wal);
            assert!(kept.len() < records.len());
            assert_eq!(kept, records[..kept.len()]);
            assert!(recovery.torn_bytes > 0);
            true
        }
        Err(error) => {
            assert!(error.is_corrupt() || matches!(error, Error::UnsupportedVersion { .. }));
            assert_eq!(disk.files(), before, "a refused log is left as it is");
            false
        }
    }
}

#[test]
fn a_payload_that_looks_like_a_record_is_not_taken_for_one() {
    let (stored, _) = log(Synced::EachRecord);
    let image = file(&stored, 2);
    // Its records land where they were written for: only the salt tells them apart.
    let first_payload = HEADER_LEN + 16;
    let disk = SimDisk::new(8);
    let (mut wal, _) = open(&disk).unwrap();
    let first = wal.append(&[b"first"]).unwrap();
    let torn = wal.append(&[&image[first_payload..]]).unwrap();
    wal.flush().unwrap();
    drop(wal);

    let mut bytes = file(&disk, torn.segment());
    bytes[usize::try_from(torn.offset()).unwrap()] ^= 1;
    disk.put_file(path(torn.segment()), bytes);
    let (wal, _) = open(&disk).unwrap();
    assert_eq!(all(&wal), [(first, b"first".to_vec())]);
}

#[test]
fn zeros_after_the_end_are_a_torn_tail() {
    for n_zeros in [1, 15, 16, 17, 512, 1 << 20] {
        let (disk, records) = log(Synced::EachRecord);
        let mut bytes = file(&disk, 3);
        bytes.resize(bytes.len() + n_zeros, 0);
        disk.put_file(path(3), bytes);
        let (wal, recovery) = open(&disk).unwrap();
        assert_eq!(all(&wal), records);
        assert_eq!(recovery.torn_bytes, u64::try_from(n_zeros).unwrap());
        assert_eq!(recovery.cut_at, Some(wal.next_position()));
    }
}

#[test]
fn a_segment_whose_pages_were_never_written_is_a_torn_tail() {
    for n_zeros in [0, 1, HEADER_LEN, HEADER_LEN + 1, 4096] {
        let (disk, records) = log(Synced::Nothing);
        disk.put_file(path(4), vec![0; n_zeros]);
        let (mut wal, recovery) = open(&disk).unwrap();
        assert_eq!(all(&wal), records);
        assert_eq!(recovery.torn_bytes, u64::try_from(n_zeros).unwrap());
        // The number is used when it is needed again.
        fill(&mut wal, 10, |_, _| ());
        assert_eq!(wal.next_position().segment(), 4);
    }
}

#[test]
fn damage_is_named_with_file_place_and_remedy() {
    let check = |edit: &dyn Fn(&SimDisk), expected: &str| {
        let (disk, _) = log(Synced::EachRecord);
        edit(&disk);
        let error = open(&disk).unwrap_err().to_string();
        let remedy = "; restore the file from a copy, or move it and the segments before it out of the folder, \
                      which loses their records";
        assert_eq!(error.strip_suffix(remedy).unwrap_or(&error), expected);
    };
    let set = |disk: &SimDisk, segment, at: usize, byte| {
        let mut bytes = file(disk, segment);
        bytes[at] = byte;
        disk.put_file(path(segment), bytes);
    };
    check(
        &|disk| set(disk, 2, 60, 0),
        "`wal/0000000002.wal` is damaged at byte 40: a record does not match its checksum",
    );
    check(
        &|disk| set(disk, 2, 42, 1),
        "`wal/0000000002.wal` is damaged at byte 40: a record's header does not match its checksum",
    );
    check(
        &|disk| set(disk, 2, 20, 9),
        "`wal/0000000002.wal` is damaged at byte 0: the segment's header does not match its checksum",
    );
    check(
        &|disk| disk.take_file(&path(2)),
        "`wal/0000000001.wal` is damaged at byte 3978: the segment that follows this one is missing",
    );
    check(
        &|disk| disk.put_file(path(1), file(disk, 1)[..2000].to_vec()),
        "`wal/0000000001.wal` is damaged at byte 1430: a record is cut short",
    );
    check(
        &|disk| disk.put_file(path(1), file(disk, 1)[..1430].to_vec()),
        "`wal/0000000001.wal` is damaged at byte 1430: the segment does not end where the next one says",
    );
    check(
        &|disk| disk.put_file(path(3), file(disk, 2)),
        "`wal/0000000003.wal` is damaged at byte 0: the segment's header holds another number than the file's name",
    );
    check(
        &|disk| set(disk, 3, 8, 2),
        "`wal/0000000003.wal` has format version 2, this program reads version 1; run the version that wrote it",
    );
}

#[test]
fn moving_the_damaged_segment_and_those_before_it_away_is_a_remedy() {
    let (disk, records) = log(Synced::EachRecord);
    let mut bytes = file(&disk, 2);
    bytes[100] ^= 1;
    disk.put_file(path(2), bytes);
    assert!(open(&disk).unwrap_err().is_corrupt());
    disk.take_file(&path(2));
    disk.take_file(&path(1));
    let (wal, _) = open(&disk).unwrap();
    let later: Records = records
        .into_iter()
        .filter(|(at, _)| at.segment() == 3)
        .collect();
    assert_eq!(all(&wal), later);
}

#[test]
fn a_reader_and_an_iterator_report_damage_that_happens_while_the_log_is_open() {
    let (disk, records) = log(Synced::EachRecord);
    let (wal, _) = open(&disk).unwrap();
    let (damaged, _) = records[5].clone();
    let mut bytes = file(&disk, damaged.segment());
    bytes[usize::try_from(damaged.offset()).unwrap() + 20] ^= 1;
    disk.put_file(path(damaged.segment()), bytes);

    let mut buffer = b"before".to_vec();
    let error = wal.reader().read(damaged, &mut buffer).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Corrupt {
                defect: Defect::RecordPayload,
                ..
            }
        ),
        "{error}"
    );
    assert!(buffer.is_empty());
    let mut iter = wal.iter();
    assert_eq!(iter.by_ref().take_while(Result::is_ok).count(), 5);
    assert!(iter.next().is_none());
}

#[test]
fn a_record_that_is_larger_than_the_present_limit_is_still_read() {
    let (disk, records) = log(Synced::Nothing);
    let (wal, _) = Wal::open(
        crate::Config {
            record_bytes_max: 1,
            ..config()
        },
        disk,
    )
    .unwrap();
    assert_eq!(all(&wal), records);
}

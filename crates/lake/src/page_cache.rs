//! Bytes of a file that memory has already, read by the thread that asks.
//!
//! `object_store` hands each read to another thread, because a disk may take milliseconds. What the page cache has is
//! copied in microseconds, less than it takes to wake that thread and be woken by it; and a statement that waits for
//! nothing is not overtaken half-way by each one that came later.
//!
//! Does not: wait for a disk, or say what is wrong. Whatever does not come at once is left to the caller's own way.

use std::ops::Range;
use std::path::Path;

use bytes::Bytes;

/// More than this keeps its thread from others for too long.
const INLINE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// What lies between two ranges and is read with them: copied in less time than another call takes.
const GAP_BYTES_MAX: u64 = 4096;

/// The bytes of all ranges of a file, if the page cache has them all.
pub(crate) fn ranges(path: &Path, ranges: &[Range<u64>]) -> Option<Vec<Bytes>> {
    let reads = reads(ranges)?;
    let file = imp::open(path)?;
    let mut parts = Vec::with_capacity(ranges.len());
    for read in reads {
        let whole = imp::read(&file, read.bytes.clone())?;
        for range in ranges.get(read.ranges)? {
            let begin = usize::try_from(range.start.checked_sub(read.bytes.start)?).ok()?;
            let end = usize::try_from(range.end.checked_sub(read.bytes.start)?).ok()?;
            parts.push(whole.slice(begin..end));
        }
    }
    Some(parts)
}

/// Ranges that are read together.
#[derive(Debug)]
struct Read {
    bytes: Range<u64>,
    ranges: Range<usize>,
}

/// Neighbours in one read, in the order that they were asked for; `None`: there is too much of them.
fn reads(ranges: &[Range<u64>]) -> Option<Vec<Read>> {
    let mut reads: Vec<Read> = Vec::new();
    for (range_idx, range) in ranges.iter().enumerate() {
        range.end.checked_sub(range.start)?;
        match reads.last_mut() {
            Some(read)
                if range.start >= read.bytes.end
                    && range.start - read.bytes.end <= GAP_BYTES_MAX =>
            {
                read.bytes.end = range.end;
                read.ranges.end = range_idx + 1;
            }
            _ => reads.push(Read {
                bytes: range.clone(),
                ranges: range_idx..range_idx + 1,
            }),
        }
    }
    let sizes = reads.iter().map(|read| read.bytes.end - read.bytes.start);
    let total = sizes.fold(0_u64, u64::saturating_add);
    (total <= INLINE_BYTES_MAX).then_some(reads)
}

#[cfg(target_os = "linux")]
mod imp {
    use std::fs::File;
    use std::io::IoSliceMut;
    use std::ops::Range;
    use std::path::Path;

    use bytes::Bytes;
    use rustix::io::{ReadWriteFlags, preadv2};

    pub(super) fn open(path: &Path) -> Option<File> {
        File::open(path).ok()
    }

    /// `RWF_NOWAIT` of preadv2(2): fails where it would wait for a disk, or where a file system does not know it.
    pub(super) fn read(file: &File, bytes: Range<u64>) -> Option<Bytes> {
        let n_wanted = usize::try_from(bytes.end.checked_sub(bytes.start)?).ok()?;
        let mut whole = vec![0; n_wanted];
        let parts = &mut [IoSliceMut::new(&mut whole)];
        let n_read = preadv2(file, parts, bytes.start, ReadWriteFlags::NOWAIT).ok()?;
        (n_read == n_wanted).then(|| Bytes::from(whole))
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use std::convert::Infallible;
    use std::ops::Range;
    use std::path::Path;

    use bytes::Bytes;

    /// Other systems cannot be asked whether a read would wait.
    pub(super) fn open(_path: &Path) -> Option<Infallible> {
        None
    }

    pub(super) fn read(file: &Infallible, _bytes: Range<u64>) -> Option<Bytes> {
        match *file {}
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn written(n_bytes: u64) -> (tempfile::NamedTempFile, Vec<u8>) {
        let bytes: Vec<u8> = (0..n_bytes).map(|byte| byte.to_le_bytes()[0]).collect();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &bytes).unwrap();
        (file, bytes)
    }

    /// Bytes that were just written are in the page cache; whether a file system says so is its own affair.
    fn is_known(path: &Path) -> bool {
        ranges(path, std::slice::from_ref(&(0..1))).is_some()
    }

    proptest! {
        /// Near and far, empty, repeated, overlapping and in any order.
        #[test]
        fn each_range_gets_its_own_bytes(
            wanted in vec((0_u64..20_000, 0_u64..9000), 0..20)
        ) {
            let (file, bytes) = written(30_000);
            let wanted: Vec<_> = wanted.into_iter().map(|(start, len)| start..start + len).collect();
            let right: Vec<_> = wanted
                .iter()
                .map(|range| bytes[range.start as usize..range.end as usize].to_vec())
                .collect();
            match ranges(file.path(), &wanted) {
                Some(found) => prop_assert_eq!(found, right),
                None => prop_assert!(!is_known(file.path())),
            }
        }
    }

    #[test]
    fn what_is_not_there_whole_is_left_to_the_caller() {
        let (file, _) = written(100);
        assert_eq!(
            ranges(file.path(), &[0..10, 90..101]),
            None,
            "beyond the end"
        );
        assert_eq!(ranges(Path::new("/nowhere/at/all"), &[0..10, 20..30]), None);
        let backwards = Range { start: 10, end: 5 };
        assert_eq!(ranges(file.path(), &[backwards]), None);
        let endless = 0..u64::MAX;
        assert_eq!(ranges(file.path(), &[endless.clone(), endless]), None);
    }

    #[test]
    fn neighbours_are_one_read_and_much_is_none() {
        let bytes = |ranges: &[Range<u64>]| {
            let reads = reads(ranges)?;
            Some(reads.into_iter().map(|read| read.bytes).collect::<Vec<_>>())
        };
        let far = 200 + GAP_BYTES_MAX + 1;
        assert_eq!(
            bytes(&[0..100, 100..150, 180..200, far..far + 1, 5..9]),
            Some(vec![0..200, far..far + 1, 5..9])
        );
        let largest = 0..INLINE_BYTES_MAX;
        let whole = bytes(std::slice::from_ref(&largest));
        assert_eq!(whole, Some(Vec::from([largest.clone()])));
        assert_eq!(bytes(&[largest, 9..10]), None);
    }
}

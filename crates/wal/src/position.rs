//! Where a record is: the segment's number and the byte offset in its file.

use std::fmt;

/// The place of a record in the log.
///
/// Ordered as the records were appended, and stable over restarts. The upper 32 bits are the segment's number, the
/// lower 32 the byte offset of the record in the segment's file. A position may outlive its record: reading one
/// whose segment was deleted is an error, never another record.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(u64);

impl Position {
    /// Below every record.
    pub const MIN: Self = Self(0);

    pub(crate) const fn new(segment: u32, offset: u32) -> Self {
        let [s0, s1, s2, s3] = segment.to_be_bytes();
        let [o0, o1, o2, o3] = offset.to_be_bytes();
        Self(u64::from_be_bytes([s0, s1, s2, s3, o0, o1, o2, o3]))
    }

    /// Takes back a position that was stored as a number with [`Position::as_u64`].
    ///
    /// Any number is accepted: reading a position that is no record's is an error then.
    pub const fn from_u64(position: u64) -> Self {
        Self(position)
    }

    /// The position as a number, to be stored.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// The number of the segment that holds the record; counts from 1.
    pub const fn segment(self) -> u32 {
        let [s0, s1, s2, s3, ..] = self.0.to_be_bytes();
        u32::from_be_bytes([s0, s1, s2, s3])
    }

    /// The byte offset of the record in its segment's file.
    pub const fn offset(self) -> u32 {
        let [.., o0, o1, o2, o3] = self.0.to_be_bytes();
        u32::from_be_bytes([o0, o1, o2, o3])
    }

    /// The first possible position of this position's segment: what to give to
    /// [`Wal::delete_below`](crate::Wal::delete_below) to keep that segment and all later ones.
    pub const fn segment_start(self) -> Self {
        Self::new(self.segment(), 0)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.segment(), self.offset())
    }
}

impl fmt::Debug for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Position({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::Position;

    #[test]
    fn positions_are_ordered_by_segment_then_offset() {
        let ordered = [(0, 0), (1, 40), (1, u32::MAX), (2, 0), (u32::MAX, u32::MAX)];
        let positions: Vec<_> = ordered.iter().map(|&(s, o)| Position::new(s, o)).collect();
        assert!(positions.is_sorted());
        for (position, (segment, offset)) in positions.iter().zip(ordered) {
            assert_eq!((position.segment(), position.offset()), (segment, offset));
            assert_eq!(Position::from_u64(position.as_u64()), *position);
        }
    }
}

//! Syncing on another thread than the one that appends.

use std::sync::Arc;

use crate::disk::{Disk, RealDisk};
use crate::error::Result;
use crate::position::Position;
use crate::shared::{OpenSegment, Shared};

/// What was flushed when it was taken with [`Wal::sync_handle`](crate::Wal::sync_handle), to be synced anywhere.
#[derive(Debug)]
#[must_use = "nothing is synced until `sync` is called"]
pub struct SyncHandle<D: Disk = RealDisk> {
    pub(crate) shared: Arc<Shared<D>>,
    /// Segments that are not known to be synced, the oldest first.
    pub(crate) segments: Vec<Arc<OpenSegment<D::File>>>,
    /// The folder has segments that a power failure would take out of it.
    pub(crate) has_new_files: bool,
    pub(crate) through: Position,
}

impl<D: Disk> SyncHandle<D> {
    /// Records before this position are synced when [`SyncHandle::sync`] returns.
    pub fn through(&self) -> Position {
        self.through
    }

    /// Returns when everything that was flushed before the handle was taken survives a power failure.
    ///
    /// Handles of one log may be synced in any order and on any thread; they take turns.
    ///
    /// # Errors
    ///
    /// The disk's; the log is poisoned then, for the writer as well.
    pub fn sync(self) -> Result<()> {
        self.shared.check_poison()?;
        for segment in &self.segments {
            self.shared.sync_segment(segment)?;
        }
        if self.has_new_files {
            self.shared.sync_directory()?;
        }
        self.shared.raise_durable(self.through);
        Ok(())
    }
}

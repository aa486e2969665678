//! Checkpoints: the log up to a version in one file, so that opening a table reads little.
//!
//! A table is whole without one; whoever cannot write it leaves it to the next.

use std::num::NonZero;
use std::sync::Arc;

use delta_kernel::{KernelResult, SnapshotRef};

use crate::create::CHECKPOINT_INTERVAL;
use crate::table::Inner;

/// Versions from one checkpoint to the next.
pub(crate) fn interval(snapshot: &SnapshotRef) -> u64 {
    snapshot
        .table_properties()
        .checkpoint_interval
        .map_or(CHECKPOINT_INTERVAL, NonZero::get)
}

impl Inner {
    /// Writes the checkpoint of a version. Without the tip's lock: it takes longer than a commit, and
    /// readers may refresh meanwhile.
    pub(crate) fn write_checkpoint(&self, snapshot: &SnapshotRef) -> KernelResult<()> {
        let (_, checkpointed) = Arc::clone(snapshot).checkpoint(self.kernel.engine(), None)?;
        let mut tip = self.tip();
        if tip.snapshot.version() == checkpointed.version() {
            tip.snapshot = checkpointed;
        }
        Ok(())
    }
}

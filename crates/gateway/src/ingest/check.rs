//! What must hold after every input; checked where assertions are on.

use wal::Disk;

use crate::ingest::Ingest;

impl<D: Disk> Ingest<D> {
    /// What must hold after every input.
    pub(super) fn check_invariants(&self) {
        let stats = self.sampler.stats();
        let n_unrecorded = self
            .unrecorded
            .iter()
            .map(|decided| decided.spans.len() as u64)
            .sum::<u64>();
        assert_eq!(
            self.pending.n_spans(),
            stats
                .n_spans
                .saturating_add(self.late.len() as u64)
                .saturating_add(self.n_spans_unread),
            "each undecided span holds its segment"
        );
        let n_uncommitted = self
            .uncommitted
            .iter()
            .flat_map(|release| &release.segments)
            .map(|(_, n_spans)| n_spans)
            .sum::<u64>();
        assert_eq!(
            self.decided.n_spans(),
            n_unrecorded
                .saturating_add(n_uncommitted)
                .saturating_add(self.side_lane.n_items()),
            "each decided span, export of metrics and report that is not committed holds its segment"
        );
        let n_rows = self.uncommitted.iter().map(|release| release.n_rows);
        assert_eq!(
            self.backlog.n_rows(),
            n_rows.sum::<u64>(),
            "what is not committed waits"
        );
        if let Some(last) = self.uncommitted.back() {
            assert_eq!(
                last.sequence.saturating_add(1),
                self.next_sequence,
                "sequences have no gaps"
            );
        }
        let first_segment = self
            .wal
            .segments()
            .next()
            .map_or(0, |segment| segment.number);
        for holds in [&self.pending, &self.decided] {
            let held = holds.first_segment().unwrap_or(first_segment);
            assert!(held >= first_segment, "a held segment is kept");
        }
    }
}

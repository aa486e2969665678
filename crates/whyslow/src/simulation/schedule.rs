//! What happens in a run, drawn from a seed before it begins.

use std::time::Duration;

use loadgen::traffic::{self, Traffic};

/// `SplitMix64`.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// So many exports arrive together and form a group.
    Send(usize),
    /// Time passes, and the intake ticks.
    TickAfter { millis: u64 },
    /// A sync that was asked for is done.
    Sync,
    /// Storage takes the releases that are ready.
    Take,
    /// Storage commits what it has taken.
    Commit,
    /// The intake hears of the last commit.
    Tell,
    /// The process ends in good order and the next one starts.
    Restart,
    /// `kill -9`, and the next process starts.
    Kill,
    /// The power fails, and the next process starts.
    PowerFailure,
    /// The object store is gone, or back.
    StoreIsDown(bool),
    /// So many of 1024 calls of the object store fail.
    StoreFails(u64),
    /// Puts that failed take effect now.
    Land,
    /// The log's disk has room for so many bytes in all.
    DiskHasRoom(Option<usize>),
    /// A call of the log's disk fails, so many calls from now.
    DiskBreaksIn(u64),
}

/// Exports in the order in which they are sent.
pub(super) fn traffic(seed: u64, n_requests: u32) -> Traffic {
    traffic::generate(&traffic::Config {
        seed,
        n_requests,
        gap_mean: Duration::from_millis(700),
        failed_share: 0.2,
        slow_share: 0.2,
        ..traffic::Config::default()
    })
}

/// A run in which nothing goes wrong by itself: kill points are put into it.
pub(super) fn quiet(n_exports: usize) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut n_sent = 0;
    for round in 0.. {
        if n_sent >= n_exports {
            break;
        }
        steps.push(Step::Send(1 + round % 3));
        n_sent += 1 + round % 3;
        steps.push(Step::TickAfter { millis: 700 });
        if round % 2 == 0 {
            steps.push(Step::Sync);
            steps.push(Step::Take);
        }
        if round % 5 == 4 {
            steps.extend([Step::Commit, Step::TickAfter { millis: 10 }, Step::Tell]);
        }
    }
    steps.extend([Step::TickAfter { millis: 60_000 }, Step::Sync, Step::Take]);
    steps.extend([Step::Commit, Step::Tell, Step::Restart]);
    steps
}

/// A run in which everything may go wrong.
pub(super) fn hostile(seed: u64, n_exports: usize) -> Vec<Step> {
    let mut random = Random::new(seed ^ 0x5c4e_d01e);
    let mut steps = Vec::new();
    let mut n_sent = 0;
    while n_sent < n_exports {
        let step = match random.below(100) {
            0..16 => {
                let n_together = 1 + usize::try_from(random.below(3)).unwrap();
                n_sent += n_together;
                Step::Send(n_together)
            }
            16..38 => Step::TickAfter {
                millis: random.below(1500),
            },
            38..54 => Step::Sync,
            54..66 => Step::Take,
            66..76 => Step::Commit,
            76..84 => Step::Tell,
            84..85 => Step::Restart,
            85..88 => Step::Kill,
            88..89 => Step::PowerFailure,
            89..92 => Step::StoreIsDown(random.below(3) == 0),
            92..95 => Step::StoreFails(random.below(3) * 150),
            95..97 => Step::Land,
            97..99 => {
                let room = usize::try_from(random.below(60_000)).unwrap();
                Step::DiskHasRoom((random.below(3) == 0).then_some(room))
            }
            _ => Step::DiskBreaksIn(random.below(20)),
        };
        steps.push(step);
    }
    steps
}

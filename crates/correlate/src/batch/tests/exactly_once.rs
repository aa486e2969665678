//! Random batches, shown in random releases, in any order and more than once, by a process that is ended again and again.
//!
//! Guarantee: every batch that was shown is in the table once, and the shares of its rows add up to its duration.

use std::collections::{BTreeMap, BTreeSet};

use otlp::testing::T0;
use proptest::prelude::*;

use super::support::{DECIDED, MILLI, Row, event, participant, rows};
use crate::batch::{BatchSource, BatchTimes, BatchWindow, ClosedBatches, Sighting};

/// Marsaglia's xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

/// A batch as it was.
#[derive(Clone, Debug)]
struct True {
    pod: &'static str,
    id: String,
    at_millis: u64,
    length: u64,
    /// Number of the participant, and its tokens.
    participants: Vec<(u32, u64)>,
}

/// What happens between two releases.
#[derive(Clone, Copy, Debug)]
enum Step {
    Take,
    Settle,
    Commit,
    /// The process ends, perhaps within a commit: before it, or after it and before it is heard of.
    Fall {
        in_commit: Option<bool>,
    },
}

fn batch() -> impl Strategy<Value = True> {
    let participants = prop::collection::btree_map(0..40_u32, 0..50_u64, 1..9);
    let pods = prop::sample::select(vec!["vllm-0", "vllm-1"]);
    // Few ids: they are used again, never within seconds.
    (pods, 0..4_u64, 0..40_u64, 0..90 * MILLI, participants).prop_map(
        |(pod, id, slot, length, participants)| True {
            pod,
            id: id.to_string(),
            at_millis: slot * 1_500,
            length,
            participants: participants.into_iter().collect(),
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => Just(Step::Take),
        4 => Just(Step::Settle),
        3 => Just(Step::Commit),
        1 => prop::option::of(any::<bool>()).prop_map(|in_commit| Step::Fall { in_commit }),
    ]
}

/// What one participant says of a batch, or the batch of itself.
fn shown(batch: &True, who: Option<(u32, u64)>, rng: &mut Random) -> Sighting {
    let n = batch.participants.len() as u64;
    let size = Some(n).filter(|_| rng.below(4) > 0);
    let (one, tokens) = who.unwrap_or(batch.participants[0]);
    let tokens = Some(tokens).filter(|_| rng.below(9) > 0);
    let mut sighting = event(
        batch.pod,
        &batch.id,
        batch.at_millis,
        size,
        participant(one, tokens),
    );
    let start = T0 + batch.at_millis * MILLI;
    sighting.times = Some((BatchTimes::Reported, start, start + batch.length));
    sighting.around = (start, start + batch.length);
    if who.is_none() {
        sighting.source = BatchSource::BatchSpan;
        sighting.size = Some(n);
        let all = batch.participants.iter();
        sighting.participants = all
            .map(|(n, tokens)| participant(*n, Some(*tokens)))
            .collect();
    }
    sighting
}

/// Everything that is shown, release by release.
fn releases(batches: &[True], n_releases: usize, rng: &mut Random) -> Vec<Vec<Sighting>> {
    let mut releases = vec![Vec::new(); n_releases];
    for batch in batches {
        for who in &batch.participants {
            // Some never arrive, some twice.
            for _ in 0..[0, 1, 1, 1, 2][rng.below(5)] {
                let sighting = shown(batch, Some(*who), rng);
                releases[rng.below(n_releases)].push(sighting);
            }
        }
        if rng.below(4) == 0 {
            let sighting = shown(batch, None, rng);
            releases[rng.below(n_releases)].push(sighting);
        }
    }
    releases
}

/// A process, and what outlives it.
struct Life {
    releases: Vec<Vec<Sighting>>,
    window: BatchWindow,
    /// The release that it takes next.
    next: usize,
    appended: i64,
    fresh: Vec<(i64, Row)>,
    file: Vec<u8>,
    table: Vec<Row>,
    committed: i64,
}

impl Life {
    fn take(&mut self) {
        if let Some(sightings) = self.releases.get(self.next) {
            self.next += 1;
            self.window
                .take(self.next as i64, DECIDED, sightings.clone());
        }
    }

    fn settle(&mut self) {
        if let Some(settled) = self.window.settle_first() {
            self.appended = settled.sequence;
            let rows = settled.rows.iter().flat_map(rows);
            if settled.sequence > self.committed {
                self.fresh.extend(rows.map(|row| (settled.sequence, row)));
            }
        }
    }

    fn write_file(&mut self) {
        self.file = self.window.closed().to_bytes();
    }

    fn write_table(&mut self) {
        self.table.extend(self.fresh.drain(..).map(|(_, row)| row));
        self.committed = self.committed.max(self.appended);
    }

    /// The next process knows the file and the table; it is given releases again, more than it needs.
    fn fall(&mut self, n_more: usize) {
        let closed = ClosedBatches::from_bytes(&self.file, self.committed).unwrap_or_default();
        self.window = BatchWindow::new(closed, false);
        self.fresh.clear();
        self.next = (self.committed as usize).saturating_sub(n_more);
        self.appended = self.next as i64;
    }

    fn step(&mut self, step: Step, rng: &mut Random) {
        match step {
            Step::Take => self.take(),
            Step::Settle => self.settle(),
            Step::Commit => {
                self.write_file();
                self.write_table();
                self.window.committed(self.committed);
            }
            Step::Fall { in_commit } => {
                if let Some(is_after) = in_commit {
                    self.write_file();
                    if is_after {
                        self.write_table();
                    }
                }
                self.fall(rng.below(3));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_batch_is_written_once_and_shared_to_the_nanosecond(
        batches in prop::collection::vec(batch(), 1..60),
        steps in prop::collection::vec(step(), 0..120),
        n_releases in 1..40_usize,
        seed in 1..u64::MAX,
    ) {
        let mut rng = Random(seed);
        let mut seen = BTreeSet::new();
        let batches: Vec<True> = batches
            .into_iter()
            .filter(|batch| seen.insert((batch.pod, batch.id.clone(), batch.at_millis)))
            .collect();
        let releases = releases(&batches, n_releases, &mut rng);
        let shown: BTreeSet<_> = releases.iter().flatten().map(|sighting| {
            let pod = sighting.worker.k8s_pod_name.as_deref().unwrap().to_owned();
            (pod, sighting.batch_id.to_string(), sighting.around.0 as i64)
        }).collect();
        let mut life = Life {
            releases,
            window: BatchWindow::new(ClosedBatches::default(), false),
            next: 0,
            appended: 0,
            fresh: Vec::new(),
            file: Vec::new(),
            table: Vec::new(),
            committed: 0,
        };
        for step in steps {
            life.step(step, &mut rng);
        }
        for _ in 0..n_releases {
            life.take();
        }
        for _ in 0..n_releases {
            life.settle();
        }
        life.write_table();

        let mut written: BTreeMap<_, Vec<&Row>> = BTreeMap::new();
        for row in &life.table {
            let key = (row.pod.clone().unwrap(), row.batch_id.clone(), row.start.unwrap());
            written.entry(key).or_default().push(row);
        }
        prop_assert_eq!(written.keys().cloned().collect::<BTreeSet<_>>(), shown);
        for (key, rows) in &written {
            let sum: i64 = rows.iter().filter_map(|row| row.share).sum();
            prop_assert_eq!(Some(sum), rows[0].duration, "{:?}", key);
            let who: BTreeSet<_> = rows.iter().map(|row| &row.trace_id).collect();
            prop_assert_eq!(who.len(), rows.len(), "{:?}", key);
            let truth = batches.iter().find(|batch| {
                (batch.pod, batch.id.as_str()) == (&*key.0, &*key.1)
                    && T0 + batch.at_millis * MILLI == key.2 as u64
            }).unwrap();
            // Nobody has more than the whole batch would give.
            let n = truth.participants.len();
            let n_named = rows.iter().filter(|row| row.trace_id.is_some()).count();
            prop_assert!(n_named <= n);
            if rows[0].count.is_none() {
                prop_assert!(rows.iter().all(|row| row.trace_id.is_none() || row.share.is_none()));
            } else if n_named < n {
                let nobodys = rows.iter().find(|row| row.trace_id.is_none());
                prop_assert!(nobodys.is_some(), "{:?}", key);
            }
        }
    }
}

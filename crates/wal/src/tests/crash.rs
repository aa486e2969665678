//! The process or the power fails at every disk call.

use super::{Record, Records, all, open, payload};
use crate::sim::{Fault, SimDisk};
use crate::{Position, Result};

/// Seeds tried at each crash point: each loses another part of what was not synced.
const SEEDS: u64 = 12;

/// What the script's caller was told.
#[derive(Clone, Debug, Default)]
struct Told {
    appended: Records,
    n_flushed: usize,
    n_synced: usize,
    /// Records before it may be gone.
    low_water: Position,
}

/// Appends, flushes, syncs (here and by handle), rotates and deletes, until a call fails.
fn run_script(disk: &SimDisk, told: &mut Told) -> Result<()> {
    let (mut wal, _) = open(disk)?;
    for n in 0..48 {
        let payload = payload(n);
        let position = wal.append(&[&payload])?;
        told.appended.push((position, payload));
        if n % 3 == 2 {
            wal.flush()?;
            told.n_flushed = told.appended.len();
        }
        if n % 11 == 10 {
            wal.sync()?;
            told.n_flushed = told.appended.len();
            told.n_synced = told.appended.len();
        }
        if n % 16 == 15 {
            let handle = wal.sync_handle()?;
            let through = handle.through();
            let position = wal.append(&[b"while syncing"])?;
            told.appended.push((position, b"while syncing".to_vec()));
            handle.sync()?;
            told.n_synced = told.appended.iter().filter(|(at, _)| *at < through).count();
        }
        if n == 30 || n == 40 {
            told.low_water = told.appended[n - 8].0.segment_start();
            wal.delete_below(told.low_water)?;
        }
    }
    Ok(())
}

fn n_calls() -> u64 {
    let disk = SimDisk::new(3);
    run_script(&disk, &mut Told::default()).unwrap();
    disk.n_calls()
}

/// Runs the script up to the call and gives the disk to `check`.
fn at_each_call(mut check: impl FnMut(&SimDisk, &Told, &str)) {
    let n_calls = n_calls();
    assert!(n_calls > 40);
    for call in 0..=n_calls {
        let disk = SimDisk::new(3);
        disk.stop_at(call);
        let mut told = Told::default();
        let result = run_script(&disk, &mut told);
        assert_eq!(result.is_ok(), call == n_calls);
        check(&disk, &told, &format!("call {call}"));
    }
}

/// The recovered records are a run of the appended ones, from the low-water mark or before, and past `n_promised`.
fn check_run(kept: &[Record], told: &Told, n_promised: usize, place: &str) {
    let first = kept
        .first()
        .and_then(|first| told.appended.iter().position(|at| at == first));
    let first = first.unwrap_or(told.appended.len());
    assert!(
        kept.is_empty() || first < told.appended.len(),
        "{place}: an invented record"
    );
    let run = told.appended.get(first..first + kept.len());
    assert_eq!(run, Some(kept), "{place}: a changed or missing record");
    let first_promised = told
        .appended
        .iter()
        .position(|(at, _)| *at >= told.low_water);
    let first_promised = first_promised.unwrap_or(0);
    if first_promised < n_promised {
        assert!(
            first <= first_promised,
            "{place}: a record above the low-water mark is lost"
        );
        assert!(
            first + kept.len() >= n_promised,
            "{place}: a promised record is lost"
        );
    }
}

/// Scenario: the process is killed inside any disk call.
/// Guarantee: every flushed record is there and none is invented.
#[test]
fn a_kill_in_any_call_loses_nothing_flushed() {
    at_each_call(|disk, told, place| {
        let (wal, _) = open(&disk.after_kill()).expect(place);
        check_run(&all(&wal), told, told.n_flushed, place);
    });
}

/// Scenario: the power fails inside any disk call; unsynced sectors and folder entries are lost in any combination.
/// Guarantee: the log opens without help, every synced record is there, none is invented.
#[test]
fn a_power_failure_in_any_call_loses_nothing_synced() {
    at_each_call(|disk, told, place| {
        for seed in 0..SEEDS {
            let place = format!("{place}, seed {seed}");
            let (wal, _) = open(&disk.after_power_failure(seed)).expect(&place);
            check_run(&all(&wal), told, told.n_synced, &place);
        }
    });
}

/// Scenario: the power fails, and once more inside any disk call of the recovery.
/// Guarantee: as after one failure; and the log goes on.
#[test]
fn a_power_failure_in_recovery_loses_nothing_synced() {
    at_each_call(|disk, told, place| {
        let found = disk.after_power_failure(1);
        let before = found.n_calls();
        let undisturbed = found.after_kill();
        open(&undisturbed).expect(place);
        for call in before..undisturbed.n_calls() {
            let disk = found.after_kill();
            disk.stop_at(call);
            open(&disk).unwrap_err();
            for seed in 0..3 {
                let place = format!("{place}, recovery call {call}, seed {seed}");
                let disk = disk.after_power_failure(seed);
                let (wal, _) = open(&disk).expect(&place);
                let mut kept = all(&wal);
                check_run(&kept, told, told.n_synced, &place);
                drop(wal);
                let added = append_and_sync(&disk).expect(&place);
                kept.push(added);
                assert_eq!(
                    all(&open(&disk.after_power_failure(seed)).expect(&place).0),
                    kept
                );
            }
        }
    });
}

fn append_and_sync(disk: &SimDisk) -> Result<Record> {
    let (mut wal, _) = open(disk)?;
    let position = wal.append(&[b"added"])?;
    wal.sync()?;
    Ok((position, b"added".to_vec()))
}

/// Scenario: many lives, each ended by a power failure at a random call, each going on with what the last one left.
/// Guarantee: what any life has synced is there in all later ones.
#[test]
fn many_power_failures_in_a_row_lose_nothing_synced() {
    let seed = std::env::var("SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or(1);
    let mut random = crate::sim::Random(seed);
    let mut disk = SimDisk::new(seed);
    let mut synced: Records = Vec::new();
    for life in 0..100 {
        disk.stop_at(disk.n_calls() + u64::try_from(random.below(40)).unwrap());
        let mut added = Vec::new();
        live(&disk, &mut synced, &mut added, life);
        disk = disk.after_power_failure(random.next());
        let (wal, _) =
            open(&disk).unwrap_or_else(|error| panic!("life {life}, SEED={seed}: {error}"));
        let kept = all(&wal);
        assert!(kept.starts_with(&synced), "life {life}, SEED={seed}");
        assert!(
            added.starts_with(&kept[synced.len()..]),
            "life {life}, SEED={seed}"
        );
        // Recovery has synced what it found.
        synced = kept;
    }
}

/// One life: moves what it has synced from `added` to `synced`. The disk may be full in a flush.
fn live(disk: &SimDisk, synced: &mut Records, added: &mut Records, life: usize) {
    let Ok((mut wal, _)) = open(disk) else {
        return;
    };
    for n in 0..40 {
        let payload = payload(life * 41 + n);
        let Ok(position) = wal.append(&[&payload]) else {
            return;
        };
        added.push((position, payload));
        if (life + n) % 5 == 4 {
            let written_bytes = n * 60;
            disk.fail_call(disk.n_calls(), Fault::Full { written_bytes });
        }
        let is_sync = n % 7 == 6;
        match if is_sync { wal.sync() } else { wal.flush() } {
            Ok(()) if is_sync => synced.append(added),
            Ok(()) => {}
            Err(error) if error.is_full() => {
                let flushed = wal.flushed_position();
                added.retain(|(position, _)| *position < flushed);
            }
            Err(_) => return,
        }
    }
}

//! Random actions on the log and on a list.

use proptest::prelude::*;

use super::{Records, all, open};
use crate::sim::SimDisk;
use crate::{Position, Wal};

#[derive(Clone, Debug)]
enum Action {
    Append(Vec<u8>),
    Flush,
    Sync,
    SyncHandle,
    DeleteBelow(usize),
    /// The process ends without a flush.
    Kill,
    /// An append and a flush with room for this many bytes.
    Full(usize, Vec<u8>),
    Read(usize),
}

fn payload() -> impl Strategy<Value = Vec<u8>> {
    (0..3000_usize, any::<u8>()).prop_map(|(len, byte)| vec![byte; len])
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        12 => payload().prop_map(Action::Append),
        4 => Just(Action::Flush),
        2 => Just(Action::Sync),
        1 => Just(Action::SyncHandle),
        1 => any::<usize>().prop_map(Action::DeleteBelow),
        1 => Just(Action::Kill),
        1 => (0..6000_usize, payload()).prop_map(|(room, bytes)| Action::Full(room, bytes)),
        2 => any::<usize>().prop_map(Action::Read),
    ]
}

/// The log as a list.
#[derive(Debug, Default)]
struct Model {
    flushed: Records,
    buffered: Records,
}

impl Model {
    /// Records before the position are with the operating system, whoever flushed them.
    fn flush_below(&mut self, end: Position) {
        let n_flushed = self
            .buffered
            .iter()
            .filter(|(position, _)| *position < end)
            .count();
        self.flushed.extend(self.buffered.drain(..n_flushed));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_log_agrees_with_a_list(actions in prop::collection::vec(action(), 1..80)) {
        let mut disk = SimDisk::new(5);
        let (mut wal, _) = open(&disk).unwrap();
        let mut model = Model::default();
        for action in actions {
            if let Action::Kill = action {
                drop(wal);
                disk = disk.after_kill();
                model.buffered.clear();
                let (reopened, recovery) = open(&disk).unwrap();
                prop_assert_eq!(recovery.torn_bytes, 0);
                wal = reopened;
                prop_assert_eq!(&all(&wal), &model.flushed);
            } else {
                apply(&disk, &mut wal, &mut model, action)?;
            }
        }
        prop_assert_eq!(&all(&wal), &model.flushed);
    }
}

fn apply(
    disk: &SimDisk,
    wal: &mut Wal<SimDisk>,
    model: &mut Model,
    action: Action,
) -> Result<(), TestCaseError> {
    match action {
        Action::Append(payload) => append(wal, model, payload),
        Action::Flush => flush(wal, model),
        Action::Full(room_bytes, payload) => {
            let used_bytes: usize = disk.files().values().map(Vec::len).sum();
            disk.set_capacity(Some(used_bytes + room_bytes));
            append(wal, model, payload);
            flush(wal, model);
            disk.set_capacity(None);
        }
        Action::Sync => {
            wal.sync().unwrap();
            prop_assert_eq!(wal.synced_position(), wal.next_position());
        }
        Action::SyncHandle => wal.sync_handle().unwrap().sync().unwrap(),
        Action::DeleteBelow(n) => {
            let positions: Vec<_> = model
                .flushed
                .iter()
                .map(|(position, _)| *position)
                .collect();
            if let Some(position) = positions.get(n % positions.len().max(1)) {
                wal.delete_below(*position).unwrap();
                model
                    .flushed
                    .retain(|(at, _)| at.segment() >= position.segment());
            }
        }
        Action::Read(n) => {
            if let Some((position, payload)) = model.flushed.get(n % model.flushed.len().max(1)) {
                let mut read = Vec::new();
                wal.reader().read(*position, &mut read).unwrap();
                prop_assert_eq!(&read, payload);
            }
        }
        Action::Kill => {}
    }
    model.flush_below(wal.flushed_position());
    Ok(())
}

fn append(wal: &mut Wal<SimDisk>, model: &mut Model, payload: Vec<u8>) {
    match wal.append(&[&payload]) {
        Ok(position) => model.buffered.push((position, payload)),
        Err(error) => assert!(error.is_full(), "{error}"),
    }
    model.flush_below(wal.flushed_position());
}

/// A flush that fails gives up what is not flushed.
fn flush(wal: &mut Wal<SimDisk>, model: &mut Model) {
    let result = wal.flush();
    model.flush_below(wal.flushed_position());
    match result {
        Ok(()) => assert!(model.buffered.is_empty()),
        Err(error) => {
            assert!(error.is_full(), "{error}");
            model.buffered.clear();
        }
    }
}

//! The GPUs: how they feel the work, and which pod holds them.

use super::{
    GPUS_PER_REPLICA, N_GPUS, N_NODES, N_REPLICAS,
    fault::{Cause, FaultKind, Faults},
    world::gpus_of,
};
use crate::rng::Rng;

const SECOND: u64 = 1_000_000_000;

pub(super) const CLOCK_MHZ: f64 = 1_980.0;
pub(super) const SLOW_CLOCK_MHZ: f64 = 1_035.0;

/// Bits of the clock event mask: `hw_slowdown` and `hw_thermal`; `hw_slowdown` and `hw_power_brake`; `power_cap`.
const THERMAL_MASK: u64 = 0x8 | 0x40;
const BRAKE_MASK: u64 = 0x8 | 0x80;

/// Errors that need a reset of the GPU or of the application, one after the other: the same code again would not show.
const XIDS: [u32; 5] = [94, 95, 48, 119, 46];

/// A pod held a GPU in this time, in nanoseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// The GPU.
    pub gpu_uuid: String,
    /// Its number on its node.
    pub gpu_idx: u8,
    /// `k8s.pod.name`.
    pub pod: String,
    /// `k8s.pod.uid`; `None` for pods that are not engines.
    pub pod_uid: Option<String>,
    /// `k8s.namespace.name`.
    pub namespace: &'static str,
    /// `k8s.node.name`.
    pub node: String,
    /// Tensor-parallel rank.
    pub tp_rank: u8,
    /// From when.
    pub valid_from_unix_nano: u64,
    /// Until when; `None` for the end of the run.
    pub valid_to_unix_nano: Option<u64>,
}

/// What one GPU shows.
#[derive(Debug, Clone)]
pub(super) struct Gpu {
    pub(super) uuid: String,
    pub(super) util: f64,
    pub(super) clock_mhz: f64,
    pub(super) temp_c: f64,
    pub(super) power_w: f64,
    pub(super) energy_j: f64,
    pub(super) mask: u64,
    pub(super) thermal_ns: u64,
    pub(super) power_ns: u64,
    pub(super) xid: u32,
    pub(super) nvlink_errors: u64,
    pub(super) holder: Option<u8>,
}

/// All GPUs of the fleet.
#[derive(Debug)]
pub(super) struct Gpus {
    pub(super) all: Vec<Gpu>,
    rng: Rng,
    start: u64,
    moved_at: Option<u64>,
}

impl Gpus {
    pub(super) fn new(seed: u64, start: u64, faults: &Faults) -> Self {
        // The machines are the same whatever happens on them: a file of placements fits every run.
        let mut identity = Rng::new(0x6770_7573);
        let mut rng = Rng::new(seed ^ 0x6770_7573);
        let all = (0..N_GPUS)
            .map(|_| Gpu {
                uuid: uuid(&mut identity),
                util: 0.0,
                clock_mhz: CLOCK_MHZ,
                temp_c: 45.0,
                power_w: 110.0,
                energy_j: 1e6 + rng.between(0.0, 1e6),
                mask: 0,
                thermal_ns: 0,
                power_ns: 0,
                xid: 0,
                nvlink_errors: 0,
                holder: None,
            })
            .collect();
        Self {
            all,
            rng,
            start,
            moved_at: faults.first(FaultKind::PodMoved),
        }
    }

    /// One second passes; `busy` is the work of each replica in it, in nanoseconds.
    pub(super) fn advance(&mut self, now: u64, busy: [u64; N_REPLICAS as usize], faults: &Faults) {
        let was = now - SECOND / 2;
        for number in 0..N_GPUS {
            let holder = self.holder(number, was);
            let noise = self.rng.between(0.98, 1.02);
            let share = match holder {
                Some(replica_idx) => busy[usize::from(replica_idx)] as f64 / SECOND as f64,
                // Other pods work a little, all the time.
                None => 0.15,
            };
            let is_first = number == 0;
            let is_slow = |cause| is_first && faults.is_slow(cause, was);
            let gpu = &mut self.all[usize::from(number)];
            gpu.holder = holder;
            gpu.util = (share * 100.0 * noise).clamp(0.0, 100.0);
            let (is_hot, is_braked) = (
                is_slow(Cause::ThermalThrottle),
                is_slow(Cause::PowerThrottle),
            );
            gpu.clock_mhz = if is_hot || is_braked {
                SLOW_CLOCK_MHZ
            } else {
                CLOCK_MHZ
            };
            gpu.mask = if is_hot {
                THERMAL_MASK
            } else if is_braked {
                BRAKE_MASK
            } else {
                0
            };
            gpu.thermal_ns += if is_hot { SECOND } else { 0 };
            gpu.power_ns += if is_braked { SECOND } else { 0 };
            let heat = if is_hot { 90.0 } else { 42.0 + 28.0 * share };
            gpu.temp_c += (heat - gpu.temp_c) * 0.5;
            gpu.power_w = (100.0 + 430.0 * share * if is_braked { 0.5 } else { 1.0 }) * noise;
            gpu.energy_j += gpu.power_w;
            if is_first && let Some(number) = faults.number(FaultKind::Slow(Cause::Xid), was) {
                gpu.xid = XIDS[number % XIDS.len()];
            }
            let is_linked = number < GPUS_PER_REPLICA && faults.is_slow(Cause::NvlinkSlow, was);
            gpu.nvlink_errors += if is_linked { 3 } else { 0 };
        }
    }

    /// The replica whose pod holds a GPU.
    fn holder(&self, number: u8, at: u64) -> Option<u8> {
        let is_moved = self.moved_at.is_some_and(|moved| moved <= at);
        (0..N_REPLICAS).find(|replica_idx| gpus(*replica_idx, is_moved).contains(&number))
    }

    pub(super) fn placements(&self) -> Vec<Placement> {
        let mut placements = Vec::new();
        for replica_idx in 0..N_REPLICAS {
            let moved = self.moved_at.filter(|_| replica_idx == 0);
            placements.extend(self.held(replica_idx, false, self.start, moved));
            if let Some(moved) = moved {
                placements.extend(self.held(replica_idx, true, moved, None));
            }
        }
        placements
    }

    fn held(
        &self,
        replica_idx: u8,
        is_moved: bool,
        from: u64,
        to: Option<u64>,
    ) -> impl Iterator<Item = Placement> {
        (0..)
            .zip(gpus(replica_idx, is_moved))
            .map(move |(tp_rank, number)| Placement {
                gpu_uuid: self.all[usize::from(number)].uuid.clone(),
                gpu_idx: idx_on_node(number),
                pod: crate::traffic::engine_pod(replica_idx),
                pod_uid: Some(crate::traffic::engine_pod_uid(replica_idx)),
                namespace: crate::traffic::NAMESPACE,
                node: crate::traffic::engine_node(replica_idx),
                tp_rank,
                valid_from_unix_nano: from,
                valid_to_unix_nano: to,
            })
    }
}

/// The node of a GPU: that of the replica that it belongs to, or would belong to after a move.
pub(super) const fn node_of(number: u8) -> u8 {
    number / GPUS_PER_REPLICA % N_NODES
}

/// The number of a GPU on its node.
pub(super) const fn idx_on_node(number: u8) -> u8 {
    number / (GPUS_PER_REPLICA * N_NODES) * GPUS_PER_REPLICA + number % GPUS_PER_REPLICA
}

/// GPUs of a replica; replica 0 has spare ones, on the same node, after it has moved.
fn gpus(replica_idx: u8, is_moved: bool) -> std::ops::Range<u8> {
    gpus_of(if is_moved && replica_idx == 0 {
        N_REPLICAS
    } else {
        replica_idx
    })
}

fn uuid(rng: &mut Rng) -> String {
    let (high, low) = (rng.next_u64(), rng.next_u64());
    format!(
        "GPU-{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xfff,
        low >> 48 & 0xfff,
        low & 0xffff_ffff_ffff
    )
}

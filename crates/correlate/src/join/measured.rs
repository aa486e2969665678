//! The columns that samples are read for, filled device by device and not in the order of the rows.

use arrow::{
    array::Float64Array,
    buffer::{BooleanBuffer, Buffer, NullBuffer},
    util::bit_util,
};

use super::{
    columns::{NANOS_PER_SECOND, Named},
    measure::{Gauge, Total},
    pairs::Pairs,
    series::{Around, Before, Known, Place, Series},
};

#[derive(Clone, Copy)]
enum Fact {
    Mean,
    Min,
    Max,
}

const GAUGES: [(&str, Gauge, Fact); 13] = [
    ("util_pct_avg", Gauge::GpuUtil, Fact::Mean),
    ("util_pct_max", Gauge::GpuUtil, Fact::Max),
    ("gr_engine_active_avg", Gauge::GrEngineActive, Fact::Mean),
    ("sm_active_avg", Gauge::SmActive, Fact::Mean),
    ("tensor_active_avg", Gauge::TensorActive, Fact::Mean),
    ("dram_active_avg", Gauge::DramActive, Fact::Mean),
    (CLOCK, Gauge::SmClock, Fact::Mean),
    ("sm_clock_mhz_min", Gauge::SmClock, Fact::Min),
    ("temp_c_max", Gauge::Temperature, Fact::Max),
    ("mem_temp_c_max", Gauge::MemoryTemperature, Fact::Max),
    ("power_w_avg", Gauge::Power, Fact::Mean),
    ("power_w_max", Gauge::Power, Fact::Max),
    ("fb_used_mib_max", Gauge::FbUsed, Fact::Max),
];
const CLOCK: &str = "sm_clock_mhz_avg";

const BASELINES: [(&str, Gauge); 3] = [
    ("baseline_util_pct", Gauge::GpuUtil),
    ("baseline_power_w", Gauge::Power),
    ("baseline_temp_c", Gauge::Temperature),
];

/// Counters that add up to a column, and what they are divided by.
const COUNTERS: [(&str, &[Total], f64); 6] = [
    ("energy_j", &[Total::Energy], 1.0),
    (
        "thermal_throttle_s",
        &[Total::ThermalThrottle],
        NANOS_PER_SECOND,
    ),
    (
        "power_throttle_s",
        &[Total::PowerThrottle],
        NANOS_PER_SECOND,
    ),
    ("ecc_dbe", &[Total::EccDbe], 1.0),
    ("pcie_replays", &[Total::PcieReplay], 1.0),
    (
        "nvlink_errors",
        &[
            Total::NvlinkCrcFlit,
            Total::NvlinkCrcData,
            Total::NvlinkReplay,
            Total::NvlinkRecovery,
        ],
        1.0,
    ),
];

/// A column whose rows come in any order; a row that never comes is NULL.
struct Floats {
    values: Vec<f64>,
    known: Vec<u8>,
}

impl Floats {
    fn new(n_rows: usize) -> Self {
        Self {
            values: vec![0.0; n_rows],
            known: vec![0; n_rows.div_ceil(8)],
        }
    }

    fn set(&mut self, row: usize, value: Option<f64>) {
        if let Some(value) = value {
            self.values[row] = value;
            bit_util::set_bit(&mut self.known, row);
        }
    }

    fn get(&self, row: usize) -> Option<f64> {
        bit_util::get_bit(&self.known, row).then(|| self.values[row])
    }

    fn finish(self) -> Float64Array {
        let known = BooleanBuffer::new(Buffer::from_vec(self.known), 0, self.values.len());
        Float64Array::new(self.values.into(), Some(NullBuffer::new(known)))
    }
}

/// All columns that samples are read for.
struct Measured {
    gauges: [Floats; GAUGES.len()],
    thermal: Floats,
    baselines: [Floats; BASELINES.len()],
    baseline_clock: Floats,
    counters: [Floats; COUNTERS.len()],
    counter_windows: Floats,
    restarts: Vec<Option<bool>>,
    throttle: Vec<Option<u64>>,
}

/// Puts the columns; the mask of clock event reasons of each row is left for lists.
pub(super) fn put(named: &mut Named, n_requests: usize, pairs: &Pairs<'_>) -> Vec<Option<u64>> {
    let mut measured = Measured::new(pairs.rows.len());
    // Requests that began between the same two samples have the same minutes before.
    let mut last: Option<(&Series, Place, Before)> = None;
    for row in &pairs.by_device {
        let pair = &pairs.rows[*row];
        let Some(series) = pair.series else { continue };
        measured.set_known(*row, &series.known(pair.place));
        let before = match last {
            Some((of, place, before)) if std::ptr::eq(of, series) && place == pair.baseline => {
                before
            }
            Some(_) | None => series.known_before(pair.baseline),
        };
        last = Some((series, pair.baseline, before));
        measured.set_before(*row, &before);
        if let Some(around) = pair.around {
            measured.set_counters(*row, series, around);
        }
    }
    named.ints(
        "baseline_sample_count",
        pairs.rows.iter().map(|pair| {
            pair.series?;
            i64::try_from(pair.baseline.to - pair.baseline.from).ok()
        }),
    );
    measured.finish(named, n_requests, pairs)
}

impl Measured {
    fn new(n_rows: usize) -> Self {
        Self {
            gauges: GAUGES.map(|_| Floats::new(n_rows)),
            thermal: Floats::new(n_rows),
            baselines: BASELINES.map(|_| Floats::new(n_rows)),
            baseline_clock: Floats::new(n_rows),
            counters: COUNTERS.map(|_| Floats::new(n_rows)),
            counter_windows: Floats::new(n_rows),
            restarts: vec![None; n_rows],
            throttle: vec![None; n_rows],
        }
    }

    fn set_known(&mut self, row: usize, known: &Known) {
        for (column, (_, gauge, fact)) in self.gauges.iter_mut().zip(GAUGES) {
            let value = match fact {
                Fact::Mean => known.mean(gauge),
                Fact::Min => known.min(gauge),
                Fact::Max => known.max(gauge),
            };
            column.set(row, value);
        }
        self.thermal.set(row, known.thermal());
        self.throttle[row] = known.throttle();
    }

    fn set_before(&mut self, row: usize, before: &Before) {
        for (column, (_, gauge)) in self.baselines.iter_mut().zip(BASELINES) {
            column.set(row, before.mean(gauge));
        }
        self.baseline_clock.set(row, before.busy_clock());
    }

    fn set_counters(&mut self, row: usize, series: &Series, around: Around) {
        for (column, (_, totals, divisor)) in self.counters.iter_mut().zip(COUNTERS) {
            // Of several that add up, those count that there are.
            let mut sum = None;
            for total in totals {
                let Some(grown) = series.growth(*total, around) else {
                    continue;
                };
                let restart = &mut self.restarts[row];
                *restart = Some(restart.unwrap_or(false) || !grown.is_whole);
                sum = Some(sum.unwrap_or(0.0) + grown.amount / divisor);
            }
            if sum.is_some() {
                let seconds = around.length as f64 / NANOS_PER_SECOND;
                self.counter_windows.set(row, Some(seconds));
            }
            column.set(row, sum);
        }
    }

    fn finish(self, named: &mut Named, n_requests: usize, pairs: &Pairs<'_>) -> Vec<Option<u64>> {
        for (column, (name, ..)) in self.gauges.into_iter().zip(GAUGES) {
            if name == CLOCK {
                put_peers(named, n_requests, pairs, &column);
            }
            named.put(name, column.finish());
        }
        for (column, (name, ..)) in self.baselines.into_iter().zip(BASELINES) {
            named.put(name, column.finish());
        }
        for (column, (name, ..)) in self.counters.into_iter().zip(COUNTERS) {
            named.put(name, column.finish());
        }
        named.put("thermal_throttle_share", self.thermal.finish());
        named.put("baseline_sm_clock_mhz", self.baseline_clock.finish());
        named.put("counter_window_s", self.counter_windows.finish());
        named.bools("counter_restart", self.restarts);
        self.throttle
    }
}

/// What the other devices of the same request did: in a tensor-parallel group all run every step, and the slowest
/// holds up the rest.
fn put_peers(named: &mut Named, n_requests: usize, pairs: &Pairs<'_>, clocks: &Floats) {
    let own: Vec<Option<f64>> = (0..pairs.rows.len()).map(|row| clocks.get(row)).collect();
    let mut all = vec![(0.0, 0_i64); n_requests];
    for (pair, clock) in pairs.rows.iter().zip(&own) {
        if let Some(clock) = clock {
            let (sum, n) = &mut all[pair.request];
            *sum += clock;
            *n += 1;
        }
    }
    let others = pairs.rows.iter().zip(&own).map(|(pair, own)| {
        let (sum, n) = all[pair.request];
        match own {
            Some(own) => (sum - own, n - 1),
            None => (sum, n),
        }
    });
    let others: Vec<(f64, i64)> = others.collect();
    named.floats(
        "peers_sm_clock_mhz_avg",
        others
            .iter()
            .map(|(sum, n)| (*n > 0).then(|| sum / *n as f64)),
    );
    named.ints(
        "peer_count",
        pairs
            .rows
            .iter()
            .zip(&others)
            .map(|(pair, (_, n))| pair.placement.map(|_| *n)),
    );
}

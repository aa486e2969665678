//! Samples of all devices, out of batches of `gpu_samples` in any order.

use std::collections::HashMap;

use arrow::{
    array::{Array, AsArray, Float64Array, Int64Array, RecordBatch, StringArray},
    datatypes::{Float64Type, Int64Type},
};

use super::{
    measure::{Gauge, Total},
    series::{Columns, Series},
};
use crate::{
    device::Device,
    error::{Error, Result},
};

/// Device and time of a sample, and where it is.
type Key = (u32, i64, u32, u32);

/// The columns of one batch that are read.
struct Read<'a> {
    uuid: &'a StringArray,
    mig_instance: &'a Int64Array,
    time: &'a Int64Array,
    gauges: Vec<&'a Float64Array>,
    totals: Vec<&'a Float64Array>,
    throttle_mask: &'a Int64Array,
    xid_last: &'a Int64Array,
}

impl<'a> Read<'a> {
    fn new(batch: &'a RecordBatch) -> Result<Self> {
        let floats = |name| {
            column(batch, name)?
                .as_primitive_opt::<Float64Type>()
                .ok_or(Error::ColumnType { name })
        };
        let ints = |name| {
            column(batch, name)?
                .as_primitive_opt::<Int64Type>()
                .ok_or(Error::ColumnType { name })
        };
        Ok(Self {
            uuid: column(batch, "gpu_uuid")?
                .as_string_opt()
                .ok_or(Error::ColumnType { name: "gpu_uuid" })?,
            mig_instance: ints("mig_instance")?,
            time: ints("time_unix_nano")?,
            gauges: Gauge::ALL
                .into_iter()
                .map(|gauge| floats(gauge.column()))
                .collect::<Result<_>>()?,
            totals: Total::ALL
                .into_iter()
                .map(|total| floats(total.column()))
                .collect::<Result<_>>()?,
            throttle_mask: ints("throttle_mask")?,
            xid_last: ints("xid_last")?,
        })
    }
}

fn column<'a>(batch: &'a RecordBatch, name: &'static str) -> Result<&'a dyn Array> {
    batch
        .column_by_name(name)
        .map(AsRef::as_ref)
        .ok_or(Error::NoColumn { name })
}

/// Samples by device.
#[derive(Clone, Debug, Default)]
pub struct SampleIndex {
    devices: HashMap<Device, u32>,
    series: Vec<Series>,
}

impl SampleIndex {
    /// Takes batches of `gpu_samples`, or of its columns that are read here. Rows may come in any order; of rows with one
    /// device and time, the first value of each column counts (a scrape that was delivered twice is one sample).
    ///
    /// # Errors
    /// [`Error::NoColumn`] and [`Error::ColumnType`] if a batch is not of that table.
    pub fn new(batches: &[RecordBatch]) -> Result<Self> {
        let read: Vec<Read<'_>> = batches.iter().map(Read::new).collect::<Result<_>>()?;
        let mut devices = HashMap::new();
        let mut keys = keys(&read, &mut devices);
        keys.sort_unstable();
        let mut series = Vec::with_capacity(devices.len());
        let mut rest = keys.as_slice();
        while let Some((device, ..)) = rest.first() {
            let end = rest.partition_point(|(other, ..)| other <= device);
            let (of_device, others) = rest.split_at(end);
            series.push(build(&read, of_device));
            rest = others;
        }
        Ok(Self { devices, series })
    }

    /// Number of devices.
    #[must_use]
    pub fn n_devices(&self) -> usize {
        self.series.len()
    }

    /// Time of a device's last sample: what lies before it is complete for this device.
    #[must_use]
    pub fn last_time(&self, device: &Device) -> Option<i64> {
        self.of(device)?.last_time()
    }

    /// Heap in bytes.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.series.iter().map(Series::heap_bytes).sum()
    }

    pub(crate) fn of(&self, device: &Device) -> Option<&Series> {
        let number = *self.devices.get(device)?;
        self.series.get(number as usize)
    }
}

/// Rows that name a device and a time, devices numbered as they come.
fn keys(read: &[Read<'_>], devices: &mut HashMap<Device, u32>) -> Vec<Key> {
    let n_rows = read.iter().map(|columns| columns.time.len()).sum();
    let mut keys = Vec::with_capacity(n_rows);
    let mut spelled: HashMap<(&str, Option<i64>), Option<u32>> = HashMap::new();
    for (batch, columns) in (0_u32..).zip(read) {
        for (row, at) in (0_u32..).zip(columns.time) {
            let Some(at) = at else { continue };
            let place = row as usize;
            if columns.uuid.is_null(place) {
                continue;
            }
            let uuid = columns.uuid.value(place);
            let mig = columns
                .mig_instance
                .is_valid(place)
                .then(|| columns.mig_instance.value(place));
            let number = *spelled.entry((uuid, mig)).or_insert_with(|| {
                let mig = mig.and_then(|mig| u32::try_from(mig).ok());
                let next = u32::try_from(devices.len()).ok()?;
                Some(*devices.entry(Device::parse(uuid, mig)?).or_insert(next))
            });
            if let Some(number) = number {
                keys.push((number, at, batch, row));
            }
        }
    }
    keys
}

/// `keys` of one device in order of time; those of one time are one sample.
fn build(read: &[Read<'_>], keys: &[Key]) -> Series {
    let mut times: Vec<i64> = Vec::with_capacity(keys.len());
    // Where the rows of each sample begin.
    let mut begins: Vec<usize> = Vec::with_capacity(keys.len() + 1);
    for (place, (_, at, ..)) in keys.iter().enumerate() {
        if times.last() != Some(at) {
            times.push(*at);
            begins.push(place);
        }
    }
    begins.push(keys.len());
    let floats = |pick: &dyn Fn(&Read<'_>, usize) -> Option<f64>| -> Vec<f64> {
        let sample = |rows: &[Key]| {
            rows.iter()
                .find_map(|(_, _, batch, row)| pick(&read[*batch as usize], *row as usize))
        };
        begins
            .windows(2)
            .map(|pair| sample(&keys[pair[0]..pair[1]]).unwrap_or(f64::NAN))
            .collect()
    };
    let ints = |pick: &dyn Fn(&Read<'_>, usize) -> Option<i64>| -> Vec<Option<i64>> {
        let sample = |rows: &[Key]| {
            rows.iter()
                .find_map(|(_, _, batch, row)| pick(&read[*batch as usize], *row as usize))
        };
        begins
            .windows(2)
            .map(|pair| sample(&keys[pair[0]..pair[1]]))
            .collect()
    };
    let float = |array: &Float64Array, row: usize| array.is_valid(row).then(|| array.value(row));
    let int = |array: &Int64Array, row: usize| array.is_valid(row).then(|| array.value(row));
    let columns = Columns {
        gauges: (0..Gauge::ALL.len())
            .map(|gauge| floats(&|read, row| float(read.gauges[gauge], row)))
            .collect(),
        totals: (0..Total::ALL.len())
            .map(|total| floats(&|read, row| float(read.totals[total], row)))
            .collect(),
        throttle_mask: ints(&|read, row| int(read.throttle_mask, row))
            .into_iter()
            .map(|mask| mask.and_then(|mask| u64::try_from(mask).ok()))
            .collect(),
        xid_last: ints(&|read, row| int(read.xid_last, row)),
    };
    Series::new(times, columns)
}

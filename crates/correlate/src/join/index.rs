//! Samples of all devices, out of batches of `gpu_samples` in any order.

use std::collections::HashMap;

use arrow::{
    array::{Array, AsArray, Float64Array, Int64Array, ListArray, RecordBatch, StringArray},
    datatypes::{Float64Type, Int64Type},
};

use tables::samples::gpu::GpuField;

use super::{
    measure::{Gauge, Total},
    series::{Columns, Series},
};
use crate::{
    device::Device,
    error::{Error, Result},
};

/// Columns that are no measured value but the mask.
const OTHERS: [&str; 5] = [
    "gpu_uuid",
    "mig_instance",
    "time_unix_nano",
    GpuField::ThrottleMask.column(),
    "xid_events",
];

const COLUMNS: [&str; OTHERS.len() + Gauge::ALL.len() + Total::ALL.len()] = {
    let mut columns = [""; OTHERS.len() + Gauge::ALL.len() + Total::ALL.len()];
    let mut place = 0;
    while place < columns.len() {
        let (gauge, total) = (
            place.wrapping_sub(OTHERS.len()),
            place.wrapping_sub(OTHERS.len() + Gauge::ALL.len()),
        );
        columns[place] = if place < OTHERS.len() {
            OTHERS[place]
        } else if gauge < Gauge::ALL.len() {
            Gauge::ALL[gauge].field().column()
        } else {
            Total::ALL[total].field().column()
        };
        place += 1;
    }
    columns
};

/// Device and time of a sample, and where it is.
type Key = (u32, i64, u32, u32);

/// A column of numbers; counts are whole numbers in the table.
enum Numbers<'a> {
    Floats(&'a Float64Array),
    Ints(&'a Int64Array),
}

impl Numbers<'_> {
    fn get(&self, row: usize) -> Option<f64> {
        match self {
            Self::Floats(column) => column.is_valid(row).then(|| column.value(row)),
            Self::Ints(column) => column.is_valid(row).then(|| column.value(row) as f64),
        }
    }
}

/// The columns of one batch that are read.
struct Read<'a> {
    uuid: &'a StringArray,
    mig_instance: &'a StringArray,
    time: &'a Int64Array,
    gauges: Vec<Numbers<'a>>,
    totals: Vec<Numbers<'a>>,
    throttle_mask: &'a Int64Array,
    xid_events: &'a ListArray,
}

impl<'a> Read<'a> {
    fn new(batch: &'a RecordBatch) -> Result<Self> {
        let numbers = |field: GpuField| numbers(batch, field.column());
        Ok(Self {
            uuid: texts(batch, "gpu_uuid")?,
            mig_instance: texts(batch, "mig_instance")?,
            time: ints(batch, "time_unix_nano")?,
            gauges: Gauge::ALL
                .into_iter()
                .map(|gauge| numbers(gauge.field()))
                .collect::<Result<_>>()?,
            totals: Total::ALL
                .into_iter()
                .map(|total| numbers(total.field()))
                .collect::<Result<_>>()?,
            throttle_mask: ints(batch, GpuField::ThrottleMask.column())?,
            xid_events: column(batch, "xid_events")?
                .as_list_opt()
                .ok_or(Error::ColumnType { name: "xid_events" })?,
        })
    }
}

fn column<'a>(batch: &'a RecordBatch, name: &'static str) -> Result<&'a dyn Array> {
    batch
        .column_by_name(name)
        .map(AsRef::as_ref)
        .ok_or(Error::NoColumn { name })
}

fn texts<'a>(batch: &'a RecordBatch, name: &'static str) -> Result<&'a StringArray> {
    column(batch, name)?
        .as_string_opt()
        .ok_or(Error::ColumnType { name })
}

fn ints<'a>(batch: &'a RecordBatch, name: &'static str) -> Result<&'a Int64Array> {
    column(batch, name)?
        .as_primitive_opt::<Int64Type>()
        .ok_or(Error::ColumnType { name })
}

fn numbers<'a>(batch: &'a RecordBatch, name: &'static str) -> Result<Numbers<'a>> {
    let column = column(batch, name)?;
    let floats = || {
        column
            .as_primitive_opt::<Float64Type>()
            .map(Numbers::Floats)
    };
    let ints = || column.as_primitive_opt::<Int64Type>().map(Numbers::Ints);
    floats().or_else(ints).ok_or(Error::ColumnType { name })
}

/// Samples by device.
#[derive(Clone, Debug, Default)]
pub struct SampleIndex {
    devices: HashMap<Device, u32>,
    series: Vec<Series>,
}

impl SampleIndex {
    /// The columns of `gpu_samples` that are read.
    pub const COLUMNS: &'static [&'static str] = &COLUMNS;

    /// Takes batches of `gpu_samples`, or of [`Self::COLUMNS`]. Rows may come in any order; of rows with one
    /// device and time, the first value of each column counts (a scrape that was delivered twice is one sample).
    ///
    /// # Errors
    /// [`Error::NoColumn`] and [`Error::ColumnType`] if a batch is not of that table.
    pub fn new(batches: &[RecordBatch]) -> Result<Self> {
        Self::of_devices(batches, |_| true)
    }

    /// The same of these devices alone.
    ///
    /// # Errors
    /// Those of [`Self::new`].
    pub fn of_devices(
        batches: &[RecordBatch],
        is_wanted: impl Fn(&Device) -> bool,
    ) -> Result<Self> {
        let read: Vec<Read<'_>> = batches.iter().map(Read::new).collect::<Result<_>>()?;
        let mut devices = HashMap::new();
        let mut keys = keys(&read, &mut devices, is_wanted);
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

    pub(crate) fn of(&self, device: &Device) -> Option<&Series> {
        let number = *self.devices.get(device)?;
        self.series.get(number as usize)
    }
}

/// Rows that name a device and a time, devices numbered as they come.
fn keys(
    read: &[Read<'_>],
    devices: &mut HashMap<Device, u32>,
    is_wanted: impl Fn(&Device) -> bool,
) -> Vec<Key> {
    let mut keys = Vec::new();
    let mut spelled: HashMap<(&str, Option<&str>), Option<u32>> = HashMap::new();
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
                let next = u32::try_from(devices.len()).ok()?;
                let device = device(uuid, mig).filter(&is_wanted)?;
                Some(*devices.entry(device).or_insert(next))
            });
            if let Some(number) = number {
                keys.push((number, at, batch, row));
            }
        }
    }
    keys
}

fn device(uuid: &str, mig_instance: Option<&str>) -> Option<Device> {
    match mig_instance {
        Some(number) => Device::parse(uuid, Some(number.parse().ok()?)),
        None => Device::parse(uuid, None),
    }
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
    let samples = || begins.windows(2).map(|pair| &keys[pair[0]..pair[1]]);
    let floats = |pick: &dyn Fn(&Read<'_>, usize) -> Option<f64>| -> Vec<f64> {
        let first = |rows: &[Key]| {
            rows.iter()
                .find_map(|(_, _, batch, row)| pick(&read[*batch as usize], *row as usize))
        };
        samples()
            .map(|rows| first(rows).unwrap_or(f64::NAN))
            .collect()
    };
    let mask = |rows: &[Key]| {
        rows.iter().find_map(|(_, _, batch, row)| {
            let (column, row) = (read[*batch as usize].throttle_mask, *row as usize);
            column
                .is_valid(row)
                .then(|| u64::try_from(column.value(row)).ok())
                .flatten()
        })
    };
    let columns = Columns {
        gauges: (0..Gauge::ALL.len())
            .map(|gauge| floats(&|read, row| read.gauges[gauge].get(row)))
            .collect(),
        totals: (0..Total::ALL.len())
            .map(|total| floats(&|read, row| read.totals[total].get(row)))
            .collect(),
        throttle_mask: samples().map(mask).collect(),
        xids: samples().map(|rows| xids(read, rows)).collect(),
    };
    Series::new(times, columns)
}

/// Codes that appeared with one sample, each once.
fn xids(read: &[Read<'_>], rows: &[Key]) -> Vec<i64> {
    let mut codes: Vec<i64> = Vec::new();
    for (_, _, batch, row) in rows {
        let (column, row) = (read[*batch as usize].xid_events, *row as usize);
        if column.is_null(row) || column.value_length(row) == 0 {
            continue;
        }
        let events = column.value(row);
        let texts = events
            .as_string_opt::<i32>()
            .into_iter()
            .flatten()
            .flatten();
        for code in texts.filter_map(|text| text.parse().ok()) {
            if !codes.contains(&code) {
                codes.push(code);
            }
        }
    }
    codes
}

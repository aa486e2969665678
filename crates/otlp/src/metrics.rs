//! The points of a metrics export, read straight from its bytes, without allocation.
//!
//! Field numbers and meanings are those of `metrics.proto`. A body that passed
//! [`crate::export::check`] is walked without an error: the check has read every field of every
//! point. Of the variants of a oneof (`data`, the value of a number point) the last counts, as in
//! prost; the same variant twice was refused by the check. Exemplars are stepped over.

use crate::{
    attribute::Attributes,
    error::Result,
    export::{SpanAt, every_span},
    wire::{Fields, Value as WireValue},
};

/// A metric and what surrounds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricAt<'a> {
    /// `Resource` message; empty if there is none.
    pub resource: &'a [u8],
    /// Offset of the `ResourceMetrics` message in the body: changes when the resource changes.
    pub resource_offset: u32,
    /// `InstrumentationScope` message; empty if there is none.
    pub scope: &'a [u8],
    /// Name.
    pub name: &'a str,
    /// Unit as it was sent (UCUM in OTLP; mostly empty after a Prometheus scrape).
    pub unit: &'a str,
    /// What kind of points it has.
    pub kind: Kind,
    /// What the points of sums and histograms cover.
    pub temporality: Temporality,
    /// Does a sum never fall but when it starts anew? As declared: exporters get it wrong.
    pub is_monotonic: bool,
    /// The message in `data`: its points are in field 1.
    data: &'a [u8],
}

/// Kinds of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// No data, or a kind that this version does not know.
    Unset,
    /// `Gauge`.
    Gauge,
    /// `Sum`.
    Sum,
    /// `Histogram`.
    Histogram,
    /// `ExponentialHistogram`.
    ExponentialHistogram,
    /// `Summary`.
    Summary,
}

/// `AggregationTemporality`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Temporality {
    /// Not sent, or unknown.
    Unspecified,
    /// Since the point before.
    Delta,
    /// Since the start time.
    Cumulative,
}

/// One data point.
#[derive(Clone, Copy, Debug)]
pub struct Point<'a> {
    /// Start of what it covers, in nanoseconds since 1970; 0 if not sent.
    pub start_time_unix_nano: u64,
    /// Its time, in nanoseconds since 1970; 0 if not sent.
    pub time_unix_nano: u64,
    /// `DataPointFlags`.
    pub flags: u32,
    /// Its value.
    pub value: PointValue,
    kind: Kind,
    message: &'a [u8],
}

/// The value of a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PointValue {
    /// A number point without a number.
    None,
    /// `as_double`.
    Double(f64),
    /// `as_int`.
    Int(i64),
    /// Histogram, exponential histogram or summary.
    Distribution {
        /// Number of values.
        count: u64,
        /// Their sum, if it is known (a summary's always is).
        sum: Option<f64>,
    },
}

/// All metrics of a body, in order. Ends after the first error, which a checked body has not.
pub fn metrics(body: &[u8]) -> impl Iterator<Item = Result<MetricAt<'_>>> {
    // Requests of traces and of metrics differ only below the scope.
    every_span(body).map(|at| at.and_then(|at| MetricAt::read(&at)))
}

impl<'a> MetricAt<'a> {
    fn read(at: &SpanAt<'a>) -> Result<Self> {
        let mut metric = Self {
            resource: at.resource,
            resource_offset: at.resource_offset,
            scope: at.scope,
            name: "",
            unit: "",
            kind: Kind::Unset,
            temporality: Temporality::Unspecified,
            is_monotonic: false,
            data: &[],
        };
        let mut fields = Fields::new(at.span);
        while let Some((number, value)) = fields.step()? {
            let kind = match number {
                1 => {
                    metric.name = fields.str_of(number, value)?;
                    continue;
                }
                3 => {
                    metric.unit = fields.str_of(number, value)?;
                    continue;
                }
                5 => Kind::Gauge,
                7 => Kind::Sum,
                9 => Kind::Histogram,
                10 => Kind::ExponentialHistogram,
                11 => Kind::Summary,
                _ => continue,
            };
            metric.kind = kind;
            metric.data = fields.bytes_of(number, value)?;
        }
        metric.read_nature()?;
        Ok(metric)
    }

    /// Temporality and monotony, which only sums and histograms have.
    fn read_nature(&mut self) -> Result<()> {
        if matches!(self.kind, Kind::Unset | Kind::Gauge | Kind::Summary) {
            return Ok(());
        }
        let mut fields = Fields::new(self.data);
        while let Some((number, value)) = fields.step()? {
            match number {
                2 => {
                    self.temporality = match fields.uint32_of(number, value)? {
                        1 => Temporality::Delta,
                        2 => Temporality::Cumulative,
                        _ => Temporality::Unspecified,
                    }
                }
                3 if self.kind == Kind::Sum => {
                    self.is_monotonic = fields.varint_of(number, value)? != 0;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Its points in order. Ends after the first error.
    pub fn points(&self) -> impl Iterator<Item = Result<Point<'a>>> + use<'a> {
        let kind = self.kind;
        let mut fields = Fields::new(self.data);
        std::iter::from_fn(move || {
            loop {
                match fields.next()? {
                    Ok((1, value)) => {
                        return Some(
                            fields
                                .message_of(1, value)
                                .and_then(|point| Point::read(kind, point)),
                        );
                    }
                    Ok(_) => {}
                    Err(error) => return Some(Err(error)),
                }
            }
        })
    }
}

impl<'a> Point<'a> {
    fn read(kind: Kind, mut fields: Fields<'a>) -> Result<Self> {
        let mut point = Self {
            start_time_unix_nano: 0,
            time_unix_nano: 0,
            flags: 0,
            value: PointValue::None,
            kind,
            message: fields.rest(),
        };
        let is_number = matches!(kind, Kind::Gauge | Kind::Sum);
        let flags_field = match kind {
            Kind::Histogram | Kind::ExponentialHistogram => 10,
            _ => 8,
        };
        // proto3 leaves out a count of zero; a summary's sum is not optional.
        let mut count = 0;
        let mut sum = (kind == Kind::Summary).then_some(0.0);
        while let Some((number, value)) = fields.step()? {
            match number {
                2 => point.start_time_unix_nano = fields.fixed64_of(number, value)?,
                3 => point.time_unix_nano = fields.fixed64_of(number, value)?,
                4 if is_number => {
                    let bits = fields.fixed64_of(number, value)?;
                    point.value = PointValue::Double(f64::from_bits(bits));
                }
                6 if is_number => {
                    let bits = fields.fixed64_of(number, value)?;
                    point.value = PointValue::Int(bits.cast_signed());
                }
                4 => count = fields.fixed64_of(number, value)?,
                5 if !is_number => sum = Some(f64::from_bits(fields.fixed64_of(number, value)?)),
                _ if number == flags_field => point.flags = fields.uint32_of(number, value)?,
                _ => {}
            }
        }
        if !is_number {
            point.value = PointValue::Distribution { count, sum };
        }
        Ok(point)
    }

    /// Does it only say that the series has no value any more (`FLAG_NO_RECORDED_VALUE`; a
    /// Collector makes it of Prometheus' staleness marker)? Its value means nothing.
    pub const fn is_no_recorded_value(&self) -> bool {
        self.flags & 1 != 0
    }

    /// Its attributes.
    pub const fn attributes(&self) -> Attributes<'a> {
        let field = match self.kind {
            Kind::Histogram => 9,
            Kind::ExponentialHistogram => 1,
            _ => 7,
        };
        Attributes::new(self.message, field)
    }

    /// Values per bucket of a histogram, not cumulative; nothing for other kinds.
    pub fn bucket_counts(&self) -> impl Iterator<Item = Result<u64>> + use<'a> {
        Numbers::new(
            self.message,
            if self.kind == Kind::Histogram { 6 } else { 0 },
        )
    }

    /// Upper bounds of a histogram's buckets but the last; nothing for other kinds.
    pub fn explicit_bounds(&self) -> impl Iterator<Item = Result<f64>> + use<'a> {
        Numbers::new(
            self.message,
            if self.kind == Kind::Histogram { 7 } else { 0 },
        )
        .map(|bits| bits.map(f64::from_bits))
    }
}

/// A repeated field of eight-byte numbers, packed or not.
#[derive(Clone, Debug)]
struct Numbers<'a> {
    fields: Fields<'a>,
    packed: Fields<'a>,
    /// Its number; 0 for none.
    field: u32,
}

impl<'a> Numbers<'a> {
    const fn new(message: &'a [u8], field: u32) -> Self {
        Self {
            fields: Fields::new(message),
            packed: Fields::new(&[]),
            field,
        }
    }

    fn step(&mut self) -> Result<Option<u64>> {
        loop {
            if let Some(WireValue::Fixed64(number)) = self.packed.packed_step(1)? {
                return Ok(Some(number));
            }
            match self.fields.step()? {
                None => return Ok(None),
                Some((number, value)) if number == self.field => match value {
                    WireValue::Bytes(packed) => self.packed = self.fields.child(packed),
                    _ => return self.fields.fixed64_of(number, value).map(Some),
                },
                Some(_) => {}
            }
        }
    }
}

impl Iterator for Numbers<'_> {
    type Item = Result<u64>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step();
        if step.is_err() {
            *self = Self::new(&[], 0);
        }
        step.transpose()
    }
}

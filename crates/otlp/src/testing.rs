//! Traces for tests: `trace(1).span("GET /", 120.ms()).error().build()` is an export request.
//!
//! Ids follow one pattern ([`tid`], [`sid`]) and times begin at [`T0`], so that expectations can be
//! written by hand. [`exercise_traces`] and [`exercise_json`] are what the fuzz targets run.

mod build;
mod exercise;
mod values;

pub use build::{Export, trace};
pub use exercise::{exercise_json, exercise_metrics, exercise_prometheus, exercise_traces};
pub use values::AnyValue;

use std::time::Duration;

use crate::ids::{SpanId, TraceId};

/// 2026-03-01T12:00:00Z, the start of everything built here, in nanoseconds since 1970.
pub const T0: u64 = 1_772_366_400_000_000_000;

/// A trace id that shows `n` in its third and fourth byte: `7c000001a1b2c3d4e5f60718293a4b5c`.
pub fn tid(n: u32) -> TraceId {
    let [top, high, a, b] = n.to_be_bytes();
    let id = [
        0x7c,
        high,
        a,
        b,
        0xa1,
        0xb2,
        0xc3,
        0xd4,
        0xe5,
        0xf6,
        0x07,
        0x18,
        0x29,
        0x3a,
        0x4b,
        0x5c ^ top,
    ];
    TraceId::from_slice(&id).unwrap_or_else(|_| unreachable!("the id has constant bytes"))
}

/// A span id that shows `n` in its third and fourth byte: `b0000001c0ffee11`.
pub fn sid(n: u32) -> SpanId {
    let [top, high, a, b] = n.to_be_bytes();
    let id = [0xb0, high, a, b, 0xc0, 0xff, 0xee, 0x11 ^ top];
    SpanId::from_slice(&id).unwrap_or_else(|_| unreachable!("the id has constant bytes"))
}

/// Time spans in tests: `120.ms()`.
pub trait TimeSpan {
    /// So many seconds.
    fn s(self) -> Duration;
    /// So many milliseconds.
    fn ms(self) -> Duration;
    /// So many microseconds.
    fn us(self) -> Duration;
}

impl TimeSpan for u64 {
    fn s(self) -> Duration {
        Duration::from_secs(self)
    }

    fn ms(self) -> Duration {
        Duration::from_millis(self)
    }

    fn us(self) -> Duration {
        Duration::from_micros(self)
    }
}

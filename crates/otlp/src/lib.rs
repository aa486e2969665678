//! OTLP bytes to ids, span ranges, summaries and attribute values; JSON to bytes; replies.
//!
//! Bytes stay bytes: an export request is checked once ([`export::check`]), then walked span by
//! span ([`export::spans`]), and of each span only what is asked for is read ([`span`],
//! [`attribute`]); points of metrics likewise ([`metrics`]). None of that allocates. JSON and the text
//! of Prometheus scrapes are turned into protobuf bytes at the door ([`json`], [`prometheus`]), so that
//! there is one representation behind it.
//!
//! Does not know files, time, the network or Arrow. No bytes make it panic, recurse without bound
//! or work longer than a constant per byte.
#![deny(clippy::indexing_slicing, clippy::cast_possible_truncation)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod ids;

pub mod wire;

pub mod export;

pub mod span;

pub mod attribute;

pub mod base64;

pub mod encode;

pub mod scope;

pub mod metrics;

pub mod prometheus;

pub mod json;

pub mod reply;

pub mod reframe;

pub mod retime;

pub mod retrace;

#[cfg(any(test, feature = "testing"))]
pub mod testing;

mod error;
mod schema;

pub use error::{Error, Result};
pub use export::Signal;
pub use ids::{IdError, SpanId, TraceId};

#[cfg(test)]
mod tests;

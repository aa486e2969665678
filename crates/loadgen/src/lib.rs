//! Traffic for a receiver: generated or captured export requests, sent over real OTLP.
//!
//! In reading order: [`traffic`] makes deterministic LLM traces, [`fleet`] those of a simulated fleet whose requests
//! get in each other's way, with its metrics, placements and the truth; [`capture`] reads recorded export
//! requests from files, [`client`] sends either over gRPC, HTTP with protobuf or HTTP with JSON and
//! retries as OTLP asks.
//!
//! Does not know anything of ours but `otlp`, reads no clock, and prints nothing: pacing and
//! reporting are the caller's.

pub mod capture;
pub mod client;
pub mod fleet;
pub mod traffic;

mod error;
mod rng;

pub use error::{Error, Result};

//! The gateway: OTLP comes in, is in the log before it is acknowledged, is decided per trace, and goes on
//! as releases to storage and through exporters to other backends.
//!
//! The route, in the order of the modules: `server` accepts connections and `connection` serves each, `grpc` and `http` read bodies
//! (`body`, `admission`) into the shared edge (`receive`), which checks them and hands them to the intake
//! core (`ingest`); reports of placements and batches come in beside OTLP by gRPC. The core appends, acknowledges, indexes, decides; `release` reads decided traces back
//! from the log. [`scrape`] asks exporters and engines, and hands what they say to the same edge. `status` says what a sender is told, `record` what the log holds, `metrics` what
//! operators see.
//!
//! It does not know Delta or SQL, and not what a request span is: that is given as [`IsRequest`].
//!
//! What holds: an acknowledged export is in the log; a decision that was seen is the decision after a
//! crash; a release has the same sequence and spans whenever it is repeated; everything received is
//! pending, decided or late ([`Conservation`]).

#![warn(clippy::wildcard_enum_match_arm)]

mod connection;
mod gateway;
mod server;

mod grpc;
mod http;

mod admission;
mod body;
mod receive;
mod status;

mod holds;
mod ingest;
mod record;
mod release;
mod replay;
mod threads;

pub mod export;

#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub mod scrape;

mod clock;
mod config;
mod error;
mod metrics;
mod progress;

pub use crate::{
    clock::Clock,
    config::{
        Config, Grpc, Http, Intake, Keepalive, Otlp, Protocols, ServerParameters, Shutdown, Sync,
    },
    error::{Error, Result},
    gateway::{Handle, Health, Start, start},
    ingest::{IsRequest, Reloaded},
    metrics::{Amount, Conservation, Metrics, Points},
    progress::Progress,
    release::{Record, Release, ReleasedLate, ReleasedSpan, ReleasedTrace, Report},
};

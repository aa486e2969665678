//! Requests out of engine spans, and the evidence of what their GPUs did.
//!
//! [`is_request_span`] is asked for every span at intake and looks at almost none of them closely.
//! [`request()`] turns the bytes of one engine span into a row of `requests`: one unit per value,
//! impossible values NULL with a flag, an outcome, a request id that other services know.
//! [`is_call_span`] and [`call()`] are the same for calls to models, as gateways and their callers report them.
//! [`mark_wrappers`], [`link()`] and [`main_request`] look at the requests and calls of one trace together;
//! [`Stitching`] finds the engine requests of other traces that answered a call.
//!
//! [`Placements`] say which pod held which [`Device`] when, and who says so; [`evidence()`] joins kept
//! requests with the samples of their devices, as vectors over sorted series.
//!
//! [`BatchReader`] and [`BatchWindow`] gather the scheduling steps of engines and share their time among the requests in
//! them.
//!
//! [`explain()`] says why one request was slow; [`compare::compare`] what changed between two sides, and what is chance.
//!
//! [`buckets`] are those of every histogram of times; [`throttle_reasons`] and [`xid_name`] name what drivers report as
//! numbers.
//!
//! Does no I/O, reads no clock, and does not know where rows come from or go.

mod call;
mod engine;
mod error;
mod latency;
mod link;
mod outcome;
mod request;
mod request_id;
mod stitch;
mod trace;

mod batch;
mod device;
mod placement;

pub mod compare;
mod explain;
mod join;
mod throttle;
mod xid;

pub mod buckets;

pub use batch::{
    BatchNames, BatchReader, BatchSource, BatchTimes, BatchWindow, ClosedBatches, SeenSpan,
    Settled, ShareMethod, Shares, Sighting, share,
};
pub use call::{Call, call, is_call_span};
pub use device::Device;
pub use engine::is_request_span;
pub use error::{Error, Result};
pub use explain::{
    BatchFact, BatchFacts, BatchSums, Cause, Cohort, Companion, Course, DeviceFact, EngineFact,
    EngineSample, Explanation, Fact, FactRows, FactSource, Facts, Hop, Hypothesis, Link, Neighbour,
    Part, Phase, PhaseTime, Role, SpanFact, Standing, Strength, explain,
};
pub use join::{
    Intervals, KeptRequest, SampleIndex, Settings, Traffic, engine_key, evidence, interval,
};
pub use link::{TraceSpan, link};
pub use placement::{
    CONFIRMED_EVERY_NANOS, Change, Confidence, Event, Held, HeldOnNode, HolderParts, MissingLink,
    Observed, Placement, Placements, Pod, Ranks, Reported, Source,
};
pub use request::request;
pub use request_id::normalise as normalise_request_id;
pub use stitch::{Answer, Stitching};
pub use throttle::reasons as throttle_reasons;
pub use trace::{main_request, mark_wrappers};
pub use xid::name as xid_name;

#[cfg(test)]
mod tests;

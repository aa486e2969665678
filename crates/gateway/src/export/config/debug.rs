//! Settings of the exporter `debug`.

use serde::Deserialize;

use super::{Unused, written};

/// The exporter `debug`: tells what is kept, in the program's log.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Debug {
    /// `basic` (default): a line with counts per request. `normal`: a line per span. `detailed`: all fields of
    /// each span; values of attributes too, except content.
    pub verbosity: Verbosity,
    /// Requests per second that are told. Default 2.
    pub sampling_initial: u32,
    /// Of the further ones in that second, every how many are told; 0 is none. Default 1: all.
    pub sampling_thereafter: u32,
    /// Lines go to the program's log.
    pub use_internal_logger: Unused,
    /// Where the Collector writes without its logger.
    pub output_paths: Unused,
    /// Nothing is queued in memory.
    pub sending_queue: Unused,
}

impl Default for Debug {
    fn default() -> Self {
        Debug {
            verbosity: Verbosity::default(),
            sampling_initial: 2,
            sampling_thereafter: 1,
            use_internal_logger: Unused::default(),
            output_paths: Unused::default(),
            sending_queue: Unused::default(),
        }
    }
}

impl Debug {
    /// Keys that are written and change nothing.
    pub fn unused(&self) -> Vec<&'static str> {
        written(&[
            ("use_internal_logger", self.use_internal_logger),
            ("output_paths", self.output_paths),
            ("sending_queue", self.sending_queue),
        ])
    }
}

/// How much `debug` tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verbosity {
    /// Counts.
    #[default]
    Basic,
    /// A line per span.
    Normal,
    /// Everything but content.
    Detailed,
}

//! Exporters: kept spans leave for other backends.

pub mod client;
pub mod config;
pub mod retry;

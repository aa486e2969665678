//! The messages are those of `proto/`, and what is wrong with a report is named.

mod contract;
mod judged;

//! SQL over a lake in a temporary folder.

mod asked_again;
pub(crate) mod attacks;
mod constants;
mod hostile;
mod limits;
mod needles;
mod plans;
mod reference;
mod rows;
mod slt;
mod small_files;
pub(crate) mod statement_log;
pub(crate) mod support;
mod views;

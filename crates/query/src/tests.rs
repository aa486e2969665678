//! SQL over a lake in a temporary folder.

pub(crate) mod attacks;
mod hostile;
mod limits;
mod plans;
mod rows;
mod slt;
pub(crate) mod support;
mod views;

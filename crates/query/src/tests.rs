//! SQL over a lake in a temporary folder.

pub(crate) mod attacks;
mod hostile;
mod limits;
mod needles;
mod plans;
mod rows;
pub(crate) mod support;
mod views;

//! The join against the case files and against nested loops.

mod cases;
mod naive;
pub(crate) mod support;

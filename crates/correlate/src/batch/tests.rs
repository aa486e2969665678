//! Forms, sums, contradictions, crashes.

mod exactly_once;
mod fleet;
mod forms;
mod hostile;
mod support;

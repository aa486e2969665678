//! `sql_condition`: a truth value over the columns of a trace's row in `traces`, in SQL.
//!
//! The same words select stored rows and sample traces, so a condition can be tried on history first:
//! `whyslow sql "SELECT count(*) FROM traces WHERE <condition>"`.
//!
//! Known are the columns of [`SQL_COLUMNS`], which is what is known of a trace when it is decided; numbers, `TRUE`,
//! `FALSE` and `NULL`; comparisons, `AND`, `OR`, `NOT`, `IN`, `BETWEEN`, `IS [NOT] NULL | TRUE | FALSE | UNKNOWN`,
//! `+ - * / %`, and `array_has(services, 'name')`. Everything else is an error at load that names it. Truth has three
//! values as in SQL: a comparison with `NULL` is unknown, and a trace is sampled only where the whole is true.
//!
//! Limits: [`CHARS_MAX`] characters, [`DEPTH_MAX`] levels. Numbers are compared exactly, an integer is never rounded
//! to a double. Where DataFusion would stop with an error (division by zero, a result beyond 64 bits), the result is
//! unknown. Counting orphans and requests looks at every span of the trace, if a condition asks for it. The text is parsed with `sqlparser`, as DataFusion does; it is compiled once to a small tree.

mod compile;
mod evaluate;
mod problem;

pub use self::compile::SQL_COLUMNS;
pub(crate) use self::evaluate::{Column, Condition, Datum, Row};
pub use self::problem::SqlProblem;

/// Characters of a condition.
const CHARS_MAX: usize = 4_096;

/// Levels of a condition; parsing and evaluating recurse.
const DEPTH_MAX: u32 = 100;

#[cfg(test)]
mod tests;

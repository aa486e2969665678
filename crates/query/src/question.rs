//! A statement with everything that its asker decides.

use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::ScalarValue;

use crate::asker::Asker;
use crate::metrics::Entrance;
use crate::statement_log::Said;

/// Most parameters of a statement; the number of them has 16 bits in the protocol of Postgres.
pub(crate) const PARAMETERS_MAX: usize = 65_535;

/// Whose SQL a statement is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// DataFusion's.
    Own,
    /// The same, and beside it what tools of Postgres ask about names and types.
    Postgres,
}

/// One statement.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    pub(crate) sql: String,
    /// Values of `$1`, `$2` and so on.
    pub(crate) parameters: Vec<ScalarValue>,
    pub(crate) dialect: Dialect,
    /// Most rows that are wanted.
    pub(crate) rows: Option<u64>,
    /// `None`: nobody to count statements for.
    pub(crate) asker: Option<Asker>,
    pub(crate) entrance: Entrance,
    /// Where its text goes that may be logged; `None`: nowhere.
    pub(crate) said: Option<Arc<Said>>,
}

impl Question {
    pub(crate) fn new(sql: impl Into<String>) -> Self {
        Self {
            sql: sql.into(),
            parameters: Vec::new(),
            dialect: Dialect::Own,
            rows: None,
            asker: None,
            entrance: Entrance::Inside,
            said: None,
        }
    }
}

/// What is known of an answer before it is made.
#[derive(Debug, Clone)]
pub(crate) struct Described {
    pub(crate) schema: SchemaRef,
    /// Types of `$1`, `$2` and so on; `None` where the statement does not decide it.
    pub(crate) parameters: Vec<Option<DataType>>,
}

//! Parameters of functions and what is given for them.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::ColumnarValue;

use super::histogram;

/// One parameter.
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
}

impl Parameter {
    pub(super) const fn new(name: &'static str, kind: Kind) -> Self {
        Self { name, kind }
    }
}

/// What may be given for a parameter. A NULL without a type may be given for any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    /// Arrives as `Float64`.
    Number,
    /// Arrives as `Int64`.
    Whole,
    /// Arrives as `Int64` or `Utf8`.
    WholeOrText,
    /// A map from text to text.
    Attributes,
    Histogram,
}

impl Kind {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Number => "a number",
            Self::Whole => "a whole number",
            Self::WholeOrText => "a whole number or text",
            Self::Attributes => "a map from text to text",
            Self::Histogram => "a value of `latency_histogram` or `histogram_merge`",
        }
    }

    pub(super) fn sql_type(self) -> &'static str {
        match self {
            Self::Text => "VARCHAR",
            Self::Number => "DOUBLE",
            Self::Whole => "BIGINT",
            Self::WholeOrText => "BIGINT or VARCHAR",
            Self::Attributes => "MAP(VARCHAR, VARCHAR)",
            Self::Histogram => "HISTOGRAM",
        }
    }

    /// The type that an argument arrives as; `None` for one that is refused.
    pub(super) fn accept(self, given: &DataType) -> Option<DataType> {
        let is_null = given.is_null();
        let accepted = match self {
            Self::Text => (is_text(given) || is_null).then_some(DataType::Utf8),
            Self::Number => (given.is_numeric() || is_null).then_some(DataType::Float64),
            Self::Whole => (given.is_integer() || is_null).then_some(DataType::Int64),
            Self::WholeOrText if is_text(given) => Some(DataType::Utf8),
            Self::WholeOrText => (given.is_integer() || is_null).then_some(DataType::Int64),
            Self::Attributes => is_attributes(given).then(|| given.clone()),
            Self::Histogram => histogram::is_type(given).then(|| given.clone()),
        };
        accepted.or_else(|| is_null.then_some(DataType::Null))
    }
}

fn is_text(given: &DataType) -> bool {
    match given {
        DataType::Dictionary(_, values) => is_text(values),
        other => other.is_string(),
    }
}

fn is_attributes(given: &DataType) -> bool {
    let DataType::Map(entries, _) = given else {
        return false;
    };
    let DataType::Struct(fields) = entries.data_type() else {
        return false;
    };
    fields.len() == 2
        && fields
            .iter()
            .all(|field| field.data_type() == &DataType::Utf8)
}

/// What is given for the parameters, in their order.
pub(super) struct Arguments<'a> {
    pub(super) values: &'a [ColumnarValue],
    pub(super) n_rows: usize,
}

impl Arguments<'_> {
    /// A value for each row.
    pub(super) fn array(&self, idx: usize) -> Result<ArrayRef> {
        match &self.values[idx] {
            ColumnarValue::Array(array) => Ok(Arc::clone(array)),
            ColumnarValue::Scalar(value) => value.to_array_of_size(self.n_rows),
        }
    }

    /// The one value of all rows.
    pub(super) fn constant(&self, idx: usize) -> Option<&ScalarValue> {
        match &self.values[idx] {
            ColumnarValue::Array(_) => None,
            ColumnarValue::Scalar(value) => Some(value),
        }
    }
}

//! Functions of SQL that are ours: what people ask of LLM traffic and DataFusion has no word for.
//!
//! A family is a file. Each function is one [`Function`]: its name, its parameters, what it does, and its documentation, out
//! of which the reference is made. Two adapters hand them to DataFusion, so that all of them treat types alike.
//!
//! # What holds for all
//!
//! - A wrong number or type of arguments is an error when the statement is planned, and says which argument.
//! - Immutable: the same arguments give the same value, and constants are folded.
//! - What is absent is NULL, and so is a value that cannot be, such as a rate of nothing. Garbage in a row is no reason to
//!   fail a statement; a question that has no answer for any row (a quantile of 95) is.
//! - The result of a scalar function is not larger than its arguments, or a few words.
//! - Aggregates count their memory against that of the statement.
//!
//! They must not know tables, sessions or doors.

mod aggregate;
mod arguments;
mod attr;
mod gpu;
mod histogram;
mod ids;
mod quantile;
mod scalar;
mod serving;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{Accumulator, AggregateUDF, Expr, ScalarUDF};

use arguments::{Arguments, Parameter};

/// Every function, by family.
pub(crate) const FAMILIES: [(&str, &[&Function]); 4] = [
    (
        "Attributes and ids",
        &[&attr::ATTR, &ids::TRACE_HEX, &ids::SPAN_HEX],
    ),
    (
        "Quantiles and histograms",
        &[
            &quantile::WEIGHTED_QUANTILE,
            &histogram::LATENCY_HISTOGRAM,
            &histogram::HISTOGRAM_MERGE,
            &histogram::HISTOGRAM_QUANTILE,
            &histogram::HISTOGRAM_COUNT,
            &histogram::HISTOGRAM_SHARE_BELOW,
        ],
    ),
    ("Serving", &[&serving::LENGTH_BAND, &serving::BURN_RATE]),
    ("GPUs", &[&gpu::XID_NAME, &gpu::THROTTLE_REASONS]),
];

/// One function, and what is told of it.
pub(crate) struct Function {
    pub(crate) name: &'static str,
    parameters: &'static [Parameter],
    /// The parameters behind these can be left out.
    n_required: usize,
    returns: fn() -> DataType,
    /// What it gives.
    pub(crate) doc: &'static str,
    /// When it gives NULL.
    pub(crate) null: &'static str,
    /// A statement to try.
    pub(crate) example: &'static str,
    /// The one value of its answer, as text.
    pub(crate) gives: &'static str,
    work: Work,
}

/// What a function does.
enum Work {
    /// One value per row. Only called with arguments whose types are known, which a NULL without a type is not.
    Scalar(fn(&Arguments<'_>) -> Result<ArrayRef>),
    /// One value per group.
    Aggregate(Aggregate),
}

/// How an aggregate works.
struct Aggregate {
    start: fn(&AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>>,
    /// What is handed from part to part, by the name of the column.
    state: fn(&str) -> Vec<FieldRef>,
    /// Looks at constant arguments when the statement is planned.
    check: fn(&[Expr]) -> Result<()>,
}

impl Function {
    pub(crate) fn is_aggregate(&self) -> bool {
        matches!(self.work, Work::Aggregate(_))
    }

    /// `name(first DOUBLE, second DOUBLE [, third DOUBLE])`.
    pub(crate) fn signature(&self) -> String {
        let mut out = format!("{}(", self.name);
        for (idx, parameter) in self.parameters.iter().enumerate() {
            let separator = match idx {
                0 => "",
                idx if idx < self.n_required => ", ",
                _ => " [, ",
            };
            out.push_str(separator);
            out.push_str(&format!("{} {}", parameter.name, parameter.kind.sql_type()));
            if idx >= self.n_required {
                out.push(']');
            }
        }
        out.push(')');
        out
    }

    /// The type of its value.
    pub(crate) fn returns(&self) -> DataType {
        (self.returns)()
    }

    /// The types that these arguments must be brought to.
    fn coerce(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        if !(self.n_required..=self.parameters.len()).contains(&given.len()) {
            let message = format!(
                "it is `{}`; {} arguments are given",
                self.signature(),
                given.len()
            );
            return Err(DataFusionError::Plan(message));
        }
        let types = self.parameters.iter().zip(given).map(|(parameter, given)| {
            parameter.kind.accept(given).ok_or_else(|| {
                let (name, wanted) = (parameter.name, parameter.kind.words());
                let signature = self.signature();
                DataFusionError::Plan(format!(
                    "`{name}` of `{signature}` must be {wanted}, not {given}"
                ))
            })
        });
        types.collect()
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Those that give a value per row.
pub(crate) fn scalars() -> impl Iterator<Item = Arc<ScalarUDF>> {
    all().filter_map(scalar::of)
}

/// Those that give a value per group.
pub(crate) fn aggregates() -> impl Iterator<Item = Arc<AggregateUDF>> {
    all().filter_map(aggregate::of)
}

/// Does this function look into a map?
pub(crate) fn looks_inside(name: &str) -> bool {
    name == attr::ATTR.name
}

fn all() -> impl Iterator<Item = &'static Function> {
    FAMILIES
        .iter()
        .flat_map(|(_, functions)| functions.iter().copied())
}

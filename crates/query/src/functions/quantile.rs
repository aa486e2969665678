//! Exact quantiles of rows that stand for several.
//!
//! # Limits
//!
//! Every value is kept, 16 bytes each, and counted against the memory of the statement: some millions at the default. Beyond it
//! the statement ends with an error that names its limit; a quantile of a `latency_histogram` needs a few KiB whatever the
//! number of rows.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ListArray, RecordBatch};
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type, Schema};
use correlate::compare;
use datafusion::common::cast::{as_float64_array, as_list_array};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{Accumulator, ColumnarValue, Expr};

use super::arguments::{Kind, Parameter};
use super::attr::range;
use super::{Aggregate, Function, Work};

pub(super) static WEIGHTED_QUANTILE: Function = Function {
    name: "weighted_quantile",
    parameters: &[
        Parameter::new("value", Kind::Number),
        Parameter::new("weight", Kind::Number),
        Parameter::new("q", Kind::Number),
    ],
    n_required: 3,
    returns: || DataType::Float64,
    doc: "The smallest value up to which there is a share `q` (a constant from 0 to 1) of all weight: of kept traces with \
          `adjusted_count` as their weight, the quantile of all traffic. Exact: one of the values, not one between two. Rows \
          are ignored whose value or weight is NULL or not finite, or whose weight is not above 0.",
    null: "No row counts.",
    example: "SELECT weighted_quantile(v, w, 0.5) FROM (VALUES (1.0, 1), (2.0, 5), (9.0, 2)) AS t(v, w)",
    gives: "2.0",
    work: Work::Aggregate(Aggregate {
        start,
        state: |name| {
            let list = |part: &str| -> FieldRef {
                Arc::new(Field::new_list(
                    format!("{name}[{part}]"),
                    Field::new_list_field(DataType::Float64, true),
                    true,
                ))
            };
            vec![list("values"), list("weights")]
        },
        check,
    }),
};

/// Place of `q` among the arguments.
const Q: usize = 2;

fn check(arguments: &[Expr]) -> Result<()> {
    match arguments.get(Q) {
        Some(Expr::Literal(value, _)) => share(value).map(|_| ()),
        Some(varying) if !varying.column_refs().is_empty() => Err(varies()),
        // Folded later.
        _ => Ok(()),
    }
}

fn start(arguments: &AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
    let q = arguments.exprs.get(Q).ok_or_else(varies)?;
    let nothing = RecordBatch::new_empty(Arc::new(Schema::empty()));
    let Ok(ColumnarValue::Scalar(q)) = q.evaluate(&nothing) else {
        return Err(varies());
    };
    Ok(Box::new(Values::new(share(&q)?)))
}

fn varies() -> DataFusionError {
    let message = "`q` of `weighted_quantile` must be a constant";
    DataFusionError::Plan(message.to_owned())
}

fn share(value: &ScalarValue) -> Result<f64> {
    let given = match value.cast_to(&DataType::Float64)? {
        ScalarValue::Float64(given) => given,
        _ => None,
    };
    given
        .filter(|q| (0.0..=1.0).contains(q))
        .ok_or_else(|| out_of_range("weighted_quantile", given))
}

/// Names the question that has no answer.
pub(super) fn out_of_range(function: &str, q: Option<f64>) -> DataFusionError {
    let given = q.map_or("NULL".to_owned(), |q| q.to_string());
    DataFusionError::Plan(format!(
        "`q` of `{function}` is a share from 0 to 1, such as 0.95, not {given}"
    ))
}

/// What was seen of a group.
#[derive(Debug)]
pub(super) struct Values {
    q: f64,
    /// Values with their weights.
    pairs: Vec<(f64, f64)>,
}

impl Values {
    pub(super) fn new(q: f64) -> Self {
        Self {
            q,
            pairs: Vec::new(),
        }
    }

    fn add(&mut self, values: &ArrayRef, weights: &ArrayRef) -> Result<()> {
        let (values, weights) = (as_float64_array(values)?, as_float64_array(weights)?);
        let pairs = values.iter().zip(weights);
        self.pairs.extend(pairs.filter_map(|(value, weight)| {
            let (value, weight) = (value?, weight?);
            let counts = value.is_finite() && weight.is_finite() && weight > 0.0;
            counts.then_some((value, weight))
        }));
        Ok(())
    }
}

impl Accumulator for Values {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(&values[0], &values[1])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        // By weight too, so that the sum does not depend on who came first.
        self.pairs
            .sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let weight: f64 = self.pairs.iter().map(|(_, weight)| weight).sum();
        let pairs = self.pairs.iter().copied();
        let value = compare::weighted_quantile(pairs, weight.min(f64::MAX), self.q);
        Ok(ScalarValue::Float64(value))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.pairs.capacity() * size_of::<(f64, f64)>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let list = |numbers: &mut dyn Iterator<Item = f64>| {
            let numbers = [Some(numbers.map(Some))];
            let list = ListArray::from_iter_primitive::<Float64Type, _, _>(numbers);
            ScalarValue::List(Arc::new(list))
        };
        let values = list(&mut self.pairs.iter().map(|(value, _)| *value));
        let weights = list(&mut self.pairs.iter().map(|(_, weight)| *weight));
        Ok(vec![values, weights])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let (values, weights) = (as_list_array(&states[0])?, as_list_array(&states[1])?);
        for row in 0..values.len() {
            // A group of which a part has seen nothing.
            if values.is_null(row) || weights.is_null(row) {
                continue;
            }
            if range(values.value_offsets(), row).len() != range(weights.value_offsets(), row).len()
            {
                let message = "as many weights as values are handed on";
                return Err(DataFusionError::Internal(message.to_owned()));
            }
            self.add(&values.value(row), &weights.value(row))?;
        }
        Ok(())
    }
}

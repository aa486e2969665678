//! Words of serving: lengths of requests, and how fast an error budget is spent.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, StringArray};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::cast::{as_float64_array, as_int64_array};
use tables::requests::band;

use super::arguments::{Arguments, Kind, Parameter};
use super::{Function, Work};

pub(super) static LENGTH_BAND: Function = Function {
    name: "length_band",
    parameters: &[Parameter::new("tokens", Kind::Whole)],
    n_required: 1,
    returns: || DataType::Utf8,
    doc: "The band of a number of tokens, as in `input_band` and `output_band`: lt_128, lt_512, lt_2k, lt_8k, lt_32k, ge_32k.",
    null: "The number is negative.",
    example: "SELECT length_band(1500)",
    gives: "lt_2k",
    work: Work::Scalar(length_band),
};

pub(super) static BURN_RATE: Function = Function {
    name: "burn_rate",
    parameters: &[
        Parameter::new("bad", Kind::Number),
        Parameter::new("total", Kind::Number),
        Parameter::new("objective", Kind::Number),
    ],
    n_required: 3,
    returns: || DataType::Float64,
    doc: "How many times faster than allowed the error budget of an objective is spent: (bad / total) / (1 - objective). 1 \
          spends it exactly in the objective's window.",
    null: "The total is 0, a number is negative or not finite, or the objective is not in [0, 1).",
    example: "SELECT burn_rate(3, 100, 0.75)",
    gives: "0.12",
    work: Work::Scalar(burn_rate),
};

fn length_band(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let tokens = arguments.array(0)?;
    let bands = as_int64_array(&tokens)?.iter();
    let bands = bands.map(|tokens| tokens.filter(|tokens| *tokens >= 0).map(band));
    Ok(Arc::new(bands.collect::<StringArray>()))
}

fn burn_rate(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let (bad, total) = (arguments.array(0)?, arguments.array(1)?);
    let objective = arguments.array(2)?;
    let counts = as_float64_array(&bad)?
        .iter()
        .zip(as_float64_array(&total)?);
    let rates = counts
        .zip(as_float64_array(&objective)?)
        .map(|((bad, total), objective)| rate(bad?, total?, objective?));
    Ok(Arc::new(rates.collect::<Float64Array>()))
}

fn rate(bad: f64, total: f64, objective: f64) -> Option<f64> {
    let is_known = bad >= 0.0 && total > 0.0 && (0.0..1.0).contains(&objective);
    let rate = bad / total / (1.0 - objective);
    (is_known && rate.is_finite() && total.is_finite()).then_some(rate)
}

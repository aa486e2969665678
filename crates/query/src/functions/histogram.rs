//! Histograms of times: counted where the rows are, merged over time or pods, and asked for quantiles at the end, because
//! averages of percentiles mean nothing.
//!
//! A histogram is a list of `{le, count}`: the buckets of [`correlate::buckets`] that hold something, by their upper bound in
//! seconds, each with its own count, not a running sum. So `unnest` makes a heat map of it, and the quantiles are those that
//! Prometheus finds in the native buckets of `/metrics`. Counts are sums of weights, and need not be whole.
//!
//! In reading order: `counts` (one histogram), `rows` (many, in Arrow).

mod counts;
mod rows;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Float64Array};
use arrow::datatypes::{DataType, Field};
use correlate::buckets::bucket;
use datafusion::common::cast::as_float64_array;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Accumulator;

use super::arguments::{Arguments, Kind, Parameter};
use super::quantile::out_of_range;
use super::{Aggregate, Function, Work};
use counts::Counts;
use rows::{Histograms, data_type, to_array};

pub(super) use rows::is_type;

pub(super) static LATENCY_HISTOGRAM: Function = Function {
    name: "latency_histogram",
    parameters: &[
        Parameter::new("value", Kind::Number),
        Parameter::new("weight", Kind::Number),
    ],
    n_required: 1,
    returns: data_type,
    doc: "A histogram of times in seconds, from 122 us to 12 days in buckets that grow by 9 %, which can be merged and asked \
          for quantiles. A row counts with its weight, or as one. Rows are ignored whose value or weight is NULL or not finite, \
          whose value is negative, or whose weight is not above 0.",
    null: "No row counts.",
    example: "SELECT latency_histogram(v) FROM (VALUES (0.5), (1.0), (1.0)) AS t(v)",
    gives: "[{le: 0.5, count: 1.0}, {le: 1.0, count: 2.0}]",
    work: Work::Aggregate(Aggregate {
        start: |_| Ok(Box::new(Counting::new(Given::Times))),
        state,
        check: |_| Ok(()),
    }),
};

pub(super) static HISTOGRAM_MERGE: Function = Function {
    name: "histogram_merge",
    parameters: &[Parameter::new("h", Kind::Histogram)],
    n_required: 1,
    returns: data_type,
    doc: "The sum of histograms: what `latency_histogram` would have made of all their rows.",
    null: "There is no histogram.",
    example: "SELECT histogram_merge(h) FROM (SELECT latency_histogram(v) AS h FROM (VALUES ('a', 0.5), ('b', 1.0), ('b', 1.0)) \
              AS t(pod, v) GROUP BY pod)",
    gives: "[{le: 0.5, count: 1.0}, {le: 1.0, count: 2.0}]",
    work: Work::Aggregate(Aggregate {
        start: |_| Ok(Box::new(Counting::new(Given::Histograms))),
        state,
        check: |_| Ok(()),
    }),
};

pub(super) static HISTOGRAM_QUANTILE: Function = Function {
    name: "histogram_quantile",
    parameters: &[
        Parameter::new("h", Kind::Histogram),
        Parameter::new("q", Kind::Number),
    ],
    n_required: 2,
    returns: || DataType::Float64,
    doc: "The quantile `q` (from 0 to 1) of a histogram, in seconds. Inside its bucket it is interpolated, so that it is off by \
          9 % at most; above 12 days and below 122 us the histogram knows no more.",
    null: "The histogram is NULL or empty, or `q` is NULL.",
    example: "SELECT histogram_quantile(latency_histogram(v), 1) FROM (VALUES (0.5), (1.0), (1.0)) AS t(v)",
    gives: "1.0",
    work: Work::Scalar(quantile),
};

pub(super) static HISTOGRAM_COUNT: Function = Function {
    name: "histogram_count",
    parameters: &[Parameter::new("h", Kind::Histogram)],
    n_required: 1,
    returns: || DataType::Float64,
    doc: "The rows that a histogram counted, by their weights.",
    null: "The histogram is NULL.",
    example: "SELECT histogram_count(latency_histogram(v, w)) FROM (VALUES (0.5, 20), (1.0, 1)) AS t(v, w)",
    gives: "21.0",
    work: Work::Scalar(count),
};

pub(super) static HISTOGRAM_SHARE_BELOW: Function = Function {
    name: "histogram_share_below",
    parameters: &[
        Parameter::new("h", Kind::Histogram),
        Parameter::new("seconds", Kind::Number),
    ],
    n_required: 2,
    returns: || DataType::Float64,
    doc: "The share of a histogram, from 0 to 1, that took at most so many seconds. Exact at the end of a bucket, such as each \
          power of 2; interpolated inside of one.",
    null: "The histogram is NULL or empty, or the time is NULL or NaN.",
    example: "SELECT histogram_share_below(latency_histogram(v), 0.5) FROM (VALUES (0.5), (0.7), (1.0), (1.0)) AS t(v)",
    gives: "0.25",
    work: Work::Scalar(share_below),
};

fn state(name: &str) -> Vec<arrow::datatypes::FieldRef> {
    vec![Arc::new(Field::new(
        format!("{name}[histogram]"),
        data_type(),
        true,
    ))]
}

fn quantile(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    each(arguments, |counts, q| {
        if !(0.0..=1.0).contains(&q) {
            return Err(out_of_range("histogram_quantile", Some(q)));
        }
        Ok(counts.quantile(q))
    })
}

fn share_below(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    each(arguments, |counts, seconds| Ok(counts.share_below(seconds)))
}

/// Asks each histogram with the number beside it.
fn each(
    arguments: &Arguments<'_>,
    ask: impl Fn(&Counts, f64) -> Result<Option<f64>>,
) -> Result<ArrayRef> {
    let (lists, numbers) = (arguments.array(0)?, arguments.array(1)?);
    let histograms = Histograms::new(&lists)?;
    let numbers = as_float64_array(&numbers)?.iter().enumerate();
    let answers = numbers.map(|(row, number)| {
        let (Some(number), Some(counts)) = (number, histograms.row(row)?) else {
            return Ok(None);
        };
        ask(&counts, number)
    });
    Ok(Arc::new(answers.collect::<Result<Float64Array>>()?))
}

fn count(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let lists = arguments.array(0)?;
    let histograms = Histograms::new(&lists)?;
    let totals = (0..lists.len()).map(|row| {
        let counts = histograms.row(row)?;
        Ok(counts.map(|counts| counts.total()))
    });
    Ok(Arc::new(totals.collect::<Result<Float64Array>>()?))
}

/// What an aggregate is given.
#[derive(Debug, Clone, Copy)]
enum Given {
    Times,
    Histograms,
}

/// The histogram of a group.
#[derive(Debug)]
struct Counting {
    given: Given,
    counts: Counts,
}

impl Counting {
    fn new(given: Given) -> Self {
        Self {
            given,
            counts: Counts::default(),
        }
    }

    fn add_times(&mut self, times: &ArrayRef, weights: Option<&ArrayRef>) -> Result<()> {
        let times = as_float64_array(times)?;
        let weights = weights
            .map(|weights| as_float64_array(weights))
            .transpose()?;
        for (row, time) in times.iter().enumerate() {
            let weight = weights.map_or(Some(1.0), |weights| {
                weights.is_valid(row).then(|| weights.value(row))
            });
            if let (Some(idx), Some(weight)) = (time.and_then(bucket), weight) {
                self.counts.add(idx, weight);
            }
        }
        Ok(())
    }
}

impl Accumulator for Counting {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        match self.given {
            Given::Times => self.add_times(&values[0], values.get(1)),
            Given::Histograms => self.merge_batch(values),
        }
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.counts.is_empty() {
            return ScalarValue::try_from(&data_type());
        }
        Ok(ScalarValue::List(Arc::new(to_array(&self.counts)?)))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.counts.heap_bytes()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        if states[0].data_type().is_null() {
            return Ok(());
        }
        let histograms = Histograms::new(&states[0])?;
        for row in 0..states[0].len() {
            if let Some(counts) = histograms.row(row)? {
                self.counts.merge(&counts);
            }
        }
        Ok(())
    }
}

//! Bounds on times that follow from a filter, so that they reach the files.
//!
//! DataFusion pushes a filter through a grouping or a window only where it is about the keys. Two more steps are sound, and views
//! by windows of time or with differences between samples live on them:
//!
//! - **Bins.** A bin begins at most its width before what is in it: of `date_bin(w, t) >= a` follows `t >= a`, and of
//!   `date_bin(w, t) <= b` follows `t <= b + w`.
//! - **Frames.** Where every window function looks at most `p` back and `f` ahead (`RANGE BETWEEN INTERVAL p PRECEDING AND
//!   INTERVAL f FOLLOWING`, ordered by `t` alone), rows with `t >= a` need no rows but those with `t >= a - p`, and rows with
//!   `t <= b` none but those with `t <= b + f`.
//!
//! What follows is added and nothing is taken away, so that an answer cannot change by it: the filter above still decides. Months
//! have no fixed length and are left alone, and so are functions that look at more than their frame (`lag`, `row_number`).
//!
//! It must not know tables or views.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result, ScalarValue};
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Filter, LogicalPlan, Operator, Projection, Window,
    WindowFrameBound, WindowFrameUnits, WindowFunctionDefinition,
};
use datafusion::optimizer::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

const NANOS_PER_DAY: i128 = 86_400_000_000_000;

/// Window functions that look at their frame and at nothing else; aggregates do as well.
const FRAME_FUNCTIONS: [&str; 3] = ["first_value", "last_value", "nth_value"];

/// Adds to a filter, and below the window under it, what follows for times.
#[derive(Debug)]
pub(crate) struct TimeBounds;

impl OptimizerRule for TimeBounds {
    fn name(&self) -> &'static str {
        "time_bounds"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Filter(filter) = plan else {
            return Ok(Transformed::no(plan));
        };
        let conditions = split_conjunction(&filter.predicate).into_iter();
        let bounds: Vec<Bound<'_>> = conditions
            .flat_map(|condition| bounds(condition, &filter.input))
            .collect();
        let in_bins: Vec<Expr> = bounds
            .iter()
            .filter_map(|bound| bound.in_bin(&filter.input))
            .filter(|new| !is_known(&filter.predicate, new))
            .filter(|new| !is_below(&filter.input, new))
            .collect();
        let columns: Vec<ColumnBound> = bounds.iter().filter_map(Bound::on_column).collect();
        let below = below_window(&filter.input, &columns)?;
        if in_bins.is_empty() && below.is_none() {
            return Ok(Transformed::no(LogicalPlan::Filter(filter)));
        }
        let predicate = std::iter::once(filter.predicate.clone()).chain(in_bins);
        let predicate = conjunction(predicate).unwrap_or_else(|| filter.predicate.clone());
        let input = below.map_or_else(|| Arc::clone(&filter.input), Arc::new);
        let filter = Filter::try_new(predicate, input)?;
        Ok(Transformed::yes(LogicalPlan::Filter(filter)))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    /// Not before.
    From,
    /// Not after.
    To,
}

impl Side {
    fn condition(self, column: Column, at: ScalarValue) -> Expr {
        let column = Expr::Column(column);
        let at = Expr::Literal(at, None);
        match self {
            Self::From => column.gt_eq(at),
            Self::To => column.lt_eq(at),
        }
    }
}

/// `of >= at` or `of <= at`, in the type of `of`.
#[derive(Debug)]
struct Bound<'a> {
    side: Side,
    of: &'a Expr,
    at: ScalarValue,
}

/// The same of a column.
#[derive(Debug, Clone)]
struct ColumnBound {
    side: Side,
    column: Column,
    at: ScalarValue,
}

/// What a condition says of a time; strict bounds become wider ones that are not.
fn bounds<'a>(condition: &'a Expr, input: &LogicalPlan) -> Vec<Bound<'a>> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = condition else {
        return Vec::new();
    };
    let (of, op, at) = match (left.as_ref(), right.as_ref()) {
        (of, Expr::Literal(at, _)) => (of, Some(*op), at),
        (Expr::Literal(at, _), of) => (of, op.swap(), at),
        _ => return Vec::new(),
    };
    let sides: &[Side] = match op {
        Some(Operator::Gt | Operator::GtEq) => &[Side::From],
        Some(Operator::Lt | Operator::LtEq) => &[Side::To],
        Some(Operator::Eq) => &[Side::From, Side::To],
        _ => return Vec::new(),
    };
    let Some((of, at)) = in_its_type(of, at, input) else {
        return Vec::new();
    };
    let bound = |side: &Side| Bound {
        side: *side,
        of,
        at: at.clone(),
    };
    sides.iter().map(bound).collect()
}

/// A time without the cast around it, and what it is compared with in its own type: a time is cut to the coarser unit towards 1970,
/// and after it that is never later.
fn in_its_type<'a>(
    of: &'a Expr,
    at: &ScalarValue,
    input: &LogicalPlan,
) -> Option<(&'a Expr, ScalarValue)> {
    let is_time = |data_type: &DataType| matches!(data_type, DataType::Timestamp(..));
    let of = match of {
        Expr::Cast(cast) if is_time(cast.field.data_type()) => cast.expr.as_ref(),
        of => of,
    };
    let data_type = of.get_type(input.schema()).ok()?;
    let is_cut_down = nanos(at).is_some_and(|nanos| nanos >= 0);
    let at = at.cast_to(&data_type).ok()?;
    (is_time(&data_type) && is_cut_down).then_some((of, at))
}

impl Bound<'_> {
    /// What follows for the time that is sorted into bins.
    fn in_bin(&self, input: &LogicalPlan) -> Option<Expr> {
        let Expr::ScalarFunction(call) = self.of else {
            return None;
        };
        let [Expr::Literal(width, _), time, ..] = call.args.as_slice() else {
            return None;
        };
        let width = interval_nanos(width).filter(|_| call.name() == "date_bin")?;
        let at = match self.side {
            Side::From => self.at.clone(),
            Side::To => shifted(&self.at, width)?,
        };
        let (time, at) = in_its_type(time, &at, input)?;
        let Expr::Column(column) = time else {
            return None;
        };
        Some(self.side.condition(column.clone(), at))
    }

    fn on_column(&self) -> Option<ColumnBound> {
        let Expr::Column(column) = self.of else {
            return None;
        };
        Some(ColumnBound {
            side: self.side,
            column: column.clone(),
            at: self.at.clone(),
        })
    }
}

/// The plan with what follows below its window, which may stand under projections; `None` where nothing new follows.
fn below_window(plan: &LogicalPlan, bounds: &[ColumnBound]) -> Result<Option<LogicalPlan>> {
    if bounds.is_empty() {
        return Ok(None);
    }
    match plan {
        LogicalPlan::Projection(projection) => {
            let inner: Vec<ColumnBound> = bounds
                .iter()
                .filter_map(|bound| through(projection, bound))
                .collect();
            let Some(input) = below_window(&projection.input, &inner)? else {
                return Ok(None);
            };
            let projection = Projection::try_new(projection.expr.clone(), Arc::new(input))?;
            Ok(Some(LogicalPlan::Projection(projection)))
        }
        LogicalPlan::Window(window) => {
            let Some(reach) = Reach::of(window) else {
                return Ok(None);
            };
            let new = bounds
                .iter()
                .filter_map(|bound| reach.condition(bound))
                .filter(|new| !is_below(&window.input, new));
            let Some(predicate) = conjunction(new) else {
                return Ok(None);
            };
            let filter = Filter::try_new(predicate, Arc::clone(&window.input))?;
            let input = Arc::new(LogicalPlan::Filter(filter));
            let window = Window::try_new(window.window_expr.clone(), input)?;
            Ok(Some(LogicalPlan::Window(window)))
        }
        _ => Ok(None),
    }
}

/// The bound on the column that a projection only hands on.
fn through(projection: &Projection, bound: &ColumnBound) -> Option<ColumnBound> {
    let index = projection.schema.maybe_index_of_column(&bound.column)?;
    let column = match projection.expr.get(index)?.clone().unalias() {
        Expr::Column(column) => column,
        _ => return None,
    };
    Some(ColumnBound {
        column,
        ..bound.clone()
    })
}

/// How far the functions of a window look along the one column that orders them.
#[derive(Debug)]
struct Reach {
    column: Column,
    back_nanos: i128,
    ahead_nanos: i128,
}

impl Reach {
    fn of(window: &Window) -> Option<Self> {
        let mut all: Option<Self> = None;
        for expr in &window.window_expr {
            let Expr::WindowFunction(function) = expr.clone().unalias() else {
                return None;
            };
            let one = Self::of_function(&function)?;
            all = Some(match all {
                None => one,
                Some(all) if all.column == one.column => Self {
                    column: all.column,
                    back_nanos: all.back_nanos.max(one.back_nanos),
                    ahead_nanos: all.ahead_nanos.max(one.ahead_nanos),
                },
                Some(_) => return None,
            });
        }
        all
    }

    fn of_function(function: &WindowFunction) -> Option<Self> {
        let keeps_to_its_frame = match &function.fun {
            WindowFunctionDefinition::AggregateUDF(_) => true,
            WindowFunctionDefinition::WindowUDF(fun) => FRAME_FUNCTIONS.contains(&fun.name()),
        };
        let frame = &function.params.window_frame;
        let [order] = function.params.order_by.as_slice() else {
            return None;
        };
        let Expr::Column(column) = &order.expr else {
            return None;
        };
        if !keeps_to_its_frame || frame.units != WindowFrameUnits::Range || !order.asc {
            return None;
        }
        let back_nanos = match &frame.start_bound {
            WindowFrameBound::Preceding(back) => interval_nanos(back)?,
            WindowFrameBound::CurrentRow => 0,
            WindowFrameBound::Following(ahead) => interval_nanos(ahead).map(|_| 0)?,
        };
        let ahead_nanos = match &frame.end_bound {
            WindowFrameBound::Following(ahead) => interval_nanos(ahead)?,
            WindowFrameBound::CurrentRow => 0,
            WindowFrameBound::Preceding(back) => interval_nanos(back).map(|_| 0)?,
        };
        Some(Self {
            column: column.clone(),
            back_nanos,
            ahead_nanos,
        })
    }

    fn condition(&self, bound: &ColumnBound) -> Option<Expr> {
        if bound.column.name != self.column.name {
            return None;
        }
        let nanos = match bound.side {
            Side::From => -self.back_nanos,
            Side::To => self.ahead_nanos,
        };
        let at = shifted(&bound.at, nanos)?;
        Some(bound.side.condition(self.column.clone(), at))
    }
}

/// Nanoseconds of an interval of fixed length that does not lead back.
fn interval_nanos(interval: &ScalarValue) -> Option<i128> {
    let nanos = match interval {
        ScalarValue::IntervalMonthDayNano(Some(interval)) if interval.months == 0 => {
            i128::from(interval.days) * NANOS_PER_DAY + i128::from(interval.nanoseconds)
        }
        ScalarValue::IntervalDayTime(Some(interval)) => {
            i128::from(interval.days) * NANOS_PER_DAY
                + i128::from(interval.milliseconds) * 1_000_000
        }
        _ => return None,
    };
    (nanos >= 0).then_some(nanos)
}

/// Nanoseconds since 1970 of a time.
fn nanos(time: &ScalarValue) -> Option<i128> {
    Some(match time {
        ScalarValue::TimestampSecond(Some(time), _) => i128::from(*time) * 1_000_000_000,
        ScalarValue::TimestampMillisecond(Some(time), _) => i128::from(*time) * 1_000_000,
        ScalarValue::TimestampMicrosecond(Some(time), _) => i128::from(*time) * 1_000,
        ScalarValue::TimestampNanosecond(Some(time), _) => i128::from(*time),
        _ => return None,
    })
}

/// A time moved, in its own unit; what is between two units goes away from where it came.
fn shifted(time: &ScalarValue, by_nanos: i128) -> Option<ScalarValue> {
    let unit = match time {
        ScalarValue::TimestampMicrosecond(..) => 1_000,
        ScalarValue::TimestampNanosecond(..) => 1,
        _ => return None,
    };
    let units = (by_nanos.abs() + unit - 1) / unit * by_nanos.signum();
    let moved = i64::try_from(nanos(time)? / unit + units).ok()?;
    Some(match time {
        ScalarValue::TimestampMicrosecond(_, zone) => {
            ScalarValue::TimestampMicrosecond(Some(moved), zone.clone())
        }
        ScalarValue::TimestampNanosecond(_, zone) => {
            ScalarValue::TimestampNanosecond(Some(moved), zone.clone())
        }
        _ => return None,
    })
}

/// Does a predicate say this already? Qualifiers do not matter: names below are those of one input.
fn is_known(predicate: &Expr, new: &Expr) -> bool {
    let key = |expr: &Expr| match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match (left.as_ref(), right.as_ref()) {
            (Expr::Column(column), Expr::Literal(at, _)) => {
                Some((column.name.clone(), *op, at.clone()))
            }
            _ => None,
        },
        _ => None,
    };
    let new = key(new);
    split_conjunction(predicate)
        .into_iter()
        .any(|known| key(known).is_some_and(|known| Some(known) == new))
}

/// Is it said anywhere below? The optimizer looks at a plan several times, and has moved it there.
fn is_below(plan: &LogicalPlan, new: &Expr) -> bool {
    let found = plan.exists(|node| {
        Ok(match node {
            LogicalPlan::Filter(filter) => is_known(&filter.predicate, new),
            LogicalPlan::TableScan(scan) => scan.filters.iter().any(|known| is_known(known, new)),
            _ => false,
        })
    });
    found.unwrap_or(false)
}

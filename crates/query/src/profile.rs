//! Two ways to read files, chosen from the statement.
//!
//! - **Needle or list** evaluates filters inside the Parquet reader, cheap columns first, and declares
//!   the order of the files, so that `WHERE trace_id = ..` decodes a few pages and `ORDER BY
//!   start_time DESC LIMIT n` reads newest first and stops (`storage.md` 2.9: 5x and 30x).
//! - **Scan** evaluates filters on whole batches and lets threads steal files from each other, which
//!   is 30 to 60 % faster where most rows are wanted or a filter looks into a map.
//!
//! The choice, on the plan as written (views are already expanded):
//!
//! 1. a filter that fixes an identifier (`trace_id = 'x'`, `request_id IN (..)`: a column with a bloom
//!    filter) is a needle;
//! 2. otherwise an `ORDER BY` without aggregation, windows or filters on map keys is a list;
//! 3. everything else is a scan.
//!
//! A wrong choice costs time, never rows.

use std::collections::HashSet;

use datafusion::common::Result as DataFusionResult;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator};

/// How files are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Filters inside the reader, order declared.
    NeedleOrList,
    /// Filters on batches, files shared among threads.
    Scan,
}

/// Chooses the profile of a plan.
pub(crate) fn of(plan: &LogicalPlan) -> DataFusionResult<Profile> {
    let keys: HashSet<&str> = tables::all()
        .into_iter()
        .flat_map(|spec| spec.bloom.iter().copied())
        .collect();
    let mut seen = Seen::default();
    plan.apply_with_subqueries(|node| {
        match node {
            LogicalPlan::Filter(filter) => {
                for condition in split_conjunction(&filter.predicate) {
                    seen.is_needle |= fixes_key(condition, &keys);
                    seen.has_deep_filter |= looks_inside(condition)?;
                }
            }
            LogicalPlan::Sort(_) => seen.has_order = true,
            LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) | LogicalPlan::Distinct(_) => {
                seen.needs_all_rows = true;
            }
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(seen.profile())
}

#[derive(Debug, Default)]
struct Seen {
    is_needle: bool,
    has_order: bool,
    needs_all_rows: bool,
    has_deep_filter: bool,
}

impl Seen {
    fn profile(&self) -> Profile {
        let is_list = self.has_order && !self.needs_all_rows && !self.has_deep_filter;
        if self.is_needle || is_list {
            Profile::NeedleOrList
        } else {
            Profile::Scan
        }
    }
}

/// `key = 'x'`, `'x' = key` or `key IN ('x', ..)`.
fn fixes_key(condition: &Expr, keys: &HashSet<&str>) -> bool {
    let is_key =
        |expr: &Expr| matches!(expr, Expr::Column(column) if keys.contains(column.name.as_str()));
    let is_literal = |expr: &Expr| matches!(expr, Expr::Literal(..));
    match condition {
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Eq,
            right,
        }) => (is_key(left) && is_literal(right)) || (is_literal(left) && is_key(right)),
        Expr::InList(list) => {
            !list.negated && is_key(&list.expr) && list.list.iter().all(is_literal)
        }
        _ => false,
    }
}

/// Does the condition look into a map, list or struct?
fn looks_inside(condition: &Expr) -> DataFusionResult<bool> {
    condition.exists(|expr| {
        let Expr::ScalarFunction(call) = expr else {
            return Ok(false);
        };
        Ok(matches!(
            call.name(),
            "get_field" | "map_extract" | "element_at" | "array_element" | "array_has" | "map_keys"
        ))
    })
}

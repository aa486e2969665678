//! Four ways to read files, chosen from the statement.
//!
//! - **Needle** evaluates filters inside the Parquet reader, cheap columns first, so that
//!   `WHERE trace_id = ..` decodes a few pages (`storage.md` 2.9: 5x). What is left of a file is one piece: a second
//!   thread would open it again for nothing.
//! - **Top** does the same with files cut for all threads, for an `ORDER BY` that no file has.
//! - **List** does the same and declares the order of the files, so that `ORDER BY start_time DESC
//!   LIMIT n` reads newest first and stops (30x).
//! - **Scan** evaluates filters on whole batches and lets threads steal files from each other, which
//!   is 30 to 60 % faster where most rows are wanted or a filter looks into a map.
//!
//! The choice, on the plan as written (views are already expanded):
//!
//! 1. a filter that fixes an identifier (`trace_id = 'x'`, `request_id IN (..)`: a column with a bloom
//!    filter) is a needle;
//! 2. otherwise an `ORDER BY` without aggregation, windows or filters on map keys is a list if it
//!    begins with the column by which a table is sorted, else a top;
//! 3. everything else is a scan.
//!
//! A wrong choice costs time, never rows.

use std::collections::HashSet;

use datafusion::catalog::Session;
use datafusion::common::Result as DataFusionResult;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator};

use crate::id_index::ID_COLUMNS;
use crate::{functions, pruning};

/// How files are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Filters inside the reader, files not cut.
    Needle,
    /// Filters inside the reader.
    Top,
    /// Filters inside the reader, order declared.
    List,
    /// Filters on batches, files shared among threads.
    Scan,
}

/// The profile of the session's statement.
pub(crate) fn in_force(session: &dyn Session) -> Profile {
    session
        .config()
        .get_extension::<Profile>()
        .map_or(Profile::Scan, |profile| *profile)
}

/// Chooses the profile of a plan.
pub(crate) fn of(plan: &LogicalPlan) -> DataFusionResult<Profile> {
    let specs = tables::all();
    let leading: HashSet<&str> = specs
        .iter()
        .filter_map(|spec| spec.sort.first())
        .flat_map(|key| [Some(key.column), pruning::twin(key.column)])
        .flatten()
        .collect();
    let mut seen = Seen::default();
    plan.apply_with_subqueries(|node| {
        match node {
            LogicalPlan::Filter(filter) => {
                for condition in split_conjunction(&filter.predicate) {
                    seen.is_needle |= fixes_key(condition);
                    seen.has_deep_filter |= looks_inside(condition)?;
                }
            }
            LogicalPlan::Sort(sort) => {
                seen.has_order = true;
                if let Some(Expr::Column(first)) = sort.expr.first().map(|first| &first.expr) {
                    seen.has_leading_order |= leading.contains(first.name.as_str());
                }
            }
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
    has_leading_order: bool,
    needs_all_rows: bool,
    has_deep_filter: bool,
}

impl Seen {
    fn profile(&self) -> Profile {
        let wants_the_first = self.has_order && !self.needs_all_rows && !self.has_deep_filter;
        if self.is_needle {
            Profile::Needle
        } else if !wants_the_first {
            Profile::Scan
        } else if self.has_leading_order {
            Profile::List
        } else {
            Profile::Top
        }
    }
}

/// `key = 'x'`, `'x' = key` or `key IN ('x', ..)`.
fn fixes_key(condition: &Expr) -> bool {
    let is_key = |expr: &Expr| matches!(expr, Expr::Column(column) if ID_COLUMNS.contains(column.name.as_str()));
    // `trace_id = trace_hex('..')` is folded later.
    let is_literal = |expr: &Expr| match expr {
        Expr::Literal(..) | Expr::Placeholder(_) => true,
        Expr::ScalarFunction(call) => {
            let is_folded = |argument: &Expr| matches!(argument, Expr::Literal(..));
            !expr.is_volatile_node() && call.args.iter().all(is_folded)
        }
        _ => false,
    };
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
        let is_of_datafusion = matches!(
            call.name(),
            "get_field" | "map_extract" | "element_at" | "array_element" | "array_has" | "map_keys"
        );
        Ok(is_of_datafusion || functions::looks_inside(call.name()))
    })
}

//! Plans of statements that were asked before.
//!
//! Limits first: the [`PLANS_MAX`] shapes that were asked last are kept.
//!
//! A panel, a page or a script asks the same statement again with another trace id ([`Shape`](crate::statement::Shape)).
//! From text to optimized plan is up to a third of what such a statement takes, and the same each time: it is kept, and each
//! statement puts its own identifiers in, and its own tables, with the rows that there are when it begins.
//!
//! # Decided
//!
//! **Kept before the clock is read.** The optimizer replaces `now()` by the time of the statement. A plan with a function
//! whose value is of the moment is kept as it is before that.
//!
//! **Only tables of the lake.** Plans that read anything else (names, generated series, a recursion) are made each time.
//!
//! Does not: know files, or plan their reading, which differs each time.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::catalog::default_table_source::{provider_as_source, source_as_provider};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result as DataFusionResult, ScalarValue};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, TableScan, Volatility};
use lru::LruCache;

use crate::catalog::StatementSchema;
use crate::profile::{self, Profile};
use crate::scan::LakeTable;

/// Some hundred kilobytes each, for a join of wide views.
const PLANS_MAX: NonZeroUsize = NonZeroUsize::MIN.saturating_add(63);

/// Plans by the text of their shape; `None`: such a plan is not kept.
#[derive(Debug)]
pub(crate) struct Plans {
    known: Mutex<LruCache<String, Option<Arc<Plan>>>>,
}

/// The plan of a shape.
#[derive(Debug)]
pub(crate) struct Plan {
    logical: LogicalPlan,
    pub(crate) is_optimized: bool,
    pub(crate) profile: Profile,
}

impl Default for Plans {
    fn default() -> Self {
        Self {
            known: Mutex::new(LruCache::new(PLANS_MAX)),
        }
    }
}

impl Plans {
    /// What is known of a shape: nothing, that its plan is not kept, or its plan.
    pub(crate) fn get(&self, text: &str) -> Option<Option<Arc<Plan>>> {
        self.known().get(text).cloned()
    }

    /// Keeps a plan, in place of the one that was not used for longest if there are too many.
    pub(crate) fn keep(&self, text: String, plan: Option<Arc<Plan>>) {
        self.known().put(text, plan);
    }

    /// A panic while the lock was held leaves whole plans.
    fn known(&self) -> MutexGuard<'_, LruCache<String, Option<Arc<Plan>>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Plan {
    /// Of the logical plan of a shape; `None` if it may not be kept.
    pub(crate) fn of(logical: LogicalPlan, state: &SessionState) -> DataFusionResult<Option<Self>> {
        if !reads_only_the_lake(&logical)? {
            return Ok(None);
        }
        let profile = profile::of(&logical)?;
        let is_optimized = !is_of_the_moment(&logical)?;
        let logical = if is_optimized {
            state.optimize(&logical)?
        } else {
            logical
        };
        Ok(Some(Self {
            logical,
            is_optimized,
            profile,
        }))
    }

    /// The plan of one statement: with its tables and its identifiers.
    pub(crate) fn bound(
        &self,
        names: &StatementSchema,
        ids: &[String],
    ) -> DataFusionResult<LogicalPlan> {
        let bound = self.logical.clone().transform_up_with_subqueries(|node| {
            let node = match node {
                LogicalPlan::TableScan(scan) => LogicalPlan::TableScan(of_statement(scan, names)?),
                node => node,
            };
            node.map_expressions(|expr| expr.transform_up(|expr| with_id(expr, ids)))
        })?;
        Ok(bound.data)
    }
}

fn of_statement(scan: TableScan, names: &StatementSchema) -> DataFusionResult<TableScan> {
    let table = source_as_provider(&scan.source)?;
    let table = table
        .downcast_ref::<LakeTable>()
        .and_then(|table| names.lake_table(table.name()));
    let table = table.ok_or_else(|| {
        DataFusionError::Internal(format!("no table `{}` of the lake", scan.table_name))
    })?;
    Ok(TableScan {
        source: provider_as_source(table),
        ..scan
    })
}

fn with_id(expr: Expr, ids: &[String]) -> DataFusionResult<Transformed<Expr>> {
    let Expr::Placeholder(parameter) = &expr else {
        return Ok(Transformed::no(expr));
    };
    let number = parameter.id.strip_prefix('$');
    let number = number.and_then(|digits| digits.parse::<usize>().ok());
    let id = number.and_then(|number| ids.get(number.checked_sub(1)?));
    let id = id.ok_or_else(|| {
        DataFusionError::Internal(format!("no identifier for `{}`", parameter.id))
    })?;
    let id = ScalarValue::Utf8(Some(id.clone()));
    Ok(Transformed::yes(Expr::Literal(id, None)))
}

fn reads_only_the_lake(plan: &LogicalPlan) -> DataFusionResult<bool> {
    let mut is_lake = true;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            let table = source_as_provider(&scan.source)?;
            is_lake &= table.downcast_ref::<LakeTable>().is_some();
        }
        Ok(if is_lake {
            TreeNodeRecursion::Continue
        } else {
            TreeNodeRecursion::Stop
        })
    })?;
    Ok(is_lake)
}

/// Has it a function whose value depends on when it is asked?
fn is_of_the_moment(plan: &LogicalPlan) -> DataFusionResult<bool> {
    let mut is_of_the_moment = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            is_of_the_moment |= expr.exists(|expr| {
                let volatility = match expr {
                    Expr::ScalarFunction(call) => call.func.signature().volatility,
                    _ => Volatility::Immutable,
                };
                Ok(volatility != Volatility::Immutable)
            })?;
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(is_of_the_moment)
}

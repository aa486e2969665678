//! The rule that turns cross joins into joins, kept away from plans that it would answer wrongly.
//!
//! DataFusion 55.2 takes a chain of inner joins apart and puts it together anew. A join key with columns of several of the joined
//! relations on one side (`a CROSS JOIN b JOIN c ON c.x = a.x + b.x`) finds no place in the new chain where it is between two
//! inputs, and is dropped: the answer has too many rows, without an error. It also gives all joins of the chain what one of them says
//! of absent values (`=` or `IS NOT DISTINCT FROM`). Such plans stay as they were written.
//!
//! It must not know tables or views.

use std::collections::HashSet;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::eliminate_cross_join::EliminateCrossJoin;
use datafusion::optimizer::optimizer::{OptimizerConfig, OptimizerRule};

/// [`EliminateCrossJoin`] where it keeps every key.
#[derive(Debug, Default)]
pub(crate) struct SoundCrossJoin(EliminateCrossJoin);

impl OptimizerRule for SoundCrossJoin {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        if would_change(&plan)? {
            return Ok(Transformed::no(plan));
        }
        self.0.rewrite(plan, config)
    }
}

fn would_change(plan: &LogicalPlan) -> Result<bool> {
    let (mut found, mut null_equality) = (false, None);
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Join(join) = node {
            let mut sides = join.on.iter().flat_map(|(left, right)| [left, right]);
            found |= sides.any(is_of_several);
            if !join.on.is_empty() {
                let first = *null_equality.get_or_insert(join.null_equality);
                found |= first != join.null_equality;
            }
        }
        Ok(if found {
            TreeNodeRecursion::Stop
        } else {
            TreeNodeRecursion::Continue
        })
    })?;
    Ok(found)
}

/// Columns without a qualifier can be of any relation.
fn is_of_several(side: &Expr) -> bool {
    let columns = side.column_refs();
    let relations: HashSet<_> = columns.iter().map(|column| &column.relation).collect();
    relations.len() > 1 || (columns.len() > 1 && relations.contains(&None))
}

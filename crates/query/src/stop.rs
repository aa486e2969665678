//! Makes a running statement stop when nobody waits for its answer.
//!
//! DataFusion stops where a stream yields, and it yields at its sources. A join can compute for minutes
//! between two rows of its sources: most pairs of a nested loop fail the condition, and nothing is given
//! out. So the condition of a join looks at a flag each time it is evaluated (once per some thousand
//! pairs), and what a join gives out counts as work, so that the scheduler gets its turn.

use std::fmt::{self, Display, Formatter};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::{FieldRef, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::common::{DataFusionError, Result as DataFusionResult};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder, SortMergeJoinExec,
};

/// Says "stop" to a statement when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct StopOnDrop {
    flag: Flag,
}

/// Shared by a statement and its reader.
#[derive(Debug, Default, Clone)]
pub(crate) struct Flag(Arc<AtomicBool>);

impl Flag {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl StopOnDrop {
    pub(crate) fn flag(&self) -> Flag {
        self.flag.clone()
    }

    pub(crate) fn stop(&self) {
        self.flag.set();
    }
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The same plan, whose joins stop when the flag is set.
pub(crate) fn stoppable(
    plan: Arc<dyn ExecutionPlan>,
    flag: &Flag,
) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
    let stoppable = plan.transform_up(|node| {
        let join: Arc<dyn ExecutionPlan> =
            if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
                let filter = join.filter().map(|filter| watched(filter, flag));
                let builder = NestedLoopJoinExecBuilder::new(
                    Arc::clone(join.left()),
                    Arc::clone(join.right()),
                    *join.join_type(),
                );
                let projection = join.projection().clone();
                Arc::new(
                    builder
                        .with_filter(filter)
                        .with_projection_ref(projection)
                        .build()?,
                )
            } else if let Some(join) = node.downcast_ref::<HashJoinExec>() {
                let filter = join.filter().map(|filter| watched(filter, flag));
                join.builder().with_filter(filter).build_exec()?
            } else if node.is::<CrossJoinExec>() || node.is::<SortMergeJoinExec>() {
                node
            } else {
                return Ok(Transformed::no(node));
            };
        Ok(Transformed::yes(Arc::new(CooperativeExec::new(join)) as _))
    })?;
    Ok(stoppable.data)
}

fn watched(filter: &JoinFilter, flag: &Flag) -> JoinFilter {
    let expression = Watched {
        inner: Arc::clone(filter.expression()),
        flag: flag.clone(),
    };
    JoinFilter::new(
        Arc::new(expression),
        filter.column_indices().to_vec(),
        Arc::clone(filter.schema()),
    )
}

/// An expression that fails once the flag is set.
#[derive(Debug)]
struct Watched {
    inner: Arc<dyn PhysicalExpr>,
    flag: Flag,
}

impl PhysicalExpr for Watched {
    fn return_field(&self, input_schema: &Schema) -> DataFusionResult<FieldRef> {
        self.inner.return_field(input_schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> DataFusionResult<ColumnarValue> {
        if self.flag.0.load(Ordering::Relaxed) {
            return Err(DataFusionError::Execution(
                "nobody waits for the answer".to_owned(),
            ));
        }
        self.inner.evaluate(batch)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.inner]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> DataFusionResult<Arc<dyn PhysicalExpr>> {
        let [inner] = <[_; 1]>::try_from(children).map_err(|children| {
            DataFusionError::Internal(format!("{} expressions instead of one", children.len()))
        })?;
        let flag = self.flag.clone();
        Ok(Arc::new(Self { inner, flag }))
    }

    fn fmt_sql(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.inner.fmt_sql(f)
    }
}

impl Display for Watched {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl PartialEq for Watched {
    fn eq(&self, other: &Self) -> bool {
        self.inner.eq(&other.inner)
    }
}

impl Eq for Watched {}

impl Hash for Watched {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

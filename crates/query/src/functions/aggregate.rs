//! Functions with a value per group, as DataFusion takes them.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::function::{
    AccumulatorArgs, AggregateFunctionSimplification, StateFieldsArgs,
};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Expr, Signature, Volatility,
};

use super::{Aggregate, Function, Work};

/// A function that is an aggregate.
#[derive(Debug)]
struct PerGroup {
    function: &'static Function,
    signature: Signature,
}

/// As DataFusion takes it; `None` of a scalar function.
pub(super) fn of(function: &'static Function) -> Option<Arc<AggregateUDF>> {
    function.is_aggregate().then(|| {
        Arc::new(AggregateUDF::new_from_impl(PerGroup {
            function,
            signature: Signature::user_defined(Volatility::Immutable),
        }))
    })
}

impl PerGroup {
    fn work(&self) -> Result<&'static Aggregate> {
        match &self.function.work {
            Work::Aggregate(aggregate) => Ok(aggregate),
            Work::Scalar(_) => {
                let message = format!("`{}` is no aggregate", self.function.name);
                Err(DataFusionError::Internal(message))
            }
        }
    }
}

// Names are unique.
impl PartialEq for PerGroup {
    fn eq(&self, other: &Self) -> bool {
        self.function.name == other.function.name
    }
}

impl Eq for PerGroup {}

impl Hash for PerGroup {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.function.name.hash(state);
    }
}

impl AggregateUDFImpl for PerGroup {
    fn name(&self) -> &str {
        self.function.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(self.function.returns())
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.function.coerce(arg_types)
    }

    fn accumulator(&self, acc_args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if acc_args.is_distinct {
            return Err(distinct(self.function));
        }
        (self.work()?.start)(&acc_args)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        Ok((self.work()?.state)(args.name))
    }

    /// Nothing is made simpler; it is the place where arguments are known and an error is one of planning.
    fn simplify(&self) -> Option<AggregateFunctionSimplification> {
        let function = self.function;
        let check = self.work().ok()?.check;
        Some(Box::new(move |call: AggregateFunction, _| {
            if call.params.distinct {
                return Err(distinct(function));
            }
            check(&call.params.args)?;
            Ok(Expr::AggregateFunction(call))
        }))
    }
}

fn distinct(function: &Function) -> DataFusionError {
    let name = function.name;
    DataFusionError::Plan(format!(
        "`{name}` counts every row; leave out DISTINCT, or apply it to the rows in a subquery"
    ))
}

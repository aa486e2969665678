//! Functions with a value per row, as DataFusion takes them.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::arguments::Arguments;
use super::{Function, Work};

/// A function that is not an aggregate.
#[derive(Debug)]
struct Scalar {
    function: &'static Function,
    work: fn(&Arguments<'_>) -> Result<arrow::array::ArrayRef>,
    signature: Signature,
}

/// As DataFusion takes it; `None` of an aggregate.
pub(super) fn of(function: &'static Function) -> Option<Arc<ScalarUDF>> {
    let Work::Scalar(work) = function.work else {
        return None;
    };
    Some(Arc::new(ScalarUDF::new_from_impl(Scalar {
        function,
        work,
        signature: Signature::user_defined(Volatility::Immutable),
    })))
}

// Names are unique.
impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        self.function.name == other.function.name
    }
}

impl Eq for Scalar {}

impl Hash for Scalar {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.function.name.hash(state);
    }
}

impl ScalarUDFImpl for Scalar {
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

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if args.args.iter().any(|value| value.data_type().is_null()) {
            let null = ScalarValue::try_from(args.return_type())?;
            return Ok(ColumnarValue::Scalar(null));
        }
        let is_constant = |value: &ColumnarValue| matches!(value, ColumnarValue::Scalar(_));
        if args.args.iter().all(is_constant) {
            let arguments = Arguments {
                values: &args.args,
                n_rows: 1,
            };
            let value = ScalarValue::try_from_array(&(self.work)(&arguments)?, 0)?;
            return Ok(ColumnarValue::Scalar(value));
        }
        let arguments = Arguments {
            values: &args.args,
            n_rows: args.number_rows,
        };
        Ok(ColumnarValue::Array((self.work)(&arguments)?))
    }
}

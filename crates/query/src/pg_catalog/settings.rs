//! Settings that clients look at: by `SHOW`, by `current_setting`, and as rows of `pg_settings`. Nothing sets them.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, StringArray, new_null_array};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::common::{DataFusionError, Result as DataFusionResult};
use datafusion::datasource::MemTable;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};

use super::SERVER_VERSION;
use crate::catalog::SCHEMA;

/// With the values that hold here.
const SETTINGS: [(&str, &str); 21] = [
    ("bytea_output", "hex"),
    ("client_encoding", "UTF8"),
    ("datestyle", "ISO, MDY"),
    ("default_transaction_isolation", "read committed"),
    ("default_transaction_read_only", "on"),
    ("extra_float_digits", "1"),
    ("in_hot_standby", "off"),
    ("integer_datetimes", "on"),
    ("intervalstyle", "postgres"),
    ("is_superuser", "off"),
    ("lc_collate", "C"),
    ("max_identifier_length", "63"),
    ("max_index_keys", "32"),
    ("search_path", SCHEMA),
    ("server_encoding", "UTF8"),
    ("server_version", SERVER_VERSION),
    ("server_version_num", "160006"),
    ("standard_conforming_strings", "on"),
    ("timezone", "UTC"),
    ("transaction_isolation", "read committed"),
    ("transaction_read_only", "on"),
];

/// The value of a setting that clients look at.
pub(crate) fn setting(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    let found = SETTINGS.iter().find(|(known, _)| *known == name);
    found.map(|(_, value)| *value)
}

/// The rows of `pg_settings`, whose columns are given.
pub(super) fn table(schema: &SchemaRef) -> DataFusionResult<Arc<dyn TableProvider>> {
    let names = SETTINGS.iter().map(|(name, _)| Some(*name));
    let values = SETTINGS.iter().map(|(_, value)| Some(*value));
    let columns = schema
        .fields()
        .iter()
        .map(|field| match field.name().as_str() {
            "name" => Arc::new(names.clone().collect::<StringArray>()) as ArrayRef,
            "setting" => Arc::new(values.clone().collect::<StringArray>()) as ArrayRef,
            _ => new_null_array(field.data_type(), SETTINGS.len()),
        });
    let rows = RecordBatch::try_new(Arc::clone(schema), columns.collect())?;
    let table = MemTable::try_new(Arc::clone(schema), vec![vec![rows]])?;
    Ok(Arc::new(table))
}

/// `current_setting(name)`: what `SHOW name` says, NULL for what it does not know.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct CurrentSetting {
    signature: Signature,
}

impl CurrentSetting {
    pub(super) fn new() -> Self {
        let forms = vec![
            TypeSignature::Exact(vec![DataType::Utf8]),
            TypeSignature::Exact(vec![DataType::Utf8, DataType::Boolean]),
        ];
        Self {
            signature: Signature::one_of(forms, Volatility::Stable),
        }
    }
}

impl ScalarUDFImpl for CurrentSetting {
    fn name(&self) -> &'static str {
        "current_setting"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> DataFusionResult<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let names = arrays.first().and_then(|names| {
            let names: &dyn Array = names;
            names.as_any().downcast_ref::<StringArray>()
        });
        let names = names.ok_or_else(|| {
            DataFusionError::Internal("the name of a setting is not text".to_owned())
        })?;
        let values = names.iter().map(|name| name.and_then(setting));
        let values: ArrayRef = Arc::new(values.collect::<StringArray>());
        Ok(ColumnarValue::Array(values))
    }
}

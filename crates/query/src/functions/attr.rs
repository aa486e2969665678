//! Attributes that have no column of their own.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, MapArray, StringArray, StringBuilder};
use arrow::datatypes::DataType;
use datafusion::common::cast::{as_map_array, as_string_array};
use datafusion::common::{Result, ScalarValue};

use super::arguments::{Arguments, Kind, Parameter};
use super::{Function, Work};

pub(super) static ATTR: Function = Function {
    name: "attr",
    parameters: &[
        Parameter::new("map", Kind::Attributes),
        Parameter::new("key", Kind::Text),
    ],
    n_required: 2,
    returns: || DataType::Utf8,
    doc: "The value of a key of `attributes` or `resource_attributes`, as text; of a key that is there twice, the first. Keys \
          with a column of their own are not in the map.",
    null: "The key is not there, or has no value.",
    example: "SELECT attr(MAP {'region': 'eu-1', 'tier': 'gold'}, 'tier')",
    gives: "gold",
    work: Work::Scalar(attr),
};

pub(super) fn attr(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let maps = arguments.array(0)?;
    let attributes = Attributes::new(as_map_array(&maps)?)?;
    let mut found = StringBuilder::with_capacity(maps.len(), 0);
    // As a rule the key is a constant, which is not worth a copy per row.
    if let Some(key) = arguments.constant(1) {
        let ScalarValue::Utf8(key) = key else {
            return Ok(arrow::array::new_null_array(&DataType::Utf8, maps.len()));
        };
        for row in 0..maps.len() {
            found.append_option(key.as_deref().and_then(|key| attributes.value(row, key)));
        }
    } else {
        let keys = arguments.array(1)?;
        for (row, key) in as_string_array(&keys)?.iter().enumerate() {
            found.append_option(key.and_then(|key| attributes.value(row, key)));
        }
    }
    Ok(Arc::new(found.finish()))
}

/// Maps from text to text, by row.
struct Attributes<'a> {
    maps: &'a MapArray,
    keys: &'a StringArray,
    values: &'a StringArray,
}

impl<'a> Attributes<'a> {
    fn new(maps: &'a MapArray) -> Result<Self> {
        Ok(Self {
            maps,
            keys: as_string_array(maps.keys())?,
            values: as_string_array(maps.values())?,
        })
    }

    fn value(&self, row: usize, wanted: &str) -> Option<&'a str> {
        if self.maps.is_null(row) {
            return None;
        }
        let is_wanted = |idx: &usize| self.keys.is_valid(*idx) && self.keys.value(*idx) == wanted;
        let idx = range(self.maps.value_offsets(), row).find(is_wanted)?;
        self.values.is_valid(idx).then(|| self.values.value(idx))
    }
}

/// The entries of a row.
pub(super) fn range(offsets: &[i32], row: usize) -> Range<usize> {
    let offset = |row: usize| usize::try_from(offsets[row]).unwrap_or_default();
    offset(row)..offset(row + 1)
}

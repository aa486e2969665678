//! What GPU drivers report as numbers, in words.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ListBuilder, StringArray, StringBuilder};
use arrow::datatypes::{DataType, Field};
use correlate::{throttle_reasons as reasons, xid_name as name};
use datafusion::common::Result;
use datafusion::common::cast::{as_int64_array, as_string_array};

use super::arguments::{Arguments, Kind, Parameter};
use super::{Function, Work};

pub(super) static XID_NAME: Function = Function {
    name: "xid_name",
    parameters: &[Parameter::new("code", Kind::WholeOrText)],
    n_required: 1,
    returns: || DataType::Utf8,
    doc: "What an XID of NVIDIA's driver means, by its number, as it is in `xid_last`, `xid_events` and `xids`.",
    null: "The code is unused or not known.",
    example: "SELECT xid_name(79)",
    gives: "GPU has fallen off the bus",
    work: Work::Scalar(xid_name),
};

pub(super) static THROTTLE_REASONS: Function = Function {
    name: "throttle_reasons",
    parameters: &[Parameter::new("mask", Kind::Whole)],
    n_required: 1,
    returns: || DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true))),
    doc: "The clock event reasons of a bit mask of NVML or DCGM, as in `throttle_mask`, lowest bit first; bits without a name \
          are one `unknown`. No bit is an empty list.",
    null: "The mask is negative.",
    example: "SELECT throttle_reasons(72)",
    gives: "[hw_slowdown, hw_thermal]",
    work: Work::Scalar(throttle_reasons),
};

fn xid_name(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let codes = arguments.array(0)?;
    let names: StringArray = if codes.data_type() == &DataType::Utf8 {
        let codes = as_string_array(&codes)?.iter();
        codes
            .map(|code| code?.trim_ascii().parse().ok().and_then(name))
            .collect()
    } else {
        let codes = as_int64_array(&codes)?.iter();
        codes.map(|code| code.and_then(name)).collect()
    };
    Ok(Arc::new(names))
}

fn throttle_reasons(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let masks = arguments.array(0)?;
    let mut lists = ListBuilder::new(StringBuilder::new());
    for mask in as_int64_array(&masks)? {
        let mask = mask.and_then(|mask| u64::try_from(mask).ok());
        for reason in mask.into_iter().flat_map(reasons) {
            lists.values().append_value(reason);
        }
        lists.append(mask.is_some());
    }
    Ok(Arc::new(lists.finish()))
}

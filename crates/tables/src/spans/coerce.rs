//! Reading an attribute value as the type of its column.

use otlp::attribute::Value;

use crate::column::ColumnType;

/// Has the value the type that the canonical key should have?
pub(super) fn has_type(value: &Value<'_>, data_type: ColumnType) -> bool {
    match (data_type, value) {
        (ColumnType::Int, Value::Int(_))
        | (ColumnType::Text, Value::Str(_))
        | (ColumnType::TextList, Value::Array(_)) => true,
        (ColumnType::Float, Value::Double(number)) => number.is_finite(),
        _ => false,
    }
}

/// Can a column of this type hold something of the value?
pub(super) fn is_usable(value: &Value<'_>, data_type: ColumnType) -> bool {
    match data_type {
        ColumnType::Int => value.as_i64_lenient().is_some(),
        ColumnType::Float => float(value).is_some(),
        ColumnType::Text | ColumnType::TextList => !matches!(value, Value::Empty),
        _ => false,
    }
}

/// Finite numbers, also written as text.
pub(super) fn float(value: &Value<'_>) -> Option<f64> {
    value.as_f64_lenient().filter(|number| number.is_finite())
}

/// The texts in an array, or in the JSON text of one (SGLang's finish reasons), or the one text.
/// Elements that are not text are written as JSON.
pub fn texts(value: &Value<'_>) -> Vec<String> {
    let mut text = String::new();
    value.write_text(&mut text);
    let may_be_list = matches!(value, Value::Array(_) | Value::Str(_)) && text.starts_with('[');
    match may_be_list.then(|| serde_json::from_str(&text)) {
        Some(Ok(serde_json::Value::Array(elements))) => elements.into_iter().map(plain).collect(),
        _ => vec![text],
    }
}

/// The one text of a value: of an array with a single element (how HTTP headers are sent), that.
pub(super) fn write_single(value: &Value<'_>, out: &mut String) {
    if let Value::Array(array) = value {
        let mut elements = otlp::attribute::elements(array);
        if let (Some(Ok(only)), None) = (elements.next(), elements.next()) {
            return only.write_text(out);
        }
    }
    value.write_text(out);
}

fn plain(element: serde_json::Value) -> String {
    match element {
        serde_json::Value::String(text) => text,
        other => other.to_string(),
    }
}

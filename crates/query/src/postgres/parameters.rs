//! Values of parameters, as clients send them: as text or binary, with a type that the client names or the statement
//! decides.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, TimeUnit};
use bytes::Bytes;
use datafusion::common::ScalarValue;
use pgwire::api::Type;
use pgwire::api::results::FieldFormat;

use super::problem::Problem;
use super::wire::Body;

/// Microseconds and days from 1970 to 2000, where the times of Postgres begin.
const MICROS_TO_2000: i64 = 946_684_800_000_000;
const DAYS_TO_2000: i32 = 10_957;

/// Most elements of an array; a message could hold a quarter of its bytes.
const ELEMENTS_MAX: usize = 100_000;

/// A value, as the statement wants it. `oid` is 0 where the client leaves the type to us.
pub(crate) fn read(
    value: Option<&Bytes>,
    oid: u32,
    format: FieldFormat,
    wanted: Option<&DataType>,
) -> Result<ScalarValue, Problem> {
    let named = match oid {
        0 | 705 => None,
        oid => Some(Type::from_oid(oid).ok_or_else(|| unknown(oid))?),
    };
    let named_type = named
        .as_ref()
        .map(|named| arrow_of(named, oid))
        .transpose()?;
    let data_type = named_type.as_ref().or(wanted).unwrap_or(&DataType::Utf8);
    let wanted = wanted.unwrap_or(data_type);
    let Some(bytes) = value else {
        return ScalarValue::try_from(wanted).map_err(|error| wrong(&error));
    };
    let value = match format {
        FieldFormat::Text => from_text(bytes, data_type)?,
        FieldFormat::Binary => {
            let named = named.unwrap_or_else(|| super::rows::told(data_type));
            from_binary(bytes.clone(), &named)?
        }
    };
    convert(value, wanted)
}

fn unknown(oid: u32) -> Problem {
    Problem::new(
        "0A000",
        format!("parameters of the type with the number {oid} are not taken"),
    )
    .hint("send it as text, and write a cast into the statement")
}

fn wrong(error: &dyn std::fmt::Display) -> Problem {
    Problem::new(
        "22P02",
        format!("the value of a parameter is not of its type: {error}"),
    )
}

fn malformed() -> Problem {
    Problem::new(
        "22P03",
        "the binary value of a parameter is not of its type",
    )
}

/// What a type of Postgres is here.
fn arrow_of(named: &Type, oid: u32) -> Result<DataType, Problem> {
    let list = |item: DataType| DataType::List(Arc::new(Field::new_list_field(item, true)));
    Ok(match *named {
        Type::BOOL => DataType::Boolean,
        Type::INT2 => DataType::Int16,
        Type::INT4 => DataType::Int32,
        Type::INT8 | Type::OID => DataType::Int64,
        Type::FLOAT4 => DataType::Float32,
        Type::FLOAT8 | Type::NUMERIC => DataType::Float64,
        Type::TEXT
        | Type::VARCHAR
        | Type::BPCHAR
        | Type::NAME
        | Type::UUID
        | Type::JSON
        | Type::JSONB => DataType::Utf8,
        Type::BYTEA => DataType::Binary,
        Type::DATE => DataType::Date32,
        Type::TIMESTAMP => DataType::Timestamp(TimeUnit::Microsecond, None),
        Type::TIMESTAMPTZ => DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
        Type::BOOL_ARRAY => list(DataType::Boolean),
        Type::INT2_ARRAY => list(DataType::Int16),
        Type::INT4_ARRAY => list(DataType::Int32),
        Type::INT8_ARRAY => list(DataType::Int64),
        Type::FLOAT4_ARRAY => list(DataType::Float32),
        Type::FLOAT8_ARRAY => list(DataType::Float64),
        Type::TEXT_ARRAY | Type::VARCHAR_ARRAY | Type::UUID_ARRAY => list(DataType::Utf8),
        _ => return Err(unknown(oid)),
    })
}

fn from_text(bytes: &Bytes, data_type: &DataType) -> Result<ScalarValue, Problem> {
    let text = std::str::from_utf8(bytes);
    let text = text.map_err(|_| Problem::new("22021", "a text is not UTF-8"))?;
    match data_type {
        DataType::Utf8 => Ok(ScalarValue::Utf8(Some(text.to_owned()))),
        DataType::Boolean => match text.trim().to_ascii_lowercase().as_str() {
            "t" | "true" | "y" | "yes" | "on" | "1" => Ok(ScalarValue::Boolean(Some(true))),
            "f" | "false" | "n" | "no" | "off" | "0" => Ok(ScalarValue::Boolean(Some(false))),
            _ => Err(wrong(&format!("`{text}`"))),
        },
        DataType::Binary => hex(text).map(|bytes| ScalarValue::Binary(Some(bytes))),
        DataType::List(item) => {
            let items = elements(text)?.into_iter().map(|element| {
                let element = element.map(Bytes::from);
                match element {
                    Some(element) => from_text(&element, item.data_type()),
                    None => ScalarValue::try_from(item.data_type()).map_err(|error| wrong(&error)),
                }
            });
            let items = items.collect::<Result<Vec<_>, _>>()?;
            Ok(list_of(&items, item.data_type()))
        }
        _ => convert(ScalarValue::Utf8(Some(text.trim().to_owned())), data_type),
    }
}

fn list_of(items: &[ScalarValue], data_type: &DataType) -> ScalarValue {
    ScalarValue::List(ScalarValue::new_list_nullable(items, data_type))
}

/// What cannot be converted is an error, not NULL.
fn convert(value: ScalarValue, wanted: &DataType) -> Result<ScalarValue, Problem> {
    if value.data_type() == *wanted {
        return Ok(value);
    }
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    let array: ArrayRef = match value {
        ScalarValue::Utf8(text) => Arc::new(StringArray::from(vec![text])),
        value => value.to_array().map_err(|error| wrong(&error))?,
    };
    let array = cast_with_options(&array, wanted, &options).map_err(|error| wrong(&error))?;
    ScalarValue::try_from_array(&array, 0).map_err(|error| wrong(&error))
}

/// `\x6162`.
fn hex(text: &str) -> Result<Vec<u8>, Problem> {
    let digits = text.strip_prefix("\\x").ok_or_else(malformed)?.as_bytes();
    let nibble = |digit: u8| {
        char::from(digit)
            .to_digit(16)
            .and_then(|n| u8::try_from(n).ok())
    };
    let pairs = digits.chunks(2).map(|pair| match pair {
        [high, low] => Some(nibble(*high)? << 4 | nibble(*low)?),
        _ => None,
    });
    pairs.collect::<Option<_>>().ok_or_else(malformed)
}

/// `{a,"b c",NULL}`, of one dimension.
fn elements(text: &str) -> Result<Vec<Option<String>>, Problem> {
    let malformed = || wrong(&"an array is written `{a,\"b c\",NULL}`, with one dimension");
    let inner = text
        .trim()
        .strip_prefix('{')
        .and_then(|text| text.strip_suffix('}'));
    let mut chars = inner.ok_or_else(malformed)?.chars().peekable();
    let mut elements = Vec::new();
    while chars.peek().is_some() {
        let (mut element, mut is_quoted) = (String::new(), false);
        while let Some(char) = chars.next_if(|char| *char != ',' || is_quoted) {
            match char {
                '"' if is_quoted && chars.peek().is_none_or(|next| *next == ',') => break,
                '"' if element.is_empty() && !is_quoted => is_quoted = true,
                '\\' => element.push(chars.next().ok_or_else(malformed)?),
                '{' | '}' | '"' if !is_quoted => return Err(malformed()),
                char => element.push(char),
            }
        }
        let is_null = !is_quoted && element.eq_ignore_ascii_case("null");
        elements.push((!is_null).then_some(element));
        if elements.len() > ELEMENTS_MAX {
            return Err(Problem::new(
                "54000",
                format!("an array has more than {ELEMENTS_MAX} elements"),
            ));
        }
        if chars.next().is_some() && chars.peek().is_none() {
            return Err(malformed());
        }
    }
    Ok(elements)
}

fn from_binary(bytes: Bytes, named: &Type) -> Result<ScalarValue, Problem> {
    let mut body = Body(bytes);
    let value = match *named {
        Type::BOOL => ScalarValue::Boolean(match body.0.split_off(0).as_ref() {
            [0] => Some(false),
            [1] => Some(true),
            _ => return Err(malformed()),
        }),
        Type::INT2 => ScalarValue::Int16(Some(body.number()?)),
        Type::INT4 => ScalarValue::Int32(Some(body.number()?)),
        Type::INT8 => ScalarValue::Int64(Some(long(&mut body)?)),
        Type::OID => ScalarValue::Int64(Some(body.number::<u32, 4>()?.into())),
        Type::FLOAT4 => ScalarValue::Float32(Some(f32::from_bits(body.number()?))),
        Type::FLOAT8 => {
            ScalarValue::Float64(Some(f64::from_bits(long(&mut body)?.cast_unsigned())))
        }
        Type::TIMESTAMP | Type::TIMESTAMPTZ => {
            let micros = long(&mut body)?.checked_add(MICROS_TO_2000);
            let zone = (*named == Type::TIMESTAMPTZ).then(|| Arc::from("+00:00"));
            ScalarValue::TimestampMicrosecond(Some(micros.ok_or_else(malformed)?), zone)
        }
        Type::DATE => {
            let days = body.number::<i32, 4>()?.checked_add(DAYS_TO_2000);
            ScalarValue::Date32(Some(days.ok_or_else(malformed)?))
        }
        Type::BYTEA => ScalarValue::Binary(Some(body.0.split_off(0).to_vec())),
        Type::UUID => ScalarValue::Utf8(Some(uuid(&body.0.split_off(0))?)),
        Type::NUMERIC => convert(
            ScalarValue::Utf8(Some(numeric(&mut body)?)),
            &DataType::Float64,
        )?,
        Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::JSON => {
            from_text(&body.0.split_off(0), &DataType::Utf8)?
        }
        Type::JSONB if body.0.first() == Some(&1) => {
            from_text(&body.0.split_off(1), &DataType::Utf8)?
        }
        _ => array(&mut body, named)?,
    };
    let is_whole = body.0.is_empty() || *named == Type::JSONB;
    is_whole.then_some(value).ok_or_else(malformed)
}

fn long(body: &mut Body) -> Result<i64, Problem> {
    let high: u32 = body.number()?;
    let low: u32 = body.number()?;
    Ok((u64::from(high) << 32 | u64::from(low)).cast_signed())
}

fn uuid(bytes: &[u8]) -> Result<String, Problem> {
    if bytes.len() != 16 {
        return Err(malformed());
    }
    let mut text = String::new();
    for (idx, byte) in bytes.iter().enumerate() {
        if matches!(idx, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    Ok(text)
}

/// Digits to the base 10,000 with the place of the first one.
fn numeric(body: &mut Body) -> Result<String, Problem> {
    let n_digits: i16 = body.number()?;
    let weight: i16 = body.number()?;
    let sign: i16 = body.number()?;
    let _scale: i16 = body.number()?;
    let mut digits = String::new();
    for _ in 0..n_digits {
        let digit: i16 = body.number()?;
        digits.push_str(&format!("{digit:04}"));
    }
    match sign.cast_unsigned() {
        0 | 0x4000 => {
            let exponent = 4 * (i32::from(weight) + 1);
            let minus = if sign == 0 { "" } else { "-" };
            Ok(format!("{minus}0.{digits}0e{exponent}"))
        }
        0xC000 => Ok("NaN".to_owned()),
        0xD000 => Ok("Infinity".to_owned()),
        0xF000 => Ok("-Infinity".to_owned()),
        _ => Err(malformed()),
    }
}

/// Dimensions, a flag for NULL, the type of elements, then length and lower bound of each dimension.
fn array(body: &mut Body, named: &Type) -> Result<ScalarValue, Problem> {
    let DataType::List(item) = arrow_of(named, named.oid())? else {
        return Err(unknown(named.oid()));
    };
    let n_dimensions: i32 = body.number()?;
    let _has_null: i32 = body.number()?;
    let element = Type::from_oid(body.number::<u32, 4>()?).ok_or_else(malformed)?;
    let n_elements: i32 = match n_dimensions {
        0 => 0,
        1 => {
            let n_elements = body.number()?;
            let _lower: i32 = body.number()?;
            n_elements
        }
        _ => return Err(Problem::new("0A000", "arrays have one dimension here")),
    };
    if matches!(arrow_of(&element, element.oid())?, DataType::List(_)) {
        return Err(malformed());
    }
    let mut items = Vec::new();
    for _ in 0..n_elements {
        items.push(match body.value()? {
            Some(bytes) => from_binary(bytes, &element)?,
            None => ScalarValue::try_from(item.data_type()).map_err(|error| wrong(&error))?,
        });
        if items.len() > ELEMENTS_MAX {
            return Err(Problem::new(
                "54000",
                format!("an array has more than {ELEMENTS_MAX} elements"),
            ));
        }
    }
    let is_of_one_type = items
        .iter()
        .all(|value| value.data_type() == *item.data_type());
    if !is_of_one_type {
        return Err(malformed());
    }
    Ok(list_of(&items, item.data_type()))
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, TimeUnit};
    use bytes::Bytes;
    use pgwire::api::Type;
    use pgwire::api::results::FieldFormat::{self, Binary, Text};

    use super::read;

    fn check(
        bytes: &[u8],
        named: Option<Type>,
        format: FieldFormat,
        wanted: Option<&DataType>,
        expected: &str,
    ) {
        let oid = named.as_ref().map_or(0, Type::oid);
        let value = read(Some(&Bytes::copy_from_slice(bytes)), oid, format, wanted);
        let got = match value {
            Ok(value) => format!("{value:?}"),
            Err(problem) => problem.code.to_owned(),
        };
        assert_eq!(got, expected, "{bytes:?} as {named:?}");
    }

    #[test]
    fn texts_become_what_the_statement_wants() {
        let time = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        check(b"7", None, Text, Some(&DataType::Int64), "Int64(7)");
        check(
            b"7",
            Some(Type::INT2),
            Text,
            Some(&DataType::Int64),
            "Int64(7)",
        );
        check(b"x", None, Text, Some(&DataType::Int64), "22P02");
        check(b"abc", None, Text, None, "Utf8(\"abc\")");
        check(b"t", Some(Type::BOOL), Text, None, "Boolean(true)");
        check(
            b"1.5",
            Some(Type::NUMERIC),
            Text,
            Some(&DataType::Float64),
            "Float64(1.5)",
        );
        check(
            b"\\x00ff",
            Some(Type::BYTEA),
            Text,
            None,
            "Binary(\"0,255\")",
        );
        check(b"\\x0", Some(Type::BYTEA), Text, None, "22P03");
        check(
            b"2026-01-01 00:00:00+00",
            None,
            Text,
            Some(&time),
            "TimestampMicrosecond(1767225600000000, Some(\"UTC\"))",
        );
        check(
            b"{a,\"b \\\"c\",NULL}",
            Some(Type::TEXT_ARRAY),
            Text,
            None,
            "List([a, b \"c, ])",
        );
        check(b"{1,2", Some(Type::INT4_ARRAY), Text, None, "22P02");
        check(b"{1,}", Some(Type::INT4_ARRAY), Text, None, "22P02");
        check(b"1", Some(Type::POINT), Text, None, "0A000");
    }

    #[test]
    fn binary_values_are_read_whole_or_not_at_all() {
        check(
            &[0, 0, 0, 7],
            Some(Type::INT4),
            Binary,
            Some(&DataType::Int64),
            "Int64(7)",
        );
        check(&[0, 0, 0], Some(Type::INT4), Binary, None, "08P01");
        check(&[0, 0, 0, 7, 0], Some(Type::INT4), Binary, None, "22P03");
        check(
            &1.5f64.to_be_bytes(),
            Some(Type::FLOAT8),
            Binary,
            None,
            "Float64(1.5)",
        );
        check(
            &[0; 8],
            Some(Type::TIMESTAMPTZ),
            Binary,
            None,
            "TimestampMicrosecond(946684800000000, Some(\"+00:00\"))",
        );
        check(
            &i64::MAX.to_be_bytes(),
            Some(Type::TIMESTAMP),
            Binary,
            None,
            "22P03",
        );
        // 12345.67: two digits before the point, one behind.
        let numeric = [0, 3, 0, 1, 0, 0, 0, 2, 0, 1, 9, 41, 26, 44];
        check(
            &numeric,
            Some(Type::NUMERIC),
            Binary,
            None,
            "Float64(12345.67)",
        );
        let array = [
            0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 23, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 5,
        ];
        check(&array, Some(Type::INT4_ARRAY), Binary, None, "List([5])");
        check(&array[..24], Some(Type::INT4_ARRAY), Binary, None, "08P01");
        check(
            &[0, 0, 0, 7],
            None,
            Binary,
            Some(&DataType::Int32),
            "Int32(7)",
        );
    }
}

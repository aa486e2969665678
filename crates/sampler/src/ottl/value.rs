//! Values of a condition: comparison, arithmetic, conversion, by the language's rules.
//!
//! Values of different types are not equal and in no order: of the comparisons between them only
//! `!=` is true. Integers and doubles are one type, compared exactly. `nil` is equal to `nil`.
//! Whole maps and lists are equal to nothing here.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "every other type is treated alike, also a new one"
)]

use std::cmp::Ordering;
use std::fmt::{self, Write};

use otlp::attribute::Value;

use crate::number::Number;
use crate::ottl::syntax::{Arithmetic, Comparison};

/// A condition that has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Failed;

/// A value while a condition is evaluated.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Datum<'a> {
    Nil,
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(&'a str),
    /// Made from a number or an id.
    Made(Made),
    Bytes(&'a [u8]),
    /// Trace id (16 bytes) or span id (the first 8).
    Id([u8; 16], usize),
    List(&'a [u8]),
    Map(&'a [u8]),
    /// Nanoseconds since 1970.
    Time(u64),
    /// Nanoseconds.
    Duration(i64),
}

impl<'a> From<Value<'a>> for Datum<'a> {
    fn from(value: Value<'a>) -> Self {
        match value {
            Value::Empty => Self::Nil,
            Value::Str(text) => Self::Text(text),
            Value::Bool(is_true) => Self::Bool(is_true),
            Value::Int(int) => Self::Int(int),
            Value::Double(double) => Self::Double(double),
            Value::Bytes(bytes) => Self::Bytes(bytes),
            Value::Array(array) => Self::List(array),
            Value::KvList(map) => Self::Map(map),
        }
    }
}

impl Datum<'_> {
    pub(super) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Made(made) => Some(made.as_str()),
            Self::Nil
            | Self::Bool(_)
            | Self::Int(_)
            | Self::Double(_)
            | Self::Bytes(_)
            | Self::Id(..)
            | Self::List(_)
            | Self::Map(_)
            | Self::Time(_)
            | Self::Duration(_) => None,
        }
    }

    fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Id(id, len) => id.get(..*len),
            _ => None,
        }
    }

    fn as_number(&self) -> Option<Number> {
        match self {
            Self::Int(int) => Some(Number::Int(*int)),
            Self::Double(double) => Some(Number::Double(*double)),
            _ => None,
        }
    }

    /// `None` where the two are in no order.
    fn order(&self, other: &Self) -> Option<Ordering> {
        if let (Some(left), Some(right)) = (self.as_number(), other.as_number()) {
            return left.compare(right);
        }
        if let (Some(left), Some(right)) = (self.as_text(), other.as_text()) {
            return Some(left.cmp(right));
        }
        if let (Some(left), Some(right)) = (self.as_bytes(), other.as_bytes()) {
            return Some(left.cmp(right));
        }
        match (self, other) {
            (Self::Bool(left), Self::Bool(right)) => Some(left.cmp(right)),
            (Self::Time(left), Self::Time(right)) => Some(left.cmp(right)),
            (Self::Duration(left), Self::Duration(right)) => Some(left.cmp(right)),
            _ => None,
        }
    }

    pub(super) fn compare(&self, operator: Comparison, other: &Self) -> bool {
        if let (Self::Nil, Self::Nil) = (self, other) {
            return operator == Comparison::Equal;
        }
        let order = self.order(other);
        match operator {
            Comparison::Equal => order == Some(Ordering::Equal),
            Comparison::NotEqual => order != Some(Ordering::Equal),
            Comparison::Less => order.is_some_and(Ordering::is_lt),
            Comparison::LessOrEqual => order.is_some_and(Ordering::is_le),
            Comparison::Greater => order.is_some_and(Ordering::is_gt),
            Comparison::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
        }
    }

    /// Numbers with numbers, times with durations, durations with durations.
    pub(super) fn calculate(self, operator: Arithmetic, other: Self) -> Result<Self, Failed> {
        use Arithmetic::{Add, Subtract};
        match (self, operator, other) {
            (Self::Int(left), _, Self::Int(right)) => {
                integers(left, operator, right).map(Self::Int)
            }
            (Self::Time(left), Subtract, Self::Time(right)) => {
                let nanos = i128::from(left) - i128::from(right);
                i64::try_from(nanos).map(Self::Duration).map_err(|_| Failed)
            }
            (Self::Time(time), Add | Subtract, Self::Duration(nanos)) => {
                let moved = match operator {
                    Subtract => nanos
                        .checked_neg()
                        .and_then(|back| time.checked_add_signed(back)),
                    _ => time.checked_add_signed(nanos),
                };
                moved.map(Self::Time).ok_or(Failed)
            }
            (Self::Duration(left), Add | Subtract, Self::Duration(right)) => {
                integers(left, operator, right).map(Self::Duration)
            }
            (left, _, right) => match (left.as_double(), right.as_double()) {
                (Some(left), Some(right)) => doubles(left, operator, right).map(Self::Double),
                _ => Err(Failed),
            },
        }
    }

    fn as_double(&self) -> Option<f64> {
        match self {
            Self::Int(int) => Some(*int as f64),
            Self::Double(double) => Some(*double),
            _ => None,
        }
    }

    /// Integer of a number, its digits or a truth; `nil` of digits that are none.
    pub(super) fn to_int(&self) -> Result<Self, Failed> {
        if let Some(text) = self.as_text() {
            return Ok(text.parse().map_or(Self::Nil, Self::Int));
        }
        match self {
            Self::Nil => Ok(Self::Nil),
            Self::Int(int) => Ok(Self::Int(*int)),
            // Cut off towards zero; beyond the range its end.
            Self::Double(double) => Ok(Self::Int(*double as i64)),
            Self::Bool(is_true) => Ok(Self::Int(i64::from(*is_true))),
            Self::Duration(nanos) => Ok(Self::Int(*nanos)),
            _ => Err(Failed),
        }
    }

    /// Double of a number, its digits or a truth; `nil` of digits that are none.
    pub(super) fn to_double(&self) -> Result<Self, Failed> {
        if let Some(text) = self.as_text() {
            return Ok(text.parse().map_or(Self::Nil, Self::Double));
        }
        match self {
            Self::Nil => Ok(Self::Nil),
            Self::Bool(is_true) => Ok(Self::Double(f64::from(u8::from(*is_true)))),
            _ => self.as_double().map(Self::Double).ok_or(Failed),
        }
    }

    /// Text of a scalar; bytes and ids as hex digits.
    pub(super) fn to_text(&self) -> Result<Self, Failed> {
        Ok(match self {
            Self::Nil => Self::Nil,
            Self::Text(text) => Self::Text(text),
            Self::Made(made) => Self::Made(made.clone()),
            Self::Bool(true) => Self::Text("true"),
            Self::Bool(false) => Self::Text("false"),
            Self::Int(int) => Self::Made(Made::new(format_args!("{int}"))),
            Self::Double(double) => Self::Made(Made::new(format_args!("{double}"))),
            Self::Bytes(_) | Self::Id(..) => {
                let bytes = self.as_bytes().unwrap_or_default();
                Self::Made(Made::new(format_args!("{}", Hex(bytes))))
            }
            Self::List(_) | Self::Map(_) | Self::Time(_) | Self::Duration(_) => {
                return Err(Failed);
            }
        })
    }
}

fn integers(left: i64, operator: Arithmetic, right: i64) -> Result<i64, Failed> {
    match operator {
        Arithmetic::Add => Ok(left.wrapping_add(right)),
        Arithmetic::Subtract => Ok(left.wrapping_sub(right)),
        Arithmetic::Multiply => Ok(left.wrapping_mul(right)),
        Arithmetic::Divide if right == 0 => Err(Failed),
        Arithmetic::Divide => Ok(left.wrapping_div(right)),
    }
}

fn doubles(left: f64, operator: Arithmetic, right: f64) -> Result<f64, Failed> {
    match operator {
        Arithmetic::Add => Ok(left + right),
        Arithmetic::Subtract => Ok(left - right),
        Arithmetic::Multiply => Ok(left * right),
        Arithmetic::Divide if right == 0.0 => Err(Failed),
        Arithmetic::Divide => Ok(left / right),
    }
}

/// Digits of a number or an id, on the stack up to its size.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Made {
    bytes: [u8; 40],
    len: usize,
    /// All of it where it is longer, which only doubles near their limits are.
    long: Option<Box<str>>,
}

impl Made {
    pub(super) fn new(text: fmt::Arguments<'_>) -> Self {
        let mut made = Self {
            bytes: [0; 40],
            len: 0,
            long: None,
        };
        if made.write_fmt(text).is_err() {
            made.long = Some(text.to_string().into());
        }
        made
    }

    fn as_str(&self) -> &str {
        let short = || self.bytes.get(..self.len).map(str::from_utf8);
        match (&self.long, short()) {
            (Some(long), _) => long,
            (None, Some(Ok(short))) => short,
            (None, Some(Err(_)) | None) => "",
        }
    }
}

impl Write for Made {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.len + text.len();
        let place = self.bytes.get_mut(self.len..end).ok_or(fmt::Error)?;
        place.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

/// Lower-case hex digits.
pub(super) struct Hex<'a>(pub(super) &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::{Datum, Failed, Made};
    use crate::ottl::syntax::{Arithmetic, Comparison};

    #[test]
    fn values_of_different_types_are_only_not_equal() {
        let values = [
            Datum::Nil,
            Datum::Bool(true),
            Datum::Int(1),
            Datum::Text("1"),
            Datum::Bytes(b"1"),
            Datum::Time(1),
            Datum::Duration(1),
            Datum::Map(b""),
        ];
        for (idx, left) in values.iter().enumerate() {
            for right in values.iter().take(idx) {
                assert!(
                    left.compare(Comparison::NotEqual, right),
                    "{left:?} {right:?}"
                );
                for operator in [
                    Comparison::Equal,
                    Comparison::Less,
                    Comparison::GreaterOrEqual,
                ] {
                    assert!(!left.compare(operator, right), "{left:?} {right:?}");
                }
            }
        }
        assert!(Datum::Int(2).compare(Comparison::Equal, &Datum::Double(2.0)));
        assert!(!Datum::Double(f64::NAN).compare(Comparison::Equal, &Datum::Double(f64::NAN)));
        assert!(Datum::Nil.compare(Comparison::Equal, &Datum::Nil));
    }

    #[test]
    fn times_and_numbers_calculate_and_nothing_else() {
        let check = |left: Datum<'_>, operator, right, want| {
            assert_eq!(left.calculate(operator, right), want);
        };
        check(
            Datum::Time(5),
            Arithmetic::Subtract,
            Datum::Time(7),
            Ok(Datum::Duration(-2)),
        );
        check(
            Datum::Time(5),
            Arithmetic::Add,
            Datum::Duration(2),
            Ok(Datum::Time(7)),
        );
        check(
            Datum::Time(5),
            Arithmetic::Subtract,
            Datum::Duration(7),
            Err(Failed),
        );
        check(
            Datum::Int(7),
            Arithmetic::Divide,
            Datum::Int(2),
            Ok(Datum::Int(3)),
        );
        check(
            Datum::Int(7),
            Arithmetic::Divide,
            Datum::Double(2.0),
            Ok(Datum::Double(3.5)),
        );
        check(
            Datum::Int(7),
            Arithmetic::Divide,
            Datum::Int(0),
            Err(Failed),
        );
        check(Datum::Nil, Arithmetic::Add, Datum::Int(0), Err(Failed));
    }

    #[test]
    fn digits_are_made_without_a_limit() {
        for double in [0.1, -1.5, f64::MAX, f64::MIN_POSITIVE] {
            let made = Made::new(format_args!("{double}"));
            assert_eq!(made.as_str(), double.to_string());
        }
    }
}

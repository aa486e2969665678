//! Numbers of the configuration and of attributes, compared exactly.

use std::cmp::Ordering;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};

/// An integer or a double, as written in the configuration or found in an attribute.
///
/// Comparison is by value and exact: an `i64` is never rounded to a double.
#[derive(Debug, Clone, Copy)]
pub enum Number {
    /// A whole number.
    Int(i64),
    /// A double.
    Double(f64),
}

impl Number {
    /// Order by value; `None` if either is NaN.
    #[must_use]
    pub fn compare(self, other: Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Int(left), Self::Int(right)) => Some(left.cmp(&right)),
            (Self::Double(left), Self::Double(right)) => left.partial_cmp(&right),
            (Self::Int(left), Self::Double(right)) => compare_int_double(left, right),
            (Self::Double(left), Self::Int(right)) => {
                compare_int_double(right, left).map(Ordering::reverse)
            }
        }
    }

    /// Neither NaN nor an infinity.
    #[must_use]
    pub fn is_finite(self) -> bool {
        match self {
            Self::Int(_) => true,
            Self::Double(double) => double.is_finite(),
        }
    }
}

/// By value; NaN equals nothing.
impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.compare(*other) == Some(Ordering::Equal)
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(int) => int.fmt(f),
            Self::Double(double) => double.fmt(f),
        }
    }
}

fn compare_int_double(int: i64, double: f64) -> Option<Ordering> {
    /// 2^63, the first whole number above every `i64`.
    const ABOVE_I64: f64 = 9_223_372_036_854_775_808.0;
    if double.is_nan() {
        return None;
    }
    if double >= ABOVE_I64 {
        return Some(Ordering::Less);
    }
    if double < -ABOVE_I64 {
        return Some(Ordering::Greater);
    }
    let whole = double.trunc();
    // Exact: `whole` is a whole number within the range of `i64`.
    let by_whole = int.cmp(&(whole as i64));
    Some(by_whole.then_with(|| {
        if double > whole {
            Ordering::Less
        } else if double < whole {
            Ordering::Greater
        } else {
            Ordering::Equal
        }
    }))
}

struct NumberVisitor;

impl Visitor<'_> for NumberVisitor {
    type Value = Number;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Number, E> {
        Ok(Number::Int(number))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Number, E> {
        i64::try_from(number).map(Number::Int).map_err(|_| {
            E::custom(format_args!(
                "`{number}` is above the largest 64-bit integer"
            ))
        })
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Number, E> {
        Ok(Number::Double(number))
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberVisitor)
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering::{Equal, Greater, Less};

    use super::Number::{Double, Int};

    #[test]
    fn integers_and_doubles_compare_exactly() {
        for (left, right, want) in [
            (Int(2), Double(3.7), Some(Less)),
            (Int(4), Double(3.7), Some(Greater)),
            (Int(-4), Double(-3.7), Some(Less)),
            (Int(-3), Double(-3.7), Some(Greater)),
            (Int(0), Double(-0.0), Some(Equal)),
            // 2^53 + 1 is not a double; rounding would make these equal.
            (
                Int(9_007_199_254_740_993),
                Double(9_007_199_254_740_992.0),
                Some(Greater),
            ),
            (
                Int(i64::MAX),
                Double(9_223_372_036_854_775_808.0),
                Some(Less),
            ),
            (
                Int(i64::MIN),
                Double(-9_223_372_036_854_775_808.0),
                Some(Equal),
            ),
            (Int(i64::MIN), Double(f64::NEG_INFINITY), Some(Greater)),
            (Int(0), Double(f64::NAN), None),
            (Double(1.0), Int(1), Some(Equal)),
            (Double(1.5), Int(1), Some(Greater)),
        ] {
            assert_eq!(left.compare(right), want, "{left} {right}");
        }
    }
}

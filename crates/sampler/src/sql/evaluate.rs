//! The compiled condition, and its value for one trace.

use std::cmp::Ordering;

use crate::number::Number;

/// What of a trace a condition can ask for; `None` is NULL.
pub(crate) trait Row {
    /// The value of a column.
    fn column(&self, column: Column) -> Option<Datum>;
    /// Is a service of this name in it?
    fn has_service(&self, name: &str) -> bool;
}

/// A column that is known when a trace is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Column {
    StartTime,
    EndTime,
    Duration,
    SpanCount,
    ErrorSpanCount,
    Error,
    RootCount,
    OrphanCount,
    Complete,
    RequestCount,
    SizeBytes,
}

/// A value that is not NULL.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Datum {
    Bool(bool),
    Number(Number),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// A test behind `IS`, which is never unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Is {
    Null,
    True,
    False,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    Literal(Option<Datum>),
    Column(Column),
    HasService(Box<str>),
    And(Box<Self>, Box<Self>),
    Or(Box<Self>, Box<Self>),
    Not(Box<Self>),
    Is(Box<Self>, Is),
    Compare(Box<Self>, Comparison, Box<Self>),
    Calculate(Box<Self>, Arithmetic, Box<Self>),
}

/// A condition that was checked.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Condition {
    pub(super) root: Node,
}

impl Condition {
    /// Whether it is true of this trace: neither false nor unknown. Allocates nothing.
    pub(crate) fn holds(&self, row: &impl Row) -> bool {
        self.root.truth(row) == Some(true)
    }

    /// Does it look at the services?
    pub(crate) fn reads_services(&self) -> bool {
        self.root.reads_services()
    }
}

impl Node {
    fn reads_services(&self) -> bool {
        match self {
            Self::HasService(_) => true,
            Self::Literal(_) | Self::Column(_) => false,
            Self::Not(node) | Self::Is(node, _) => node.reads_services(),
            Self::And(left, right)
            | Self::Or(left, right)
            | Self::Compare(left, _, right)
            | Self::Calculate(left, _, right) => left.reads_services() || right.reads_services(),
        }
    }

    fn truth(&self, row: &impl Row) -> Option<bool> {
        match self.evaluate(row)? {
            Datum::Bool(is_true) => Some(is_true),
            // Kinds were checked.
            Datum::Number(_) => None,
        }
    }

    fn number(&self, row: &impl Row) -> Option<Number> {
        match self.evaluate(row)? {
            Datum::Number(number) => Some(number),
            Datum::Bool(_) => None,
        }
    }

    fn evaluate(&self, row: &impl Row) -> Option<Datum> {
        let truth = match self {
            Self::Literal(datum) => return *datum,
            Self::Column(column) => return row.column(*column),
            Self::Calculate(left, operator, right) => {
                let number = operator.apply(left.number(row)?, right.number(row)?)?;
                return Some(Datum::Number(number));
            }
            Self::HasService(name) => row.has_service(name),
            // One side can decide alone, whatever the other is.
            Self::And(left, right) => match left.truth(row) {
                Some(false) => false,
                Some(true) => right.truth(row)?,
                None => match right.truth(row)? {
                    false => false,
                    true => return None,
                },
            },
            Self::Or(left, right) => match left.truth(row) {
                Some(true) => true,
                Some(false) => right.truth(row)?,
                None => match right.truth(row)? {
                    true => true,
                    false => return None,
                },
            },
            Self::Not(node) => !node.truth(row)?,
            Self::Is(node, is) => match is {
                Is::Null => node.evaluate(row).is_none(),
                Is::True => node.truth(row) == Some(true),
                Is::False => node.truth(row) == Some(false),
            },
            Self::Compare(left, comparison, right) => {
                let order = match (left.evaluate(row)?, right.evaluate(row)?) {
                    (Datum::Number(left), Datum::Number(right)) => left.compare(right)?,
                    (Datum::Bool(left), Datum::Bool(right)) => left.cmp(&right),
                    (Datum::Number(_), Datum::Bool(_)) | (Datum::Bool(_), Datum::Number(_)) => {
                        return None;
                    }
                };
                comparison.is_met_by(order)
            }
        };
        Some(Datum::Bool(truth))
    }
}

impl Comparison {
    fn is_met_by(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }
}

impl Arithmetic {
    /// `None` by zero and beyond 64 bits. Two integers give an integer, cut towards zero.
    fn apply(self, left: Number, right: Number) -> Option<Number> {
        if let (Number::Int(left), Number::Int(right)) = (left, right) {
            let int = match self {
                Self::Add => left.checked_add(right),
                Self::Subtract => left.checked_sub(right),
                Self::Multiply => left.checked_mul(right),
                Self::Divide => left.checked_div(right),
                Self::Remainder => left.checked_rem(right),
            };
            return int.map(Number::Int);
        }
        let as_double = |number| match number {
            Number::Int(int) => int as f64,
            Number::Double(double) => double,
        };
        let (left, right) = (as_double(left), as_double(right));
        let double = match self {
            Self::Add => left + right,
            Self::Subtract => left - right,
            Self::Multiply => left * right,
            Self::Divide => left / right,
            Self::Remainder => left % right,
        };
        Some(Number::Double(double)).filter(|_| double.is_finite())
    }
}

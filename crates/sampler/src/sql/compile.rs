//! From text to a checked tree.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "SQL has far more kinds of everything than are known here, and what is not known is refused"
)]

use sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    UnaryOperator, Value,
};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;

use crate::nearest::nearest;
use crate::number::Number;
use crate::sql::evaluate::{Arithmetic, Column, Comparison, Condition, Datum, Is, Node};
use crate::sql::problem::SqlProblem;
use crate::sql::{CHARS_MAX, DEPTH_MAX};

/// Columns of `traces` that a condition can name besides `services`; true for those that are a truth, false for those
/// that are a whole number.
pub const SQL_COLUMNS: [(&str, bool); 11] = [
    ("start_time_unix_nano", false),
    ("end_time_unix_nano", false),
    ("duration_ns", false),
    ("span_count", false),
    ("error_span_count", false),
    ("error", true),
    ("root_count", false),
    ("orphan_count", false),
    ("complete", true),
    ("request_count", false),
    ("size_bytes", false),
];

/// In the order of [`SQL_COLUMNS`].
const COLUMNS: [Column; SQL_COLUMNS.len()] = [
    Column::StartTime,
    Column::EndTime,
    Column::Duration,
    Column::SpanCount,
    Column::ErrorSpanCount,
    Column::Error,
    Column::RootCount,
    Column::OrphanCount,
    Column::Complete,
    Column::RequestCount,
    Column::SizeBytes,
];

const OF_ATTRIBUTES: &str = "use `numeric_attribute` or `ottl_condition` on the span's attribute";
const OF_ROOT: &str = "use `ottl_condition` with `IsRootSpan()`, in an `and`";
const OF_TIMES: &str = "use `start_time_unix_nano` or `end_time_unix_nano`";
const OF_DECISION: &str = "it follows from the decision";

/// Columns of `traces` that come later.
const NOT_YET_KNOWN: [(&str, &str); 22] = [
    ("root_service_name", OF_ROOT),
    ("root_name", OF_ROOT),
    ("trace_id", "use `probabilistic` to choose by it"),
    ("date", OF_TIMES),
    ("start_time", OF_TIMES),
    ("end_time", OF_TIMES),
    ("first_seen_time", OF_TIMES),
    ("decided_time", OF_DECISION),
    ("decision", OF_DECISION),
    ("policy", OF_DECISION),
    ("trigger", OF_DECISION),
    ("adjusted_count", OF_DECISION),
    ("stored", OF_DECISION),
    ("loss_flags", "use `root_count` and `orphan_count`"),
    ("model", OF_ATTRIBUTES),
    ("engine_ttft_s", OF_ATTRIBUTES),
    ("e2e_s", OF_ATTRIBUTES),
    ("tpot_s", OF_ATTRIBUTES),
    ("input_tokens", OF_ATTRIBUTES),
    ("output_tokens", OF_ATTRIBUTES),
    ("cached_tokens", OF_ATTRIBUTES),
    ("outcome", OF_ATTRIBUTES),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Truth,
    Number,
    /// NULL, which is of any kind.
    Any,
}

type Result<T> = std::result::Result<T, SqlProblem>;

impl Condition {
    /// Reads and checks.
    pub(crate) fn compile(text: &str) -> Result<Self> {
        if text.len() > CHARS_MAX {
            return Err(SqlProblem::TooLong);
        }
        let syntax = |error: sqlparser::parser::ParserError| match error {
            sqlparser::parser::ParserError::RecursionLimitExceeded => SqlProblem::TooDeep,
            error => SqlProblem::Syntax {
                reason: error.to_string(),
            },
        };
        let mut parser = Parser::new(&GenericDialect)
            .try_with_sql(text)
            .map_err(syntax)?;
        let expr = parser.parse_expr().map_err(syntax)?;
        let rest = parser.peek_token();
        if rest.token != Token::EOF {
            let part = rest.token.to_string();
            return Err(SqlProblem::Unknown { part });
        }
        Ok(Self {
            root: truth(&expr, 0)?,
        })
    }
}

fn unknown(expr: &Expr) -> SqlProblem {
    SqlProblem::Unknown {
        part: expr.to_string(),
    }
}

fn truth(expr: &Expr, depth: u32) -> Result<Node> {
    let (node, kind) = compile(expr, depth)?;
    if kind == Kind::Number {
        let part = expr.to_string();
        let wanted = "a truth";
        return Err(SqlProblem::Kind { part, wanted });
    }
    Ok(node)
}

fn number(expr: &Expr, depth: u32) -> Result<Node> {
    let (node, kind) = compile(expr, depth)?;
    if kind == Kind::Truth {
        let part = expr.to_string();
        let wanted = "a number";
        return Err(SqlProblem::Kind { part, wanted });
    }
    Ok(node)
}

fn compile(expr: &Expr, depth: u32) -> Result<(Node, Kind)> {
    if depth > DEPTH_MAX {
        return Err(SqlProblem::TooDeep);
    }
    let below = depth + 1;
    let is = |inner: &Expr, is, is_negated| -> Result<(Node, Kind)> {
        let inner = match is {
            Is::Null => compile(inner, below)?.0,
            Is::True | Is::False => truth(inner, below)?,
        };
        Ok(truth_of(Node::Is(Box::new(inner), is), is_negated))
    };
    match expr {
        Expr::Nested(inner) => compile(inner, below),
        Expr::Identifier(name) => column(name),
        Expr::Value(value) => literal(&value.value).ok_or_else(|| unknown(expr)),
        Expr::UnaryOp { op, expr: inner } => match op {
            UnaryOperator::Not => Ok(truth_of(truth(inner, below)?, true)),
            UnaryOperator::Plus => Ok((number(inner, below)?, Kind::Number)),
            UnaryOperator::Minus => {
                let zero = Node::Literal(Some(Datum::Number(Number::Int(0))));
                let inner = number(inner, below)?;
                let node = Node::Calculate(Box::new(zero), Arithmetic::Subtract, Box::new(inner));
                Ok((node, Kind::Number))
            }
            _ => Err(unknown(expr)),
        },
        Expr::BinaryOp { left, op, right } => binary(expr, left, op, right, below),
        Expr::IsNull(inner) | Expr::IsUnknown(inner) => is(inner, Is::Null, false),
        Expr::IsNotNull(inner) | Expr::IsNotUnknown(inner) => is(inner, Is::Null, true),
        Expr::IsTrue(inner) => is(inner, Is::True, false),
        Expr::IsNotTrue(inner) => is(inner, Is::True, true),
        Expr::IsFalse(inner) => is(inner, Is::False, false),
        Expr::IsNotFalse(inner) => is(inner, Is::False, true),
        Expr::InList {
            expr: inner,
            list,
            negated,
        } => {
            // As SQL defines it: equal to any; of the empty list nothing is.
            let mut any = Node::Literal(Some(Datum::Bool(false)));
            for member in list {
                let equal = compare(inner, Comparison::Equal, member, below)?;
                any = Node::Or(Box::new(any), Box::new(equal));
            }
            Ok(truth_of(any, *negated))
        }
        Expr::Between {
            expr: inner,
            negated,
            low,
            high,
        } => {
            let above = compare(inner, Comparison::GreaterOrEqual, low, below)?;
            let below = compare(inner, Comparison::LessOrEqual, high, below)?;
            let both = Node::And(Box::new(above), Box::new(below));
            Ok(truth_of(both, *negated))
        }
        Expr::Function(function) => call(function)
            .map(|node| (node, Kind::Truth))
            .ok_or_else(|| unknown(expr)),
        _ => Err(unknown(expr)),
    }
}

fn truth_of(node: Node, is_negated: bool) -> (Node, Kind) {
    let node = if is_negated {
        Node::Not(Box::new(node))
    } else {
        node
    };
    (node, Kind::Truth)
}

fn binary(
    expr: &Expr,
    left: &Expr,
    operator: &BinaryOperator,
    right: &Expr,
    depth: u32,
) -> Result<(Node, Kind)> {
    let comparison = match operator {
        BinaryOperator::And | BinaryOperator::Or => {
            let left = Box::new(truth(left, depth)?);
            let right = Box::new(truth(right, depth)?);
            let node = match operator {
                BinaryOperator::And => Node::And(left, right),
                _ => Node::Or(left, right),
            };
            return Ok((node, Kind::Truth));
        }
        BinaryOperator::Eq => Comparison::Equal,
        BinaryOperator::NotEq => Comparison::NotEqual,
        BinaryOperator::Lt => Comparison::Less,
        BinaryOperator::LtEq => Comparison::LessOrEqual,
        BinaryOperator::Gt => Comparison::Greater,
        BinaryOperator::GtEq => Comparison::GreaterOrEqual,
        _ => {
            let arithmetic = arithmetic(operator).ok_or_else(|| unknown(expr))?;
            let (left, right) = (number(left, depth)?, number(right, depth)?);
            let node = Node::Calculate(Box::new(left), arithmetic, Box::new(right));
            return Ok((node, Kind::Number));
        }
    };
    Ok((compare(left, comparison, right, depth)?, Kind::Truth))
}

fn arithmetic(operator: &BinaryOperator) -> Option<Arithmetic> {
    Some(match operator {
        BinaryOperator::Plus => Arithmetic::Add,
        BinaryOperator::Minus => Arithmetic::Subtract,
        BinaryOperator::Multiply => Arithmetic::Multiply,
        BinaryOperator::Divide => Arithmetic::Divide,
        BinaryOperator::Modulo => Arithmetic::Remainder,
        _ => return None,
    })
}

fn compare(left: &Expr, comparison: Comparison, right: &Expr, depth: u32) -> Result<Node> {
    let (left_node, left_kind) = compile(left, depth)?;
    let (right_node, right_kind) = compile(right, depth)?;
    match (left_kind, right_kind) {
        (Kind::Truth, Kind::Number) | (Kind::Number, Kind::Truth) => Err(SqlProblem::Kind {
            part: right.to_string(),
            wanted: match left_kind {
                Kind::Number => "a number",
                Kind::Truth | Kind::Any => "a truth",
            },
        }),
        _ => Ok(Node::Compare(
            Box::new(left_node),
            comparison,
            Box::new(right_node),
        )),
    }
}

fn column(name: &Ident) -> Result<(Node, Kind)> {
    // Without quotes case does not matter, as in DataFusion.
    let name = match name.quote_style {
        None => name.value.to_lowercase(),
        Some(_) => name.value.clone(),
    };
    let known = SQL_COLUMNS.iter().zip(COLUMNS);
    for ((known, is_truth), column) in known {
        if *known == name {
            let kind = if *is_truth { Kind::Truth } else { Kind::Number };
            return Ok((Node::Column(column), kind));
        }
    }
    if let Some((name, instead)) = NOT_YET_KNOWN.into_iter().find(|(known, _)| *known == name) {
        return Err(SqlProblem::NotYetKnown { name, instead });
    }
    if name == "services" {
        return Err(SqlProblem::NotYetKnown {
            name: "services",
            instead: "use it in `array_has(services, 'name')`",
        });
    }
    let columns = SQL_COLUMNS.iter().map(|(known, _)| *known);
    let nearest = nearest(&name, columns.chain(["services"]));
    Err(SqlProblem::Column { name, nearest })
}

fn literal(value: &Value) -> Option<(Node, Kind)> {
    let (datum, kind) = match value {
        Value::Null => (None, Kind::Any),
        Value::Boolean(is_true) => (Some(Datum::Bool(*is_true)), Kind::Truth),
        Value::Number(text, _) => {
            let number = match text.parse::<i64>() {
                Ok(int) => Number::Int(int),
                Err(_) => Number::Double(text.parse().ok()?),
            };
            (Some(Datum::Number(number)), Kind::Number)
        }
        _ => return None,
    };
    Some((Node::Literal(datum), kind))
}

/// `array_has(services, 'name')`; `None` for any other call.
fn call(function: &Function) -> Option<Node> {
    let name = function.name.to_string();
    let FunctionArguments::List(arguments) = &function.args else {
        return None;
    };
    let is_plain = function.filter.is_none()
        && function.over.is_none()
        && arguments.clauses.is_empty()
        && arguments.duplicate_treatment.is_none();
    let [
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Identifier(list))),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(service))),
    ] = arguments.args.as_slice()
    else {
        return None;
    };
    let Value::SingleQuotedString(service) = &service.value else {
        return None;
    };
    let is_it = is_plain
        && name.eq_ignore_ascii_case("array_has")
        && list.value.eq_ignore_ascii_case("services");
    is_it.then(|| Node::HasService(service.as_str().into()))
}

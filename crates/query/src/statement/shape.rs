//! What a statement is without the identifiers that it asks for.
//!
//! `column = 'text'` in a `WHERE`, where the column holds identifiers, is cut: a parameter stands in its place. Two
//! statements of one shape have the same plan but for these parameters. Nothing else is cut: a text may be a unit, a format or
//! the name of a column of the answer, and then the plan depends on it.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Select, Statement as SqlStatement, Value, ValueWithSpan, Visit, VisitMut,
    Visitor, VisitorMut,
};

use crate::id_index::ID_COLUMNS;

/// A longer statement has no shape: most of such a text is a list that does not come again.
const TEXT_BYTES_MAX: usize = 16 << 10;

/// A statement with `$1`, `$2` and so on for its identifiers.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) statement: Statement,
    pub(crate) text: String,
    /// Of `$1` first.
    pub(crate) ids: Vec<String>,
}

impl Shape {
    /// The shape of a query; `None` of anything else, and of a query that has parameters of its own.
    pub(crate) fn of(parsed: &Statement) -> Option<Self> {
        let Statement::Statement(sql) = parsed else {
            return None;
        };
        let is_query = matches!(sql.as_ref(), SqlStatement::Query(_));
        if !is_query || sql.visit(&mut FindParameter).is_break() {
            return None;
        }
        let mut sql = sql.clone();
        let mut cut = Cut { ids: Vec::new() };
        let ControlFlow::Continue(()) = VisitMut::visit(&mut sql, &mut cut);
        let text = sql.to_string();
        (text.len() <= TEXT_BYTES_MAX).then_some(Self {
            statement: Statement::Statement(sql),
            text,
            ids: cut.ids,
        })
    }
}

struct FindParameter;

impl Visitor for FindParameter {
    type Break = ();

    fn pre_visit_value(&mut self, value: &ValueWithSpan) -> ControlFlow<()> {
        match value.value {
            Value::Placeholder(_) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

struct Cut {
    ids: Vec<String>,
}

impl VisitorMut for Cut {
    type Break = std::convert::Infallible;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Self::Break> {
        if let Some(condition) = &mut select.selection {
            self.cut(condition);
        }
        ControlFlow::Continue(())
    }
}

impl Cut {
    /// Conditions that must all hold; others are left as they are.
    fn cut(&mut self, condition: &mut Expr) {
        match condition {
            Expr::Nested(inner) => self.cut(inner),
            Expr::BinaryOp { left, op, right } if *op == BinaryOperator::And => {
                self.cut(left);
                self.cut(right);
            }
            Expr::BinaryOp { left, op, right } if *op == BinaryOperator::Eq => {
                if is_id_column(left) {
                    self.cut_text(right);
                } else if is_id_column(right) {
                    self.cut_text(left);
                }
            }
            _ => {}
        }
    }

    fn cut_text(&mut self, expr: &mut Expr) {
        let Expr::Value(value) = expr else {
            return;
        };
        if let Value::SingleQuotedString(id) = &mut value.value {
            self.ids.push(std::mem::take(id));
            value.value = Value::Placeholder(format!("${}", self.ids.len()));
        }
    }
}

fn is_id_column(expr: &Expr) -> bool {
    let name = match expr {
        Expr::Identifier(name) => Some(name),
        Expr::CompoundIdentifier(names) => names.last(),
        _ => None,
    };
    name.is_some_and(|name| ID_COLUMNS.contains(name.value.as_str()))
}

#[cfg(test)]
mod tests {
    use super::Shape;
    use crate::statement::parse;

    fn shape(sql: &str) -> Option<(String, Vec<String>)> {
        let parsed = parse(sql, 1 << 20, None).expect(sql);
        Shape::of(&parsed).map(|shape| (shape.text, shape.ids))
    }

    #[test]
    fn identifiers_that_a_where_asks_for_are_cut() {
        for (sql, text, ids) in [
            (
                "SELECT * FROM spans WHERE trace_id = 'a' AND (name = 'b' AND 'c' = spans.span_id)",
                "SELECT * FROM spans WHERE trace_id = $1 AND (name = 'b' AND 'c' = spans.span_id)",
                vec!["a"],
            ),
            (
                "SELECT 1 FROM (SELECT * FROM spans WHERE trace_id = 'a') AS s WHERE s.trace_id = 'b'",
                "SELECT 1 FROM (SELECT * FROM spans WHERE trace_id = $2) AS s WHERE s.trace_id = $1",
                vec!["b", "a"],
            ),
            (
                "SELECT 1 FROM spans WHERE trace_id = 'a' UNION ALL SELECT 2 FROM traces WHERE trace_id = 'b'",
                "SELECT 1 FROM spans WHERE trace_id = $1 UNION ALL SELECT 2 FROM traces WHERE trace_id = $2",
                vec!["a", "b"],
            ),
        ] {
            let ids = ids.into_iter().map(str::to_owned).collect();
            assert_eq!(shape(sql), Some((text.to_owned(), ids)), "{sql}");
        }
    }

    #[test]
    fn nothing_else_is_cut() {
        for sql in [
            "SELECT trace_id = 'a' FROM spans",
            "SELECT * FROM spans WHERE trace_id = 'a' OR name = 'b'",
            "SELECT * FROM spans WHERE trace_id <> 'a' AND NOT (trace_id = 'b')",
            "SELECT * FROM spans WHERE trace_id IN ('a', 'b')",
            "SELECT * FROM spans WHERE lower(trace_id) = 'a'",
            "SELECT * FROM spans WHERE trace_id = CAST('a' AS TEXT)",
            "SELECT trace_id FROM spans GROUP BY trace_id HAVING trace_id = 'a'",
            "SELECT * FROM spans WHERE start_time > now() - INTERVAL '1 hour' LIMIT 20",
        ] {
            let (_, ids) = shape(sql).expect(sql);
            assert_eq!(ids, Vec::<String>::new(), "{sql}");
        }
    }

    #[test]
    fn a_statement_with_parameters_or_that_is_no_query_has_no_shape() {
        for sql in [
            "SELECT * FROM spans WHERE trace_id = $1",
            "SELECT * FROM spans WHERE trace_id = 'a' LIMIT $1",
            "EXPLAIN SELECT * FROM spans WHERE trace_id = 'a'",
            "SHOW TABLES",
        ] {
            assert_eq!(shape(sql), None, "{sql}");
        }
        let long = "x".repeat(super::TEXT_BYTES_MAX);
        assert_eq!(shape(&format!("SELECT '{long}'")), None);
    }
}

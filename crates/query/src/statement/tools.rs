//! What tools of Postgres write and DataFusion does not plan, beyond what `datafusion-pg-catalog` rewrites.
//!
//! | written | read as | why that is the same here |
//! |---|---|---|
//! | `(SELECT a FROM t WHERE ..)` as a value | `(SELECT first_value(a) FROM t WHERE ..)` | Postgres refuses a second row |
//! | `(information_schema._pg_expandarray(..)).n`, or of a column that it made | `CAST(NULL AS INT)` | it unfolds the columns of indexes and constraints, and there are none |
//! | `conkey[n]`, `indkey[n]` and their like | the same | as above |
//! | `'pg_catalog.array_in'::regproc` | `'array_in'` | functions in `pg_type` are given by name |
//! | `SELECT NULL, NULL` | each with a name of its own | Postgres calls them all `?column?` |
//!
//! Only statements about the catalog come here: one about spans means the same at every door.

use std::collections::HashSet;
use std::convert::Infallible;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    AccessExpr, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentList, FunctionArguments, GroupByExpr, Ident, ObjectName, ObjectNamePart, Query,
    Select, SelectItem, SetExpr, Statement, Value, VisitMut, VisitorMut,
};

const EXPAND: &str = "_pg_expandarray";

/// What the library makes of a text that is cast to `regproc`.
const FUNCTION_LOOK_UP: &str = "SELECT oid FROM pg_catalog.pg_proc WHERE proname = ";

/// Lists of columns, one for each key or index.
const LISTS: [&str; 7] = [
    "confkey",
    "conkey",
    "indclass",
    "i_indoption",
    "indcollation",
    "indkey",
    "indoption",
];

/// Of the functions that make one row of many, those that such statements use.
const AGGREGATES: [&str; 9] = [
    "array_agg",
    "avg",
    "bool_and",
    "bool_or",
    "count",
    "max",
    "min",
    "string_agg",
    "sum",
];

/// The statement as DataFusion plans it.
pub(super) fn rewritten(mut statement: Statement) -> Statement {
    let expands = statement.to_string().contains(EXPAND);
    let ControlFlow::Continue(()) = VisitMut::visit(&mut statement, &mut Rewriter { expands });
    statement
}

struct Rewriter {
    /// Is a column anywhere made by [`EXPAND`]?
    expands: bool,
}

impl VisitorMut for Rewriter {
    type Break = Infallible;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Infallible> {
        if is_of_list(expr) || (self.expands && is_expanded(expr)) {
            *expr = no_number();
        }
        if let Some(name) = function_named(expr) {
            *expr = Expr::Value(Value::SingleQuotedString(name).into());
        }
        if let Expr::Subquery(query) = expr {
            take_one_row(query);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Infallible> {
        if let SetExpr::Select(select) = query.body.as_mut() {
            name_apart(select);
        }
        ControlFlow::Continue(())
    }
}

/// Is it what [`EXPAND`] makes, or a field of that?
fn is_expanded(expr: &Expr) -> bool {
    match expr {
        Expr::Function(function) => last_name(&function.name) == EXPAND,
        Expr::CompoundFieldAccess { access_chain, .. } => access_chain
            .iter()
            .all(|access| matches!(access, AccessExpr::Dot(_))),
        _ => false,
    }
}

/// Is it an item of one of [`LISTS`]?
fn is_of_list(expr: &Expr) -> bool {
    let Expr::CompoundFieldAccess { root, access_chain } = expr else {
        return false;
    };
    let [before @ .., AccessExpr::Subscript(_)] = access_chain.as_slice() else {
        return false;
    };
    let list = match before.last() {
        Some(AccessExpr::Dot(field)) => field,
        Some(AccessExpr::Subscript(_)) => return false,
        None => root,
    };
    let name = match list {
        Expr::Identifier(name) => Some(name),
        Expr::CompoundIdentifier(names) => names.last(),
        _ => None,
    };
    name.is_some_and(|name| LISTS.contains(&name.value.to_ascii_lowercase().as_str()))
}

/// The name, without its schema, of a function that was given as text: `datafusion-pg-catalog` makes a look-up of its
/// number of the cast, and has the names in its columns.
fn function_named(expr: &Expr) -> Option<String> {
    let Expr::Subquery(query) = expr else {
        return None;
    };
    let SetExpr::Select(select) = query.body.as_ref() else {
        return None;
    };
    let Some(Expr::BinaryOp { right, .. }) = &select.selection else {
        return None;
    };
    let Expr::Value(text) = right.as_ref() else {
        return None;
    };
    let is_look_up = select.to_string().starts_with(FUNCTION_LOOK_UP);
    let text = text.value.clone().into_string()?;
    let name = text.rsplit('.').next()?;
    is_look_up.then(|| name.to_owned())
}

fn no_number() -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(Expr::Value(Value::Null.into())),
        data_type: DataType::Int(None),
        format: None,
        array: false,
    }
}

/// Makes one value of a query that gives a column of rows as they are.
fn take_one_row(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else {
        return;
    };
    let is_grouped = !matches!(&select.group_by, GroupByExpr::Expressions(by, _) if by.is_empty());
    if is_grouped || select.from.is_empty() || query.limit_clause.is_some() {
        return;
    }
    let [SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }] =
        select.projection.as_mut_slice()
    else {
        return;
    };
    if !is_aggregate(expr) {
        let value = std::mem::replace(expr, no_number());
        *expr = first_value(value);
    }
}

fn is_aggregate(expr: &Expr) -> bool {
    match expr {
        Expr::Function(function) => AGGREGATES.contains(&last_name(&function.name).as_str()),
        Expr::Cast { expr, .. } | Expr::Nested(expr) => is_aggregate(expr),
        _ => false,
    }
}

fn first_value(value: Expr) -> Expr {
    Expr::Function(Function {
        name: ObjectName(vec![ObjectNamePart::Identifier(Ident::new("first_value"))]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(value))],
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// Gives a literal that comes again a name of its own.
fn name_apart(select: &mut Select) {
    let mut seen = HashSet::new();
    for (idx, item) in select.projection.iter_mut().enumerate() {
        if let SelectItem::UnnamedExpr(expr @ Expr::Value(_)) = item
            && !seen.insert(expr.to_string())
        {
            *item = SelectItem::ExprWithAlias {
                expr: expr.clone(),
                alias: Ident::with_quote('"', format!("?column?{}", idx + 1)),
            };
        }
    }
}

/// The name without its schema, in small letters.
fn last_name(name: &ObjectName) -> String {
    let last = name.0.last().and_then(ObjectNamePart::as_ident);
    last.map(|name| name.value.to_ascii_lowercase())
        .unwrap_or_default()
}

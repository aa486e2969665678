//! One statement, parsed and known to be a query.
//!
//! Limits: the text has at most `statement_kib`, and at most [`OPERATORS_MAX`] words and operators.
//! The second bounds the depth of every tree that is made from the text: a level of a left-deep
//! chain (`a OR b OR c`, `a || b`, `x::int::int`, `UNION ALL`) needs at least one of them. Literals,
//! commas and parentheses are free, so that an `IN` list may be long; nesting by parentheses is
//! bounded by the parser.

mod shape;
mod tools;

use std::collections::VecDeque;
use std::sync::LazyLock;

use datafusion::common::DataFusionError;
use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;
use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect, PostgreSqlDialect};
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use datafusion_pg_catalog::sql::PostgresCompatibilityParser;

use crate::error::{Error, Result};
use crate::statement_log::Said;

pub(crate) use shape::Shape;

/// Words and operators of one statement. Leaves 32 KiB of [`crate::executor::STACK_BYTES`] for each
/// level of the deepest tree; planning time grows with the square of its depth.
pub(crate) const OPERATORS_MAX: usize = 2_048;

/// Levels of nested parentheses, subqueries and function calls.
pub(crate) const NESTING_MAX: usize = 128;

/// Parses a text that must hold exactly one query. What was understood may be logged.
pub(crate) fn parse(sql: &str, bytes_max: usize, said: Option<&Said>) -> Result<Statement> {
    let dialect = GenericDialect {};
    let tokens = tokens(sql, bytes_max, &dialect)?;
    let keyword = first_word(&tokens);
    let statements: VecDeque<Statement> = DFParserBuilder::new(tokens)
        .with_dialect(&dialect)
        .with_recursion_limit(NESTING_MAX)
        .build()
        .and_then(|mut parser| parser.parse_statements())
        .map_err(|source| Error::Syntax {
            source: Box::new(source),
        })?;
    understood(sql, &dialect, &statements, said);
    only_query(statements, keyword)
}

/// The same for a client of Postgres, and whether the text is about its catalog. Such a text is read as Postgres reads
/// it, and its tables and functions are there; any other is read as everywhere here, so that a statement means the
/// same at every door.
pub(crate) fn parse_postgres(
    sql: &str,
    bytes_max: usize,
    said: Option<&Said>,
) -> Result<(Statement, bool)> {
    let dialect = PostgreSqlDialect {};
    let Ok(tokens) = tokens(sql, bytes_max, &dialect) else {
        return Ok((parse(sql, bytes_max, said)?, false));
    };
    if !tokens.iter().any(|token| is_of_postgres(&token.token)) {
        return Ok((parse(sql, bytes_max, said)?, false));
    }
    let keyword = first_word(&tokens);
    if keyword == "SHOW" || keyword == "DESCRIBE" {
        return Ok((parse(sql, bytes_max, said)?, false));
    }
    let parsed = PARSER.parse(sql).map_err(syntax)?;
    let statements = parsed
        .into_iter()
        .map(|statement| Statement::Statement(Box::new(tools::rewritten(statement))))
        .collect();
    understood(sql, &dialect, &statements, said);
    Ok((only_query(statements, keyword)?, true))
}

fn understood(
    sql: &str,
    dialect: &dyn Dialect,
    statements: &VecDeque<Statement>,
    said: Option<&Said>,
) {
    if let Some(said) = said {
        said.understood(sql, dialect, statements.iter().all(is_read_only));
    }
}

/// Rewrites what tools of Postgres send into what DataFusion understands. Building it reads its patterns.
static PARSER: LazyLock<PostgresCompatibilityParser> =
    LazyLock::new(PostgresCompatibilityParser::new);

/// Words that only a statement about names, types and the session has; those that begin with `pg_` are too.
const WORDS_OF_POSTGRES: [&str; 26] = [
    "array_lower",
    "array_upper",
    "col_description",
    "current_catalog",
    "current_database",
    "current_role",
    "current_schema",
    "current_schemas",
    "current_setting",
    "current_user",
    "format_type",
    "has_any_column_privilege",
    "has_database_privilege",
    "has_schema_privilege",
    "has_table_privilege",
    "information_schema",
    "obj_description",
    "parse_ident",
    "quote_ident",
    "regclass",
    "regnamespace",
    "regproc",
    "regtype",
    "session_user",
    "shobj_description",
    "version",
];

fn is_of_postgres(token: &Token) -> bool {
    let Token::Word(word) = token else {
        return false;
    };
    let word = word.value.to_ascii_lowercase();
    word.starts_with("pg_") || WORDS_OF_POSTGRES.contains(&word.as_str())
}

fn tokens(sql: &str, bytes_max: usize, dialect: &dyn Dialect) -> Result<Vec<TokenWithSpan>> {
    if sql.len() > bytes_max {
        return Err(Error::TooLong {
            n_bytes: sql.len(),
            bytes_max,
        });
    }
    let tokens = Tokenizer::new(dialect, sql)
        .tokenize_with_location()
        .map_err(|error| syntax(ParserError::from(error)))?;
    let n_operators = tokens
        .iter()
        .filter(|token| is_operator(&token.token))
        .count();
    if n_operators > OPERATORS_MAX {
        return Err(Error::TooComplex {
            n_operators,
            operators_max: OPERATORS_MAX,
        });
    }
    Ok(tokens)
}

fn only_query(mut statements: VecDeque<Statement>, keyword: String) -> Result<Statement> {
    if statements.len() > 1 {
        return Err(Error::SeveralStatements {
            n_statements: statements.len(),
        });
    }
    let statement = statements.pop_front().ok_or(Error::NoStatement)?;
    if !is_read_only(&statement) {
        return Err(Error::NotReadOnly { keyword });
    }
    Ok(statement)
}

fn syntax(error: ParserError) -> Error {
    Error::Syntax {
        source: Box::new(DataFusionError::SQL(Box::new(error), None)),
    }
}

fn is_operator(token: &Token) -> bool {
    !matches!(
        token,
        Token::EOF
            | Token::Whitespace(_)
            | Token::Number(..)
            | Token::Char(_)
            | Token::SingleQuotedString(_)
            | Token::NationalStringLiteral(_)
            | Token::EscapedStringLiteral(_)
            | Token::HexStringLiteral(_)
            | Token::Comma
            | Token::LParen
            | Token::RParen
            | Token::SemiColon
    )
}

fn first_word(tokens: &[TokenWithSpan]) -> String {
    let word = tokens.iter().find_map(|token| match &token.token {
        Token::Word(word) => Some(word.value.to_uppercase()),
        _ => None,
    });
    word.unwrap_or_default()
}

/// An allow-list: a kind of statement that a later parser adds is refused until it is listed.
fn is_read_only(statement: &Statement) -> bool {
    match statement {
        Statement::Statement(statement) => is_read_only_sql(statement),
        Statement::Explain(explain) => match explain.statement.as_ref() {
            Statement::Statement(inner) => matches!(inner.as_ref(), SqlStatement::Query(_)),
            Statement::Explain(_)
            | Statement::CreateExternalTable(_)
            | Statement::CopyTo(_)
            | Statement::Reset(_) => false,
        },
        Statement::CreateExternalTable(_) | Statement::CopyTo(_) | Statement::Reset(_) => false,
    }
}

fn is_read_only_sql(statement: &SqlStatement) -> bool {
    match statement {
        SqlStatement::Query(_)
        | SqlStatement::ShowTables { .. }
        | SqlStatement::ShowColumns { .. }
        | SqlStatement::ExplainTable { .. } => true,
        SqlStatement::Explain { statement, .. } => {
            matches!(statement.as_ref(), SqlStatement::Query(_))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{OPERATORS_MAX, parse};
    use crate::error::Error;

    const BYTES_MAX: usize = 1024 * 1024;

    fn check(sql: &str, expected: &str) {
        let got = match parse(sql, BYTES_MAX, None) {
            Ok(_) => "ok".to_owned(),
            Err(error) => error.explanation(),
        };
        assert!(
            got.contains(expected),
            "{sql}\n got: {got}\nwant: {expected}"
        );
    }

    #[test]
    fn queries_are_accepted() {
        for sql in [
            "SELECT 1",
            "select 1;",
            "WITH a AS (SELECT 1 AS x) SELECT x FROM a",
            "VALUES (1), (2)",
            "EXPLAIN SELECT 1",
            "EXPLAIN ANALYZE SELECT 1",
            "EXPLAIN VERBOSE SELECT 1",
            "SHOW TABLES",
            "SHOW COLUMNS FROM spans",
            "DESCRIBE spans",
            "(SELECT 1) UNION ALL (SELECT 2)",
            "-- a comment\nSELECT 1 /* and another */",
        ] {
            check(sql, "ok");
        }
    }

    #[test]
    fn everything_else_is_refused_by_name() {
        for (sql, expected) in [
            (
                "CREATE EXTERNAL TABLE x STORED AS CSV LOCATION '/etc/passwd'",
                "`CREATE` is refused",
            ),
            (
                "COPY (SELECT 1 AS a) TO '/tmp/evil.parquet'",
                "`COPY` is refused",
            ),
            (
                "SET datafusion.execution.batch_size = 1",
                "`SET` is refused",
            ),
            (
                "RESET datafusion.execution.batch_size",
                "`RESET` is refused",
            ),
            ("CREATE TABLE mine AS SELECT 1", "`CREATE` is refused"),
            ("CREATE VIEW mine AS SELECT 1", "`CREATE` is refused"),
            ("DROP TABLE spans", "`DROP` is refused"),
            (
                "INSERT INTO spans SELECT * FROM spans",
                "`INSERT` is refused",
            ),
            ("DELETE FROM spans", "`DELETE` is refused"),
            ("UPDATE spans SET name = 'x'", "`UPDATE` is refused"),
            ("TRUNCATE TABLE spans", "`TRUNCATE` is refused"),
            ("PREPARE p AS SELECT 1", "`PREPARE` is refused"),
            ("EXECUTE p", "`EXECUTE` is refused"),
            ("BEGIN", "`BEGIN` is refused"),
            ("EXPLAIN DROP TABLE spans", "`EXPLAIN` is refused"),
            (
                "EXPLAIN ANALYZE COPY (SELECT 1) TO '/tmp/x'",
                "`EXPLAIN` is refused",
            ),
            ("EXPLAIN EXPLAIN SELECT 1", ""),
            ("SELECT 1; DROP TABLE spans", "2 statements in one text"),
            ("SELECT 1; SELECT 2;", "2 statements in one text"),
            ("", "no statement"),
            (" ;; -- nothing", "no statement"),
            ("SELEC 1", "not valid SQL"),
            ("SELECT 'open", "not valid SQL"),
        ] {
            check(sql, expected);
            assert!(parse(sql, BYTES_MAX, None).is_err(), "{sql}");
        }
    }

    #[test]
    fn length_and_depth_have_limits_that_lists_do_not_meet() {
        assert!(matches!(
            parse("SELECT 1", 7, None),
            Err(Error::TooLong {
                n_bytes: 8,
                bytes_max: 7
            })
        ));
        let ids = vec!["'00000000000000000000000000000001'"; 20_000].join(",");
        check(
            &format!("SELECT 1 FROM spans WHERE trace_id IN ({ids})"),
            "ok",
        );
        let chain = vec!["a"; OPERATORS_MAX].join("+");
        check(&format!("SELECT {chain}"), "more than the limit of 2048");
        check(
            &format!("SELECT {}1{}", "(".repeat(1000), ")".repeat(1000)),
            "not valid SQL",
        );
    }
}

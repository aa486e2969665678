//! What drivers and tools say beside queries, none of which reaches the engine.
//!
//! | statement | answer |
//! |---|---|
//! | `BEGIN`, `START TRANSACTION`, `COMMIT`, `END`, `ROLLBACK`, `ABORT`, `SAVEPOINT`, `RELEASE` | as Postgres: the connection says that it is in a transaction. Each statement sees the rows of its own moment all the same |
//! | `SET` of a name in [`HARMLESS`], `SET TRANSACTION`, `SET SESSION CHARACTERISTICS` | taken, without effect. The encoding must be UTF-8 |
//! | `RESET` of the same names, `RESET ALL` | taken, without effect |
//! | `SHOW` of a name in `pg_catalog::settings`, `statement_timeout`, `application_name` | the value that holds here |
//! | `DISCARD ..`, `DEALLOCATE ..`, `CLOSE ..`, `UNLISTEN ..` | prepared statements and portals of this connection are forgotten |
//!
//! Any other `SET` is refused as an attempt to change something (SQLSTATE 25006), `datafusion.*` among them.

use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, Tokenizer};

use super::problem::Problem;
use crate::pg_catalog;

/// Names that clients set on their own, and that change nothing here.
pub(crate) const HARMLESS: [&str; 24] = [
    "application_name",
    "bytea_output",
    "client_encoding",
    "client_min_messages",
    "cursor_tuple_fraction",
    "datestyle",
    "default_transaction_isolation",
    "default_transaction_read_only",
    "escape_string_warning",
    "extra_float_digits",
    "geqo",
    "idle_in_transaction_session_timeout",
    "idle_session_timeout",
    "intervalstyle",
    "jit",
    "lock_timeout",
    "names",
    "row_security",
    "search_path",
    "ssl_renegotiation_limit",
    "standard_conforming_strings",
    "statement_timeout",
    "timezone",
    "transaction_read_only",
];

/// One statement of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Said {
    Noise(Noise),
    /// For the engine.
    Query {
        sql: String,
        /// What its end is called.
        tag: &'static str,
    },
}

/// Something that is answered without the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Noise {
    /// Nothing at all, or comments.
    Empty,
    Begin,
    Commit,
    Rollback,
    /// Only the name of what was done.
    Done(&'static str),
    /// The value of a setting, under its name.
    Show(String),
    /// Forget one prepared statement, or all.
    Deallocate(Option<String>),
    /// Forget all portals, and prepared statements too.
    DiscardAll,
    ClosePortal(Option<String>),
}

/// The statements of a text.
pub(crate) fn read(text: &str) -> Result<Vec<Said>, Problem> {
    let dialect = PostgreSqlDialect {};
    let Ok(tokens) = Tokenizer::new(&dialect, text).tokenize_with_location() else {
        // The engine knows better what is wrong with it.
        return Ok(vec![query(text, &[])]);
    };
    let lines = line_starts(text);
    let mut statements = Vec::new();
    let (mut begin, mut words) = (0, Vec::new());
    for token in tokens {
        match token.token {
            Token::SemiColon => {
                let end = offset(text, &lines, token.span.start);
                statements.push(statement(text.get(begin..end).unwrap_or_default(), &words)?);
                (begin, words) = (end + 1, Vec::new());
            }
            Token::Whitespace(_) | Token::EOF => {}
            other => words.push(other),
        }
    }
    if !words.is_empty() || statements.is_empty() {
        statements.push(statement(text.get(begin..).unwrap_or_default(), &words)?);
    }
    if statements.len() > 1 {
        statements.retain(|said| *said != Said::Noise(Noise::Empty));
    }
    Ok(statements)
}

fn line_starts(text: &str) -> Vec<usize> {
    let ends = text.match_indices('\n').map(|(idx, _)| idx + 1);
    std::iter::once(0).chain(ends).collect()
}

/// Where a place is in the bytes: the tokenizer counts lines and characters.
fn offset(text: &str, lines: &[usize], at: Location) -> usize {
    let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let line = lines.get(number(at.line).saturating_sub(1)).copied();
    let line = line.unwrap_or(text.len());
    let rest = text.get(line..).unwrap_or_default();
    let column = number(at.column).saturating_sub(1);
    let before = rest.char_indices().nth(column);
    line + before.map_or(rest.len(), |(idx, _)| idx)
}

fn query(sql: &str, words: &[Token]) -> Said {
    let tag = match word(words.first()).as_str() {
        "EXPLAIN" => "EXPLAIN",
        "SHOW" | "DESCRIBE" => "SHOW",
        _ => "SELECT",
    };
    Said::Query {
        sql: sql.to_owned(),
        tag,
    }
}

/// A word in capitals; empty for what is none.
fn word(token: Option<&Token>) -> String {
    match token {
        Some(Token::Word(word)) => word.value.to_uppercase(),
        _ => String::new(),
    }
}

fn statement(sql: &str, tokens: &[Token]) -> Result<Said, Problem> {
    let second = word(tokens.get(1));
    let is_to_savepoint = tokens.iter().any(|token| word(Some(token)) == "TO");
    let name = |token: Option<&Token>| match token {
        Some(Token::Word(name)) if name.quote_style.is_some() => Some(name.value.clone()),
        Some(Token::Word(name)) => Some(name.value.to_lowercase()),
        _ => None,
    };
    let all_or_name = |skipped: usize| match word(tokens.get(skipped)).as_str() {
        "ALL" => None,
        _ => name(tokens.get(skipped)),
    };
    let noise = match word(tokens.first()).as_str() {
        "" if tokens.is_empty() => Noise::Empty,
        "BEGIN" => Noise::Begin,
        "START" if second == "TRANSACTION" => Noise::Begin,
        "COMMIT" | "END" => Noise::Commit,
        "ROLLBACK" if is_to_savepoint => Noise::Done("ROLLBACK"),
        "ROLLBACK" | "ABORT" => Noise::Rollback,
        "SAVEPOINT" => Noise::Done("SAVEPOINT"),
        "RELEASE" => Noise::Done("RELEASE"),
        "DISCARD" if second == "ALL" => Noise::DiscardAll,
        "DISCARD" => Noise::Done("DISCARD"),
        "DEALLOCATE" if second == "PREPARE" => Noise::Deallocate(all_or_name(2)),
        "DEALLOCATE" => Noise::Deallocate(all_or_name(1)),
        "CLOSE" => Noise::ClosePortal(all_or_name(1)),
        "UNLISTEN" => Noise::Done("UNLISTEN"),
        "COPY" => {
            return Err(
                Problem::new("0A000", "`COPY` is refused: rows go out by SELECT alone")
                    .hint("psql writes the rows of a query to a file with `--csv` and `-o`"),
            );
        }
        "SET" => {
            set(tokens)?;
            Noise::Done("SET")
        }
        "RESET" => {
            reset(tokens)?;
            Noise::Done("RESET")
        }
        "SHOW" => match shown(tokens) {
            Some(name) => Noise::Show(name),
            None => return Ok(query(sql, tokens)),
        },
        _ => return Ok(query(sql, tokens)),
    };
    Ok(Said::Noise(noise))
}

/// May this be set?
fn set(tokens: &[Token]) -> Result<(), Problem> {
    let skipped = match word(tokens.get(1)).as_str() {
        "SESSION" | "LOCAL" => 2,
        _ => 1,
    };
    let name = word(tokens.get(skipped)).to_lowercase();
    let next = word(tokens.get(skipped + 1));
    let is_assigned = matches!(tokens.get(skipped + 1), Some(Token::Eq)) || next == "TO";
    match (name.as_str(), next.as_str()) {
        ("transaction", _) | ("characteristics", "AS") | ("time", "ZONE") => Ok(()),
        ("client_encoding" | "names", _) => {
            let value = tokens.get(skipped + 1 + usize::from(is_assigned));
            let value = value.map_or(String::new(), text);
            let value = value.to_ascii_lowercase().replace('-', "");
            if matches!(value.as_str(), "utf8" | "unicode" | "default") {
                return Ok(());
            }
            Err(Problem::new(
                "22023",
                "the encoding of clients is UTF-8 and no other",
            ))
        }
        (name, _) if is_assigned && HARMLESS.contains(&name) => Ok(()),
        _ => Err(Problem::read_only(&format!(
            "`SET {}`",
            dotted(tokens, skipped)
        ))),
    }
}

fn reset(tokens: &[Token]) -> Result<(), Problem> {
    let name = word(tokens.get(1)).to_lowercase();
    let is_whole = tokens.len() == 2;
    let is_time_zone = name == "time" && word(tokens.get(2)) == "ZONE";
    if is_time_zone || (is_whole && (name == "all" || HARMLESS.contains(&name.as_str()))) {
        return Ok(());
    }
    Err(Problem::read_only(&format!(
        "`RESET {}`",
        dotted(tokens, 1)
    )))
}

/// The setting that is asked for; `None` for what the engine shows, such as tables.
fn shown(tokens: &[Token]) -> Option<String> {
    let name = dotted(tokens, 1).to_lowercase();
    let next = word(tokens.get(2));
    match (name.as_str(), next.as_str(), tokens.len()) {
        ("time", "ZONE", 3) => Some("timezone".to_owned()),
        ("transaction", "ISOLATION", 4) => Some("transaction_isolation".to_owned()),
        ("tables" | "columns" | "all" | "functions", _, _) => None,
        (_, _, 2) => Some(name),
        _ => None,
    }
}

/// A name with its dots.
fn dotted(tokens: &[Token], from: usize) -> String {
    let mut name = tokens.get(from).map_or(String::new(), text);
    let mut rest = tokens.iter().skip(from + 1);
    while let (Some(Token::Period), Some(part)) = (rest.next(), rest.next()) {
        name.push('.');
        name.push_str(&text(part));
    }
    name
}

fn text(token: &Token) -> String {
    match token {
        Token::Word(word) => word.value.clone(),
        Token::SingleQuotedString(text) => text.clone(),
        other => other.to_string(),
    }
}

/// What `SHOW` answers.
pub(crate) fn show(
    name: &str,
    application_name: &str,
    timeout: std::time::Duration,
) -> Result<String, Problem> {
    match name {
        "application_name" => Ok(application_name.to_owned()),
        "statement_timeout" => Ok(format!("{}ms", timeout.as_millis())),
        "session_authorization" | "role" => Ok(pg_catalog::ROLE.to_owned()),
        _ => pg_catalog::setting(name).map(str::to_owned).ok_or_else(|| {
            Problem::new("42704", format!("there is no setting `{name}`")).hint(
                "the settings of the engine are not shown; `SHOW TABLES` lists what can be asked",
            )
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::{Noise, Said, read};

    fn check(text: &str, expected: &[&str]) {
        let said = match read(text) {
            Ok(said) => said,
            Err(problem) => {
                assert_eq!(expected, [problem.code], "{text}");
                return;
            }
        };
        let said = said.into_iter().map(|said| match said {
            Said::Noise(noise) => format!("{noise:?}"),
            Said::Query { sql, tag } => format!("{tag}: {}", sql.trim()),
        });
        assert_eq!(said.collect::<Vec<_>>(), expected, "{text}");
    }

    #[test]
    fn texts_are_cut_at_semicolons_outside_of_quotes_and_comments() {
        check(
            "SELECT ';' ; SELECT \"a;b\"",
            &["SELECT: SELECT ';'", "SELECT: SELECT \"a;b\""],
        );
        check(
            "-- ;\nSELECT 1 /* ; */;",
            &["SELECT: -- ;\nSELECT 1 /* ; */"],
        );
        check(
            "SELECT '\u{e4}\n;\u{f6}', $$;$$;\nSHOW TABLES",
            &[
                "SELECT: SELECT '\u{e4}\n;\u{f6}', $$;$$",
                "SHOW: SHOW TABLES",
            ],
        );
        check("", &["Empty"]);
        check("-- ping", &["Empty"]);
        check(" ; ;; ", &[]);
        check("SELECT 'open", &["SELECT: SELECT 'open"]);
    }

    #[test]
    fn what_clients_say_on_their_own_is_taken() {
        for (text, expected) in [
            ("BEGIN", "Begin"),
            ("begin isolation level read committed read only", "Begin"),
            ("START TRANSACTION READ ONLY", "Begin"),
            ("COMMIT;", "Commit"),
            ("end", "Commit"),
            ("ROLLBACK", "Rollback"),
            ("ROLLBACK TO SAVEPOINT a", "Done(\"ROLLBACK\")"),
            ("SAVEPOINT a", "Done(\"SAVEPOINT\")"),
            ("SET extra_float_digits = 3", "Done(\"SET\")"),
            (
                "SET application_name = 'DBeaver 24 - Main'",
                "Done(\"SET\")",
            ),
            (
                "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
                "Done(\"SET\")",
            ),
            ("SET TIME ZONE 'UTC'", "Done(\"SET\")"),
            ("SET client_encoding TO 'UTF-8'", "Done(\"SET\")"),
            ("SET NAMES 'utf8'", "Done(\"SET\")"),
            ("SET search_path = public, other", "Done(\"SET\")"),
            ("RESET ALL", "Done(\"RESET\")"),
            (
                "SHOW TRANSACTION ISOLATION LEVEL",
                "Show(\"transaction_isolation\")",
            ),
            ("show search_path", "Show(\"search_path\")"),
            ("DISCARD ALL", "DiscardAll"),
            ("DEALLOCATE ALL", "Deallocate(None)"),
            (
                "DEALLOCATE PREPARE \"_Pg3_0\"",
                "Deallocate(Some(\"_Pg3_0\"))",
            ),
            ("UNLISTEN *", "Done(\"UNLISTEN\")"),
        ] {
            check(text, &[expected]);
        }
    }

    #[test]
    fn what_would_change_something_is_not_taken_for_noise() {
        for (text, expected) in [
            ("SET datafusion.execution.batch_size = 1", "25006"),
            ("SET datafusion = 1", "25006"),
            ("SET ROLE postgres", "25006"),
            ("SET SESSION AUTHORIZATION DEFAULT", "25006"),
            ("SET LOCAL work_mem = '64MB'", "25006"),
            ("RESET datafusion.execution.batch_size", "25006"),
            ("SET client_encoding = 'LATIN1'", "22023"),
            ("SET", "25006"),
            ("COPY spans TO STDOUT", "0A000"),
            ("LISTEN a", "SELECT: LISTEN a"),
            ("DROP TABLE spans", "SELECT: DROP TABLE spans"),
            ("SHOW ALL", "SHOW: SHOW ALL"),
        ] {
            check(text, &[expected]);
        }
        assert_eq!(
            read("BEGIN; DROP TABLE a").unwrap().first(),
            Some(&Said::Noise(Noise::Begin))
        );
    }
}

//! The log of statements: what it says, and what it must not say. Each door runs [`leak`] with its own client.

use std::io;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use futures::StreamExt;
use serde_json::Value;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;

use super::support::{Fixture, NEW_YEAR, batch, config, fixture, numbered};
use crate::statement_log::{Config as LogConfig, TARGET};
use crate::{Config, Engine};

/// Stands wherever a statement has a value. It is a number too.
const CANARY: &str = "hunter2";
/// Long enough not to be in an id that chance has made.
const NUMBER: &str = "8675309";

/// A statement, and how it is logged; `None`: only its length.
const STATEMENTS: &[(&str, Option<&str>)] = &[
    (
        "SELECT 'hunter2', 8675309, -8675309.5, 1.8675309e5, .8675309",
        Some("SELECT ?, ?, -?, ?, ?"),
    ),
    ("SELECT 1 -- hunter2", Some("SELECT ?")),
    (
        "SELECT /* hunter2 */ 1 /* a /* hunter2 */ b */",
        Some("SELECT ?"),
    ),
    ("SELECT /*+ hunter2(8675309) */ 1", Some("SELECT ?")),
    ("-- hunter2\nSELECT\n\t1", Some("SELECT ?")),
    (
        "SELECT $$hunter2$$, $tag$hunter2 $$ 8675309$tag$",
        Some("SELECT ?, ?"),
    ),
    ("SELECT E'hunter2\\n'", Some("SELECT ?")),
    ("SELECT N'hunter2'", Some("SELECT ?")),
    ("SELECT U&'hunter2'", Some("SELECT ?")),
    ("SELECT X'68756e74657232'", Some("SELECT ?")),
    ("SELECT 'it''s hunter2'", Some("SELECT ?")),
    ("SELECT 'a' 'hunter2'", Some("SELECT ? ?")),
    ("SELECT 1 AS 'hunter2'", Some("SELECT ? AS ?")),
    ("SELECT 8675309hunter2", Some("SELECT ?")),
    ("SELECT 'a'hunter2", Some("SELECT ?")),
    (
        "SELECT \"Kept\" AS \"so \"\"kept\"\"\" FROM (SELECT 'hunter2' AS \"Kept\") AS t",
        Some("SELECT \"Kept\" AS \"so \"\"kept\"\"\" FROM (SELECT ? AS \"Kept\") AS t"),
    ),
    (
        "SELECT DATE '2026-01-01', TIMESTAMP '2026-01-01T00:00:00.8675309Z', INTERVAL '8675309 days', INTERVAL 8675309 DAY",
        Some("SELECT DATE ?, TIMESTAMP ?, INTERVAL ?, INTERVAL ? DAY"),
    ),
    (
        "SELECT true, NULL, 'hunter2'::VARCHAR(8675309), CAST('hunter2' AS VARCHAR)",
        Some("SELECT true, NULL, ?::VARCHAR(?), CAST(? AS VARCHAR)"),
    ),
    (
        "SELECT count(*) FROM spans WHERE trace_id LIKE '%hunter2%' AND name NOT ILIKE 'hunter2_'",
        Some("SELECT count(*) FROM spans WHERE trace_id LIKE ? AND name NOT ILIKE ?"),
    ),
    (
        "SELECT count(*) FROM spans WHERE trace_id IN ('hunter2', 'x') OR duration_ns BETWEEN 8675309 AND 8675310",
        Some("SELECT count(*) FROM spans WHERE trace_id IN (?, ?) OR duration_ns BETWEEN ? AND ?"),
    ),
    (
        "SELECT count(*) FROM spans WHERE name ~ 'hunter2' AND name !~* 'hunter2'",
        Some("SELECT count(*) FROM spans WHERE name ~ ? AND name !~* ?"),
    ),
    (
        "SELECT name FROM spans GROUP BY name HAVING count(*) > 8675309 ORDER BY name = 'hunter2' LIMIT 8675309 OFFSET 8675309",
        Some(
            "SELECT name FROM spans GROUP BY name HAVING count(*) > ? ORDER BY name = ? LIMIT ? OFFSET ?",
        ),
    ),
    (
        "SELECT CASE name WHEN 'hunter2' THEN 8675309 ELSE coalesce(8675309, 1) END FROM spans",
        Some("SELECT CASE name WHEN ? THEN ? ELSE coalesce(?, ?) END FROM spans"),
    ),
    (
        "SELECT attr(attributes, 'hunter2'), attributes['hunter2'] FROM spans",
        Some("SELECT attr(attributes, ?), attributes[?] FROM spans"),
    ),
    (
        "SELECT [8675309, 2], MAP {'hunter2': 8675309}, {'hunter2': 'hunter2'}",
        Some("SELECT [?, ?], MAP {?: ?}, {?: ?}"),
    ),
    ("SELECT '{\"password\": \"hunter2\"}'", Some("SELECT ?")),
    (
        "SELECT substring('hunter2' FROM 2 FOR 3), position('hunter2' IN 'x'), trim('h' FROM 'hunter2')",
        Some("SELECT substring(? FROM ? FOR ?), position(? IN ?), trim(? FROM ?)"),
    ),
    (
        "SELECT sum(v) OVER (ORDER BY v ROWS 8675309 PRECEDING) FROM (VALUES (8675309), (2)) AS t(v)",
        Some("SELECT sum(v) OVER (ORDER BY v ROWS ? PRECEDING) FROM (VALUES (?), (?)) AS t(v)"),
    ),
    (
        "WITH a AS (SELECT 'hunter2' AS x) SELECT x FROM a WHERE EXISTS (SELECT 8675309) UNION ALL SELECT 'hunter2'",
        Some(
            "WITH a AS (SELECT ? AS x) SELECT x FROM a WHERE EXISTS (SELECT ?) UNION ALL SELECT ?",
        ),
    ),
    ("EXPLAIN SELECT 'hunter2'", Some("EXPLAIN SELECT ?")),
    (
        "EXPLAIN ANALYZE SELECT 'hunter2'",
        Some("EXPLAIN ANALYZE SELECT ?"),
    ),
    // Understood, and not answered: the messages have the values in them.
    (
        "SELECT CAST('hunter2' AS INT)",
        Some("SELECT CAST(? AS INT)"),
    ),
    (
        "SELECT CAST(name || 'hunter2' AS BIGINT) FROM (VALUES ('a')) AS t(name)",
        Some("SELECT CAST(name || ? AS BIGINT) FROM (VALUES (?)) AS t(name)"),
    ),
    (
        "SELECT no_such_function('hunter2')",
        Some("SELECT no_such_function(?)"),
    ),
    (
        "SELECT trace_hex('hunter2', 'hunter2')",
        Some("SELECT trace_hex(?, ?)"),
    ),
    (
        "SELECT colour FROM spans WHERE name = 'hunter2'",
        Some("SELECT colour FROM spans WHERE name = ?"),
    ),
    ("SELECT * FROM 'hunter2'", Some("SELECT * FROM ?")),
    (
        "SELECT * FROM nothing WHERE x = 'hunter2'",
        Some("SELECT * FROM nothing WHERE x = ?"),
    ),
    (
        "SELECT v FROM generate_series(1, 8675309) AS t(v)",
        Some("SELECT v FROM generate_series(?, ?) AS t(v)"),
    ),
    (
        "SELECT array_agg('hunter2' || v) FROM generate_series(1, 8675309000) AS t(v)",
        Some("SELECT array_agg(? || v) FROM generate_series(?, ?) AS t(v)"),
    ),
    // Not understood.
    ("SELEC 'hunter2'", None),
    ("hunter2", None),
    ("SELECT 'hunter2", None),
    ("SELECT hunter2 FROM (", None),
    ("what is the password of hunter2", None),
];

/// Statements that are no queries: a door may look at them before the engine does.
const REFUSED: &[&str] = &[
    "SET password = hunter2",
    "SET password = 'hunter2'",
    "DROP TABLE hunter2",
    "COPY (SELECT 'hunter2') TO 'hunter2'",
    "CREATE EXTERNAL TABLE x STORED AS CSV LOCATION 'hunter2' OPTIONS ('k' 'hunter2')",
    "PREPARE p AS SELECT 'hunter2'",
    "EXECUTE p('hunter2')",
    "INSERT INTO spans SELECT 'hunter2'",
    "CREATE ROLE hunter2 PASSWORD 'hunter2'",
    "SELECT 1; SELECT 'hunter2'",
];

/// Lines of this thread, and of whichever threads have no log of their own.
pub(crate) struct Log {
    here: Sink,
    _guard: tracing::subscriber::DefaultGuard,
}

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    fn subscriber(&self) -> impl tracing::Subscriber + Send + Sync + use<> {
        let sink = self.clone();
        let ours = [TARGET, "query", "lake", "datafusion"];
        let targets = ours.map(|target| (target, LevelFilter::TRACE));
        tracing_subscriber::registry()
            .with(Targets::new().with_targets(targets))
            .with(
                tracing_subscriber::fmt::layer()
                    .json()
                    .flatten_event(true)
                    .with_writer(move || sink.clone()),
            )
    }
}

/// What is logged by threads that a test has not started itself.
fn elsewhere() -> &'static Sink {
    static SINK: OnceLock<Sink> = OnceLock::new();
    SINK.get_or_init(|| {
        let sink = Sink::default();
        tracing::subscriber::set_global_default(sink.subscriber()).unwrap();
        sink
    })
}

impl Log {
    pub(crate) fn new() -> Self {
        elsewhere();
        let here = Sink::default();
        let guard = tracing::subscriber::set_default(here.subscriber());
        Self {
            here,
            _guard: guard,
        }
    }

    /// The lines of statements on this thread.
    pub(crate) fn statements(&self) -> Vec<Value> {
        let text = self.here.text();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        lines
            .filter(|line: &Value| line["target"] == TARGET)
            .collect()
    }

    /// Whatever was said, by whomever.
    #[track_caller]
    pub(crate) fn assert_without(&self, secrets: &[&str]) {
        for text in [self.here.text(), elsewhere().text()] {
            for line in text.lines() {
                for secret in secrets {
                    assert!(!line.to_lowercase().contains(secret), "{secret}: {line}");
                }
            }
        }
    }
}

/// Limits that the statements meet.
pub(crate) fn logged(log: LogConfig) -> Config {
    Config {
        timeout: Duration::from_secs(120),
        memory_mib: 4,
        spill_mib: 0,
        rows_max: 100,
        statement_kib: 8,
        statement_log: log,
        ..config()
    }
}

pub(crate) const ON: LogConfig = LogConfig {
    enabled: true,
    literals: false,
    slower_than: None,
};

/// Sends every statement through a door, whose answers are a number of rows or a message.
pub(crate) async fn leak<F: Future<Output = Result<u64, String>>>(
    name: &str,
    log: &Log,
    mut door: impl FnMut(String) -> F,
) {
    for (sql, expected) in STATEMENTS {
        let n_before = log.statements().len();
        let answer = door((*sql).to_owned()).await;
        let lines = log.statements().split_off(n_before);
        let [line] = lines.as_slice() else {
            panic!("{name}: {sql}: {lines:#?}");
        };
        assert_eq!(line["statement"].as_str(), *expected, "{name}: {sql}");
        assert_eq!(line["door"], name, "{sql}");
        assert_eq!(line["bytes"], sql.len(), "{name}: {sql}");
        assert!(line["duration_ms"].is_u64(), "{line}");
        match answer {
            Ok(n_rows) => {
                assert_eq!(line["outcome"], "answered", "{name}: {sql}");
                assert_eq!(line["rows"], n_rows, "{name}: {sql}");
                assert_eq!(line["truncated"], n_rows == 100, "{name}: {sql}");
                assert!(line["reason"].is_null(), "{line}");
            }
            Err(message) => {
                assert!(
                    line["reason"].is_string(),
                    "{name}: {sql}: {line} {message}"
                );
                let outcome = line["outcome"].as_str().unwrap();
                assert!(
                    ["refused", "limited"].contains(&outcome),
                    "{name}: {sql}: {line} {message}"
                );
            }
        }
    }
    for sql in REFUSED {
        let n_before = log.statements().len();
        assert!(door((*sql).to_owned()).await.is_err(), "{name}: {sql}");
        let lines = log.statements().split_off(n_before);
        assert_eq!(lines.len(), 1, "{name}: {sql}: {lines:#?}");
        assert_eq!(lines[0]["outcome"], "refused", "{name}: {sql}");
    }
    let long = format!("SELECT '{}'", CANARY.repeat(1200));
    assert!(door(long).await.is_err());
    let chain = format!("SELECT 1{}", " + 8675309 * x".repeat(600));
    assert!(door(chain).await.is_err());
    log.assert_without(&[CANARY, NUMBER, "68756e74657232"]);
}

async fn filled(log: LogConfig) -> Fixture {
    let fixture = fixture(&logged(log)).await;
    fixture.append("spans", 1, batch("spans", &[numbered(NEW_YEAR, 1)]));
    fixture
}

async fn count(engine: &Engine, sql: &str) -> Result<u64, String> {
    let answer = engine.answer(sql, None).await;
    let mut answer = answer.map_err(|error| error.to_string())?;
    while let Some(batch) = answer.next().await {
        batch.map_err(|error| error.to_string())?;
    }
    Ok(answer.n_rows())
}

#[tokio::test]
async fn no_value_leaves_by_the_log_whatever_comes_of_a_statement() {
    let (log, fixture) = (Log::new(), filled(ON).await);
    let engine = &fixture.engine;
    leak(
        "inside",
        &log,
        |sql| async move { count(engine, &sql).await },
    )
    .await;
}

#[tokio::test]
async fn a_line_says_who_and_how_it_ended() {
    let (log, fixture) = (Log::new(), filled(ON).await);
    for (sql, expected) in [
        ("SELECT 1", r#"["answered",null,1,false]"#),
        (
            "SELECT v FROM generate_series(1, 5000) AS t(v)",
            r#"["answered",null,100,true]"#,
        ),
        ("DROP TABLE spans", r#"["refused","not_read_only",0,false]"#),
        ("SELEC", r#"["refused","syntax",0,false]"#),
        (
            "SELECT a FROM spans",
            r#"["refused","unknown_column",0,false]"#,
        ),
        (
            "SELECT array_agg(v) FROM generate_series(1, 90000000) AS t(v)",
            r#"["limited","out_of_memory",0,false]"#,
        ),
    ] {
        let _either = count(&fixture.engine, sql).await;
        let lines = log.statements();
        let line = lines.last().unwrap();
        let got = ["outcome", "reason", "rows", "truncated"].map(|name| line[name].clone());
        assert_eq!(serde_json::to_string(&got).unwrap(), expected, "{sql}");
    }
    let endless = "SELECT v FROM generate_series(1, 100000000000) AS t(v)";
    drop(fixture.engine.answer(endless, None).await.unwrap());
    let line = log.statements().pop().unwrap();
    assert_eq!(line["outcome"], "stopped");
    assert!(line["user"].is_null(), "{line}");
    assert_eq!(log.statements().len(), 7);
}

#[tokio::test]
async fn a_line_says_that_it_was_the_time() {
    let log = Log::new();
    let config = Config {
        timeout: Duration::from_millis(300),
        // Rows that wait between two threads, one of which gets no processor, may be more than the memory.
        threads: NonZeroUsize::new(1),
        ..logged(ON)
    };
    let fixture = fixture(&config).await;
    let endless = "SELECT count(*) FROM generate_series(1, 8675309000000) AS t(v) WHERE v::VARCHAR = 'hunter2'";
    count(&fixture.engine, endless).await.unwrap_err();
    let line = log.statements().pop().unwrap();
    assert_eq!(
        (&line["outcome"], &line["reason"]),
        (&"limited".into(), &"timed_out".into())
    );
    log.assert_without(&[CANARY, NUMBER]);
}

#[tokio::test]
async fn on_request_a_line_has_the_text_as_it_came_and_an_end() {
    let literals = LogConfig {
        literals: true,
        ..ON
    };
    let (log, fixture) = (Log::new(), filled(literals).await);
    let long = format!("SELECT '{}'", "\u{e4}".repeat(3000));
    for sql in ["SELECT 'a' -- and a comment", "not a statement", &long] {
        let _either = count(&fixture.engine, sql).await;
        let line = log.statements().pop().unwrap();
        assert_eq!(line["statement"], sql);
    }
}

#[tokio::test]
async fn what_is_answered_soon_can_be_left_out_and_what_is_refused_cannot() {
    let slow = LogConfig {
        slower_than: Some(Duration::from_secs(3600)),
        ..ON
    };
    let (log, fixture) = (Log::new(), filled(slow).await);
    count(&fixture.engine, "SELECT 1").await.unwrap();
    count(&fixture.engine, "SELEC 1").await.unwrap_err();
    let lines = log.statements();
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert_eq!(lines[0]["outcome"], "refused");
}

#[tokio::test]
async fn there_is_no_log_unless_it_is_asked_for() {
    let (log, fixture) = (Log::new(), filled(LogConfig::default()).await);
    count(&fixture.engine, "SELECT 1").await.unwrap();
    assert!(log.statements().is_empty());
}

#[test]
fn the_keys_are_read_and_others_are_refused() {
    let read = |text: &str| serde_json::from_str::<Config>(text).map(|config| config.statement_log);
    let given = r#"{"statement_log": {"enabled": true, "literals": true, "slower_than": "1m30s"}}"#;
    let expected = LogConfig {
        enabled: true,
        literals: true,
        slower_than: Some(Duration::from_secs(90)),
    };
    assert_eq!(read(given).unwrap(), expected);
    assert_eq!(read("{}").unwrap(), LogConfig::default());
    for wrong in ["{\"literal\": true}", "{\"slower_than\": \"soon\"}"] {
        let text = format!("{{\"statement_log\": {wrong}}}");
        assert!(read(&text).is_err(), "{wrong}");
    }
}

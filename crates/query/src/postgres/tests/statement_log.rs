//! The log of statements, by both protocols of Postgres, with tokens and parameters.

use super::client::{Told, bind, connect, execute, open, parse, sync};
use crate::statement_log::Config;
use crate::tests::statement_log::{Log, ON, leak, logged};
use crate::tests::support::fixture;

fn outcome(told: &[Told]) -> Result<u64, String> {
    let n_rows = told.iter().filter(|told| told.kind == 'D').count();
    match told.iter().find(|told| told.kind == 'E') {
        Some(error) => Err(error.shown()),
        None => Ok(u64::try_from(n_rows).unwrap()),
    }
}

#[tokio::test]
async fn no_value_leaves_by_the_log_of_the_simple_protocol() {
    let log = Log::new();
    let served = open(fixture(&logged(ON)).await).await;
    let address = served.address;
    leak("postgres", &log, |sql| async move {
        outcome(&connect(address).await.query(&sql).await)
    })
    .await;
}

#[tokio::test]
async fn no_value_leaves_by_the_log_of_the_extended_protocol() {
    let log = Log::new();
    let served = open(fixture(&logged(ON)).await).await;
    let address = served.address;
    leak("postgres", &log, |sql| async move {
        let mut client = connect(address).await;
        for message in [
            parse("", &sql, &[]),
            bind("", "", 0, &[], 0),
            execute("", 0),
            sync(),
        ] {
            client.send(&message).await;
        }
        outcome(&client.ready().await)
    })
    .await;
}

/// Parameters are in no line, even where the statement is.
#[tokio::test]
async fn values_of_parameters_are_not_logged() {
    for literals in [false, true] {
        let log = Log::new();
        let served = open(fixture(&logged(Config { literals, ..ON })).await).await;
        let mut client = connect(served.address).await;
        let sql = "SELECT $1 || 'x' FROM spans WHERE trace_id = $1";
        for message in [
            parse("", sql, &[]),
            bind("", "", 0, &[Some(b"swordfish")], 0),
            execute("", 0),
            sync(),
        ] {
            client.send(&message).await;
        }
        assert_eq!(outcome(&client.ready().await), Ok(0));
        let lines = log.statements();
        assert_eq!(lines.len(), 1, "{lines:#?}");
        let logged = if literals {
            sql
        } else {
            "SELECT $1 || ? FROM spans WHERE trace_id = $1"
        };
        assert_eq!(lines[0]["statement"], logged);
        assert_eq!(lines[0]["user"], "127.0.0.1");
        log.assert_without(&["swordfish"]);
    }
}

/// What a text is about the catalog is read as Postgres reads it, comments in comments too.
#[tokio::test]
async fn a_text_is_logged_as_it_was_read() {
    let log = Log::new();
    let served = open(fixture(&logged(ON)).await).await;
    let mut client = connect(served.address).await;
    client
        .query("SELECT relname FROM pg_class /* a /* b */ swordfish */ WHERE relname = 'swordfish'")
        .await;
    let line = log.statements().pop().unwrap();
    assert_eq!(
        line["statement"],
        "SELECT relname FROM pg_class WHERE relname = ?"
    );
    log.assert_without(&["swordfish"]);
}

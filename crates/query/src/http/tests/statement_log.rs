//! The log of statements, over HTTP.

use std::sync::Arc;

use serde_json::json;

use super::{Served, listen};
use crate::tests::statement_log::{Log, ON, leak, logged};
use crate::tests::support::fixture;

#[tokio::test]
async fn no_value_leaves_by_the_log() {
    let log = Log::new();
    let fixture = fixture(&logged(ON)).await;
    let address = listen(Arc::clone(&fixture.engine)).await;
    let served = &Served { fixture, address };
    leak("http", &log, |sql| async move {
        let json = served.ask(json!({ "sql": sql })).await.json();
        match json["error"]["message"].as_str() {
            Some(message) => Err(message.to_owned()),
            None => Ok(json["row_count"].as_u64().unwrap()),
        }
    })
    .await;
}

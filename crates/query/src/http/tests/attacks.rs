//! The common list of attacks, over HTTP.

use std::sync::Arc;

use serde_json::json;

use super::{Served, listen};
use crate::tests::attacks::{attack, fill, tight};
use crate::tests::support::fixture;

#[tokio::test(flavor = "multi_thread")]
async fn attacks_are_refused_or_stopped_and_a_neighbour_is_answered() {
    let fixture = fixture(&tight()).await;
    fill(&fixture);
    let address = listen(Arc::clone(&fixture.engine)).await;
    let served = &Served { fixture, address };
    attack(&served.fixture, |sql| async move {
        let json = served.ask(json!({ "sql": sql })).await.json();
        match json["error"]["message"].as_str() {
            Some(message) => Err(message.to_owned()),
            None => Ok(json["row_count"].as_u64().unwrap()),
        }
    })
    .await;
}

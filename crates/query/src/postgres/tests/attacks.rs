//! The common list of attacks, by the simple and by the extended protocol.

use super::client::{bind, connect, execute, open, parse, sync};
use crate::tests::attacks::{attack, fill, tight};
use crate::tests::support::fixture;

#[tokio::test(flavor = "multi_thread")]
async fn attacks_are_refused_or_stopped_and_a_neighbour_is_answered() {
    let fixture = fixture(&tight()).await;
    fill(&fixture);
    let served = open(fixture).await;
    let address = served.address;
    let mut is_simple = false;
    attack(&served.fixture, |sql| {
        is_simple = !is_simple;
        let is_simple = is_simple;
        async move {
            let mut client = connect(address).await;
            let told = if is_simple {
                client.query(&sql).await
            } else {
                for message in [
                    parse("", &sql, &[]),
                    bind("", "", 0, &[], 0),
                    execute("", 0),
                    sync(),
                ] {
                    client.send(&message).await;
                }
                client.ready().await
            };
            let n_rows = told.iter().filter(|told| told.kind == 'D').count();
            let result = match told.iter().find(|told| told.kind == 'E') {
                Some(error) => Err(error.shown()),
                None => Ok(u64::try_from(n_rows).unwrap()),
            };
            // The connection goes on.
            assert_eq!(client.ask("SELECT 1").await, ["1", "SELECT 1"], "{sql}");
            result
        }
    })
    .await;
}

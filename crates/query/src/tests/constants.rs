//! Columns that a file does not have to be asked for: answers are those of rows that were never in a file.

use arrow::array::{AsArray, BooleanArray, ListArray, RecordBatch};
use arrow::compute::{concat_batches, filter_record_batch};
use tables::redact;

use super::support::{Fixture, captured, config_of_files, fixture, spans_with};

/// Spans of a capture: those without events and links, and the others.
fn spans() -> [RecordBatch; 2] {
    let bodies = captured("real-chain");
    let batches: Vec<_> = bodies
        .iter()
        .map(|body| spans_with(&redact::Config::default(), body))
        .collect();
    let all = concat_batches(batches[0].schema_ref(), &batches).unwrap();
    let list = |name: &str| -> ListArray { all[name].as_list::<i32>().clone() };
    let (events, links) = (list("events"), list("links"));
    let is_plain = |row| events.value_length(row) == 0 && links.value_length(row) == 0;
    let plain: BooleanArray = (0..all.num_rows()).map(|row| Some(is_plain(row))).collect();
    let others: BooleanArray = plain
        .iter()
        .map(|plain| plain.map(|plain| !plain))
        .collect();
    [plain, others].map(|wanted| filter_record_batch(&all, &wanted).unwrap())
}

fn trace_ids(spans: &RecordBatch) -> Vec<String> {
    let ids = spans["trace_id"].as_string::<i32>();
    let mut ids: Vec<String> = ids.iter().flatten().map(str::to_owned).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

async fn whole(fixture: &Fixture, trace_id: &str) -> String {
    let sql = format!("SELECT * FROM spans WHERE trace_id = '{trace_id}' ORDER BY span_id");
    fixture.ask(&sql).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trace_is_the_same_with_columns_that_need_not_be_read() {
    let [plain, others] = spans();
    assert!(plain.num_rows() > 0);
    let ids = trace_ids(&plain);
    let fixture = fixture(&config_of_files()).await;
    fixture.append("spans", 1, plain);
    fixture.append("spans", 2, others);
    let mut expected = Vec::new();
    for id in ids.iter().take(20) {
        expected.push(whole(&fixture, id).await);
    }
    // A file in which every list is empty, and one in which they are not.
    fixture.commit("spans", 1).await;
    fixture.commit("spans", 2).await;
    for (id, expected) in ids.iter().zip(&expected) {
        assert_eq!(&whole(&fixture, id).await, expected, "{id}");
        let sql = format!(
            "SELECT count(*) FROM spans WHERE trace_id = '{id}' AND events IS NOT NULL \
             AND links IS NOT NULL"
        );
        let n_rows = expected.lines().count() - 4;
        assert_eq!(fixture.number(&sql).await, n_rows as i64, "{id}");
    }
}

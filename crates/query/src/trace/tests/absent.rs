//! What is said of a trace without spans.

use ::otlp::testing::tid;

use super::super::{Absence, why_absent};
use super::{CALLER, stored};
use crate::tests::support::{Cell, NEW_YEAR, batch, config, fixture, row};

#[tokio::test]
async fn a_trace_without_spans_is_unknown_not_kept_or_gone() {
    let fixture = fixture(&config()).await;
    let decided = |number, decision, policy| {
        let cells = [
            ("trace_id", Cell::Owned(tid(number).to_string())),
            ("decision", Cell::Text(decision)),
            ("policy", policy),
        ];
        row(NEW_YEAR, &cells)
    };
    let rows = [
        decided(1, "not_sampled", Cell::Null),
        decided(2, "dropped", Cell::Text("health checks")),
        decided(3, "sampled", Cell::Text("slow")),
        decided(4, "not_sampled", Cell::Null),
        decided(4, "sampled", Cell::Text("slow")),
    ];
    fixture.append("traces", 1, batch("traces", &rows));
    for (number, absence) in [
        (
            1,
            Absence::NotKept {
                decision: "not_sampled".to_owned(),
                policy: None,
            },
        ),
        (
            2,
            Absence::NotKept {
                decision: "dropped".to_owned(),
                policy: Some("health checks".to_owned()),
            },
        ),
        (3, Absence::Kept),
        (4, Absence::Kept),
        (5, Absence::Unknown),
    ] {
        let trace_id = tid(number);
        assert!(stored(&fixture, trace_id).await.unwrap().is_empty());
        let found = why_absent(&fixture.engine, trace_id, CALLER).await.unwrap();
        assert_eq!(found, absence, "{number}");
        assert!(found.explanation(trace_id).contains(&trace_id.to_string()));
    }
}

//! A report of batches to what it says of each.

use std::sync::Arc;

use correlate::{BatchSource, BatchTimes, Sighting, normalise_request_id};
use otlp::{SpanId, TraceId};
use reports::{Batch, Phase};
use tables::batches::{Participant, Worker};

pub(super) fn sighting(batch: &Batch) -> Sighting {
    let participants: Vec<Participant> = batch.participants.iter().map(participant).collect();
    // Without a number, those who are listed are all.
    let size = batch.participant_count.map(u64::from);
    let size = size.unwrap_or(participants.len() as u64);
    let (start, end) = (batch.start_unix_nano, batch.end_unix_nano);
    Sighting {
        source: BatchSource::Reported,
        worker: Arc::new(worker(batch)),
        dp_rank: batch.dp_rank.map(i64::from),
        batch_id: batch.batch_id.as_str().into(),
        step: batch.step.and_then(|step| i64::try_from(step).ok()),
        times: Some((BatchTimes::Reported, start, end)),
        around: (start, end.max(start)),
        size: Some(size).filter(|size| *size > 0),
        batch_tokens: None,
        model: text(&batch.model),
        span: None,
        participants,
    }
}

fn worker(batch: &Batch) -> Worker {
    let place = batch.worker.clone().unwrap_or_default();
    Worker {
        engine: None,
        service_name: text(&batch.service_name),
        service_instance_id: text(&batch.service_instance_id),
        k8s_cluster_name: text(&place.cluster),
        k8s_namespace_name: text(&place.namespace),
        k8s_pod_name: text(&place.pod),
        k8s_pod_uid: text(&place.pod_uid),
        k8s_node_name: text(&place.node),
        host_name: None,
    }
}

fn participant(reported: &reports::Participant) -> Participant {
    let request_id = text(&reported.request_id);
    let normalised = request_id
        .as_deref()
        .map(|id| Arc::from(normalise_request_id(id)));
    Participant {
        trace_id: TraceId::from_slice(&reported.trace_id).ok(),
        span_id: SpanId::from_slice(&reported.span_id).ok(),
        request_id,
        request_id_normalised: normalised,
        phase: match reported.phase() {
            Phase::Unspecified => None,
            Phase::Prefill => Some("prefill"),
            Phase::Decode => Some("decode"),
            Phase::Mixed => Some("mixed"),
        },
        tokens: reported.tokens,
    }
}

/// Protobuf says empty where it means nothing.
fn text(text: &str) -> Option<Arc<str>> {
    Some(text).filter(|text| !text.is_empty()).map(Arc::from)
}

#[cfg(test)]
mod tests {
    use correlate::{BatchWindow, ClosedBatches};
    use reports::{Batch, Participant, Phase, Worker};

    use super::sighting;

    const START: u64 = 1_772_366_400_000_000_000;

    fn reported(participant_count: Option<u32>) -> Batch {
        let one = |n: u8, request_id: &str, tokens| Participant {
            trace_id: if n > 0 { vec![n; 16] } else { Vec::new() },
            span_id: if n > 0 { vec![n; 8] } else { Vec::new() },
            request_id: request_id.to_owned(),
            phase: Phase::Decode.into(),
            tokens: Some(tokens),
        };
        Batch {
            batch_id: "7".to_owned(),
            step: Some(7),
            worker: Some(Worker {
                pod: "vllm-0".to_owned(),
                ..Worker::default()
            }),
            start_unix_nano: START,
            end_unix_nano: START + 1_000,
            participants: vec![
                one(1, "", 1),
                one(0, "chatcmpl-a", 2),
                one(0, "chatcmpl-b", 5),
            ],
            participant_count,
            ..Batch::default()
        }
    }

    /// Request id and share of each row.
    fn rows(batch: &Batch) -> Vec<(Option<String>, Option<i64>)> {
        use arrow::array::{Array as _, AsArray as _};
        use arrow::datatypes::Int64Type;

        let mut window = BatchWindow::new(ClosedBatches::default(), false);
        window.take(1, START + 2_000, [sighting(batch)]);
        assert!(window.is_first_complete() == batch.participant_count.is_none());
        let settled = window.settle_first().unwrap();
        let rows = &settled.rows[0];
        let ids = rows["request_id_normalised"].as_string::<i32>();
        let shares = rows["share_ns"].as_primitive::<Int64Type>();
        let row = |row| {
            let id = ids.is_valid(row).then(|| ids.value(row).to_owned());
            (id, shares.is_valid(row).then(|| shares.value(row)))
        };
        (0..rows.num_rows()).map(row).collect()
    }

    #[test]
    fn a_report_names_its_participants_by_span_or_by_request_id() {
        let id = |id: &str| Some(id.to_owned());
        assert_eq!(
            rows(&reported(None)),
            [
                (id("a"), Some(250)),
                (id("b"), Some(625)),
                (None, Some(125)),
            ]
        );
        assert_eq!(
            rows(&reported(Some(5))),
            [
                (id("a"), Some(200)),
                (id("b"), Some(200)),
                (None, Some(200)),
                (None, Some(400)),
            ]
        );
    }
}

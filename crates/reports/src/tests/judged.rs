//! What a report may say, and what its sender is told where it may not.

use proptest::prelude::*;
use prost::Message;

use crate::{
    Batch, Checked, Error, Kind, Observation, PARTICIPANTS_MAX, PLACEMENTS_MAX, Participant,
    Placement, ReportBatchesRequest, ReportPlacementsRequest, Worker, check, is_gpu_uuid,
};

const UUID: &str = "GPU-0a1b2c3d-0001-4000-8000-000000000001";
const T0: u64 = 1_772_366_400_000_000_000;

fn placement() -> Placement {
    Placement {
        worker: Some(worker()),
        tp_rank: Some(0),
        gpu_uuid: UUID.to_owned(),
        valid_from_unix_nano: T0,
        ..Placement::default()
    }
}

fn worker() -> Worker {
    Worker {
        pod: "vllm-0".to_owned(),
        ..Worker::default()
    }
}

fn batch() -> Batch {
    Batch {
        batch_id: "7".to_owned(),
        service_instance_id: "vllm-0:8000".to_owned(),
        start_unix_nano: T0,
        end_unix_nano: T0,
        participants: vec![Participant {
            request_id: "cmpl-1".to_owned(),
            ..Participant::default()
        }],
        ..Batch::default()
    }
}

fn placements(placements: Vec<Placement>, observation: Option<Observation>) -> Result<u64, String> {
    let request = ReportPlacementsRequest {
        placements,
        observation,
    };
    judged(Kind::Placements, &request.encode_to_vec())
}

fn batches(batches: Vec<Batch>) -> Result<u64, String> {
    judged(
        Kind::Batches,
        &ReportBatchesRequest { batches }.encode_to_vec(),
    )
}

fn judged(kind: Kind, body: &[u8]) -> Result<u64, String> {
    let checked = check(kind, body).map_err(|error| error.to_string());
    checked.map(|Checked { n_entries }| n_entries)
}

#[test]
fn whole_reports_are_taken() {
    assert_eq!(placements(vec![placement(), placement()], None), Ok(2));
    assert_eq!(placements(Vec::new(), None), Ok(0));
    assert_eq!(batches(vec![batch()]), Ok(1));
    let observation = Observation {
        node: "gpu-node-01".to_owned(),
        observed_unix_nano: T0,
        unchanged_until_unix_nano: Some(T0 - 10),
    };
    let named = Placement {
        gpu_uuid: String::new(),
        device_name: "nvidia0".to_owned(),
        valid_from_unix_nano: 0,
        ..placement()
    };
    // A node without devices in use is worth a word.
    assert_eq!(placements(Vec::new(), Some(observation.clone())), Ok(1));
    assert_eq!(placements(vec![named.clone()], Some(observation)), Ok(2));
    assert!(placements(vec![named], None).is_err());
}

#[test]
fn the_entry_that_is_wrong_is_named() {
    let change = |change: fn(&mut Placement)| {
        let mut wrong = placement();
        change(&mut wrong);
        placements(vec![placement(), wrong], None).unwrap_err()
    };
    for (message, expected) in [
        (
            change(|p| p.worker = None),
            "`placements[1].worker` must name the pod by `pod` or `pod_uid`",
        ),
        (
            change(|p| p.worker = Some(Worker::default())),
            "`placements[1].worker` must name the pod by `pod` or `pod_uid`",
        ),
        (
            change(|p| p.gpu_uuid = "0".into()),
            "`placements[1].gpu_uuid` is no UUID of a GPU such as `GPU-6e0bb1a2-0a4c-4f0e-9d53-1c2b3a495867`; an index is not enough",
        ),
        (
            change(|p| p.valid_from_unix_nano = 1_772_366_400),
            "`placements[1].valid_from_unix_nano` must be nanoseconds since 1970, after the year 2000",
        ),
        (
            change(|p| p.valid_to_unix_nano = Some(T0)),
            "`placements[1].valid_to_unix_nano` must be after `valid_from_unix_nano`",
        ),
        (
            change(|p| p.valid_to_unix_nano = Some(u64::MAX)),
            "`placements[1].valid_to_unix_nano` must be nanoseconds since 1970, after the year 2000",
        ),
        (
            change(|p| p.tp_rank = Some(u32::MAX)),
            "`placements[1].tp_rank` is no rank",
        ),
        (
            change(|p| p.worker.as_mut().unwrap().node = "n".repeat(1025)),
            "`placements[1].worker.node` is longer than 1024 bytes",
        ),
        (
            change(|p| p.worker.as_mut().unwrap().pod = "a\nb".into()),
            "`placements[1].worker.pod` has control characters",
        ),
    ] {
        assert_eq!(message, expected);
    }
    let change = |change: fn(&mut Batch)| {
        let mut wrong = batch();
        change(&mut wrong);
        batches(vec![wrong]).unwrap_err()
    };
    for (message, expected) in [
        (
            change(|b| b.batch_id.clear()),
            "`batches[0].batch_id` is required",
        ),
        (
            change(|b| b.service_instance_id.clear()),
            "`batches[0].service_instance_id` or `worker.pod` or `worker.pod_uid` must name the engine",
        ),
        (
            change(|b| b.end_unix_nano = T0 - 1),
            "`batches[0].end_unix_nano` must not be before `start_unix_nano`",
        ),
        (
            change(|b| b.participant_count = Some(0)),
            "`batches[0].participant_count` is less than the participants that are listed",
        ),
        (
            change(|b| b.participants[0].trace_id = vec![1; 15]),
            "`batches[0].participants[0]` has a `trace_id` that is neither empty nor 16 bytes with one that is not 0",
        ),
        (
            change(|b| b.participants[0].span_id = vec![0; 8]),
            "`batches[0].participants[0]` has a `span_id` that is neither empty nor 8 bytes with one that is not 0",
        ),
        (
            change(|b| b.participants[0].request_id.clear()),
            "`batches[0].participants[0]` must name the request by `trace_id` or `request_id`",
        ),
        (
            change(|b| b.participants[0].phase = 9),
            "`batches[0].participants[0]` has a `phase` that is none",
        ),
    ] {
        assert_eq!(message, expected);
    }
    let observation = |node: &str, at, before| {
        let observation = Observation {
            node: node.to_owned(),
            observed_unix_nano: at,
            unchanged_until_unix_nano: before,
        };
        placements(Vec::new(), Some(observation)).unwrap_err()
    };
    assert!(observation("", T0, None).contains("observation.node"));
    assert!(observation("n", 0, None).contains("observation.observed_unix_nano"));
    assert!(observation("n", T0, Some(T0 + 1)).contains("unchanged_until"));
}

/// A placement of two bytes would take hundreds once decoded.
#[test]
fn entries_are_counted_before_they_are_decoded() {
    let empty = |n: usize, field: u8| [field << 3 | 2, 0].repeat(n);
    let body = empty(PLACEMENTS_MAX + 1, 1);
    let expected = Error::TooMany {
        field: "placements",
        limit: PLACEMENTS_MAX,
    };
    assert_eq!(check(Kind::Placements, &body), Err(expected));
    let participants = empty(PARTICIPANTS_MAX + 1, 10);
    let mut body = vec![1 << 3 | 2];
    prost::encode_length_delimiter(participants.len(), &mut body).unwrap();
    body.extend(participants);
    let expected = Error::TooMany {
        field: "participants",
        limit: PARTICIPANTS_MAX,
    };
    assert_eq!(check(Kind::Batches, &body), Err(expected));
}

#[test]
fn uuids_are_told_from_indices_and_names() {
    let plain = UUID.trim_start_matches("GPU-");
    for uuid in [
        UUID.to_owned(),
        UUID.to_lowercase(),
        plain.to_owned(),
        format!("MIG-{plain}"),
        format!("MIG-GPU-{plain}/1/0"),
    ] {
        assert!(is_gpu_uuid(&uuid), "{uuid}");
    }
    for text in [
        "",
        "0",
        "GPU-",
        "GPU-0a1b2c3d",
        "nvidia0",
        "MIG-GPU-0a1b2c3d-0001-4000-8000-000000000001",
        "MIG-GPU-0a1b2c3d-0001-4000-8000-000000000001/1",
        "GPU-0a1b2c3d-0001-4000-8000-000000000001::2",
        "GPU-0a1b2c3d-0001-4000-8000-00000000000g",
        "GPU-0a1b2c3d-0001-4000-8000-000000000001-",
        "\u{1f600}",
    ] {
        assert!(!is_gpu_uuid(text), "{text}");
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_never_a_panic(body: Vec<u8>) {
        for kind in Kind::ALL {
            check(kind, &body).ok();
        }
    }

    #[test]
    fn a_report_cut_anywhere_is_refused_or_a_shorter_one(cut in 0_usize..400) {
        let request = ReportPlacementsRequest { placements: vec![placement(); 4], observation: None };
        let bytes = request.encode_to_vec();
        if let Ok(checked) = check(Kind::Placements, &bytes[..cut.min(bytes.len())]) {
            prop_assert!(checked.n_entries <= 4);
        }
    }
}

//! Cases from the field, as far as the join answers them; their files are read where samples come from.

use super::support::{Sample, batch, floats, ints, lists, placement, request, texts, uuid};
use crate::join::{KeptRequest, SampleIndex, Settings, Traffic, evidence};
use crate::{Placement, Placements};

const SECOND: i64 = 1_000_000_000;

fn join(
    requests: &[KeptRequest],
    samples: &[Sample],
    placements: Vec<Placement>,
) -> arrow::array::RecordBatch {
    let index = SampleIndex::new(&[batch(samples)]).expect("samples");
    let traffic = Traffic::new(requests.iter().filter_map(|request| {
        Some((
            request.engine.clone()?,
            request.start_unix_nano,
            request.end_unix_nano,
        ))
    }));
    let placements = Placements::new(placements);
    evidence(
        requests,
        &index,
        &placements,
        &traffic,
        Settings::default(),
        0,
    )
}

fn util(number: u32, at: f64, util: f64) -> Sample {
    Sample {
        uuid: uuid(number),
        at: (at * 1e9) as i64,
        util: Some(util),
        ..Sample::default()
    }
}

/// C55: short requests between rare samples, each of which arrives twice.
#[test]
fn samples_delivered_twice_count_once_and_short_requests_have_the_nearest() {
    let mut samples: Vec<Sample> = [
        (0.0, 4.0),
        (30.0, 96.0),
        (30.0, 96.0),
        (60.0, 5.0),
        (90.0, 5.0),
    ]
    .map(|(at, value)| util(1, at, value))
    .into();
    samples.extend([(30.0, 96.0), (30.4, 95.0)].map(|(at, value)| util(1, at, value)));
    let requests = [
        request(1, "a", 40 * SECOND, 40 * SECOND + SECOND * 3 / 10),
        request(2, "a", 29 * SECOND, 31 * SECOND),
        request(3, "a", 300 * SECOND, 300 * SECOND + SECOND / 2),
    ];
    let rows = join(&requests, &samples, vec![placement("a", 1, 0, None)]);
    assert_eq!(
        floats(&rows, "util_pct_avg"),
        [Some(95.0), Some(95.5), None]
    );
    assert_eq!(ints(&rows, "sample_count"), [Some(0), Some(2), Some(0)]);
    assert_eq!(floats(&rows, "nearest_sample_s"), [Some(9.6), None, None]);
    let resolution = Some("window_larger_than_request".to_owned());
    assert_eq!(
        texts(&rows, "resolution"),
        [resolution.clone(), resolution.clone(), resolution]
    );
    assert_eq!(
        texts(&rows, "missing_link"),
        [None, None, Some("gpu_samples".to_owned())]
    );
}

/// C50, after the mapping has said when codes appeared: 31 at 20 s and 80 s, 79 at 60 s, 31 again (by count) at 40 s.
#[test]
fn an_xid_belongs_to_the_requests_in_whose_time_it_appeared() {
    let codes: [&[i64]; 10] = [&[], &[], &[31], &[], &[31], &[], &[79], &[], &[31], &[]];
    let samples: Vec<Sample> = (0..)
        .zip(codes)
        .map(|(step, codes)| Sample {
            uuid: uuid(1),
            at: step * 10 * SECOND,
            xids: codes.to_vec(),
            ..Sample::default()
        })
        .collect();
    let times = [(1, 9), (15, 23), (43, 49), (55, 63)];
    let requests: Vec<KeptRequest> = (1..)
        .zip(times)
        .map(|(number, (start, end))| request(number, "a", start * SECOND, end * SECOND))
        .collect();
    let rows = join(&requests, &samples, vec![placement("a", 1, 0, None)]);
    let expected = ["", "31", "", "79"].map(|xids| Some(xids.to_owned()));
    assert_eq!(lists(&rows, "xids"), expected);
}

/// C49: one pod on eight GPUs.
#[test]
fn each_device_of_a_tensor_parallel_pod_is_one_row_and_knows_its_peers() {
    let samples: Vec<Sample> = (1..=8)
        .map(|number| Sample {
            clock: Some(if number == 3 { 1_000.0 } else { 1_900.0 }),
            ..util(number, 5.0, 90.0)
        })
        .collect();
    let placements = (1..=8)
        .map(|number| placement("a", number, 0, None))
        .collect();
    let rows = join(&[request(1, "a", 0, 10 * SECOND)], &samples, placements);
    assert_eq!(rows.num_rows(), 8);
    assert_eq!(ints(&rows, "peer_count"), [Some(7); 8]);
    assert_eq!(floats(&rows, "peers_sm_clock_mhz_avg")[2], Some(1_900.0));
    assert_eq!(floats(&rows, "sm_clock_mhz_avg")[2], Some(1_000.0));
    assert_eq!(
        texts(&rows, "attribution"),
        vec![Some("exclusive".to_owned()); 8]
    );
}

/// C47: a time-sliced GPU; replica suffixes and three pods.
#[test]
fn a_shared_gpu_is_said_to_be_shared_and_nothing_is_divided() {
    let samples = [Sample {
        power: Some(61.5),
        ..util(1, 5.0, 80.0)
    }];
    let placements = ["a", "b", "c"]
        .map(|pod| placement(pod, 1, 0, None))
        .to_vec();
    let requests = [
        request(1, "a", 0, 10 * SECOND),
        request(2, "b", 0, 10 * SECOND),
    ];
    let rows = join(&requests, &samples, placements);
    assert_eq!(
        texts(&rows, "attribution"),
        vec![Some("shared_gpu".to_owned()); 2]
    );
    assert_eq!(ints(&rows, "other_pod_count"), [Some(2), Some(2)]);
    assert_eq!(floats(&rows, "power_w_avg"), [Some(61.5), Some(61.5)]);
}

/// C46: instances of one GPU are devices of their own.
#[test]
fn a_mig_instance_has_its_own_samples_only() {
    let sample = |mig, value| Sample {
        mig,
        ..util(1, 5.0, value)
    };
    let samples = [
        sample(Some(1), 91.0),
        sample(Some(2), 7.0),
        sample(None, 49.0),
    ];
    let mut one = placement("a", 1, 0, None);
    one.device = crate::Device::parse(&uuid(1), Some(1)).expect("an instance");
    let rows = join(&[request(1, "a", 0, 10 * SECOND)], &samples, vec![one]);
    assert_eq!(floats(&rows, "util_pct_avg"), [Some(91.0)]);
    assert_eq!(texts(&rows, "mig_instance"), [Some("1".to_owned())]);
}

#[test]
fn a_request_without_a_pod_has_no_values_of_any_gpu() {
    let mut nameless = request(1, "a", 0, 10 * SECOND);
    nameless.pod = crate::Pod::default();
    let mut nowhere = nameless.clone();
    nowhere.node = None;
    let rows = join(
        &[nameless, nowhere],
        &[util(1, 5.0, 99.0)],
        vec![placement("a", 1, 0, None)],
    );
    let texts = |name| {
        texts(&rows, name)
            .into_iter()
            .map(Option::unwrap_or_default)
            .collect::<Vec<_>>()
    };
    assert_eq!(texts("attribution"), ["node_only", "unmapped"]);
    assert_eq!(texts("missing_link"), ["pod", "pod"]);
    assert_eq!(
        (texts("gpu_uuid"), floats(&rows, "util_pct_avg")),
        (vec![String::new(); 2], vec![None; 2])
    );
}

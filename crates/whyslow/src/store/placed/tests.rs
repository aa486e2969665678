//! Real cases through every source, and a restart in between.

use correlate::{Held, MissingLink, Placements, Pod, Source};
use otlp::prometheus::{self, Format, Limits, Scrape};
use reports::{Observation, ReportPlacementsRequest, Worker};
use tables::samples::Mapper;

use super::Placed;

const SECOND: u64 = 1_000_000_000;

/// When the cases are from.
const T0: u64 = 1_772_366_340_000_000_000;

const PARENT: &str = "GPU-0a1b2c3d-0001-4000-8000-000000000001";
const SECOND_GPU: &str = "GPU-0a1b2c3d-0002-4000-8000-000000000002";
const INSTANCE: &str = "MIG-0b1b2c3d-0001-4000-8000-00000000000a";

fn pod(name: &str) -> Pod {
    Pod {
        namespace: Some("llm-serving".into()),
        name: Some(name.into()),
        ..Pod::default()
    }
}

fn placement(pod: &str, gpu_uuid: &str) -> reports::Placement {
    reports::Placement {
        worker: Some(Worker {
            namespace: "llm-serving".to_owned(),
            pod: pod.to_owned(),
            container: "vllm".to_owned(),
            ..Worker::default()
        }),
        gpu_uuid: gpu_uuid.to_owned(),
        ..reports::Placement::default()
    }
}

fn named(pod: &str, device_name: &str, mig_instance: Option<u32>) -> reports::Placement {
    reports::Placement {
        device_name: device_name.to_owned(),
        mig_instance,
        ..placement(pod, "")
    }
}

/// A look of the kubelet's node at `at` seconds.
fn look(placed: &mut Placed, node: &str, placements: Vec<reports::Placement>, at: u64) {
    let observation = Observation {
        node: node.to_owned(),
        observed_unix_nano: T0 + at * SECOND,
        unchanged_until_unix_nano: None,
    };
    let request = ReportPlacementsRequest {
        placements,
        observation: Some(observation),
    };
    placed.take(request, 0);
}

/// What a worker says of itself at `at` seconds.
fn report(placed: &mut Placed, placement: reports::Placement, from: u64, to: Option<u64>) {
    let placement = reports::Placement {
        valid_from_unix_nano: T0 + from * SECOND,
        valid_to_unix_nano: to.map(|to| T0 + to * SECOND),
        ..placement
    };
    let request = ReportPlacementsRequest {
        placements: vec![placement],
        observation: None,
    };
    placed.take(request, i64::try_from(T0 + from * SECOND).unwrap());
}

/// A scrape of an exporter at `at` seconds.
fn scrape(placed: &mut Placed, text: &str, at: u64) {
    let scrape = Scrape {
        resource: &[],
        scope: "test",
        time_unix_nano: T0 + at * SECOND,
    };
    let converted =
        prometheus::to_protobuf(text.as_bytes(), Format::Text, &scrape, &Limits::default());
    let mut mapper = Mapper::new(tables::samples::Limits::default());
    let samples = mapper.map(&converted.body, scrape.time_unix_nano).unwrap();
    assert!(!samples.gpus.is_empty());
    placed.observe(&samples.gpus);
}

/// `device[/instance] source (others)` of what a pod held in a second.
fn held(placements: &Placements, name: &str, at: u64) -> Result<Vec<String>, MissingLink> {
    let at = i64::try_from(T0 + at * SECOND).unwrap();
    let held = placements.held_by(&pod(name), at, at + 1_000_000_000)?;
    let text = |held: &Held<'_>| {
        let device = &held.placement.device;
        let instance = device.mig_instance();
        let instance = instance.map_or(String::new(), |number| format!("/{number}"));
        let rank = held.placement.ranks.tp;
        let rank = rank.map_or(String::new(), |rank| format!(" rank {rank}"));
        format!(
            "{}{instance} {}{rank} ({}){}",
            device.uuid(),
            held.placement.source.as_str(),
            held.n_other_pods,
            if held.is_disputed { " disputed" } else { "" }
        )
    };
    Ok(held.iter().map(text).collect())
}

/// Time-slicing: the exporter labels one pod of three, the kubelet names all.
#[test]
fn c47_pods_that_no_label_names_are_known_from_the_kubelet() {
    let mut placed = Placed::new(Vec::new());
    let text = format!(
        "DCGM_FI_DEV_POWER_USAGE{{gpu=\"0\",UUID=\"{SECOND_GPU}\",Hostname=\"gpu-node-08\",\
         namespace=\"llm-serving\",pod=\"small-4\",container=\"vllm\",vgpu=\"1\"}} 61.5\n"
    );
    scrape(&mut placed, &text, 10);
    let pods = ["small-3", "small-4", "small-5"];
    let seen = pods.map(|pod| placement(pod, SECOND_GPU)).to_vec();
    look(&mut placed, "gpu-node-08", seen, 10);
    let placements = placed.placements();
    for pod in pods {
        let expected = format!("{SECOND_GPU} pod_resources (2)");
        assert_eq!(held(&placements, pod, 20), Ok(vec![expected]), "{pod}");
    }
    assert_eq!(
        held(&placements, "small-9", 20),
        Err(MissingLink::Placement)
    );
}

/// MIG: the kubelet knows instances by their own UUID, samples by their GPU and number.
#[test]
fn c46_an_instance_of_the_kubelet_is_the_instance_of_the_samples() {
    let mut placed = Placed::new(Vec::new());
    look(
        &mut placed,
        "gpu-node-06",
        vec![placement("vllm-a-0", INSTANCE)],
        10,
    );
    let before = placed.placements();
    let expected = format!("{INSTANCE} pod_resources (0)");
    assert_eq!(held(&before, "vllm-a-0", 20), Ok(vec![expected]));
    let text = format!(
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE{{gpu=\"0\",UUID=\"{PARENT}\",GPU_I_PROFILE=\"1g.10gb\",GPU_I_ID=\"1\",\
         Hostname=\"gpu-node-06\",dra_mig_device_uuid=\"{INSTANCE}\"}} 0.91\n"
    );
    scrape(&mut placed, &text, 15);
    let expected = format!("{PARENT}/1 pod_resources (0)");
    assert_eq!(
        held(&placed.placements(), "vllm-a-0", 20),
        Ok(vec![expected])
    );
}

/// Tensor parallel: ranks and UUIDs, never indices.
#[test]
fn c49_ranks_come_with_the_workers_report() {
    let mut placed = Placed::new(Vec::new());
    let uuid = |rank: u32| format!("GPU-0a1b2c3d-01{rank:02}-4000-8000-0000000001{rank:02}");
    for rank in 0..8 {
        let of_rank = reports::Placement {
            tp_rank: Some(rank),
            ..placement("vllm-tp8-0", &uuid(rank))
        };
        report(&mut placed, of_rank, 10, None);
    }
    let expected: Vec<String> = (0..8)
        .map(|rank| format!("{} reported rank {rank} (0)", uuid(rank)))
        .collect();
    assert_eq!(held(&placed.placements(), "vllm-tp8-0", 20), Ok(expected));
}

#[test]
fn names_of_plugins_and_claims_are_known_from_samples_of_the_node() {
    let mut placed = Placed::new(Vec::new());
    let devices = || {
        vec![
            named("small-0", "nvidia0", Some(1)),
            named("small-1", "gpu.nvidia.com/gpu-node-06/gpu-1", None),
        ]
    };
    look(&mut placed, "gpu-node-06", devices(), 10);
    assert_eq!(placed.n_unnamed(), 2);
    assert_eq!(
        held(&placed.placements(), "small-0", 20),
        Err(MissingLink::Placement)
    );
    let text = format!(
        "DCGM_FI_DEV_GPU_TEMP{{gpu=\"0\",UUID=\"{PARENT}\",device=\"nvidia0\",Hostname=\"gpu-node-06\"}} 46\n\
         DCGM_FI_DEV_GPU_TEMP{{gpu=\"1\",UUID=\"{SECOND_GPU}\",device=\"nvidia1\",Hostname=\"gpu-node-06\",\
         dra_driver_name=\"gpu.nvidia.com\",dra_pool_name=\"gpu-node-06\",dra_device_name=\"gpu-1\"}} 47\n"
    );
    scrape(&mut placed, &text, 15);
    look(&mut placed, "gpu-node-06", devices(), 20);
    let check = |placements: &Placements| {
        let expected = format!("{PARENT}/1 pod_resources (0)");
        assert_eq!(held(placements, "small-0", 25), Ok(vec![expected]));
        let expected = format!("{SECOND_GPU} pod_resources (0)");
        assert_eq!(held(placements, "small-1", 25), Ok(vec![expected]));
    };
    check(&placed.placements());
    // After a restart no sample has told the names yet: nothing has ended for that.
    let batches = placed.take_rows(T0 + 30 * SECOND, true);
    let mut again = Placed::new(Vec::new());
    again.restore(&batches);
    look(&mut again, "gpu-node-06", devices(), 40);
    check(&again.placements());
    // Nor is a name one of another node.
    look(
        &mut again,
        "gpu-node-07",
        vec![named("small-2", "nvidia1", None)],
        50,
    );
    assert_eq!(
        held(&again.placements(), "small-2", 55),
        Err(MissingLink::Placement)
    );
}

#[test]
fn the_workers_word_is_believed_before_the_kubelets_and_a_dispute_is_in_the_rows() {
    let mut placed = Placed::new(Vec::new());
    look(
        &mut placed,
        "n",
        vec![placement("a", PARENT), placement("b", SECOND_GPU)],
        0,
    );
    report(&mut placed, placement("a", SECOND_GPU), 10, Some(20));
    let placements = placed.placements();
    let kubelets = format!("{PARENT} pod_resources (0)");
    let workers = format!("{SECOND_GPU} reported (0) disputed");
    assert_eq!(held(&placements, "a", 5), Ok(vec![kubelets.clone()]));
    assert_eq!(held(&placements, "a", 15), Ok(vec![workers]));
    assert_eq!(held(&placements, "a", 20), Ok(vec![kubelets]));
    let rows = placed.take_rows(T0 + 30 * SECOND, true);
    let rows = super::super::reload::rows(&rows).map(|row| {
        let text = |name| row.text(name).unwrap_or("-").to_owned();
        let disputed = row.bool("disputed").unwrap();
        [
            text("k8s_pod_name"),
            text("source"),
            text("event"),
            text("confidence"),
            disputed.to_string(),
        ]
        .join(" ")
    });
    let mut rows: Vec<String> = rows.collect();
    rows.sort();
    let expected = [
        "a pod_resources opened medium true",
        "a reported ended medium true",
        "b pod_resources opened high false",
    ];
    assert_eq!(rows, expected);
    assert!(
        placed.take_rows(T0 + 31 * SECOND, true).is_empty(),
        "nothing new"
    );
}

#[test]
fn what_was_known_is_known_after_a_restart() {
    let mut placed = Placed::new(Vec::new());
    look(
        &mut placed,
        "n",
        vec![placement("a", PARENT), placement("b", PARENT)],
        0,
    );
    look(&mut placed, "n", vec![placement("a", PARENT)], 10);
    report(&mut placed, placement("c", SECOND_GPU), 5, None);
    report(&mut placed, placement("d", SECOND_GPU), 5, Some(9));
    let batches = placed.take_rows(T0 + 20 * SECOND, true);
    let mut again = Placed::new(Vec::new());
    assert_eq!(again.restore(&batches), 4);
    let (before, after) = (placed.placements(), again.placements());
    for at in 0..30 {
        for name in ["a", "b", "c", "d"] {
            assert_eq!(
                held(&before, name, at),
                held(&after, name, at),
                "{name} at {at}"
            );
        }
    }
    // The log repeats what it has; it says nothing new.
    look(
        &mut again,
        "n",
        vec![placement("a", PARENT), placement("b", PARENT)],
        0,
    );
    look(&mut again, "n", vec![placement("a", PARENT)], 10);
    report(&mut again, placement("c", SECOND_GPU), 5, None);
    assert!(again.take_rows(T0 + 20 * SECOND, true).is_empty());
    assert_eq!(again.n_known(), placed.n_known());
}

#[test]
fn rows_of_a_file_are_written_once_and_only_where_they_are_stored() {
    let from_file = || {
        let mut placed = Placed::new(Vec::new());
        report(&mut placed, placement("a", PARENT), 5, None);
        let all = placed.placements();
        let of_file = all
            .all()
            .iter()
            .cloned()
            .map(|placement| correlate::Placement {
                source: Source::StaticFile,
                valid_from_unix_nano: i64::MIN,
                ..placement
            });
        of_file.collect::<Vec<_>>()
    };
    let mut placed = Placed::new(from_file());
    assert!(placed.take_rows(T0, false).is_empty());
    let batches = placed.take_rows(T0, true);
    assert_eq!(batches[0].num_rows(), 1);
    assert!(placed.take_rows(T0 + SECOND, true).is_empty());
    let mut again = Placed::new(from_file());
    again.restore(&batches);
    assert!(again.take_rows(T0 + SECOND, true).is_empty());
    let expected = format!("{PARENT} static_file (0)");
    assert_eq!(held(&again.placements(), "a", 0), Ok(vec![expected]));
}

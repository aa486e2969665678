//! Cases from the field. What a case asks of the join (which request a sample belongs to) is not
//! answered here; what the samples must say for it to be answered is.

use super::{Mapper, at, case, export, gpu_batch, line, lines, lost, map, map_export};
use crate::{
    samples::{Counter, Step, gpu::GpuField},
    tests::check as check_row,
};

/// A row from its time on.
fn without_device(line: &str) -> &str {
    line.split_once(' ').unwrap().1
}

/// Tensor parallel and disaggregated: a sample is found by its device, pods are on their own.
#[test]
fn c41_each_half_has_the_samples_of_its_own_gpu() {
    let samples = map(&case("C41.prom"));
    assert_eq!(
        lines(&samples),
        [
            "GPU-0a1b2c3d-0030-4000-8000-000000000030 @0.3s util_pct=97 pod=llm-serving/vllm-p-0",
            "GPU-0a1b2c3d-0030-4000-8000-000000000030 @1.5s util_pct=12 pod=llm-serving/vllm-p-0",
            "GPU-0a1b2c3d-0040-4000-8000-000000000040 @0.3s util_pct=41 pod=llm-serving/vllm-d-0",
            "GPU-0a1b2c3d-0040-4000-8000-000000000040 @1.5s util_pct=63 pod=llm-serving/vllm-d-0",
        ]
    );
}

#[test]
fn c44_the_exporters_pod_is_never_the_workload() {
    let text = case("C44.prom");
    let samples = map(&text);
    assert_eq!(
        lines(&samples),
        [
            "GPU-0a1b2c3d-0001-4000-8000-000000000001 @0s util_pct=88 pod=llm-serving/vllm-qwen-0",
            "GPU-0a1b2c3d-0002-4000-8000-000000000002 @0s util_pct=77 pod=llm-serving/vllm-qwen-1",
            "GPU-0a1b2c3d-0003-4000-8000-000000000003 @0s util_pct=0",
            "GPU-0a1b2c3d-0004-4000-8000-000000000004 @0s util_pct=66 pod=llm-serving/vllm-qwen-2",
        ]
    );
    let batch = gpu_batch(&samples);
    check_row(
        &batch,
        0,
        &[
            ("k8s_pod_name", "vllm-qwen-0"),
            ("k8s_container_name", "vllm"),
            ("host_name", "gpu-node-03"),
            ("gpu_model", "NVIDIA H100 80GB HBM3"),
            ("gpu_index", "0"),
            ("shared_pods", "NULL"),
        ],
    );
    check_row(&batch, 2, &[("k8s_pod_name", "NULL")]);

    // The target's own name says so too, whatever it is called.
    let resource = [("k8s.pod.name", "telemetry-7"), ("k8s.node.name", "n1")];
    let text = r#"DCGM_FI_DEV_GPU_UTIL{UUID="GPU-1",pod="telemetry-7",Hostname="telemetry-7"} 5"#;
    let batch = gpu_batch(&map_export(&export(text, &resource, 0)));
    check_row(
        &batch,
        0,
        &[
            ("k8s_pod_name", "NULL"),
            ("host_name", "NULL"),
            ("k8s_node_name", "n1"),
        ],
    );
}

#[test]
fn c46_mig_instances_are_devices_and_the_board_counts_once() {
    let samples = map(&case("C46.prom"));
    assert_eq!(
        lines(&samples),
        [
            "GPU-0a1b2c3d-0001-4000-8000-000000000001 @0s gr_engine_active=0.49 energy_total_j=126272101.025",
            "GPU-0a1b2c3d-0001-4000-8000-000000000001/1 @0s gr_engine_active=0.91 pod=llm-serving/vllm-a-0",
            "GPU-0a1b2c3d-0001-4000-8000-000000000001/2 @0s gr_engine_active=0.07 pod=llm-serving/vllm-b-0",
            "GPU-0a1b2c3d-0002-4000-8000-000000000002/6 @0s gr_engine_active=0.33",
        ]
    );
    let batch = gpu_batch(&samples);
    check_row(
        &batch,
        1,
        &[("mig_profile", "3g.40gb"), ("fb_used_mib", "NULL")],
    );
    check_row(&batch, 3, &[("mig_profile", "NULL")]);
    let energy = samples
        .gpus
        .iter()
        .filter_map(|s| s.value(GpuField::EnergyTotalJ));
    assert_eq!(energy.sum::<f64>(), 126_272_101.025);
}

#[test]
fn c47_a_shared_device_is_one_row_with_all_its_pods() {
    let samples = map(&case("C47.prom"));
    assert_eq!(
        lines(&samples),
        [
            "GPU-0a1b2c3d-0001-4000-8000-000000000001 @0s gr_engine_active=0.714 power_w=61.5 \
             pod=llm-serving/small-0 pod=llm-serving/small-1 pod=llm-serving/small-2",
            "GPU-0a1b2c3d-0002-4000-8000-000000000002 @0s util_pct=93 pod=llm-serving/small-4",
        ]
    );
    check_row(
        &gpu_batch(&samples),
        0,
        &[
            ("k8s_pod_name", "NULL"),
            (
                "shared_pods",
                "[llm-serving/small-0, llm-serving/small-1, llm-serving/small-2]",
            ),
        ],
    );
}

#[test]
fn c49_eight_gpus_of_one_pod_are_told_apart_by_uuid() {
    let samples = map(&case("C49.prom"));
    assert_eq!(samples.gpus.len(), 8);
    let value = |field| {
        samples
            .gpus
            .iter()
            .map(move |sample| sample.value(field).unwrap())
    };
    assert_eq!(value(GpuField::FbUsedMib).sum::<f64>(), 568_028.0);
    assert_eq!(value(GpuField::UtilPct).sum::<f64>() / 8.0, 93.5);
    // The index on the host disagrees with the order of the UUIDs, and decides nothing.
    assert_eq!(samples.gpus[0].identity.gpu_index.as_deref(), Some("2"));
    assert!(samples.gpus[0].gpu_uuid.ends_with("0100"));
}

#[test]
fn c50_an_xid_is_an_event_when_it_changes() {
    let expected = [
        "@0s",
        "@10s",
        "@20s xid_last=31 xid!31",
        "@30s xid_last=31",
        "@40s xid_last=31 xid!31",
        "@50s xid_last=31",
        "@60s xid_last=79 xid!79",
        "@70s xid_last=79",
        "@80s xid_last=31 xid!31",
        "@90s",
    ];
    let text = |sample: &super::GpuSample| {
        let line = line(sample).replace("GPU-0a1b2c3d-0001-4000-8000-000000000001 ", "");
        line.replace(" pod=llm-serving/vllm-qwen-0", "")
    };
    let samples = map(&case("C50.prom"));
    assert_eq!(samples.gpus.iter().map(text).collect::<Vec<_>>(), expected);

    // The same, scrape by scrape.
    let mut mapper = Mapper::default();
    let case = case("C50.prom");
    let mut scraped = Vec::new();
    for seconds in (0..=90).step_by(10) {
        let time = (at(seconds) / 1_000_000).to_string();
        let lines: Vec<&str> = case.lines().filter(|line| line.ends_with(&time)).collect();
        let body = export(&lines.join("\n"), &[], seconds);
        let samples = mapper.map(&body, at(seconds)).unwrap();
        scraped.extend(samples.gpus.iter().map(text));
    }
    assert_eq!(scraped, expected);
}

#[test]
fn c52_rates_are_rates_and_resets_are_marked() {
    let samples = map(&case("C52.prom"));
    let lines = lines(&samples);
    let lines: Vec<&str> = lines.iter().map(|line| without_device(line)).collect();
    assert_eq!(
        lines,
        [
            "@0s energy_total_j=126272101.025 pcie_tx_bytes_per_s=1500000000 pcie_replay_total=4294967290 pod=llm-serving/vllm-qwen-0",
            "@10s energy_total_j=126276101.025 pcie_tx_bytes_per_s=900000000 pcie_replay_total=4294967294 pod=llm-serving/vllm-qwen-0",
            "@20s energy_total_j=126280101.025 pcie_tx_bytes_per_s=2100000000 pcie_replay_total=3 pod=llm-serving/vllm-qwen-0 ?pcie_replay_total_counter_reset",
            "@30s energy_total_j=150 pcie_tx_bytes_per_s=0 pcie_replay_total=3 pod=llm-serving/vllm-qwen-0 ?energy_total_j_counter_reset",
            "@40s energy_total_j=4150 pcie_tx_bytes_per_s=1800000000 pcie_replay_total=7 pod=llm-serving/vllm-qwen-0",
        ]
    );
    let grown = |field| {
        let mut counter = Counter::default();
        let steps = samples.gpus.iter().map(|sample| {
            match counter.step(sample.time_unix_nano, sample.value(field).unwrap()) {
                Step::Grew(by) => by.round(),
                Step::Unknown | Step::Reset(_) => 0.0,
            }
        });
        steps.sum::<f64>()
    };
    assert_eq!(grown(GpuField::EnergyTotalJ), 12_000.0);
    assert_eq!(grown(GpuField::PcieReplayTotal), 8.0);
}

#[test]
fn c53_one_odd_line_costs_one_line() {
    let samples = map(&case("C53.prom"));
    assert_eq!(
        lines(&samples),
        [
            "GPU-0a1b2c3d-0001-4000-8000-000000000001 @0s util_pct=11",
            "GPU-0a1b2c3d-0002-4000-8000-000000000002 @0s util_pct=12",
            "GPU-0a1b2c3d-0003-4000-8000-000000000003 @0s util_pct=13",
            "GPU-0a1b2c3d-0010-4000-8000-000000000010 @0s util_pct=16",
        ]
    );
    assert_eq!(lost(&samples), [("unrelated", 1), ("not_finite", 2)]);
    let scrape = otlp::prometheus::Scrape {
        resource: &[],
        scope: "",
        time_unix_nano: at(0),
    };
    let converted = otlp::prometheus::to_protobuf(
        case("C53.prom").as_bytes(),
        otlp::prometheus::Format::Text,
        &scrape,
        &otlp::prometheus::Limits::default(),
    );
    let skipped = converted.skipped.iter();
    let skipped: Vec<_> = skipped.map(|s| (s.line, s.reason.as_str())).collect();
    assert_eq!(
        skipped,
        [
            (9, "not_a_number"),
            (10, "not_a_number"),
            (11, "not_a_number"),
            (14, "malformed_labels")
        ]
    );
}

#[test]
fn c55_a_sample_that_comes_twice_is_stored_once() {
    let samples = map(&case("C55.prom"));
    let lines = lines(&samples);
    let lines: Vec<&str> = lines.iter().map(|line| without_device(line)).collect();
    assert_eq!(
        lines,
        [
            "@0s util_pct=4 pod=llm-serving/vllm-qwen-0",
            "@30s util_pct=96 pod=llm-serving/vllm-qwen-0",
            "@30.4s util_pct=95 pod=llm-serving/vllm-qwen-0",
            "@60s util_pct=5 pod=llm-serving/vllm-qwen-0",
            "@90s util_pct=5 pod=llm-serving/vllm-qwen-0",
        ]
    );
    // The two scrapers one after the other, and the first once more.
    let case = case("C55.prom");
    let of = |replica: &str| {
        let lines = case.lines().filter(|line| line.contains(replica));
        export(&lines.collect::<Vec<_>>().join("\n"), &[], 0)
    };
    let mut mapper = Mapper::default();
    let mut n_rows = |replica| mapper.map(&of(replica), at(600)).unwrap().gpus.len();
    assert_eq!([n_rows("a\""), n_rows("b\""), n_rows("a\"")], [4, 1, 0]);
}

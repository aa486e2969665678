//! Rules of the engine mapping, one by one.

use super::{Mapper, at, engine_batch, engine_line, export, lost, map};
use crate::{
    samples::engine::{EngineCounter, EngineGauge, SPEC},
    tests::check as check_row,
};

#[test]
fn fields_are_the_columns_in_their_order() {
    let gauges = SPEC
        .columns
        .iter()
        .position(|c| c.name == "requests_running")
        .unwrap();
    for (idx, gauge) in EngineGauge::ALL.iter().enumerate() {
        assert_eq!(SPEC.columns[gauges + idx].name, gauge.column());
    }
    let counters = gauges + EngineGauge::ALL.len() + 1;
    for (idx, counter) in EngineCounter::ALL.iter().enumerate() {
        let columns = &SPEC.columns[counters + 2 * idx..];
        assert_eq!(columns[0].name, counter.column());
        assert_eq!(columns[1].name, counter.delta_column());
    }
}

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    let samples = map(text);
    let lines: Vec<String> = samples.engines.iter().map(engine_line).collect();
    assert_eq!(lines, expected, "{text}");
    engine_batch(&samples);
}

#[test]
fn present_old_stripped_and_prefixed_names_mean_the_same() {
    for (running, cache, preemptions) in [
        (
            "vllm:num_requests_running",
            "vllm:kv_cache_usage_perc",
            "vllm:num_preemptions_total",
        ),
        (
            "vllm:num_requests_running",
            "vllm:gpu_cache_usage_perc",
            "vllm:num_preemptions",
        ),
        (
            "ray_vllm:num_requests_running",
            "ray_vllm:gpu_cache_usage_perc",
            "ray_vllm_num_preemptions_total",
        ),
    ] {
        check(
            &format!(
                "{running}{{engine=\"0\"}} 3\n{cache}{{engine=\"0\"}} 0.5\n{preemptions}{{engine=\"0\"}} 7"
            ),
            &["@0s requests_running=3 kv_cache_usage=0.5 preemptions=7/+-"],
        );
    }
    // Both are there in some versions.
    check(
        "vllm:gpu_cache_usage_perc 0.4\nvllm:kv_cache_usage_perc 0.5",
        &["@0s kv_cache_usage=0.5"],
    );
    check(
        "sglang:num_running_reqs{tp_rank=\"0\"} 2\nsglang:num_queue_reqs{tp_rank=\"0\"} 1\nsglang:token_usage{tp_rank=\"0\"} 0.28\nsglang:cache_hit_rate{tp_rank=\"0\"} 0.0075\nsglang:gen_throughput{tp_rank=\"0\"} 12.5\nsglang:prompt_tokens_total{tp_rank=\"0\"} 8.128902e+06",
        &[
            "@0s requests_running=2 requests_waiting=1 kv_cache_usage=0.28 prefix_cache_hit_rate=0.0075 generation_tokens_per_s=12.5 prompt_tokens=8128902/+-",
        ],
    );
}

#[test]
fn engines_of_one_server_are_rows_of_their_own() {
    let samples = map(
        "vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 1\nvllm:num_requests_running{engine=\"1\",model_name=\"m\"} 2",
    );
    let batch = engine_batch(&samples);
    assert_eq!(batch.num_rows(), 2);
    check_row(
        &batch,
        1,
        &[
            ("engine", "vllm"),
            ("engine_index", "1"),
            ("model", "m"),
            ("requests_running", "2"),
            ("requests_waiting", "NULL"),
            ("interval_ns", "NULL"),
            ("service_instance_id", "10.0.0.3:9400"),
        ],
    );
}

#[test]
fn what_names_no_engine_is_the_only_engines_or_the_servers() {
    let rejected = "vllm:admission_rejections_total{reason=\"a\"} 2\n";
    let running = |engine: u32| format!("vllm:num_requests_running{{engine=\"{engine}\"}} 1\n");
    check(
        &(rejected.to_owned() + &running(0)),
        &["@0s requests_running=1 admission_rejections=2/+-"],
    );
    check(
        &(rejected.to_owned() + &running(0) + &running(1)),
        &[
            "@0s admission_rejections=2/+-",
            "@0s requests_running=1",
            "@0s requests_running=1",
        ],
    );
}

#[test]
fn series_by_reason_add_up_or_have_their_column() {
    check(
        r#"# TYPE vllm:request_success_total counter
vllm:num_requests_waiting 12
vllm:num_requests_waiting_by_reason{reason="capacity"} 9
vllm:num_requests_waiting_by_reason{reason="deferred"} 3
vllm:request_success_total{finished_reason="stop"} 5
vllm:request_success_total{finished_reason="abort"} 2
vllm:request_success_total{finished_reason="error"} 1
vllm:admission_rejections_total{reason="a"} 1
vllm:admission_rejections_total{reason="b"} 2"#,
        &[
            "@0s requests_waiting=12 requests_waiting_capacity=9 requests_waiting_deferred=3 \
           requests_finished=8/+- requests_aborted=2/+- requests_failed=1/+- admission_rejections=3/+-",
        ],
    );
}

#[test]
fn impossible_gauges_are_absent() {
    let samples = map(
        "vllm:kv_cache_usage_perc 55\nvllm:num_requests_running -1\nvllm:num_requests_waiting NaN\nvllm:gpu_prefix_cache_hit_rate -1.0\nvllm:num_requests_swapped 0\nvllm:lora_requests_info 1",
    );
    let lines: Vec<String> = samples.engines.iter().map(engine_line).collect();
    assert_eq!(
        lines,
        ["@0s requests_swapped=0 ?kv_cache_usage_out_of_range ?requests_running_out_of_range"]
    );
    assert_eq!(
        lost(&samples),
        [
            ("unmapped", 1),
            ("not_finite", 1),
            ("sentinel", 1),
            ("out_of_range", 2)
        ]
    );
}

fn counters(preemptions: u32, le_8: u32, le_64: u32, inf: u32) -> String {
    let tokens = 4 * le_8 + 40 * (le_64 - le_8) + 100 * (inf - le_64);
    format!(
        "# TYPE vllm:num_preemptions_total counter\nvllm:num_preemptions_total {preemptions}\n\
         # TYPE vllm:iteration_tokens_total histogram\n\
         vllm:iteration_tokens_total_bucket{{le=\"8.0\"}} {le_8}\n\
         vllm:iteration_tokens_total_bucket{{le=\"64.0\"}} {le_64}\n\
         vllm:iteration_tokens_total_bucket{{le=\"+Inf\"}} {inf}\n\
         vllm:iteration_tokens_total_count {inf}\nvllm:iteration_tokens_total_sum {tokens}\n"
    )
}

#[test]
fn counters_become_differences_and_start_anew() {
    let mut mapper = Mapper::default();
    let mut scrape = |text: &str, seconds| {
        let samples = mapper
            .map(&export(text, &[], seconds), at(seconds))
            .unwrap();
        let lines: Vec<String> = samples.engines.iter().map(engine_line).collect();
        (
            lines.join("; "),
            samples.engines.first().and_then(|s| s.interval_ns),
        )
    };
    let row = |text: &str, interval| (text.to_owned(), interval);
    assert_eq!(
        scrape(&counters(5, 10, 12, 12), 0),
        row(
            "@0s preemptions=5/+- iterations=12/+- iteration_tokens=120/+-",
            None
        )
    );
    assert_eq!(
        scrape(&counters(7, 14, 17, 17), 10),
        row(
            "@10s preemptions=7/+2 iterations=17/+5 iteration_tokens=176/+56 step<=64",
            Some(10_000_000_000)
        )
    );
    // Nothing new: the same again, and a scrape that comes late.
    assert_eq!(scrape(&counters(7, 14, 17, 17), 10), row("", None));
    assert_eq!(
        scrape(&counters(6, 12, 13, 13), 5),
        row(
            "@5s preemptions=6/+- iterations=13/+- iteration_tokens=88/+-",
            None
        )
    );
    assert_eq!(
        scrape(&counters(7, 16, 19, 19), 11),
        row(
            "@11s preemptions=7/+0 iterations=19/+2 iteration_tokens=184/+8 step<=8",
            Some(1_000_000_000)
        )
    );
    // A restart, with a step beyond the last bound.
    assert_eq!(
        scrape(&counters(1, 2, 2, 3), 20),
        row(
            "@20s preemptions=1/+1 iterations=3/+3 iteration_tokens=108/+108 ?counter_reset",
            Some(9_000_000_000)
        )
    );
}

#[test]
fn two_scrapers_of_one_engine_do_not_add_up() {
    let text = "vllm:request_success_total{finished_reason=\"stop\"} 5";
    let resource = [("service.instance.id", "vllm:8000")];
    let mut body = export(text, &resource, 0);
    body.extend_from_slice(&export(text, &resource, 0));
    let samples = Mapper::default().map(&body, at(1)).unwrap();
    let lines: Vec<String> = samples.engines.iter().map(engine_line).collect();
    assert_eq!(lines, ["@0s requests_finished=5/+-"]);
    assert_eq!(lost(&samples), [("duplicate", 1)]);
}

#[test]
fn the_target_is_the_engines_pod() {
    let resource = [
        ("service.name", "vllm"),
        ("service.instance.id", "10.0.0.9:8000"),
        ("k8s.pod.name", "vllm-0"),
        ("k8s.pod.uid", "uid-1"),
        ("k8s.namespace.name", "llm"),
        ("k8s.node.name", "gpu-3"),
    ];
    let text = "vllm:num_requests_running{pod=\"router\",namespace=\"other\"} 1";
    let samples = Mapper::default()
        .map(&export(text, &resource, 0), at(1))
        .unwrap();
    check_row(
        &engine_batch(&samples),
        0,
        &[
            ("k8s_pod_name", "vllm-0"),
            ("k8s_pod_uid", "uid-1"),
            ("k8s_namespace_name", "llm"),
            ("k8s_node_name", "gpu-3"),
            ("service_name", "vllm"),
        ],
    );
}

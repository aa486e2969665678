//! Exports of receivers and libraries that do not come from Prometheus text, built with the
//! official JSON mapping.

use otlp::{Signal, export::Limits, json};

use super::{T0, lines, lost, map_export};

/// An export with one resource; metrics and their scope are given as JSON.
fn export(resource: &str, scope: &str, metrics: &str) -> Vec<u8> {
    let text = format!(
        r#"{{"resourceMetrics":[{{"resource":{{"attributes":[{resource}]}},
            "scopeMetrics":[{{"scope":{{"name":"{scope}"}},"metrics":[{metrics}]}}]}}]}}"#
    );
    json::to_protobuf(Signal::Metrics, text.as_bytes(), &Limits::default()).unwrap()
}

fn attributes(pairs: &[(&str, &str)]) -> String {
    let pairs = pairs
        .iter()
        .map(|(key, value)| format!(r#"{{"key":"{key}","value":{{"stringValue":"{value}"}}}}"#));
    pairs.collect::<Vec<_>>().join(",")
}

fn point(pairs: &[(&str, &str)], value: &str) -> String {
    let attributes = attributes(pairs);
    format!(r#"{{"timeUnixNano":"{T0}","attributes":[{attributes}],{value}}}"#)
}

fn gauge(name: &str, points: &[String]) -> String {
    let points = points.join(",");
    format!(r#"{{"name":"{name}","gauge":{{"dataPoints":[{points}]}}}}"#)
}

fn sum(name: &str, temporality: u8, points: &[String]) -> String {
    let points = points.join(",");
    format!(
        r#"{{"name":"{name}","sum":{{"aggregationTemporality":{temporality},"isMonotonic":true,"dataPoints":[{points}]}}}}"#
    )
}

#[test]
fn googles_receiver_has_one_resource_per_gpu() {
    let metrics = [
        gauge("gpu.dcgm.utilization", &[point(&[], r#""asDouble":0.5"#)]),
        gauge(
            "gpu.dcgm.memory.bytes_used",
            &[
                point(&[("gpu.memory.state", "used")], r#""asInt":"70000000000""#),
                point(&[("gpu.memory.state", "free")], r#""asInt":"11000000000""#),
                point(&[("gpu.memory.state", "odd")], r#""asInt":"1""#),
            ],
        ),
        sum(
            "gpu.dcgm.clock.throttle_duration.time",
            2,
            &[point(
                &[("gpu.clock.violation", "thermal")],
                r#""asDouble":1.5"#,
            )],
        ),
        gauge(
            "gpu.dcgm.pipe.utilization",
            &[point(&[("gpu.pipe", "tensor")], r#""asDouble":0.25"#)],
        ),
        gauge(
            "gpu.dcgm.clock.frequency",
            &[point(&[], r#""asDouble":1.98e9"#)],
        ),
    ];
    let resource = attributes(&[
        ("gpu.uuid", "GPU-0A"),
        ("gpu.number", "3"),
        ("gpu.model", "H100"),
    ]);
    let samples = map_export(&export(&resource, "dcgmreceiver", &metrics.join(",")));
    assert_eq!(
        lines(&samples),
        [
            "GPU-0a @0s util_pct=50 tensor_active=0.25 fb_used_mib=70000 fb_free_mib=11000 \
          sm_clock_mhz=1980 throttle_thermal_total_ns=1500000000"
        ]
    );
    assert_eq!(samples.gpus[0].identity.gpu_model.as_deref(), Some("H100"));
    assert_eq!(lost(&samples), [("unmapped", 1)]);
}

#[test]
fn hw_conventions_need_the_type_and_differ_in_openlit() {
    let gpu = [("hw.id", "GPU-1"), ("hw.type", "gpu")];
    let instance = [("hw.id", "MIG-7"), ("hw.parent", "GPU-1")];
    let metrics = [
        gauge("hw.gpu.utilization", &[point(&gpu, r#""asDouble":0.5"#)]),
        gauge(
            "hw.gpu.memory.utilization",
            &[point(&gpu, r#""asDouble":0.75"#)],
        ),
        gauge(
            "hw.gpu.memory.usage",
            &[point(&instance, r#""asInt":"1048576""#)],
        ),
        sum(
            "hw.power",
            2,
            &[
                point(&gpu, r#""asDouble":300"#),
                point(&[("hw.id", "fan-1"), ("hw.type", "fan")], r#""asDouble":5"#),
            ],
        ),
    ]
    .join(",");
    let check = |scope: &str, expected: [&str; 2]| {
        let samples = map_export(&export("", scope, &metrics));
        assert_eq!(lines(&samples), expected);
        assert_eq!(lost(&samples), [("other_hardware", 1)]);
    };
    check(
        "semconv",
        [
            "GPU-1 @0s util_pct=50 fb_used_ratio=0.75 power_w=300",
            "GPU-1/MIG-7 @0s fb_used_mib=1",
        ],
    );
    check(
        "openlit.otel.gpu",
        [
            "GPU-1 @0s util_pct=50 mem_copy_util_pct=75 power_w=300",
            "GPU-1/MIG-7 @0s fb_used_mib=1",
        ],
    );
}

#[test]
fn differences_and_ended_series_are_no_values() {
    let gpu = [("UUID", "GPU-1")];
    let ended = format!(
        r#"{{"timeUnixNano":"{T0}","flags":1,"attributes":[{}]}}"#,
        attributes(&gpu)
    );
    let metrics = [
        sum(
            "DCGM_FI_PROF_PCIE_TX_BYTES",
            1,
            &[point(&gpu, r#""asDouble":5"#)],
        ),
        gauge("DCGM_FI_DEV_GPU_TEMP", &[ended]),
        gauge(
            "DCGM_FI_DEV_POWER_USAGE",
            &[point(&gpu, r#""asDouble":300"#)],
        ),
    ];
    let samples = map_export(&export("", "", &metrics.join(",")));
    assert_eq!(
        lines(&samples),
        ["GPU-1 @0s power_w=300 ?pcie_tx_bytes_per_s_delta_temporality"]
    );
    assert_eq!(
        lost(&samples),
        [("no_recorded_value", 1), ("delta_temporality", 1)]
    );
}

#[test]
fn memory_without_a_sure_unit_is_null() {
    let gpu = [("gpu_uuid", "GPU-1"), ("gpu_id", "0")];
    let metrics = [
        gauge("gpu_used_vram", &[point(&gpu, r#""asDouble":100"#)]),
        gauge("gpu_gfx_activity", &[point(&gpu, r#""asDouble":40"#)]),
        gauge("gpu_something_else", &[point(&gpu, r#""asDouble":40"#)]),
    ];
    let samples = map_export(&export("", "", &metrics.join(",")));
    assert_eq!(
        lines(&samples),
        ["GPU-1 @0s util_pct=40 ?fb_used_mib_unit_ambiguous"]
    );
}

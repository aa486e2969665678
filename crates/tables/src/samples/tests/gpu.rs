//! Rules of the GPU mapping, one by one.

use super::{Mapper, at, check, export, gpu_batch, lines, lost, map};
use crate::{
    samples::{
        Limits,
        gpu::{GpuField, SPEC, canonical_device},
    },
    tests::check as check_row,
};

#[test]
fn fields_are_the_columns_in_their_order() {
    let first = SPEC
        .columns
        .iter()
        .position(|c| c.name == "util_pct")
        .unwrap();
    for (idx, field) in GpuField::ALL.iter().enumerate() {
        assert_eq!(*field as usize, idx);
        let column = &SPEC.columns[first + idx];
        assert_eq!((column.name, column.unit), (field.column(), field.unit()));
    }
}

#[test]
fn old_present_and_new_names_mean_the_same() {
    for text in [
        "DCGM_FI_DEV_SM_CLOCK{UUID=\"GPU-1\"} 1980\nDCGM_FI_DEV_FB_USED{UUID=\"GPU-1\"} 2\nDCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{UUID=\"GPU-1\"} 5000",
        "DCGM_FI_DEV_SM_CLOCK_HERTZ{UUID=\"GPU-1\"} 1980000000\nDCGM_FI_DEV_FB_USED_BYTES{UUID=\"GPU-1\"} 2097152\nDCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL{UUID=\"GPU-1\"} 5",
        "dcgm_sm_clock{uuid=\"gpu-1\"} 1980\ndcgm_fb_used{uuid=\"gpu-1\"} 2\ndcgm_total_energy_consumption{uuid=\"gpu-1\"} 5000",
    ] {
        check(
            text,
            &["GPU-1 @0s fb_used_mib=2 energy_total_j=5 sm_clock_mhz=1980"],
        );
    }
    // Of two names the better one counts, and they are never added up.
    check(
        "DCGM_FI_DEV_FB_USED_BYTES{UUID=\"GPU-1\"} 4194304\nDCGM_FI_DEV_FB_USED{UUID=\"GPU-1\"} 2",
        &["GPU-1 @0s fb_used_mib=2"],
    );
}

#[test]
fn a_ratio_or_percent_is_decided_by_the_rest_of_the_scrape() {
    let util = |value: &str| format!("DCGM_FI_DEV_GPU_UTIL_RATIO{{UUID=\"GPU-1\"}} {value}\n");
    check(&util("88"), &["GPU-1 @0s util_pct=88"]);
    check(&util("0.88"), &["GPU-1 @0s util_pct=88"]);
    check(&util("0"), &["GPU-1 @0s util_pct=0"]);
    check(
        &(util("1") + "DCGM_FI_DEV_GPU_TEMP{UUID=\"GPU-1\"} 40"),
        &["GPU-1 @0s temp_c=40 ?util_pct_unit_ambiguous"],
    );
    check(
        &(util("1") + "DCGM_FI_DEV_FB_CAPACITY_BYTES{UUID=\"GPU-1\"} 1048576"),
        &["GPU-1 @0s util_pct=100 fb_total_mib=1"],
    );
    check(
        "DCGM_FI_DEV_GPU_UTIL_RATIO{UUID=\"GPU-1\",DCGM_FI_SYSTEM_DRIVER_VERSION=\"590\"} 1",
        &["GPU-1 @0s util_pct=100"],
    );
    // Another GPU of the scrape shows that it is percent.
    check(
        &(util("1") + "DCGM_FI_DEV_GPU_UTIL_RATIO{UUID=\"GPU-2\"} 97"),
        &["GPU-1 @0s util_pct=1", "GPU-2 @0s util_pct=97"],
    );
    // The last name for it that has one unit is the best.
    check(
        &(util("1") + "DCGM_FI_DEV_GPU_UTIL{UUID=\"GPU-1\"} 1"),
        &["GPU-1 @0s util_pct=1 ?util_pct_unit_ambiguous"],
    );
}

#[test]
fn an_unknown_name_with_a_known_stem_is_converted_by_its_suffix() {
    check(
        "DCGM_FI_DEV_MEM_COPY_UTIL_RATIO{UUID=\"GPU-1\"} 0.5\nDCGM_FI_DEV_MEM_CLOCK_HERTZ{UUID=\"GPU-1\"} 2619000000\nDCGM_FI_DEV_POWER_VIOLATION_SECONDS{UUID=\"GPU-1\"} 2",
        &[
            "GPU-1 @0s mem_copy_util_pct=50 mem_clock_mhz=2619 throttle_power_total_ns=2000000000 \
           ?mem_clock_mhz_unit_by_suffix ?mem_copy_util_pct_unit_by_suffix ?throttle_power_total_ns_unit_by_suffix",
        ],
    );
    let samples = map(
        "DCGM_FI_DEV_GPU_TEMP_BYTES{UUID=\"GPU-1\"} 5\nDCGM_FI_DEV_BRAND_NEW{UUID=\"GPU-1\"} 5",
    );
    assert_eq!(
        (samples.gpus.len(), lost(&samples)),
        (0, vec![("unmapped", 2)])
    );
}

#[test]
fn sentinels_and_impossible_values_are_absent() {
    let samples = check(
        r#"DCGM_FI_DEV_MEMORY_TEMP{UUID="GPU-1"} 9223372036854775794
DCGM_FI_DEV_GPU_TEMP{UUID="GPU-1"} 2147483632
DCGM_FI_PROF_DRAM_ACTIVE{UUID="GPU-1"} 140737488355330
DCGM_FI_DEV_GPU_UTIL{UUID="GPU-1"} 101
DCGM_FI_DEV_POWER_USAGE{UUID="GPU-1"} -1
DCGM_FI_PROF_SM_ACTIVE{UUID="GPU-1"} 55
DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{UUID="GPU-1"} 2147483640
DCGM_FI_DEV_FB_USED{UUID="GPU-1"} NaN
dcgm_memory_temp{UUID="GPU-1"} 0"#,
        &[
            "GPU-1 @0s energy_total_j=2147483.64 ?power_w_out_of_range ?sm_active_out_of_range ?util_pct_out_of_range",
        ],
    );
    assert_eq!(
        lost(&samples),
        [("not_finite", 1), ("sentinel", 4), ("out_of_range", 3)]
    );
}

#[test]
fn rows_of_links_processes_and_other_hardware_are_no_gpu_rows() {
    let samples = check(
        r#"DCGM_FI_PROF_NVLINK_RX_BYTES{gpu="0",UUID="GPU-aaa"} 10
DCGM_FI_PROF_NVLINK_RX_BYTES{gpu="0",gpu_uuid="GPU-aaa",nvlink="1"} 11
DCGM_FI_DEV_CPU_UTIL_TOTAL{cpu="0"} 3
DCGM_FI_DEV_GPU_TEMP{nvswitch="2"} 60
DCGM_FI_DEV_FB_USED{UUID="GPU-aaa",pid="77"} 5
nvidia_smi_compute_app_used_memory_bytes{uuid="aaa",pid="7"} 5
DCGM_FI_PROF_SM_ACTIVE 0
DCGM_FI_DEV_GPU_UTIL{gpu="0"} 5
process_cpu_seconds_total 5"#,
        &["GPU-aaa @0s nvlink_rx_bytes_per_s=10"],
    );
    assert_eq!(
        lost(&samples),
        [
            ("unrelated", 1),
            ("unmapped", 1),
            ("no_device", 2),
            ("per_link", 1),
            ("per_process", 2),
            ("other_hardware", 1)
        ]
    );
}

#[test]
fn what_is_measured_per_pod_is_not_the_devices() {
    let pod = |pod: &str, value: u32| {
        format!("DCGM_FI_DEV_GPU_UTIL{{UUID=\"GPU-1\",pod=\"{pod}\",namespace=\"n\"}} {value}\n")
    };
    let device = "DCGM_FI_DEV_GPU_UTIL{UUID=\"GPU-1\"} 90\n";
    for text in [
        pod("a", 30) + &pod("b", 60) + device,
        device.to_owned() + &pod("a", 30) + &pod("b", 60),
    ] {
        check(&text, &["GPU-1 @0s util_pct=90 pod=n/a pod=n/b"]);
    }
    check(
        &(pod("a", 30) + &pod("b", 60) + "DCGM_FI_DEV_GPU_TEMP{UUID=\"GPU-1\"} 40"),
        &["GPU-1 @0s temp_c=40 pod=n/a pod=n/b ?util_pct_per_pod_values"],
    );
    // Two values of one pod, or of the device: the first, and it is said.
    check(
        &(pod("a", 30) + &pod("a", 31)),
        &["GPU-1 @0s util_pct=30 pod=n/a ?util_pct_conflict"],
    );
}

#[test]
fn utilisation_of_an_instance_is_not_measured() {
    let samples = check(
        "DCGM_FI_DEV_GPU_UTIL{UUID=\"GPU-1\",GPU_I_ID=\"3\"} 0\nDCGM_FI_DEV_FB_USED{UUID=\"GPU-1\",GPU_I_ID=\"3\"} 7\nDCGM_FI_DEV_GPU_TEMP{UUID=\"GPU-1\",GPU_I_ID=\"3\",pod=\"p\"} 40",
        &["GPU-1 @0s temp_c=40", "GPU-1/3 @0s fb_used_mib=7"],
    );
    assert_eq!(lost(&samples), [("not_in_mig", 1)]);
}

#[test]
fn device_ids_have_one_form() {
    let form = |text| {
        let (gpu, instance) = canonical_device(text).unwrap();
        instance.map_or(gpu.clone(), |instance| format!("{gpu} {instance}"))
    };
    for (text, expected) in [
        ("GPU-0A1B", "GPU-0a1b"),
        ("gpu-0a1b::3", "GPU-0a1b"),
        ("MIG-77F0", "MIG-77f0"),
        ("MIG-GPU-0a1b/5/0", "GPU-0a1b 5"),
        (
            "0A1B2C3D-0001-4000-8000-000000000001",
            "GPU-0a1b2c3d-0001-4000-8000-000000000001",
        ),
        ("card0", "card0"),
    ] {
        assert_eq!(form(text), expected, "{text}");
    }
    for text in ["", "GPU-", "::1", "mig-gpu-"] {
        assert_eq!(canonical_device(text), None, "{text}");
    }
}

#[test]
fn an_xid_at_first_sight_is_no_event() {
    let mut mapper = Mapper::default();
    let mut scrape = |text: &str, seconds| {
        let body = export(text, &[], seconds);
        lines(&mapper.map(&body, at(seconds)).unwrap())
    };
    let xid = "DCGM_FI_DEV_XID_ERRORS{UUID=\"GPU-1\"} ";
    let count = "nvidia_smi_xid_errors_total{uuid=\"GPU-1\",xid=\"48\"} ";
    let temp = "DCGM_FI_DEV_GPU_TEMP{UUID=\"GPU-1\"} 40";
    assert_eq!(
        scrape(&format!("{xid}31\n{count}2"), 0),
        ["GPU-1 @0s xid_last=31 ?xid_preexisting"]
    );
    assert_eq!(
        scrape(&format!("{xid}31\n{count}2"), 10),
        ["GPU-1 @10s xid_last=31"]
    );
    // Late, and out of order: changes nothing.
    assert_eq!(scrape(&format!("{xid}79"), 5), ["GPU-1 @5s xid_last=79"]);
    assert_eq!(
        scrape(&format!("{xid}31\n{count}3"), 20),
        ["GPU-1 @20s xid_last=31 xid!48"]
    );
    assert_eq!(scrape(temp, 30), ["GPU-1 @30s temp_c=40"]);
    // A code that was not counted before has risen from zero.
    let other = "DCGM_EXP_XID_ERRORS_COUNT{UUID=\"GPU-1\",xid=\"13\"} 1";
    assert_eq!(
        scrape(&format!("{temp}\n{other}"), 40),
        ["GPU-1 @40s temp_c=40 xid!13"]
    );
}

#[test]
fn a_scrape_in_two_parts_gives_each_field_once() {
    let mut mapper = Mapper::default();
    let mut scrape = |text: &str| {
        let samples = mapper.map(&export(text, &[], 0), at(1)).unwrap();
        (lines(&samples), lost(&samples))
    };
    let (temp, power) = (
        "DCGM_FI_DEV_GPU_TEMP{UUID=\"GPU-1\"} 40\n",
        "DCGM_FI_DEV_POWER_USAGE{UUID=\"GPU-1\"} 300",
    );
    let row = |text: &str| vec![format!("GPU-1 @0s {text}")];
    assert_eq!(scrape(temp), (row("temp_c=40"), vec![]));
    assert_eq!(
        scrape(&(temp.to_owned() + power)),
        (row("power_w=300"), vec![("duplicate", 1)])
    );
    assert_eq!(
        scrape(&(temp.to_owned() + power)),
        (vec![], vec![("duplicate", 2)])
    );
}

#[test]
fn standing_energy_under_load_is_stale() {
    let mut mapper = Mapper::default();
    let mut flags = |energy: u64, seconds| {
        let text = format!(
            "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{UUID=\"GPU-1\"}} {energy}\nDCGM_FI_DEV_POWER_USAGE{{UUID=\"GPU-1\"}} 300"
        );
        let samples = mapper
            .map(&export(&text, &[], seconds), at(seconds))
            .unwrap();
        samples.gpus[0]
            .quality
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    assert!(flags(1000, 0).is_empty());
    assert!(flags(1000, 119).is_empty());
    assert_eq!(flags(1000, 120), ["stale"]);
    assert!(flags(1001, 130).is_empty());
    assert!(flags(1001, 140).is_empty());
}

#[test]
fn impossible_times_are_those_of_receipt() {
    let mut mapper = Mapper::default();
    for millis in [0, 1_772_366_400, 9_999_999_999_999_u64] {
        let text = format!("DCGM_FI_DEV_GPU_TEMP{{UUID=\"GPU-{millis}\"}} 40 {millis}");
        let samples = mapper.map(&export(&text, &[], 0), at(5)).unwrap();
        let expected = format!("GPU-{millis} @5s temp_c=40 ?time_from_receipt");
        assert_eq!(lines(&samples), [expected]);
    }
}

#[test]
fn reasons_for_lower_clocks_are_one_mask() {
    check(
        "nvidia_smi_clocks_event_reasons_hw_slowdown{uuid=\"GPU-1\"} 1\nnvidia_smi_clocks_event_reasons_sw_power_cap{uuid=\"GPU-1\"} 0\nnvidia_smi_clocks_event_reasons_hw_thermal_slowdown{uuid=\"GPU-1\"} 1\nnvidia_smi_clocks_event_reasons_hw_slowdown{uuid=\"GPU-1\"} 1",
        &["GPU-1 @0s throttle_mask=72"],
    );
    check(
        "nvidia_smi_clocks_event_reasons_gpu_idle{uuid=\"GPU-1\"} 1\nnvidia_smi_clocks_event_reasons_active{uuid=\"GPU-1\"} 513\nnvidia_smi_clocks_event_reasons_hw_slowdown{uuid=\"GPU-1\"} 1",
        &["GPU-1 @0s throttle_mask=513"],
    );
}

#[test]
fn what_does_not_fit_is_forgotten_oldest_first() {
    let mut mapper = Mapper::new(Limits { series_max: 8 });
    for idx in 0..100_u64 {
        let text = format!("DCGM_FI_DEV_GPU_TEMP{{UUID=\"GPU-{idx}\"}} 40");
        assert_eq!(
            mapper
                .map(&export(&text, &[], idx), at(idx))
                .unwrap()
                .gpus
                .len(),
            1
        );
    }
    assert!(
        (92..=97).contains(&mapper.n_forgotten()),
        "{}",
        mapper.n_forgotten()
    );
    let newest = "DCGM_FI_DEV_GPU_TEMP{UUID=\"GPU-99\"} 40";
    assert!(
        mapper
            .map(&export(newest, &[], 99), at(99))
            .unwrap()
            .gpus
            .is_empty()
    );
}

#[test]
fn an_empty_or_broken_export_gives_no_rows() {
    let mut mapper = Mapper::default();
    assert!(mapper.map(&[], at(0)).unwrap().gpus.is_empty());
    assert!(mapper.map(&[0xff; 9], at(0)).is_err());
}

#[test]
fn total_memory_is_that_of_its_parts() {
    let samples = map(
        "DCGM_FI_DEV_FB_USED{UUID=\"GPU-1\"} 70000\nDCGM_FI_DEV_FB_FREE{UUID=\"GPU-1\"} 11000\nDCGM_FI_DEV_FB_RESERVED{UUID=\"GPU-1\"} 559",
    );
    let batch = gpu_batch(&samples);
    check_row(
        &batch,
        0,
        &[
            ("fb_total_mib", "81559.0"),
            ("time", "2026-03-01 12:00:00"),
            ("service_name", "dcgm"),
            ("service_instance_id", "10.0.0.3:9400"),
            ("source", "dcgm"),
            ("xid_events", "[]"),
            ("quality", "[]"),
            ("util_pct", "NULL"),
        ],
    );
}

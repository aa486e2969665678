//! Any mixture of lines gives rows that can be stored, each field of a device and time once.

use std::collections::HashSet;

use proptest::{collection::vec, prelude::*, sample::select};

use super::{Mapper, Samples, at, engine_batch, export, gpu_batch};
use crate::samples::{
    engine::{EngineCounter, EngineGauge},
    gpu::GpuField,
};

const NAMES: &[&str] = &[
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_DEV_GPU_UTIL_RATIO",
    "DCGM_FI_DEV_FB_USED",
    "DCGM_FI_DEV_FB_USED_BYTES",
    "DCGM_FI_DEV_XID_ERRORS",
    "DCGM_EXP_XID_ERRORS_COUNT",
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
    "DCGM_FI_DEV_POWER_USAGE",
    "DCGM_FI_DEV_GPU_TEMP_BYTES",
    "dcgm_gpu_temp",
    "nvidia_smi_clocks_event_reasons_hw_slowdown",
    "nvidia_smi_mig_info",
    "hw.power",
    "vllm:num_requests_running",
    "vllm:kv_cache_usage_perc",
    "vllm:request_success_total",
    "vllm:admission_rejections_total",
    "sglang:token_usage",
    "up",
];

/// One line of a scrape.
fn line() -> impl Strategy<Value = String> {
    let names = select(NAMES);
    let labels = select(vec![
        ("UUID", "GPU-1"),
        ("UUID", "GPU-2"),
        ("uuid", "MIG-GPU-1/3/0"),
        ("UUID", "<<<NULL>>>"),
        ("gpu_uuid", "::"),
        ("GPU_I_ID", "3"),
        ("GPU_I_ID", ""),
        ("nvlink", "0"),
        ("pid", "1"),
        ("pod", "a"),
        ("pod", "b"),
        ("exported_pod", "c"),
        ("xid", "31"),
        ("xid", "-1"),
        ("hw.type", "gpu"),
        ("engine", "0"),
        ("engine", "1"),
        ("finished_reason", "abort"),
    ]);
    let values = select(vec![
        "0",
        "1",
        "0.5",
        "31",
        "79",
        "100",
        "101",
        "-1",
        "NaN",
        "+Inf",
        "1e300",
        "2147483632",
        "140737488355330",
        "9223372036854775794",
        "18446744073709551615",
    ]);
    let times = select(vec![
        "",
        " 1772366400000",
        " 1772366410000",
        " 1772366420000",
        " 0",
        " 9999999999999",
    ]);
    (names, vec(labels, 0..5), values, times).prop_map(|(name, labels, value, time)| {
        let labels = labels
            .iter()
            .map(|(key, value)| format!("\"{key}\"=\"{value}\""));
        let labels = labels.collect::<Vec<_>>().join(",");
        format!("{{\"{name}\",{labels}}} {value}{time}\n")
    })
}

/// Every stored value with its place; a value that is there twice is a failure.
fn places(samples: &[Samples]) -> HashSet<String> {
    let mut places = HashSet::new();
    let mut insert = |place: String| assert!(places.insert(place.clone()), "{place} twice");
    for samples in samples {
        assert_eq!(gpu_batch(samples).num_rows(), samples.gpus.len());
        assert_eq!(engine_batch(samples).num_rows(), samples.engines.len());
        for sample in &samples.gpus {
            let (device, time) = (
                (&sample.gpu_uuid, &sample.mig_instance),
                sample.time_unix_nano,
            );
            for field in GpuField::ALL
                .iter()
                .filter(|field| sample.value(**field).is_some())
            {
                insert(format!("{device:?} {time} {field:?}"));
            }
        }
        for sample in &samples.engines {
            let (key, time) = (&sample.key, sample.time_unix_nano);
            for gauge in EngineGauge::ALL
                .iter()
                .filter(|g| sample.gauge(**g).is_some())
            {
                insert(format!("{key:?} {time} {gauge:?}"));
            }
            for counter in EngineCounter::ALL
                .iter()
                .filter(|c| sample.total(**c).is_some())
            {
                insert(format!("{key:?} {time} {counter:?}"));
                assert!(sample.delta(*counter).is_none_or(|delta| delta >= 0.0));
            }
        }
    }
    places
}

proptest! {
    #[test]
    fn scrapes_are_stored_once_however_they_are_cut(
        scrapes in vec((vec(line(), 0..12), any::<prop::sample::Index>(), 0..3_u64), 1..5),
    ) {
        let mut mapper = Mapper::default();
        let mut all = Vec::new();
        for (lines, cut, seconds) in &scrapes {
            let (first, second) = lines.split_at(cut.index(lines.len() + 1));
            // Two parts, and the whole once more.
            for text in [first.concat(), second.concat(), lines.concat()] {
                let body = export(&text, &[("service.instance.id", "a")], *seconds);
                all.push(mapper.map(&body, at(100)).unwrap());
            }
        }
        places(&all);
        prop_assert_eq!(mapper.n_forgotten(), 0);
    }
}

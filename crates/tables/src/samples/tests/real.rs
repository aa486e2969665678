//! Captured scrapes: goldens, a naive reading of the same text, and files that may be there.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use flate2::read::GzDecoder;
use otlp::prometheus;

use super::{Mapper, Samples, engine_batch, engine_line, gpu_batch, line, lost, map};
use crate::samples::{
    engine::EngineCounter,
    gpu::{GpuField, GpuSample},
};

/// Scrapes of a capture: name and text, in order of time.
fn scrapes(capture: &str, kind: &str) -> Vec<(u64, String)> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data");
    let folder = data.join(capture).join(kind);
    let files = fs::read_dir(folder).unwrap();
    let mut paths: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    let scrapes = paths.into_iter().map(|path| {
        let mut text = String::new();
        let file = fs::File::open(&path).unwrap();
        GzDecoder::new(file).read_to_string(&mut text).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        // `1795963732.877.prom.gz`: seconds and milliseconds.
        let digits = name.replace(".prom.gz", "").replace('.', "");
        let millis: u64 = digits.parse().unwrap();
        (millis * 1_000_000, text)
    });
    scrapes.collect()
}

/// The rows of all scrapes of a capture, by one mapper; nothing of them may be unreadable.
fn rows(capture: &str, kind: &str) -> Vec<(String, Samples)> {
    let mut mapper = Mapper::default();
    let rows = scrapes(capture, kind).into_iter().map(|(time, text)| {
        let scrape = prometheus::Scrape {
            resource: &[("service.name", kind)],
            scope: "test",
            time_unix_nano: time,
        };
        let format = prometheus::Format::Text;
        let limits = prometheus::Limits::default();
        let converted = prometheus::to_protobuf(text.as_bytes(), format, &scrape, &limits);
        assert_eq!(converted.n_skipped, 0);
        let samples = mapper.map(&converted.body, time).unwrap();
        assert_eq!(gpu_batch(&samples).num_rows(), samples.gpus.len());
        assert_eq!(engine_batch(&samples).num_rows(), samples.engines.len());
        (text, samples)
    });
    rows.collect()
}

/// Compares with a file beside this crate; `UPDATE_EXPECT=1` writes it.
#[track_caller]
fn check_golden(name: &str, lines: &[String]) {
    let path = format!("{}/testdata/samples/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = lines.join("\n") + "\n";
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    for (idx, (line, expected)) in text.lines().zip(expected.lines()).enumerate() {
        assert_eq!(line, expected, "{name}, line {}", idx + 1);
    }
    assert_eq!(text.lines().count(), expected.lines().count(), "{name}");
}

#[test]
fn gpus_of_the_captures_are_as_they_were() {
    for capture in ["real-chain", "real-broken"] {
        let rows = rows(capture, "dcgm");
        let lines = rows
            .iter()
            .flat_map(|(_, samples)| samples.gpus.iter().map(line));
        check_golden(&format!("{capture}-gpu.txt"), &lines.collect::<Vec<_>>());
    }
}

#[test]
fn engines_of_the_captures_are_as_they_were() {
    for capture in ["real-chain", "real-broken"] {
        let rows = rows(capture, "vllm-metrics");
        let lines = rows
            .iter()
            .flat_map(|(_, samples)| samples.engines.iter().map(engine_line));
        check_golden(&format!("{capture}-engine.txt"), &lines.collect::<Vec<_>>());
    }
}

/// Every line of every scrape, read by cutting strings.
#[test]
fn every_line_of_the_captures_is_in_its_column() {
    use GpuField::*;
    let columns = [
        ("SM_CLOCK", SmClockMhz, 1.0),
        ("MEM_CLOCK", MemClockMhz, 1.0),
        ("MEMORY_TEMP", MemTempC, 1.0),
        ("GPU_TEMP", TempC, 1.0),
        ("POWER_USAGE", PowerW, 1.0),
        ("TOTAL_ENERGY_CONSUMPTION", EnergyTotalJ, 1e-3),
        ("PCIE_REPLAY_COUNTER", PcieReplayTotal, 1.0),
        ("GPU_UTIL", UtilPct, 1.0),
        ("MEM_COPY_UTIL", MemCopyUtilPct, 1.0),
        ("FB_FREE", FbFreeMib, 1.0),
        ("FB_USED", FbUsedMib, 1.0),
        ("CLOCKS_EVENT_REASONS", ThrottleMask, 1.0),
        ("GR_ENGINE_ACTIVE", GrEngineActive, 1.0),
        ("PIPE_TENSOR_ACTIVE", TensorActive, 1.0),
        ("DRAM_ACTIVE", DramActive, 1.0),
    ];
    let mut n_lines = 0;
    for capture in ["real-chain", "real-broken"] {
        for (text, samples) in rows(capture, "dcgm") {
            assert_eq!((samples.gpus.len(), lost(&samples)), (2, vec![]));
            for line in text.lines().filter(|line| !line.starts_with('#')) {
                let (name, rest) = line.split_once('{').unwrap();
                if name.ends_with("XID_ERRORS") {
                    continue;
                }
                let (_, field, factor) = *columns
                    .iter()
                    .find(|(stem, ..)| name.splitn(4, '_').nth(3) == Some(*stem))
                    .unwrap_or_else(|| panic!("{name}"));
                let uuid = rest
                    .split("UUID=\"")
                    .nth(1)
                    .unwrap()
                    .split('"')
                    .next()
                    .unwrap();
                let value: f64 = line.rsplit(' ').next().unwrap().parse().unwrap();
                let is_it = |sample: &&GpuSample| sample.gpu_uuid == uuid;
                let sample = samples.gpus.iter().find(is_it).unwrap();
                assert_eq!(sample.value(field), Some(value * factor), "{line}");
                n_lines += 1;
            }
        }
    }
    assert_eq!(n_lines, 119 * 2 * 15);
}

/// `dcgm-injected.json` says when, and on which GPU.
#[test]
fn the_injected_slowdown_is_on_its_gpu_and_in_its_time() {
    const THERMAL: i64 = 0x20 | 0x40;
    for capture in ["real-chain", "real-broken"] {
        let path = format!(
            "{}/../../tests/data/{capture}/dcgm-injected.json",
            env!("CARGO_MANIFEST_DIR")
        );
        let injected: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        let nanos = |key: &str| injected[key].as_f64().unwrap() * 1e9;
        let (from, to) = (nanos("slowdown_from_s"), nanos("slowdown_to_s"));
        let mut n_slow = 0;
        for sample in rows(capture, "dcgm")
            .iter()
            .flat_map(|(_, samples)| &samples.gpus)
        {
            let mask = sample.value(GpuField::ThrottleMask).unwrap() as i64;
            let time = sample.time_unix_nano as f64;
            let is_injected = injected["gpu_of_vllm_pod"] == sample.gpu_uuid.as_str()
                && (from - 1e6..=to + 1e6).contains(&time);
            assert_eq!(
                mask & THERMAL != 0,
                is_injected,
                "{capture} {}",
                line(sample)
            );
            n_slow += usize::from(is_injected);
        }
        assert!(n_slow > 0, "{capture}");
    }
}

#[test]
fn differences_of_the_captures_add_up_to_the_totals() {
    for capture in ["real-chain", "real-broken"] {
        let rows = rows(capture, "vllm-metrics");
        for counter in EngineCounter::ALL {
            let samples = rows.iter().flat_map(|(_, samples)| &samples.engines);
            let totals: Vec<f64> = samples.clone().filter_map(|s| s.total(*counter)).collect();
            let deltas = samples
                .filter_map(|sample| sample.delta(*counter))
                .sum::<f64>();
            if let (Some(first), Some(last)) = (totals.first(), totals.last()) {
                assert_eq!(deltas, last - first, "{capture} {}", counter.column());
            }
        }
    }
}

/// A file of other projects beside a checkout; they are not part of the repository.
fn shared(name: &str) -> Option<String> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let shared = std::env::var_os("WHYSLOW_SHARED").map_or_else(beside, PathBuf::from);
    let path = shared.join("gpu").join(name);
    let text = fs::read_to_string(&path).ok();
    if text.is_none() {
        eprintln!("skipped: no {}", path.display());
    }
    text
}

#[test]
fn lines_from_issues_and_documents_are_read() {
    let Some(text) = shared("dcgm_exporter_real_lines_from_issues_docs_tests.prom") else {
        return;
    };
    let samples = map(&text);
    let find = |uuid: &str| {
        let found = samples
            .gpus
            .iter()
            .find(|sample| sample.gpu_uuid.starts_with(uuid));
        found.map(line).unwrap_or_default()
    };
    assert!(find("GPU-604ac76c").contains("sm_clock_mhz=139 mem_clock_mhz=405"));
    assert!(!find("GPU-604ac76c").contains("mem_temp_c"));
    assert!(find("GPU-931446e6").contains("gr_engine_active=0.008246 pod=ai-1/d85np-t6mdg"));
    assert!(find("GPU-c1f38265").contains("power_w=30.982"));
    assert!(find("GPU-abc-123").is_empty() || find("GPU-abc-123").contains("0.75"));
    assert!(find("GPU-aaa").contains("nvlink_rx_bytes_per_s=10 "));
    assert!(find("GPU-aaa").contains("xid_last=31 ?xid_preexisting"));
    assert!(lost(&samples).contains(&("per_link", 1)));
}

#[test]
fn every_known_rename_of_a_mapped_field_is_mapped() {
    let Some(text) = shared("dcgm_4.6.1_field_renames.csv") else {
        return;
    };
    let is_mapped = |name: &str| {
        let samples = map(&format!("{name}{{UUID=\"GPU-1\",xid=\"1\"}} 0.5\n"));
        samples.losses.count(super::LossReason::Unmapped) == 0
    };
    let mut n_mapped = 0;
    for row in text.lines().skip(1) {
        let names: Vec<&str> = row.split(',').skip(1).collect();
        let is_old = is_mapped(names[0]);
        assert_eq!(is_old, is_mapped(names[1]), "{row}");
        n_mapped += usize::from(is_old);
    }
    assert!(n_mapped >= 30, "{n_mapped}");
}

#[test]
fn the_fields_of_the_counter_files_are_mapped() {
    for name in [
        "dcgm-exporter_default-counters_HEAD_d5e5f51.csv",
        "dcgm-exporter_dcp-metrics-included_HEAD.csv",
        "dcgm-exporter_1.x-compat_HEAD.csv",
    ] {
        let Some(text) = shared(name) else { return };
        for row in text.lines() {
            let row = row.trim_start_matches(['#', ' ']);
            let mut cells = row.split(',').map(str::trim);
            let (Some(field), Some(kind)) = (cells.next(), cells.next()) else {
                continue;
            };
            let is_field = field.to_ascii_lowercase().starts_with("dcgm_")
                && matches!(kind, "gauge" | "counter");
            // One link, a licence, and what the exporter counts itself.
            let is_left_out = [
                "_L0",
                "VGPU_LICENSE",
                "DCGM_EXP_",
                "_FI_DEV_CPU",
                "NVSWITCH",
            ]
            .iter()
            .any(|part| field.contains(part));
            if !is_field || is_left_out {
                continue;
            }
            let samples = map(&format!("{field}{{UUID=\"GPU-1\"}} 0.5\n"));
            assert_eq!(lost(&samples), vec![], "{name}: {row}");
        }
    }
}

#[test]
fn nvidia_gpu_exporter_of_real_boards_is_read() {
    for (name, expected) in [
        (
            "nvidia_gpu_exporter__nvidia-h100-80gb-hbm3__590.48.01__load.metrics",
            "util_pct=",
        ),
        (
            "nvidia_gpu_exporter__nvidia-h200-mig__590.48.01__load.metrics",
            "power_w=295.01 power_instant_w=294.14",
        ),
        (
            "nvidia_gpu_exporter__nvidia-l40s__595.80__load.metrics",
            "sm_clock_mhz=",
        ),
    ] {
        let Some(text) = shared(name) else { return };
        let samples = map(&text);
        assert_eq!(samples.gpus.len(), 1, "{name}");
        let row = line(&samples.gpus[0]);
        assert!(
            row.starts_with("GPU-00000000-0000-0000-0000-000000000000 "),
            "{row}"
        );
        assert!(row.contains(expected), "{name}: {row}");
        assert!(samples.gpus[0].identity.gpu_model.is_some(), "{name}");
    }
    let Some(text) = shared("nvidia_gpu_exporter__demo_seeded.metrics") else {
        return;
    };
    let samples = map(&text);
    let devices: Vec<_> = samples
        .gpus
        .iter()
        .map(|sample| {
            (
                sample.gpu_uuid.get(..12).unwrap(),
                sample.mig_instance.as_deref(),
            )
        })
        .collect();
    assert_eq!(
        devices,
        [
            ("GPU-1c67088e", None),
            ("GPU-1c67088e", Some("2")),
            ("GPU-1c67088e", Some("7")),
            ("GPU-ef427e4f", None)
        ]
    );
    assert_eq!(
        samples.gpus[2].identity.mig_profile.as_deref(),
        Some("1g.18gb")
    );
}

#[test]
fn engine_lines_from_issues_and_documents_are_read() {
    let Some(text) = shared("vllm_real_lines_from_issues_docs_tests.prom") else {
        return;
    };
    let samples = map(&text);
    let lines: Vec<String> = samples.engines.iter().map(engine_line).collect();
    assert!(
        lines
            .iter()
            .any(|line| line.contains("requests_waiting_capacity=9"))
    );
    assert!(
        lines
            .iter()
            .any(|line| line.contains("kv_cache_usage=0.28"))
    );
    assert!(
        lines
            .iter()
            .any(|line| line.contains("kv_cache_usage=0.00005882698982295764"))
    );
    engine_batch(&samples);
}

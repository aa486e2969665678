//! Files with which `whyslow serve` scrapes the fleet: a pipeline, targets as service discovery would write them, and
//! which pod holds which GPU.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use loadgen::fleet::{Placement, Target};
use serde_json::{Value, json};

use super::Mapping;
use super::exporters::ports;

/// Writes them into a folder; says what to do with them.
pub(super) fn write(
    folder: &Path,
    placements: &[Placement],
    port: u16,
    mapping: Mapping,
) -> anyhow::Result<String> {
    let targets = folder.join("targets");
    fs::create_dir_all(&targets).with_context(|| format!("make `{}`", targets.display()))?;
    let folder = folder
        .canonicalize()
        .with_context(|| format!("find `{}`", folder.display()))?;
    let (gpus, engines): (Vec<_>, Vec<_>) =
        ports(port).partition(|(target, _)| matches!(target, Target::Gpus { .. }));
    let files = [
        ("whyslow.yaml", pipeline(&folder, mapping)),
        ("targets/dcgm.json", groups(&gpus)),
        ("targets/vllm.json", groups(&engines)),
        ("placements.csv", csv(placements)),
    ];
    for (name, text) in files {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("write `{}`", path.display()))?;
    }
    let shown = folder.join("whyslow.yaml");
    let shown = shown.display();
    let same = if mapping == Mapping::Labels {
        ""
    } else {
        " with the same `--placements`"
    };
    Ok(format!(
        "wrote {shown}, targets and placements\n\
         next: whyslow serve -c {shown}\n\
         then, elsewhere: whyslow loadgen fleet thermal{same}\n"
    ))
}

/// One group per target, as they differ in their labels.
fn groups(targets: &[(Target, u16)]) -> String {
    let groups = targets.iter().map(|(target, port)| {
        let labels = target.labels().into_iter();
        let labels = labels.map(|(name, text)| (name.to_owned(), Value::from(text)));
        json!({ "targets": [format!("127.0.0.1:{port}")], "labels": Value::Object(labels.collect()) })
    });
    format!("{:#}\n", groups.collect::<Value>())
}

/// From the beginning of time on: the file is there before the run.
fn csv(placements: &[Placement]) -> String {
    let mut out = "gpu_uuid,gpu_index,node,namespace,pod,pod_uid,tp_rank\n".to_owned();
    for held in placements {
        out.push_str(&format!(
            "{},{},{},{},{},{},{}\n",
            held.gpu_uuid,
            held.gpu_idx,
            held.node,
            held.namespace,
            held.pod,
            held.pod_uid.as_deref().unwrap_or_default(),
            held.tp_rank
        ));
    }
    out
}

fn pipeline(folder: &Path, mapping: Mapping) -> String {
    let root = Value::from(folder.display().to_string());
    // A JSON string is one of YAML, whatever is in the name; the quotes go around more than the folder.
    let root = root.to_string();
    let inner = root
        .strip_prefix('"')
        .and_then(|root| root.strip_suffix('"'));
    let root = inner.unwrap_or_default();
    let placements = match mapping {
        Mapping::Labels | Mapping::File => format!(
            "\n    # What labels of exporters say is believed first.\n    placements_file: \"{root}/placements.csv\""
        ),
        Mapping::None => String::new(),
    };
    format!(
        r#"# A simulated fleet, scraped: written by `whyslow loadgen fleet --write-config`.

receivers:
  otlp:
    protocols:
      grpc: {{endpoint: 127.0.0.1:4317}}
      http: {{endpoint: 127.0.0.1:4318}}
  # Two exporters of GPUs, one per node, and two engines, while `whyslow loadgen fleet` runs in real time.
  dcgm:
    scrape_interval: 1s
    file_sd_configs:
      - {{files: ["{root}/targets/dcgm.json"], refresh_interval: 5s}}
  vllm_metrics:
    scrape_interval: 1s
    file_sd_configs:
      - {{files: ["{root}/targets/vllm.json"], refresh_interval: 5s}}

processors:
  tail_sampling:
    trigger: {{root_grace: 10s, idle: 30s, max_wait: 10m}}
    policies:
      - {{name: failed, type: status_code, status_code: {{status_codes: [ERROR]}}}}
      - {{name: slow, type: latency, latency: {{threshold_ms: 4000}}}}
      # To compare the slow ones with.
      - {{name: baseline, type: probabilistic, probabilistic: {{sampling_percentage: 20}}}}
  redact: {{content: drop}}
  correlate:
    max_lateness: 30s{placements}

exporters:
  lake: {{path: "{root}/data/tables", commit_interval: 5s}}

extensions:
  query: {{endpoint: 127.0.0.1:7070}}
  write_ahead_log: {{directory: "{root}/data/log"}}

service:
  extensions: [query, write_ahead_log]
  pipelines:
    traces: {{receivers: [otlp], processors: [tail_sampling, redact, correlate], exporters: [lake]}}
    metrics: {{receivers: [otlp, dcgm, vllm_metrics], exporters: [lake]}}
"#
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use loadgen::fleet::{Config, simulate};

    use super::{Mapping, write};
    use crate::{config, store::placements_file};

    #[test]
    fn what_is_written_loads_and_names_every_target_and_gpu() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("a \"b\" c");
        let run = simulate(&Config {
            duration: Duration::from_secs(1),
            ..Config::default()
        });
        for mapping in [Mapping::Labels, Mapping::File, Mapping::None] {
            let said = write(&folder, &run.placements, 19_400, mapping).unwrap();
            assert!(said.contains("whyslow.yaml"), "{said}");
            let loaded = config::load(Some(&folder.join("whyslow.yaml"))).unwrap();
            assert_eq!(loaded.warnings, [], "{mapping:?}");
            let names = loaded.config.correlate.placements_file.is_some();
            assert_eq!(names, mapping != Mapping::None);
            assert_eq!(loaded.config.scrapers.len(), 2);
        }
        let placements = placements_file::read(&folder.join("placements.csv")).unwrap();
        assert_eq!(placements.len(), 4);
        for (name, port) in [("dcgm", 19_401), ("vllm", 19_403)] {
            let path = folder.join(format!("targets/{name}.json"));
            let groups = std::fs::read_to_string(path).unwrap();
            let groups: serde_json::Value = serde_json::from_str(&groups).unwrap();
            assert_eq!(groups[1]["targets"][0], format!("127.0.0.1:{port}"));
        }
    }
}

//! `placements_file`: which pod holds which GPU where nobody reports it, as CSV or YAML.
//!
//! CSV has a header line. Columns, in any order: `gpu_uuid`, `pod` (or `pod_uid`); and as far as they are known
//! `valid_from_ms` and `valid_to_ms` (milliseconds since 1970; empty: always), `node`, `gpu_i_id` (MIG instance),
//! `cluster`, `namespace`, `pod_uid`, `container`, `dp_rank`, `pp_rank`, `tp_rank`. `gpu_index` may be there and is
//! not used: an index names no GPU for long. YAML (`.yaml`, `.yml`, `.json`) is a list of maps with these keys.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use correlate::{Device, Placement, Pod, Ranks, Source};
use serde::Deserialize;

/// The largest file that is read.
const FILE_BYTES_MAX: u64 = 64 << 20;

const NANOS_PER_MILLI: i64 = 1_000_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    #[serde(default)]
    valid_from_ms: Option<i64>,
    #[serde(default)]
    valid_to_ms: Option<i64>,
    #[serde(default)]
    node: Option<String>,
    gpu_uuid: String,
    #[serde(default)]
    gpu_index: Option<u32>,
    #[serde(default)]
    gpu_i_id: Option<u32>,
    #[serde(default)]
    cluster: Option<String>,
    #[serde(default)]
    namespace: Option<String>,
    #[serde(default)]
    pod: Option<String>,
    #[serde(default)]
    pod_uid: Option<String>,
    #[serde(default)]
    container: Option<String>,
    #[serde(default)]
    dp_rank: Option<i64>,
    #[serde(default)]
    pp_rank: Option<i64>,
    #[serde(default)]
    tp_rank: Option<i64>,
}

/// Reads the file. A row that cannot be used is an error that names it: a wrong placement is worse than none.
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<Placement>> {
    let place = || format!("read the placements of `{}`", path.display());
    let metadata = std::fs::metadata(path).with_context(place)?;
    ensure!(
        metadata.len() <= FILE_BYTES_MAX,
        "`{}` is larger than {FILE_BYTES_MAX} bytes",
        path.display()
    );
    let text = std::fs::read_to_string(path).with_context(place)?;
    let extension = path.extension().and_then(|extension| extension.to_str());
    let placements = if matches!(extension, Some("yaml" | "yml" | "json")) {
        of_yaml(&text)
    } else {
        of_csv(&text)
    };
    placements.with_context(place)
}

fn of_csv(text: &str) -> anyhow::Result<Vec<Placement>> {
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .comment(Some(b'#'))
        .from_reader(text.as_bytes());
    let rows = reader.deserialize::<Row>().enumerate();
    rows.map(|(idx, row)| row?.placement().with_context(|| format!("row {}", idx + 1)))
        .collect()
}

fn of_yaml(text: &str) -> anyhow::Result<Vec<Placement>> {
    let rows: Vec<Row> = serde_saphyr::from_str(text)?;
    let rows = rows.into_iter().enumerate();
    rows.map(|(idx, row)| row.placement().with_context(|| format!("item {}", idx + 1)))
        .collect()
}

impl Row {
    fn placement(self) -> anyhow::Result<Placement> {
        let text = |text: Option<String>| text.filter(|text| !text.is_empty()).map(Arc::from);
        let nanos = |millis: i64| {
            let nanos = millis.checked_mul(NANOS_PER_MILLI);
            nanos.context("a time is too far from 1970 for nanoseconds; give milliseconds")
        };
        let _unused = self.gpu_index;
        let device = Device::parse(&self.gpu_uuid, self.gpu_i_id);
        let uuid = &self.gpu_uuid;
        let device = device.with_context(|| {
            format!("`gpu_uuid` is `{uuid}`, which is no UUID of a GPU; an index is not enough")
        })?;
        let pod = Pod {
            cluster: text(self.cluster),
            namespace: text(self.namespace),
            name: text(self.pod),
            uid: text(self.pod_uid),
        };
        ensure!(
            pod.name.is_some() || pod.uid.is_some(),
            "neither `pod` nor `pod_uid` is given"
        );
        let valid_from_unix_nano = self.valid_from_ms.map_or(Ok(i64::MIN), nanos)?;
        let valid_to_unix_nano = self.valid_to_ms.map(nanos).transpose()?;
        ensure!(
            valid_to_unix_nano.is_none_or(|to| to > valid_from_unix_nano),
            "`valid_to_ms` is not after `valid_from_ms`"
        );
        Ok(Placement {
            device,
            pod,
            container: text(self.container),
            node: text(self.node),
            ranks: Ranks {
                dp: self.dp_rank,
                pp: self.pp_rank,
                tp: self.tp_rank,
            },
            valid_from_unix_nano,
            valid_to_unix_nano,
            source: Source::StaticFile,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{of_csv, of_yaml};

    /// As a table of placements is usually exported.
    #[test]
    fn mig_instances_of_one_gpu_are_different_devices() {
        let csv = "valid_from_ms,valid_to_ms,node,gpu_uuid,gpu_index,gpu_i_id,namespace,pod,container\n\
                   1772366340000,,gpu-node-06,GPU-0a1b2c3d-0001-4000-8000-000000000001,0,1,llm-serving,vllm-a-0,vllm\n\
                   1772366340000,,gpu-node-06,GPU-0a1b2c3d-0001-4000-8000-000000000001,0,2,llm-serving,vllm-b-0,vllm\n";
        let placements = of_csv(csv).unwrap();
        assert_eq!(placements.len(), 2);
        assert_ne!(placements[0].device, placements[1].device);
        assert_eq!(placements[1].valid_to_unix_nano, None);
        assert_eq!(
            placements[0].valid_from_unix_nano,
            1_772_366_340_000_000_000
        );
    }

    #[test]
    fn csv_and_yaml_say_the_same() {
        let csv = "gpu_uuid,pod,namespace,valid_from_ms,valid_to_ms,tp_rank,gpu_i_id\n\
                   # a comment\n\
                   GPU-0A1B2C3D, vllm-0 ,,1000,,3,1\n";
        let yaml = "- {gpu_uuid: gpu-0a1b2c3d, pod: vllm-0, valid_from_ms: 1000, tp_rank: 3, gpu_i_id: 1}\n";
        let placements = of_csv(csv).unwrap();
        assert_eq!(placements, of_yaml(yaml).unwrap());
        assert_eq!(placements[0].valid_from_unix_nano, 1_000_000_000);
        assert_eq!(placements[0].device.mig_instance(), Some(1));
        assert!(placements[0].pod.namespace.is_none());
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        for (csv, expected) in [
            ("gpu_uuid,pod\n0,vllm-0\n", "an index is not enough"),
            ("gpu_uuid,node\nGPU-0a1b2c3d,n\n", "neither `pod`"),
            (
                "gpu_uuid,pod,valid_from_ms,valid_to_ms\nGPU-0a1b2c3d,p,2,1\n",
                "not after",
            ),
            (
                "gpu_uuid,pod,valid_from_ms\nGPU-0a1b2c3d,p,yesterday\n",
                "invalid digit",
            ),
            (
                "gpu_uuid,pod,rank\nGPU-0a1b2c3d,p,0\n",
                "unknown field `rank`",
            ),
            ("pod\np\n", "missing field `gpu_uuid`"),
        ] {
            let error = format!("{:#}", of_csv(csv).unwrap_err());
            assert!(error.contains(expected), "{csv}: {error}");
        }
        assert!(of_yaml("gpu_uuid: x").is_err());
    }
}

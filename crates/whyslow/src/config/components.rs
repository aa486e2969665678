//! Which components exist, and which of them the pipelines of a file use.

use serde::Deserialize;
use std::collections::BTreeMap;
use transport::Authenticators;

use super::error::{Error, Warning, unknown};
use super::settings::{Correlate, LOG_LEVEL, LakeExporter, keep_all, pass_on};
use super::tree::{Node, Value};
use super::{Config, Scraper, de, exporters, sampling, scrapers};

/// Keys at the top of a file.
const TOP: [&str; 6] = [
    "receivers",
    "processors",
    "exporters",
    "extensions",
    "connectors",
    "service",
];

/// A section that defines components.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    Receivers,
    Processors,
    Exporters,
    Extensions,
}

impl Section {
    const ALL: [Self; 4] = [
        Self::Receivers,
        Self::Processors,
        Self::Exporters,
        Self::Extensions,
    ];

    pub(super) const fn key(self) -> &'static str {
        match self {
            Self::Receivers => "receivers",
            Self::Processors => "processors",
            Self::Exporters => "exporters",
            Self::Extensions => "extensions",
        }
    }

    const fn singular(self) -> &'static str {
        match self {
            Self::Receivers => "receiver",
            Self::Processors => "processor",
            Self::Exporters => "exporter",
            Self::Extensions => "extension",
        }
    }

    /// Types that work.
    const fn built(self) -> &'static [&'static str] {
        match self {
            Self::Receivers => &["otlp", "dcgm", "vllm_metrics", "pod_resources"],
            Self::Processors => &["tail_sampling", "redact", "correlate"],
            Self::Exporters => &[
                "lake",
                "otlp",
                "otlp_grpc",
                "otlp_http",
                "otlphttp",
                "loadbalancing",
                "debug",
            ],
            Self::Extensions => &[
                "query",
                "slo",
                "health_check",
                "intake",
                "write_ahead_log",
                "bearertokenauth",
            ],
        }
    }

    /// Types of the Collector whose work is done here anyway.
    const fn not_needed(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Processors => &[
                (
                    "batch",
                    "rows are committed by size and age, see the `lake` exporter",
                ),
                (
                    "memory_limiter",
                    "undecided spans are in the log, see the `intake` extension",
                ),
                ("groupbytrace", "`tail_sampling` groups by trace itself"),
            ],
            Self::Receivers | Self::Exporters | Self::Extensions => &[],
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Service {
    #[serde(default)]
    extensions: Vec<String>,
    pipelines: BTreeMap<String, Pipeline>,
    #[serde(default)]
    telemetry: Telemetry,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pipeline {
    receivers: Vec<String>,
    #[serde(default)]
    processors: Vec<String>,
    exporters: Vec<String>,
}

/// The Collector's `service.telemetry`; only the level of logs is used.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Telemetry {
    logs: Logs,
}

#[derive(Debug, Deserialize)]
#[serde(default)]
struct Logs {
    level: String,
}

impl Default for Logs {
    fn default() -> Self {
        Self {
            level: LOG_LEVEL.to_owned(),
        }
    }
}

/// Reads the sections that the pipelines name.
pub(super) fn assemble(root: &Node, warnings: &mut Vec<Warning>) -> Result<Config, Error> {
    check_top(root)?;
    for section in Section::ALL {
        check_types(root, section)?;
    }
    let service_node = root
        .child("service")
        .ok_or_else(|| Error::at("service", 0, "the key is missing; it names the pipelines"))?;
    let service: Service = de::read(service_node, "service")?;
    check_references(root, service_node, &service)?;
    let traces = traces_pipeline(service_node, &service)?;
    warn_about_unused(root, &service, warnings);

    let used = |section, list: &[String]| Used {
        root,
        section,
        ids: list.to_vec(),
    };
    let receivers = used(Section::Receivers, &traces.receivers);
    let processors = used(Section::Processors, &traces.processors);
    let exporters = used(Section::Exporters, &traces.exporters);
    let extensions = used(Section::Extensions, &service.extensions);

    processors.warn_not_needed(warnings);
    let otlp: Option<gateway::Otlp> = receivers.one("otlp")?;
    let lake: Option<LakeExporter> = exporters.one("lake")?;
    let others = exporters::read(&exporters, warnings)?;
    let has_exporter = lake.is_some() || !others.is_empty();
    let (Some(otlp), true) = (otlp, has_exporter) else {
        let line = service_node.line;
        let message = "the pipeline needs the receiver `otlp` and an exporter, such as `lake`";
        return Err(Error::at("service::pipelines::traces", line, message));
    };
    let correlate = correlation(&processors, lake.is_some())?;
    warn_about_other_pipelines(service_node, &service, lake.is_some(), warnings);
    let redact: Option<tables::redact::Config> = processors.one("redact")?;
    Ok(Config {
        gateway: gateway::Config {
            otlp,
            intake: extensions.one("intake")?.unwrap_or_default(),
            authenticators: Authenticators(extensions.each("bearertokenauth")?),
        },
        scrapers: scraped(root, service_node, &service, traces)?,
        log: extensions.one("write_ahead_log")?.unwrap_or_default(),
        sampler: match processors.place(sampling::KIND)? {
            Some((path, node)) => sampling::read(node, &path, warnings)?,
            None if lake.is_none() => pass_on(),
            None => keep_all(),
        },
        is_redacting: redact.is_some(),
        redact: redact.unwrap_or_default(),
        lake,
        correlate,
        exporters: others,
        query: extensions.one("query")?,
        slo: extensions.one("slo")?,
        health_check: extensions.one("health_check")?,
        log_level: service.telemetry.logs.level,
    })
}

/// What the pipelines for metrics name of what scrapes.
fn scraped(
    root: &Node,
    node: &Node,
    service: &Service,
    traces: &Pipeline,
) -> Result<Vec<Scraper>, Error> {
    let mut of_traces = traces.receivers.iter();
    if let Some(id) = of_traces.find(|id| scrapers::kind_of(id).is_some()) {
        let path = "service::pipelines::traces::receivers";
        let message =
            format!("`{id}` gives metrics: name it in the `receivers` of a pipeline `metrics`");
        return Err(Error::at(path, node.line, message));
    }
    let pipelines = service.pipelines.iter();
    let of_metrics = pipelines.filter(|(name, _)| type_of(name) == "metrics");
    let ids = of_metrics.flat_map(|(_, pipeline)| pipeline.receivers.clone());
    scrapers::read(&Used {
        root,
        section: Section::Receivers,
        ids: ids.collect(),
    })
}

/// The settings of `correlate`, which needs tables.
fn correlation(processors: &Used<'_>, is_storing: bool) -> Result<Correlate, Error> {
    let Some((path, node)) = processors.place("correlate")? else {
        return Ok(Correlate::default());
    };
    if !is_storing {
        let message = "joins what the exporter `lake` stores, and no pipeline has that; name `lake` in `exporters`, or \
                       take `correlate` out of `processors`";
        return Err(Error::at(&path, node.line, message));
    }
    de::read(node, &path)
}

fn check_top(root: &Node) -> Result<(), Error> {
    for (key, node) in root.entries() {
        if !TOP.contains(&key.as_str()) {
            return Err(Error::at(
                key,
                node.line,
                unknown("key", TOP.iter().copied(), key),
            ));
        }
        if key == "connectors" && !node.entries().is_empty() {
            return Err(Error::at(
                key,
                node.line,
                "connectors are not part of Whyslow",
            ));
        }
    }
    Ok(())
}

/// The type in `type/name`.
pub(super) fn type_of(id: &str) -> &str {
    id.split_once('/').map_or(id, |(kind, _)| kind)
}

fn check_types(root: &Node, section: Section) -> Result<(), Error> {
    let Some(node) = root.child(section.key()) else {
        return Ok(());
    };
    if !matches!(node.value, Value::Map(_) | Value::Null) {
        let message = format!("expected a map of {}s", section.singular());
        return Err(Error::at(section.key(), node.line, message));
    }
    for (id, component) in node.entries() {
        let kind = type_of(id);
        let is_known = section.built().contains(&kind)
            || section.not_needed().iter().any(|(name, _)| *name == kind);
        if is_known {
            continue;
        }
        let what = section.singular();
        let message = unknown(what, section.built().iter().copied(), kind);
        return Err(Error::at(
            &format!("{}::{id}", section.key()),
            component.line,
            message,
        ));
    }
    Ok(())
}

/// Every id that `service` names is defined.
fn check_references(root: &Node, service_node: &Node, service: &Service) -> Result<(), Error> {
    let check = |section: Section, ids: &[String], path: &str| {
        let defined = root
            .child(section.key())
            .map(Node::entries)
            .unwrap_or_default();
        for id in ids {
            if !defined.iter().any(|(known, _)| known == id) {
                let message = format!(
                    "names the {} `{id}`, which the section `{}` does not define",
                    section.singular(),
                    section.key()
                );
                return Err(Error::at(path, service_node.line, message));
            }
        }
        Ok(())
    };
    check(
        Section::Extensions,
        &service.extensions,
        "service::extensions",
    )?;
    for (name, pipeline) in &service.pipelines {
        let path = format!("service::pipelines::{name}");
        check(Section::Receivers, &pipeline.receivers, &path)?;
        check(Section::Processors, &pipeline.processors, &path)?;
        check(Section::Exporters, &pipeline.exporters, &path)?;
    }
    Ok(())
}

fn traces_pipeline<'a>(node: &Node, service: &'a Service) -> Result<&'a Pipeline, Error> {
    const SIGNALS: [&str; 3] = ["traces", "metrics", "logs"];
    for name in service.pipelines.keys() {
        if !SIGNALS.contains(&type_of(name)) {
            let path = format!("service::pipelines::{name}");
            let message = unknown("signal", SIGNALS.iter().copied(), type_of(name));
            return Err(Error::at(&path, node.line, message));
        }
    }
    let mut traces = service
        .pipelines
        .iter()
        .filter(|(name, _)| type_of(name) == "traces");
    match (traces.next(), traces.next()) {
        (Some((_, pipeline)), None) => Ok(pipeline),
        (None, _) => Err(Error::at(
            "service::pipelines",
            node.line,
            "the pipeline `traces` is missing",
        )),
        (Some(_), Some((second, _))) => {
            let path = format!("service::pipelines::{second}");
            Err(Error::at(
                &path,
                node.line,
                "a second pipeline for traces is not built yet",
            ))
        }
    }
}

fn warn_about_other_pipelines(
    node: &Node,
    service: &Service,
    is_storing: bool,
    warnings: &mut Vec<Warning>,
) {
    let is_stored = |name: &str| match type_of(name) {
        "traces" => true,
        "metrics" => is_storing,
        _ => false,
    };
    for name in service.pipelines.keys().filter(|name| !is_stored(name)) {
        let path = format!("service::pipelines::{name}");
        let message = "accepted and counted, and nothing here stores this signal";
        warnings.push(Warning::new(&path, node.line, message));
    }
}

fn warn_about_unused(root: &Node, service: &Service, warnings: &mut Vec<Warning>) {
    for section in Section::ALL {
        let Some(node) = root.child(section.key()) else {
            continue;
        };
        for (id, component) in node.entries() {
            let used = match section {
                Section::Extensions => service.extensions.contains(id),
                Section::Receivers => service.pipelines.values().any(|p| p.receivers.contains(id)),
                Section::Processors => service
                    .pipelines
                    .values()
                    .any(|p| p.processors.contains(id)),
                Section::Exporters => service.pipelines.values().any(|p| p.exporters.contains(id)),
            };
            if !used {
                let path = format!("{}::{id}", section.key());
                let list = if section == Section::Extensions {
                    "`service.extensions`"
                } else {
                    "pipeline"
                };
                let message = format!("defined, but no {list} uses it; it does nothing");
                warnings.push(Warning::new(&path, component.line, message));
            }
        }
    }
}

/// The components of one section that are in use.
pub(super) struct Used<'a> {
    root: &'a Node,
    section: Section,
    ids: Vec<String>,
}

impl Used<'_> {
    /// The ids, each with where its component is written.
    pub(super) fn all(&self) -> impl Iterator<Item = (&str, &Node)> {
        let section = self.root.child(self.section.key());
        self.ids
            .iter()
            .filter_map(move |id| Some((id.as_str(), section?.child(id)?)))
    }

    /// The configuration of the only component of this type, if there is one.
    fn one<T: serde::de::DeserializeOwned>(&self, kind: &str) -> Result<Option<T>, Error> {
        self.place(kind)?
            .map(|(path, node)| de::read(node, &path))
            .transpose()
    }

    /// The configurations of all components of this type, by id.
    fn each<T: serde::de::DeserializeOwned>(
        &self,
        kind: &str,
    ) -> Result<BTreeMap<String, T>, Error> {
        let section = self.root.child(self.section.key());
        let ids = self.ids.iter().filter(|id| type_of(id) == kind);
        let nodes = ids.filter_map(|id| Some((id, section?.child(id)?)));
        nodes
            .map(|(id, node)| {
                let path = format!("{}::{id}", self.section.key());
                Ok((id.clone(), de::read(node, &path)?))
            })
            .collect()
    }

    /// Where that component is written.
    fn place(&self, kind: &str) -> Result<Option<(String, &Node)>, Error> {
        let mut ids = self.ids.iter().filter(|id| type_of(id) == kind);
        let Some(id) = ids.next() else {
            return Ok(None);
        };
        let path = format!("{}::{id}", self.section.key());
        let node = self
            .root
            .child(self.section.key())
            .and_then(|section| section.child(id));
        let Some(node) = node else { return Ok(None) };
        if let Some(second) = ids.next() {
            let message = format!("a second `{kind}` beside `{id}` is not built yet");
            let path = format!("{}::{second}", self.section.key());
            return Err(Error::at(&path, node.line, message));
        }
        Ok(Some((path, node)))
    }

    fn warn_not_needed(&self, warnings: &mut Vec<Warning>) {
        for id in &self.ids {
            let found = self
                .section
                .not_needed()
                .iter()
                .find(|(name, _)| *name == type_of(id));
            if let Some((name, why)) = found {
                let path = format!("{}::{id}", self.section.key());
                let node = self
                    .root
                    .child(self.section.key())
                    .and_then(|s| s.child(id));
                let line = node.map_or(0, |node| node.line);
                warnings.push(Warning::new(
                    &path,
                    line,
                    format!("`{name}` is not needed: {why}"),
                ));
            }
        }
    }
}

//! The receivers that ask: `dcgm` and `vllm_metrics` scrape, `pod_resources` asks the kubelet; named by a pipeline for
//! metrics.

use gateway::{pod_resources, scrape};
use transport::Authenticators;

use super::components::{Section, Used, type_of};
use super::de;
use super::error::Error;
use super::tree::Node;

/// A receiver that asks, and where its section is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scraper {
    pub(crate) asks: Asks,
    pub(super) line: u64,
}

/// Whom it asks.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Asks {
    /// Exporters and engines.
    Targets(Box<scrape::Receiver>),
    /// The kubelet of this node.
    Kubelet(pod_resources::Receiver),
}

/// What a component's type asks, if it asks.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Targets(scrape::Kind),
    Kubelet,
}

/// The kind of a component's type, if it asks.
pub(super) fn kind_of(id: &str) -> Option<Kind> {
    let scrapes = [scrape::Kind::Dcgm, scrape::Kind::VllmMetrics];
    let kind = type_of(id);
    let scrapes = scrapes.into_iter().find(|known| known.component() == kind);
    match scrapes {
        Some(known) => Some(Kind::Targets(known)),
        None => (kind == "pod_resources").then_some(Kind::Kubelet),
    }
}

/// Reads those that the pipelines for metrics name.
pub(super) fn read(used: &Used<'_>) -> Result<Vec<Scraper>, Error> {
    let mut scrapers: Vec<Scraper> = Vec::new();
    for (id, node) in used.all() {
        let Some(kind) = kind_of(id) else { continue };
        if scrapers.iter().any(|known| known.id() == id) {
            continue;
        }
        let asks = section(id, kind, node)?;
        let line = node.line;
        scrapers.push(Scraper { asks, line });
    }
    Ok(scrapers)
}

fn section(id: &str, kind: Kind, node: &Node) -> Result<Asks, Error> {
    let path = format!("{}::{id}", Section::Receivers.key());
    let id = id.to_owned();
    Ok(match kind {
        Kind::Targets(kind) => Asks::Targets(Box::new(scrape::Receiver {
            id,
            kind,
            config: de::read(node, &path)?,
        })),
        Kind::Kubelet => Asks::Kubelet(pod_resources::Receiver {
            id,
            config: de::read(node, &path)?,
        }),
    })
}

/// Wherever they are written.
pub(super) fn are_same(some: &[Scraper], others: &[Scraper]) -> bool {
    let same = |(a, b): (&Scraper, &Scraper)| a.asks == b.asks;
    some.len() == others.len() && some.iter().zip(others).all(same)
}

/// Those that scrape.
pub(crate) fn scraping(all: &[Scraper]) -> Vec<scrape::Receiver> {
    let targets = all.iter().filter_map(|scraper| match &scraper.asks {
        Asks::Targets(receiver) => Some(scrape::Receiver::clone(receiver)),
        Asks::Kubelet(_) => None,
    });
    targets.collect()
}

/// Those that ask the kubelet.
pub(crate) fn looking(all: &[Scraper]) -> Vec<pod_resources::Receiver> {
    let kubelets = all.iter().filter_map(|scraper| match &scraper.asks {
        Asks::Targets(_) => None,
        Asks::Kubelet(receiver) => Some(receiver.clone()),
    });
    kubelets.collect()
}

impl Scraper {
    /// `type/name`.
    pub(crate) fn id(&self) -> &str {
        match &self.asks {
            Asks::Targets(receiver) => &receiver.id,
            Asks::Kubelet(receiver) => &receiver.id,
        }
    }

    /// Checks what types cannot say.
    pub(super) fn validate(&self, known: &Authenticators) -> Result<(), Error> {
        let path = format!("{}::{}", Section::Receivers.key(), self.id());
        let checked = match &self.asks {
            Asks::Targets(receiver) => receiver.validate(known),
            Asks::Kubelet(receiver) => receiver.config.validate().map_err(|e| e.to_string()),
        };
        checked.map_err(|problem| Error::at(&path, self.line, problem))
    }

    /// In words: what, and how often.
    pub(crate) fn describe(&self) -> String {
        match &self.asks {
            Asks::Targets(receiver) => describe_targets(receiver),
            Asks::Kubelet(receiver) => {
                let pod_resources::Config {
                    socket,
                    interval,
                    node,
                    resource_names,
                    driver_names,
                    ..
                } = &receiver.config;
                let names = resource_names.iter().chain(driver_names);
                let names: Vec<&str> = names.map(String::as_str).collect();
                format!(
                    "which pod of node `{node}` holds which of {}, from the kubelet at {} every {interval:?}",
                    names.join(", "),
                    socket.display()
                )
            }
        }
    }
}

fn describe_targets(receiver: &scrape::Receiver) -> String {
    let scrape::Receiver { kind, config, .. } = receiver;
    let named = config.static_configs.iter();
    let n_named: usize = named.map(|group| group.targets.len()).sum();
    let files = config.file_sd_configs.iter();
    let files: Vec<&str> = files
        .flat_map(|files| &files.files)
        .map(String::as_str)
        .collect();
    let mut out = crate::show::text::counted(n_named as u64, "target");
    if !files.is_empty() {
        out.push_str(" and those in ");
        out.push_str(&files.join(", "));
    }
    out.push_str(&format!(" every {:?}", config.interval(*kind)));
    out
}

//! The receivers that scrape: `dcgm` and `vllm_metrics`, named by a pipeline for metrics.

use gateway::scrape::{Kind, Receiver};
use transport::Authenticators;

use super::components::{Section, Used, type_of};
use super::de;
use super::error::Error;

/// A receiver that scrapes, and where its section is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scraper {
    pub(crate) receiver: Receiver,
    pub(super) line: u64,
}

/// The kind of a component's type, if it scrapes.
pub(super) fn kind_of(id: &str) -> Option<Kind> {
    let kinds = [Kind::Dcgm, Kind::VllmMetrics];
    kinds
        .into_iter()
        .find(|kind| kind.component() == type_of(id))
}

/// Reads those that the pipelines for metrics name.
pub(super) fn read(used: &Used<'_>) -> Result<Vec<Scraper>, Error> {
    let mut scrapers: Vec<Scraper> = Vec::new();
    for (id, node) in used.all() {
        let Some(kind) = kind_of(id) else { continue };
        if scrapers.iter().any(|known| known.receiver.id == id) {
            continue;
        }
        let path = format!("{}::{id}", Section::Receivers.key());
        let receiver = Receiver {
            id: id.to_owned(),
            kind,
            config: de::read(node, &path)?,
        };
        let line = node.line;
        scrapers.push(Scraper { receiver, line });
    }
    Ok(scrapers)
}

/// Wherever they are written.
pub(super) fn are_same(some: &[Scraper], others: &[Scraper]) -> bool {
    let same = |(a, b): (&Scraper, &Scraper)| a.receiver == b.receiver;
    some.len() == others.len() && some.iter().zip(others).all(same)
}

impl Scraper {
    /// Checks what types cannot say.
    pub(super) fn validate(&self, known: &Authenticators) -> Result<(), Error> {
        let path = format!("{}::{}", Section::Receivers.key(), self.receiver.id);
        let checked = self.receiver.validate(known);
        checked.map_err(|problem| Error::at(&path, self.line, problem))
    }

    /// In words: what, and how often.
    pub(crate) fn describe(&self) -> String {
        let Receiver { kind, config, .. } = &self.receiver;
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
}

//! Configuration: Collector-shaped YAML into the configurations of the stages.
//!
//! In reading order: `tree` (YAML with lines), `env` (`${env:NAME}`), `de` (tree to structs),
//! `settings` (of components that no stage owns), `exporters` (to other backends), `scrapers` (receivers that ask), `sampling` (the
//! `tail_sampling` section and what to know about it), `components` (what may stand in each section and which of it the pipelines
//! use), `slo` (objectives), `exposed` (who could come from outside), and here the order of the checks.
//!
//! # Limits
//!
//! One `traces` pipeline with one `otlp` receiver, at most one `lake` exporter and any others; `metrics` and `logs`
//! pipelines may name the same components, and `metrics` what scrapes. Metrics that arrive by OTLP are stored with or without one. A component that no pipeline uses is a warning; a
//! component or key that does not exist is an error that names path, line and the nearest known one.
//!
//! It must not know how a stage works: every stage owns its own `Config`.

mod batches;
mod components;
mod de;
mod env;
mod error;
mod exporters;
mod exposed;
mod maintenance;
mod sampling;
mod scrapers;
mod settings;
pub(crate) mod slo;
mod tree;

#[cfg(test)]
mod tests;

use std::path::Path;

pub(crate) use batches::Batches;
pub(crate) use error::{Error, Warning};
pub(crate) use exporters::{Exporter, Kind};
pub(crate) use maintenance::Maintenance;
pub(crate) use sampling::Reviewed;
pub(crate) use scrapers::{Asks, Scraper, looking, scraping};
pub(crate) use settings::{Correlate, HealthCheck, LakeExporter, WriteAheadLog};
pub(crate) use slo::Slo;

use components::Section;
use transport::Door;
use tree::Node;

/// The built-in default, which is also the commented example.
pub(crate) const LOCAL_YAML: &str = include_str!("../../../../pipelines/local.yaml");

/// Everything that one process runs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Config {
    pub(crate) gateway: gateway::Config,
    /// What is scraped, and who else is asked.
    pub(crate) scrapers: Vec<Scraper>,
    pub(crate) log: WriteAheadLog,
    pub(crate) sampler: sampler::Config,
    pub(crate) redact: tables::redact::Config,
    /// Does the pipeline name `redact`? Then it holds for every exporter; else for what is stored or logged here.
    pub(crate) is_redacting: bool,
    /// `None`: nothing is stored here, and there is no SQL.
    pub(crate) lake: Option<LakeExporter>,
    /// How evidence comes about, where there is `lake`.
    pub(crate) correlate: Correlate,
    /// To other backends.
    pub(crate) exporters: Vec<Exporter>,
    /// `None` where the extension is not switched on.
    pub(crate) query: Option<query::Config>,
    /// What is promised; `None` where the extension is not switched on.
    pub(crate) slo: Option<Slo>,
    pub(crate) health_check: Option<HealthCheck>,
    /// Level of the program's own log lines.
    pub(crate) log_level: String,
}

impl Config {
    /// Which parts other than the policies differ, as they are written in a file. A new part must be named here.
    pub(crate) fn parts_that_differ(&self, other: &Self) -> Vec<&'static str> {
        let Self {
            gateway:
                gateway::Config {
                    otlp,
                    intake,
                    authenticators,
                },
            scrapers,
            log,
            sampler: _,
            redact,
            is_redacting,
            lake,
            correlate,
            exporters,
            query,
            slo,
            health_check,
            log_level,
        } = self;
        let parts = [
            ("receivers::otlp", *otlp != other.gateway.otlp),
            ("receivers", !scrapers::are_same(scrapers, &other.scrapers)),
            ("extensions::intake", *intake != other.gateway.intake),
            (
                "extensions::bearertokenauth",
                *authenticators != other.gateway.authenticators,
            ),
            ("extensions::write_ahead_log", *log != other.log),
            (
                "processors::redact",
                *redact != other.redact || *is_redacting != other.is_redacting,
            ),
            ("processors::correlate", *correlate != other.correlate),
            ("exporters::lake", *lake != other.lake),
            (
                "exporters",
                !exporters::are_same(exporters, &other.exporters),
            ),
            ("extensions::query", *query != other.query),
            ("extensions::slo", *slo != other.slo),
            (
                "extensions::health_check",
                *health_check != other.health_check,
            ),
            ("service::telemetry", *log_level != other.log_level),
        ];
        let different = parts.into_iter().filter(|(_, is_different)| *is_different);
        different.map(|(part, _)| part).collect()
    }
}

/// A configuration and what a person should know about it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Loaded {
    pub(crate) config: Config,
    pub(crate) warnings: Vec<Warning>,
}

/// Reads a file, or the built-in default where none is given.
pub(crate) fn load(path: Option<&Path>) -> Result<Loaded, Error> {
    parse(&text(path)?, &|name| std::env::var(name).ok())
}

/// What there is to say about the `tail_sampling` sections of a file, also of one that is refused:
/// a Collector's own file may name components that do not exist here.
pub(crate) fn review(path: Option<&Path>) -> Result<Vec<Reviewed>, Error> {
    let (root, _) = tree(&text(path)?, &|name| std::env::var(name).ok())?;
    Ok(sampling::review(&root))
}

fn text(path: Option<&Path>) -> Result<String, Error> {
    match path {
        Some(path) => std::fs::read_to_string(path).map_err(|source| Error::Read {
            path: path.to_owned(),
            source,
        }),
        None => Ok(LOCAL_YAML.to_owned()),
    }
}

fn tree(yaml: &str, lookup: env::Lookup<'_>) -> Result<(Node, Vec<Warning>), Error> {
    let mut root = Node::parse(yaml).map_err(|e| Error::Syntax {
        message: e.to_string(),
    })?;
    let mut warnings = Vec::new();
    env::expand(&mut root, "", lookup, &mut warnings);
    Ok((root, warnings))
}

/// Reads a configuration; `lookup` answers for the environment.
pub(crate) fn parse(yaml: &str, lookup: env::Lookup<'_>) -> Result<Loaded, Error> {
    let (root, mut warnings) = tree(yaml, lookup)?;
    let config = components::assemble(&root, &mut warnings)?;
    validate(&config, &root)?;
    exposed::warn(&config, &root, &mut warnings);
    Ok(Loaded { config, warnings })
}

/// What the stages check themselves, with the path and line of the component.
fn validate(config: &Config, root: &Node) -> Result<(), Error> {
    let line = |section: Section, id: &str| {
        root.child(section.key())
            .and_then(|node| node.child(id))
            .map_or(0, |node| node.line)
    };
    let at = |section: Section, id: &str, message: String| {
        Error::at(
            &format!("{}::{id}", section.key()),
            line(section, id),
            message,
        )
    };
    config.redact.validate().map_err(|e| {
        at(
            Section::Processors,
            "redact",
            crate::show::text::error_chain(&e),
        )
    })?;
    config.gateway.validate().map_err(|e| match e {
        gateway::Error::InvalidConfig { key, problem } if key.starts_with("intake") => Error::at(
            &format!("extensions::{key}"),
            line(Section::Extensions, "intake"),
            problem,
        ),
        gateway::Error::InvalidConfig { key, problem } => {
            Error::at(key, line(Section::Receivers, "otlp"), problem)
        }
        other => at(
            Section::Receivers,
            "otlp",
            crate::show::text::error_chain(&other),
        ),
    })?;
    if let Some(lake) = &config.lake {
        lake.validate()
            .map_err(|problem| at(Section::Exporters, "lake", problem))?;
    }
    config
        .correlate
        .validate()
        .map_err(|problem| at(Section::Processors, "correlate", problem))?;
    for scraper in &config.scrapers {
        scraper.validate(&config.gateway.authenticators)?;
    }
    for exporter in &config.exporters {
        exporter.validate(&config.gateway.authenticators)?;
    }
    config
        .log
        .validate()
        .map_err(|problem| at(Section::Extensions, "write_ahead_log", problem))?;
    if let Some(slo) = &config.slo {
        let is_storing = config.lake.is_some();
        slo.validate(is_storing)
            .map_err(|problem| at(Section::Extensions, "slo", problem))?;
    }
    let known = &config.gateway.authenticators;
    for (id, authenticator) in &known.0 {
        let key = format!("extensions::{id}");
        authenticator
            .validate(&key)
            .map_err(|e| at(Section::Extensions, id, e.to_string()))?;
    }
    match &config.query {
        Some(query) => {
            validate_query(query, config).map_err(|(section, id, message)| at(section, id, message))
        }
        None => Ok(()),
    }
}

/// What is wrong with the extension `query` among the other settings, and where that is written.
fn validate_query(
    query: &query::Config,
    config: &Config,
) -> Result<(), (Section, &'static str, String)> {
    let at = |section, id, message: String| (section, id, message);
    let known = &config.gateway.authenticators;
    let (postgres, flight_sql) = (&query.postgres, &query.flight_sql);
    for (section, tls, auth) in [
        ("extensions::query", &query.tls, &query.auth),
        ("extensions::query::postgres", &postgres.tls, &postgres.auth),
        (
            "extensions::query::flight_sql",
            &flight_sql.tls,
            &flight_sql.auth,
        ),
    ] {
        Door::validate(section, tls.as_ref(), auth.as_ref(), known)
            .map_err(|e| at(Section::Extensions, "query", e.to_string()))?;
    }
    query
        .validate()
        .map_err(|e| at(Section::Extensions, "query", e.to_string()))?;
    let Some(lake) = &config.lake else {
        let message = "answers SQL about what the exporter `lake` stores, and no pipeline has that; name `lake` \
                       in `exporters`, or take `query` out of `service::extensions`";
        return Err(at(Section::Extensions, "query", message.to_owned()));
    };
    if query.timeout >= lake.maintenance.vacuum_after {
        let message = "`maintenance::vacuum_after` must be longer than the query's `timeout`";
        return Err(at(Section::Exporters, "lake", message.to_owned()));
    }
    Ok(())
}

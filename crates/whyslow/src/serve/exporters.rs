//! Exporters from their configuration: where spans go, and what is taken out before.

use std::sync::Arc;

use anyhow::Context as _;
use gateway::export::balance::{Balanced, REQUESTS_AHEAD, SystemLookup};
use gateway::export::{Debug, Destination, Exporter, Otlp, Rewrite};
use tables::redact::Redaction;

use crate::config::{Config, Kind};

/// The exporters to other backends. Reads their key material.
pub(super) fn open(config: &Config) -> anyhow::Result<Vec<Exporter>> {
    let redaction = Redaction::new(&config.redact)?;
    let redact: Rewrite = Arc::new(move |request| redaction.request(request));
    let known = &config.gateway.authenticators;
    let mut exporters = Vec::with_capacity(config.exporters.len());
    for exporter in &config.exporters {
        let client = match &exporter.kind {
            Kind::Grpc(grpc) => Some((grpc.client(known), grpc.retry_on_failure)),
            Kind::Http(http) => Some((http.client(known), http.retry_on_failure)),
            Kind::Balanced(_) | Kind::Debug(_) => None,
        };
        let destination = match (client, &exporter.kind) {
            (Some((client, retry)), _) => {
                let client = client.with_context(|| format!("exporters::{}", exporter.id))?;
                Destination::Otlp(Box::new(Otlp::new(client, retry)))
            }
            (None, Kind::Balanced(balanced)) => {
                let opened = Balanced::new(balanced, known, Arc::new(SystemLookup));
                let opened = opened.with_context(|| format!("exporters::{}", exporter.id))?;
                Destination::Balanced(opened)
            }
            (None, Kind::Debug(debug)) => Destination::Debug(Debug::new(debug.clone())),
            (None, _) => continue,
        };
        // What is written to a log is read by many: content goes, whatever the pipeline says.
        let is_redacted = config.is_redacting || matches!(destination, Destination::Debug(_));
        let queue = exporter.kind.queue();
        let n_requests_max = match destination {
            Destination::Balanced(_) => REQUESTS_AHEAD,
            Destination::Otlp(_) | Destination::Debug(_) => {
                usize::try_from(queue.num_consumers).unwrap_or(1)
            }
        };
        exporters.push(Exporter {
            id: exporter.id.clone(),
            destination,
            request_max: queue.request_max(),
            n_requests_max,
            rewrite: is_redacted.then(|| Arc::clone(&redact)),
        });
    }
    Ok(exporters)
}

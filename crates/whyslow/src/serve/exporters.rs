//! Exporters from their configuration: where spans go, and what is taken out before.

use std::sync::Arc;

use anyhow::Context as _;
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
            Kind::Debug(_) => None,
        };
        let destination = match (client, &exporter.kind) {
            (Some((client, retry)), _) => {
                let client = client.with_context(|| format!("exporters::{}", exporter.id))?;
                Destination::Otlp(Box::new(Otlp::new(client, retry)))
            }
            (None, Kind::Debug(debug)) => Destination::Debug(Debug::new(debug.clone())),
            (None, _) => continue,
        };
        // What is written to a log is read by many: content goes, whatever the pipeline says.
        let is_redacted = config.is_redacting || matches!(destination, Destination::Debug(_));
        let queue = exporter.kind.queue();
        exporters.push(Exporter {
            id: exporter.id.clone(),
            destination,
            request_max: queue.request_max(),
            n_requests_max: usize::try_from(queue.num_consumers).unwrap_or(1),
            rewrite: is_redacted.then(|| Arc::clone(&redact)),
        });
    }
    Ok(exporters)
}

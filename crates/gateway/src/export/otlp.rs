//! Sending to an OTLP server until it has answered for good.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    Delivery, Request, Stop,
    client::{Client, SendError},
    metrics::{LossReason, Metrics},
    retry::RetryOnFailure,
};

/// How often it is said that a server takes nothing.
const REMINDER: Duration = Duration::from_secs(60);

/// One server.
#[derive(Debug)]
pub struct Otlp {
    client: Client,
    retry: RetryOnFailure,
}

impl Otlp {
    /// A server and when it is tried again.
    pub fn new(client: Client, retry: RetryOnFailure) -> Otlp {
        Otlp { client, retry }
    }

    /// Sends until it is answered for good, or until the process stops. Every span ends as sent, lost with a reason,
    /// or is left for the next start.
    pub async fn deliver(&self, request: Request, metrics: &Metrics, stop: &Stop) -> Delivery {
        let started = Instant::now();
        let mut backoff = self.retry.backoff();
        let mut reminded: Option<Instant> = None;
        loop {
            let error = match self.client.send(request.body.clone()).await {
                Ok(reply) => {
                    let n_rejected = reply.n_rejected.min(request.n_spans);
                    metrics.count_sent(request.n_spans - n_rejected);
                    if n_rejected > 0 {
                        let message = reply.message.as_deref().unwrap_or_default();
                        metrics.count_lost(LossReason::Rejected, n_rejected);
                        tracing::error!(
                            exporter = metrics.id(),
                            n_rejected,
                            message,
                            "the server rejected spans"
                        );
                    } else if let Some(message) = reply.message {
                        tracing::warn!(
                            exporter = metrics.id(),
                            message,
                            "the server took all spans with a warning"
                        );
                    }
                    if reminded.is_some() {
                        tracing::info!(exporter = metrics.id(), "the server takes spans again");
                    }
                    return Delivery::Done;
                }
                Err(error) => error,
            };
            metrics.count_failed_request();
            if !error.is_retryable() {
                return lose(&request, metrics, LossReason::Refused, &error);
            }
            let Some(pause) = backoff.pause(error.retry_after, started.elapsed()) else {
                return lose(&request, metrics, LossReason::GaveUp, &error);
            };
            if reminded.is_none_or(|reminded| reminded.elapsed() >= REMINDER) {
                reminded = Some(Instant::now());
                tracing::warn!(
                    exporter = metrics.id(),
                    %error,
                    next_attempt_in = ?pause,
                    "the server does not take spans; they wait in the log"
                );
            }
            metrics.count_retried(request.n_spans);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = stop.requested() => return Delivery::Interrupted,
            }
        }
    }
}

fn lose(request: &Request, metrics: &Metrics, reason: LossReason, error: &SendError) -> Delivery {
    metrics.count_lost(reason, request.n_spans);
    tracing::error!(
        exporter = metrics.id(),
        n_spans = request.n_spans,
        reason = reason.as_str(),
        %error,
        "spans are lost for this exporter"
    );
    Delivery::Done
}

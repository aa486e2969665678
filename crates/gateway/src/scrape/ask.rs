//! One scrape: a target is asked, and its answer becomes an export of metrics in the same intake as everybody's.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::Empty;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use otlp::{
    export::Signal,
    prometheus::{self, Format, Limits, Skipped},
    reply::Encoding,
};
use transport::{Alpn, Authenticators, Connector, TokenSource};

use super::{Config, Kind, Target};
use crate::{
    body::{self, Compression},
    error::{Error, Result},
    receive::{Edge, Received},
    status::Refusal,
};

/// OpenMetrics last: its timestamps and `_total` names say no more here than the text format.
const ACCEPT: &str =
    "text/plain;version=0.0.4;q=0.9,application/openmetrics-text;version=1.0.0;q=0.5";

/// Asks targets of one receiver.
#[derive(Debug)]
pub(super) struct Asker {
    client: Client<Connector, Empty<Bytes>>,
    token: Option<TokenSource>,
    timeout: Duration,
    body_size_limit: u64,
}

/// What a scrape gave.
#[derive(Debug)]
pub(super) struct Scraped {
    pub(super) n_points: u64,
    pub(super) n_skipped: u64,
    pub(super) skipped: Option<Skipped>,
}

/// Why a scrape gave nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// Nobody answers, or not as HTTP.
    #[error("the target does not answer")]
    NoAnswer,
    /// Within `scrape_timeout`.
    #[error("the target took longer than `scrape_timeout`")]
    Timeout,
    /// With another status.
    #[error("the target answers with status {0}")]
    Status(StatusCode),
    /// Over `body_size_limit`.
    #[error("the answer is larger than `body_size_limit`")]
    TooLarge,
    /// Cut off, or compressed in a way that cannot be read.
    #[error("the answer cannot be read to its end")]
    Broken,
    /// The intake is closed; nothing was asked, or what came was not taken.
    #[error("the intake is closed")]
    Refused,
}

impl Failure {
    pub(crate) const ALL: [&str; 6] = [
        "no_answer",
        "timeout",
        "status",
        "too_large",
        "broken",
        "refused",
    ];

    /// Place in [`Failure::ALL`].
    pub(crate) const fn idx(self) -> usize {
        match self {
            Self::NoAnswer => 0,
            Self::Timeout => 1,
            Self::Status(_) => 2,
            Self::TooLarge => 3,
            Self::Broken => 4,
            Self::Refused => 5,
        }
    }
}

impl Asker {
    pub(super) fn new(
        id: &str,
        config: &Config,
        kind: Kind,
        known: &Authenticators,
    ) -> Result<Self> {
        let key = format!("receivers::{id}");
        let tls = config.tls.clone().unwrap_or_default();
        let timeout = config.timeout(kind);
        let connector = Connector::new(&format!("{key}::tls"), &tls, Alpn::Http1)
            .map_err(Error::Door)?
            .connect_timeout(timeout);
        let token = config
            .auth
            .as_ref()
            .map(|auth| known.source(&format!("{key}::auth"), auth))
            .transpose()
            .map_err(Error::Door)?;
        Ok(Self {
            client: Client::builder(TokioExecutor::new()).build(connector),
            token,
            timeout,
            body_size_limit: config.body_size_limit,
        })
    }

    /// Asks the target and hands what it says to the intake.
    pub(super) async fn scrape(
        &self,
        target: &Target,
        edge: &Edge,
    ) -> std::result::Result<Scraped, Failure> {
        edge.gate.pass().map_err(|_| Failure::Refused)?;
        let time_unix_nano = edge.clock.unix_nano();
        let (format, text) = tokio::time::timeout(self.timeout, self.ask(target, edge))
            .await
            .map_err(|_| Failure::Timeout)??;
        let resource: Vec<(String, String)> = target
            .resource()
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        // A large exporter says megabytes.
        let converting = move || {
            let resource: Vec<(&str, &str)> = resource
                .iter()
                .map(|(key, value)| (key.as_str(), value.as_str()))
                .collect();
            let scrape = prometheus::Scrape {
                resource: &resource,
                scope: "whyslow/scrape",
                time_unix_nano,
            };
            prometheus::to_protobuf(&text, format, &scrape, &Limits::default())
        };
        let converted = tokio::task::spawn_blocking(converting)
            .await
            .map_err(|_| Failure::Broken)?;
        let bytes = Bytes::from(converted.body);
        let mut permit = edge.budget.permit();
        permit.grow(bytes.len()).map_err(|_| Failure::Refused)?;
        let limit_bytes = bytes.len() as u64;
        let received = Received {
            content: Signal::Metrics.into(),
            encoding: Encoding::Protobuf,
            compression: Compression::None,
            bytes,
            permit,
            limit_bytes,
        };
        edge.export(received).await.map_err(|_| Failure::Refused)?;
        Ok(Scraped {
            n_points: converted.n_points,
            n_skipped: converted.n_skipped,
            skipped: converted.skipped.first().copied(),
        })
    }

    /// The text that a target answers, within the limits.
    async fn ask(
        &self,
        target: &Target,
        edge: &Edge,
    ) -> std::result::Result<(Format, Bytes), Failure> {
        let mut request = Request::get(target.url())
            .header(header::ACCEPT, ACCEPT)
            .header(header::ACCEPT_ENCODING, "gzip")
            .header(header::USER_AGENT, "whyslow")
            .body(Empty::new())
            .map_err(|_| Failure::NoAnswer)?;
        if let Some(token) = &self.token {
            token.add_to(request.headers_mut());
        }
        let answered = self.client.request(request).await;
        let (head, mut body) = answered.map_err(|_| Failure::NoAnswer)?.into_parts();
        if head.status != StatusCode::OK {
            return Err(Failure::Status(head.status));
        }
        let text = |name| {
            let value: Option<&http::HeaderValue> = HeaderMap::get(&head.headers, name);
            value.map(|value| value.as_bytes()).unwrap_or_default()
        };
        let compression =
            Compression::parse(text(header::CONTENT_ENCODING)).map_err(|_| Failure::Broken)?;
        let content_type = String::from_utf8_lossy(text(header::CONTENT_TYPE));
        let format = Format::of_content_type(&content_type);
        let limit = self.body_size_limit;
        let permit = edge.budget.permit();
        let read = body::read(&mut body, limit, self.timeout, permit).await;
        let (bytes, mut permit) = read.map_err(|refusal| failure(&refusal))?;
        let inflated = body::inflate(compression, bytes, limit, &mut permit);
        Ok((format, inflated.map_err(|refusal| failure(&refusal))?))
    }
}

fn failure(refusal: &Refusal) -> Failure {
    if matches!(refusal, Refusal::TooLarge { .. }) {
        Failure::TooLarge
    } else if matches!(refusal, Refusal::Overloaded(_)) {
        Failure::Refused
    } else {
        Failure::Broken
    }
}

//! Who answers statements: a running server over HTTP, or stored tables opened in this process.
//!
//! Both speak the same HTTP (`query::http`), so that every format is the same from either; stored
//! tables are asked without a socket.

use std::sync::Arc;

use anyhow::{Context as _, bail};
use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow::ipc::reader::StreamDecoder;
use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, TE};
use http::{HeaderMap, Request, Response, Uri};
use http_body_util::{BodyExt as _, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tower::ServiceExt as _;
use transport::{Alpn, ClientTls, Connector, TokenSource};

use crate::connect::ConnectArgs;
use crate::show::text;

const PATH: &str = "/v1/sql";

/// The largest error answer that is read.
const PROBLEM_BYTES_MAX: usize = 1 << 20;

/// Where the rows come from.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SourceArgs {
    /// Address of a running Whyslow.
    #[arg(
        long,
        value_name = "URL",
        default_value = "http://127.0.0.1:7070",
        conflicts_with = "data"
    )]
    server: String,
    /// Read stored tables instead of asking a server: a folder or `s3://BUCKET/PREFIX`.
    #[arg(long, value_name = "PATH|URL")]
    data: Option<String>,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// A way to ask statements.
pub(crate) enum Source {
    Server {
        client: Box<Client<Connector, Body>>,
        url: Uri,
        token: Option<Box<TokenSource>>,
    },
    Data {
        router: Router,
    },
}

/// A statement and the wished form of its answer.
#[derive(Debug, Clone, Copy, serde::Serialize)]
pub(crate) struct Statement<'a> {
    pub(crate) sql: &'a str,
    /// `json`, `csv` or `arrow`.
    pub(crate) format: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) limit: Option<u64>,
}

impl SourceArgs {
    /// Opens the tables, or prepares to ask the server.
    pub(crate) async fn open(&self) -> anyhow::Result<Source> {
        let Some(data) = &self.data else {
            let url = sql_url(&self.server, self.connect.is_secure())?;
            let tls = match url.scheme_str() {
                Some("https") => self.connect.tls(),
                _ => ClientTls::insecure(),
            };
            let connector = Connector::new("client", &tls, Alpn::Http2OrHttp1)?;
            let client = Box::new(Client::builder(TokioExecutor::new()).build(connector));
            let token = self.connect.token()?.map(Box::new);
            return Ok(Source::Server { client, url, token });
        };
        let opened = async {
            let location = lake::Location::parse(data)?;
            let specs = tables::all();
            let lake = lake::Lake::open(&location, &specs, lake::Mode::ReadOnly).await?;
            let engine = query::Engine::new(Arc::new(lake), &query::Config::default())?;
            anyhow::Ok(query::router(Arc::new(engine)))
        };
        let router = opened
            .await
            .with_context(|| format!("open the tables at `{data}`"))?;
        Ok(Source::Data { router })
    }
}

impl Source {
    /// All rows of an answer.
    pub(crate) async fn rows(&self, sql: &str) -> anyhow::Result<Vec<RecordBatch>> {
        let statement = Statement {
            sql,
            format: "arrow",
            limit: None,
        };
        let (_schema, batches) = self.ask(&statement).await?.batches().await?;
        Ok(batches)
    }

    /// Asks; the answer's rows come as they are read.
    pub(crate) async fn ask(&self, statement: &Statement<'_>) -> anyhow::Result<Answer> {
        let body = serde_json::to_vec(statement).context("write the statement as JSON")?;
        let url = match self {
            Self::Server { url, .. } => url.clone(),
            Self::Data { .. } => Uri::from_static(PATH),
        };
        let mut request = Request::post(url)
            .header(CONTENT_TYPE, "application/json")
            .header(TE, "trailers")
            .body(Body::from(body))
            .context("write the statement as an HTTP request")?;
        if let Self::Server {
            token: Some(token), ..
        } = self
        {
            token.add_to(request.headers_mut());
        }
        let response: Response<Body> = match self {
            Self::Server { client, url, .. } => client
                .request(request)
                .await
                .with_context(|| {
                    format!(
                        "ask {url} (is `whyslow serve` running? `--data PATH` reads stored tables \
                         without it)"
                    )
                })?
                .map(Body::new),
            Self::Data { router } => match router.clone().oneshot(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            },
        };
        if response.status().is_success() {
            let (head, body) = response.into_parts();
            return Ok(Answer {
                headers: head.headers,
                body,
                trailers: HeaderMap::new(),
            });
        }
        bail!(problem(response).await)
    }
}

/// The body of an answer, piece by piece.
pub(crate) struct Answer {
    headers: HeaderMap,
    body: Body,
    trailers: HeaderMap,
}

impl Answer {
    /// The next piece.
    ///
    /// # Errors
    ///
    /// The answer broke off: what came before is right but not all.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Option<Bytes>> {
        while let Some(frame) = self.body.frame().await {
            let frame = frame.context("the answer broke off; the rows so far are not all")?;
            match frame.into_data() {
                Ok(data) => return Ok(Some(data)),
                Err(frame) => {
                    if let Ok(trailers) = frame.into_trailers() {
                        self.trailers = trailers;
                    }
                }
            }
        }
        Ok(None)
    }

    /// Whether a row limit cut an answer of so many rows; known when all pieces are read.
    pub(crate) fn is_truncated(&self, n_rows: u64) -> bool {
        let text = |headers: &HeaderMap, name| {
            headers
                .get(name)
                .and_then(|value| value.to_str().ok())
                .map(str::to_owned)
        };
        match text(&self.trailers, "whyslow-truncated") {
            Some(truncated) => truncated == "true",
            // A proxy may remove trailers; an answer as long as the limit has probably been cut.
            None => text(&self.headers, "whyslow-row-limit")
                .and_then(|limit| limit.parse().ok())
                .is_some_and(|limit: u64| n_rows >= limit),
        }
    }

    /// Reads an Arrow answer to its end.
    pub(crate) async fn batches(&mut self) -> anyhow::Result<(SchemaRef, Vec<RecordBatch>)> {
        let mut batches = Vec::new();
        let schema = self
            .each_batch(|batch| {
                batches.push(batch.clone());
                Ok(())
            })
            .await?;
        Ok((schema, batches))
    }

    /// Reads an Arrow answer to its end, and holds one batch at a time.
    pub(crate) async fn each_batch(
        &mut self,
        mut take: impl FnMut(&RecordBatch) -> anyhow::Result<()>,
    ) -> anyhow::Result<SchemaRef> {
        let mut decoder = StreamDecoder::new();
        while let Some(piece) = self.next().await? {
            let mut buffer = Buffer::from(piece);
            while let Some(batch) = decoder
                .decode(&mut buffer)
                .context("read the Arrow stream")?
            {
                take(&batch)?;
            }
        }
        decoder
            .finish()
            .context("read the end of the Arrow stream")?;
        decoder.schema().context("the answer has no columns")
    }
}

fn sql_url(server: &str, is_secure: bool) -> anyhow::Result<Uri> {
    let wrong = || format!("server `{server}` is not `HOST:PORT` or `http[s]://HOST:PORT`");
    if server.contains('@') {
        bail!("the server's address holds credentials, which are not supported");
    }
    let absolute = if server.contains("://") {
        server.to_owned()
    } else if is_secure {
        format!("https://{server}")
    } else {
        format!("http://{server}")
    };
    let base: Uri = absolute.parse().with_context(wrong)?;
    let scheme = base.scheme_str().unwrap_or_default();
    if !["http", "https"].contains(&scheme) || base.query().is_some() {
        bail!(wrong());
    }
    let authority = base.authority().with_context(wrong)?;
    let path = base.path().trim_end_matches('/');
    let path = path.strip_suffix(PATH).unwrap_or(path);
    Uri::builder()
        .scheme(scheme)
        .authority(authority.clone())
        .path_and_query(format!("{path}{PATH}"))
        .build()
        .with_context(wrong)
}

/// What a refused statement's answer says; `{"error":{"code":..,"message":..}}` if it comes from
/// us.
async fn problem(response: Response<Body>) -> String {
    let status = response.status();
    let body = Limited::new(response.into_body(), PROBLEM_BYTES_MAX)
        .collect()
        .await;
    let body = body
        .map(http_body_util::Collected::to_bytes)
        .unwrap_or_default();
    let json: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
    if let Some(message) = json["error"]["message"].as_str() {
        return text::printable(message, 4_000);
    }
    let body = String::from_utf8_lossy(&body);
    format!(
        "the server answered {status}: {}",
        text::printable(body.trim(), 500)
    )
}

#[cfg(test)]
mod tests;

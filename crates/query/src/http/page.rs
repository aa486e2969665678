//! The web page: files that are in the binary, served without a token, as they tell nothing of anybody's data.
//!
//! They are built from `web/` at the root of the checkout (`npm run build` there), and committed in `page/` of this crate.
//! The page asks for data at the routes beside it, with the token that its user enters.
//!
//! # What a browser may do with it
//!
//! [`POLICY`] allows scripts, styles and requests of this origin alone: none of other origins, none written into the
//! document, no frame around it, no form that leaves. Names in traces are anybody's; should one ever get into the
//! document as markup, it stays dead.
//!
//! # Caches
//!
//! Names below `/assets/` hash their content: kept for a year, never asked for again. All others are asked for each time,
//! and answered with 304 where nothing changed.

use axum::Router;
use axum::extract::Request;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

/// What a browser may do with the page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
     font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// Where names hash their content.
const HASHED: &str = "/assets/";

const INDEX: &str = "/index.html";

/// One file of the page.
struct File {
    /// With a slash before it.
    path: &'static str,
    /// Of its content.
    hash: u64,
    bytes: &'static [u8],
}

const FILES: &[File] = include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// Routes of the page: `/` and its files.
pub fn page() -> Router {
    let routes = Router::new().route("/", get(serve));
    FILES
        .iter()
        .fold(routes, |routes, file| routes.route(file.path, get(serve)))
}

async fn serve(request: Request) -> Response {
    let path = match request.uri().path() {
        "/" => INDEX,
        path => path,
    };
    let Some(file) = FILES.iter().find(|file| file.path == path) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let tag = format!("\"{:016x}\"", file.hash);
    if is_known(request.headers(), &tag) {
        return (StatusCode::NOT_MODIFIED, headers(file, &tag)).into_response();
    }
    (headers(file, &tag), file.bytes).into_response()
}

/// Whether the browser has this content already.
fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    headers
        .get_all(IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|known| known.trim().trim_start_matches("W/"))
        .any(|known| known == tag || known == "*")
}

fn headers(file: &File, tag: &str) -> HeaderMap {
    let cache = if file.path.starts_with(HASHED) {
        "public, max-age=31536000, immutable"
    } else {
        "no-cache"
    };
    let mut headers = HeaderMap::new();
    for (name, value) in [
        (CONTENT_TYPE, content_type(file.path)),
        (CACHE_CONTROL, cache),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (OPENER_POLICY, "same-origin"),
        (RESOURCE_POLICY, "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if let Ok(tag) = HeaderValue::from_str(tag) {
        headers.insert(ETAG, tag);
    }
    headers
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("txt") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests;

//! What is asked of the page without a browser: `tests/page` has one.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG};
use axum::http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;

use super::{FILES, HASHED, page};

async fn get(path: &str, known: Option<&str>) -> (StatusCode, HeaderMap, String) {
    let mut request = Request::get(path);
    if let Some(tag) = known {
        request = request.header("if-none-match", tag);
    }
    let reply = page()
        .oneshot(request.body(Body::empty()).unwrap())
        .await
        .unwrap();
    let (head, body) = reply.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    (head.status, head.headers, text)
}

#[tokio::test]
async fn every_file_that_the_document_names_is_there_under_a_strict_policy() {
    let (status, headers, document) = get("/", None).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(headers[CONTENT_TYPE], "text/html; charset=utf-8");
    assert_eq!(headers[CACHE_CONTROL], "no-cache");
    let named = document.split("\"./").skip(1);
    let named: Vec<&str> = named.filter_map(|rest| rest.split('"').next()).collect();
    assert!(named.len() >= 3, "{document}");
    for name in named {
        let (status, headers, _) = get(&format!("/{name}"), None).await;
        assert_eq!(status, StatusCode::OK, "{name}");
        assert_eq!(headers["x-content-type-options"], "nosniff");
    }
    for file in FILES {
        let (_, headers, _) = get(file.path, None).await;
        let policy = headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(headers["referrer-policy"], "no-referrer");
    }
}

#[test]
fn the_document_has_no_script_and_no_style_of_its_own() {
    let index = FILES.iter().find(|file| file.path == "/index.html");
    let document = std::str::from_utf8(index.unwrap().bytes).unwrap();
    assert!(!document.contains("<style"), "{document}");
    assert!(!document.contains("style="), "{document}");
    for script in document.split("<script").skip(1) {
        assert!(script.contains("src=\"./assets/"), "{document}");
    }
}

#[tokio::test]
async fn hashed_files_are_kept_and_all_are_answered_by_their_tag() {
    for file in FILES {
        let (_, headers, _) = get(file.path, None).await;
        let is_kept = headers[CACHE_CONTROL]
            .to_str()
            .unwrap()
            .contains("immutable");
        assert_eq!(is_kept, file.path.starts_with(HASHED), "{}", file.path);
        let tag = headers[ETAG].to_str().unwrap();
        for known in [tag.to_owned(), format!("\"x\", W/{tag}"), "*".to_owned()] {
            let (status, _, body) = get(file.path, Some(&known)).await;
            assert_eq!(status, StatusCode::NOT_MODIFIED, "{known}");
            assert_eq!(body, "");
        }
        let (status, _, _) = get(file.path, Some("\"other\"")).await;
        assert_eq!(status, StatusCode::OK);
    }
}

#[tokio::test]
async fn what_is_not_there_is_not_found() {
    for path in [
        "/assets/",
        "/assets/../Cargo.toml",
        "/assets/%2e%2e/index.html",
        "/index.html/",
        "/page.rs",
    ] {
        let (status, _, _) = get(path, None).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{path}");
    }
}

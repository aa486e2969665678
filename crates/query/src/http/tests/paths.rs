//! The paths are those that are described.

use axum::http::{Method, StatusCode};
use serde_json::Value;

use super::super::routes;
use super::served;
use crate::tests::support::config;

/// Paths of the same port that whoever serves it adds.
const ELSEWHERE: [&str; 4] = ["/v1/objectives", "/metrics", "/healthz", "/readyz"];

#[tokio::test]
async fn every_path_is_described_and_every_described_one_answers() {
    let served = served(&config()).await;
    let reply = served
        .send(Method::GET, "/v1/openapi.json", &[], "")
        .await
        .unwrap();
    assert_eq!(reply.headers["content-type"], "application/json");
    let described = reply.json();
    let paths = described["paths"].as_object().unwrap();
    for (path, _) in routes() {
        assert!(paths.contains_key(path), "{path} is not described");
    }
    let known: Vec<_> = routes().into_iter().map(|(path, _)| path).collect();
    for (path, methods) in paths {
        if ELSEWHERE.contains(&path.as_str()) {
            continue;
        }
        assert!(known.contains(&path.as_str()), "{path} is described only");
        for method in methods
            .as_object()
            .unwrap()
            .keys()
            .filter(|key| *key != "parameters")
        {
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            let address = path.replace("{id}", "7");
            let headers = [("content-type", "text/plain")];
            let reply = served
                .send(method, &address, &headers, "SELECT 1")
                .await
                .unwrap();
            let is_known = reply.status == StatusCode::OK || !reply.code().is_empty();
            assert!(is_known, "{path}: {}", reply.status);
        }
    }
}

/// Every reference leads somewhere, and every operation has a name of its own.
#[test]
fn the_description_is_whole() {
    let described: Value = serde_json::from_str(super::super::OPENAPI).unwrap();
    assert_eq!(described["openapi"], "3.1.0");
    let mut references = Vec::new();
    collect(&described, &mut references);
    assert!(references.len() > 20);
    for reference in references {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(described.pointer(pointer).is_some(), "{reference}");
    }
    let mut names = Vec::new();
    for methods in described["paths"].as_object().unwrap().values() {
        for (method, operation) in methods.as_object().unwrap() {
            if method != "parameters" {
                assert!(operation["responses"].is_object(), "{operation}");
                names.push(operation["operationId"].as_str().unwrap());
            }
        }
    }
    let n_operations = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), n_operations);
}

fn collect(value: &Value, references: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match member.as_str() {
                    Some(reference) if name == "$ref" => references.push(reference.to_owned()),
                    _ => collect(member, references),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, references)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

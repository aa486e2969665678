//! Every mistake names its key and what to do.

use crate::{Authenticators, BearerTokenAuth, ClientTls, ServerTls};

fn server(json: &str) -> String {
    let settings: ServerTls = serde_json::from_str(json).unwrap();
    said(settings.validate("receivers::otlp::protocols::grpc::tls"))
}

fn client(json: &str) -> String {
    let settings: ClientTls = serde_json::from_str(json).unwrap();
    said(settings.validate("exporters::otlp::tls"))
}

fn bearer(json: &str) -> String {
    let settings: BearerTokenAuth = serde_json::from_str(json).unwrap();
    said(settings.validate("extensions::bearertokenauth"))
}

fn said(outcome: crate::Result<()>) -> String {
    outcome.map_or_else(|error| error.to_string(), |()| "valid".to_owned())
}

/// The step of C73: mistakes that stop the start.
#[test]
fn c73_half_a_pair_is_named_with_its_other_half() {
    for (json, words) in [
        (r#"{"cert_file": "a"}"#, "tls::cert_file` needs `key_file`"),
        (r#"{"key_file": "a"}"#, "tls::key_file` needs `cert_file`"),
        (
            r#"{"client_ca_file": "a"}"#,
            "tls::client_ca_file` needs `cert_file`",
        ),
        ("{}", "has no certificate"),
        (
            r#"{"cert_file": "a", "cert_pem": "b", "key_file": "c"}"#,
            "has both `cert_file` and `cert_pem`",
        ),
        (r#"{"cert_file": "a", "key_file": "b"}"#, "valid"),
        (
            r#"{"cert_file": "a", "key_file": "b", "min_version": "1.1"}"#,
            "tls::min_version`: `1.1` is not one of `1.2`, `1.3`",
        ),
        (
            r#"{"cert_file": "a", "key_file": "b", "min_version": "1.3", "max_version": "1.2"}"#,
            "leave nothing to speak",
        ),
        (
            r#"{"cert_file": "a", "key_file": "b", "cipher_suites": ["TLS_RSA_WITH_RC4_128_SHA"]}"#,
            "`TLS_RSA_WITH_RC4_128_SHA` is not one of `TLS_ECDHE_",
        ),
        (
            r#"{"cert_file": "a", "key_file": "b", "curve_preferences": ["P521"]}"#,
            "`P521` is not one of `X25519`, `P256`, `P384`",
        ),
        (
            r#"{"cert_file": "a", "key_file": "b", "handshake_timeout": "0s"}"#,
            "handshake_timeout` must be more than",
        ),
        (
            r#"{"cert_file": "a", "key_file": "b", "reload_interval": "", "min_version": "1.3",
                "cipher_suites": ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"], "curve_preferences": ["P256"]}"#,
            "valid",
        ),
    ] {
        let text = server(json);
        assert!(text.contains(words), "{json}: {text}");
    }
}

#[test]
fn a_client_needs_both_halves_too() {
    assert_eq!(client("{}"), "valid");
    assert_eq!(client(r#"{"insecure": true}"#), "valid");
    let text = client(r#"{"key_pem": "not shown"}"#);
    assert!(text.contains("needs `cert_file`"), "{text}");
    assert!(!text.contains("not shown"), "{text}");
    let text = client(r#"{"server_name_override": "a b"}"#);
    assert!(text.contains("server_name_override`: `a b`"), "{text}");
}

#[test]
fn files_that_cannot_be_read_or_used_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = crate::testing::write(folder.path(), "server.crt", "hello");
    let mut settings = ServerTls {
        cert_file: file.clone(),
        key_file: "/nowhere/server.key".to_owned(),
        ..ServerTls::default()
    };
    let open = |settings: &ServerTls| {
        crate::Acceptor::open("tls", settings, crate::Alpn::Http2)
            .unwrap_err()
            .to_string()
    };
    let text = open(&settings);
    assert!(
        text.contains("cannot read `/nowhere/server.key` (set by `tls::key_file`)"),
        "{text}"
    );
    settings.key_file = file;
    let text = open(&settings);
    assert!(
        text.contains("server.crt` holds no usable certificate"),
        "{text}"
    );
}

#[test]
fn tokens_need_one_way_to_be_given_and_are_not_shown() {
    assert_eq!(bearer(r#"{"token": "a"}"#), "valid");
    assert_eq!(bearer(r#"{"tokens": ["a", "b"], "scheme": ""}"#), "valid");
    assert_eq!(bearer(r#"{"filename": "/nowhere"}"#), "valid");
    for (json, words) in [
        ("{}", "holds no token"),
        (r#"{"token": "s3cr3t", "tokens": ["a"]}"#, "has both"),
        (
            r#"{"token": "s3cr3t two"}"#,
            "cannot be part of an HTTP header",
        ),
        (r#"{"tokens": ["a", ""]}"#, "cannot be part"),
        (
            r#"{"token": "s3cr3t", "header": "a b"}"#,
            "bearertokenauth::header`",
        ),
        (
            r#"{"token": "s3cr3t", "scheme": "a b"}"#,
            "bearertokenauth::scheme`",
        ),
    ] {
        let text = bearer(json);
        assert!(text.contains(words), "{json}: {text}");
        assert!(!text.contains("s3cr3t"), "{text}");
    }
    let settings: BearerTokenAuth = serde_json::from_str(r#"{"token": "s3cr3t"}"#).unwrap();
    assert!(!format!("{settings:?}").contains("s3cr3t"));
}

#[test]
fn an_authenticator_that_is_not_there_is_named_with_those_that_are() {
    let mut known = Authenticators::default();
    known
        .0
        .insert("bearertokenauth/a".to_owned(), BearerTokenAuth::default());
    let auth = serde_json::from_str(r#"{"authenticator": "bearertokenauth"}"#).unwrap();
    let text = known
        .find("extensions::query::auth", &auth)
        .unwrap_err()
        .to_string();
    assert!(
        text.starts_with("`extensions::query::auth::authenticator` names `bearertokenauth`"),
        "{text}"
    );
    assert!(text.contains("`bearertokenauth/a`"), "{text}");
}

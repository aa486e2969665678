//! TLS, clients' certificates and tokens: every listener of the real binary, and every client of ours.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use loadgen::client::{Client, Config, Endpoint, Protocol};
use otlp::export::Signal;
use serde_json::Value;
use transport::testing::{Authority, write};
use transport::{BearerTokenAuth, Secret, TokenSource};

use crate::harness::{ALL, Server, Site, capture, http_get, succeed, whyslow};

const EMPTY_EXPORT: &[u8] = b"\x0a\x02\x12\x00";

/// A pipeline file with these keys at each listener, `health_check`, and the extension `bearertokenauth`.
fn guarded(site: &Site, keys: &str, bearer: &str) -> PathBuf {
    let path = site.write_config();
    let yaml = std::fs::read_to_string(&path).unwrap();
    let endpoint = "endpoint: '127.0.0.1:0'";
    let yaml = yaml
        .replace(endpoint, &format!("{endpoint}, {keys}"))
        .replace(
            "extensions:\n",
            &format!(
                "extensions:\n  health_check: {{{endpoint}}}\n  bearertokenauth: {{{bearer}}}\n"
            ),
        )
        .replace(
            "extensions: [",
            "extensions: [health_check, bearertokenauth, ",
        );
    std::fs::write(&path, yaml).unwrap();
    path
}

/// Status and body of a request, written by hand.
fn request(address: &str, path: &str, headers: &Value, body: &[u8]) -> (u64, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let mut head = format!("POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n");
    head.push_str("Content-Type: application/json\r\n");
    for (name, value) in headers.as_object().unwrap() {
        head.push_str(&format!("{name}: {}\r\n", value.as_str().unwrap()));
    }
    head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let has_challenge = head.to_lowercase().contains("\r\nwww-authenticate: bearer");
    assert_eq!(has_challenge, status == 401, "{head}");
    (status, body.to_owned())
}

/// What a gRPC export with this header comes to: `OK`, or the code's name in an error.
fn export(endpoint: &str, authorization: Option<&str>) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let token = authorization.map(|value| {
            let (scheme, token) = value.split_once(' ').unwrap();
            let settings = BearerTokenAuth {
                token: Secret::new(token),
                scheme: scheme.to_owned(),
                ..BearerTokenAuth::default()
            };
            Arc::new(TokenSource::open("token", &settings).unwrap())
        });
        let endpoint = Endpoint::parse(endpoint, Protocol::Grpc).unwrap();
        let config = Config {
            token,
            ..Config::new(endpoint, Protocol::Grpc)
        };
        let client = Client::new(&config).unwrap();
        let body = Bytes::from_static(EMPTY_EXPORT);
        match client.export(Signal::Traces, body).await {
            Ok(_) => "OK".to_owned(),
            Err(error) => error.to_string(),
        }
    })
}

#[test]
fn c74_each_request_is_answered_as_the_case_says_and_no_token_is_logged() {
    let site = Site::new(ALL);
    let keys = "auth: {authenticator: bearertokenauth}";
    let config = guarded(&site, keys, "tokens: [s3cr3t-A, s3cr3t-B]");
    let server = Server::start_by(whyslow().env("RUST_LOG", "trace"), &config, &[]);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/C74.json");
    let case: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let query = server.query.strip_prefix("http://").unwrap();
    for asked in case["requests"].as_array().unwrap() {
        let (headers, expected) = (&asked["headers"], &asked["expect"]);
        let is_expected = |status: u64| match expected {
            Value::Array(several) => several.contains(&Value::from(status)),
            one => one.as_u64() == Some(status),
        };
        match asked["via"].as_str().unwrap() {
            "http" => {
                let is_large = asked["body"] == "19 MiB";
                let body = if is_large {
                    vec![b'x'; 19 << 20]
                } else {
                    b"{}".to_vec()
                };
                let (status, body) = request(&server.http, "/v1/traces", headers, &body);
                assert!(is_expected(status), "{asked}: {status} {body}");
                let answer: Value = serde_json::from_str(&body).unwrap();
                assert_eq!(answer["code"] == 16, status == 401, "{asked}: {body}");
            }
            "grpc" => {
                let authorization = headers["authorization"].as_str();
                let outcome = export(&server.grpc, authorization);
                let expected = expected.as_str().unwrap();
                assert!(outcome.contains(expected), "{asked}: {outcome}");
            }
            "sql-http" => {
                let body = br#"{"sql": "SELECT 1"}"#;
                let (status, body) = request(query, "/v1/sql", headers, body);
                assert!(is_expected(status), "{asked}: {status} {body}");
                assert!(body.contains(r#"{"code":"unauthenticated""#), "{body}");
                for path in ["/v1/tables", "/v1/objectives"] {
                    assert_eq!(http_get(&format!("{}{path}", server.query)).0, 401);
                }
                // The page is there to ask for a token: it is files, and no data.
                assert_eq!(http_get(&format!("{}/", server.query)).0, 200);
                assert_eq!(http_get(&format!("{}/metrics", server.query)).0, 401);
            }
            "health" => {
                for url in ["/healthz", "/readyz"] {
                    let (status, _) = http_get(&format!("{}{url}", server.query));
                    assert!(is_expected(status.into()), "{asked}: {status}");
                }
                let (status, _) = http_get(&format!("{}/", server.health));
                assert!(is_expected(status.into()), "{asked}: {status}");
            }
            other => panic!("{other} is not in the case"),
        }
    }
    let token = serde_json::json!({"Authorization": "Bearer s3cr3t-A"});
    let (status, body) = request(query, "/v1/sql", &token, br#"{"sql": "SELECT 1"}"#);
    assert_eq!(status, 200, "{body}");
    let said = server.stop();
    assert!(said.contains("TRACE"), "the log is not at its finest level");
    for line in said.lines() {
        assert!(!line.contains("s3cr3t"), "{line}");
    }
}

#[test]
fn no_message_about_a_configuration_shows_a_token() {
    let site = Site::new(ALL);
    let keys = "auth: {authenticator: bearertokenauth}";
    for (bearer, words) in [
        ("token: s3cr3t", "tokens of `bearertokenauth`"),
        (
            "token: s3cr3t, tokens: [s3cr3t]",
            "has both `token` and `tokens`",
        ),
        ("token: 's3cr3t s3cr3t'", "cannot be part of an HTTP header"),
        ("token: [s3cr3t]", "expected a string"),
        ("tokens: s3cr3t", "expected a list"),
        ("tokens: [{a: s3cr3t}]", "expected a string"),
        ("token: s3cr3t, sheme: x", "did you mean `scheme`"),
        ("token: s3cr3t, token: s3cr3t", "not valid YAML"),
        ("token: \"s3cr3t", "not valid YAML"),
        ("token: s3cr3t]", "not valid YAML"),
        ("token: *s3cr3t", "not valid YAML"),
        ("filename: ''", "holds no token"),
    ] {
        let config = guarded(&site, keys, bearer);
        let output = whyslow()
            .args(["check", "-c"])
            .arg(&config)
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains(words), "{bearer}: {text}");
        assert!(!text.contains("s3cr3t"), "{bearer}: {text}");
    }
    let config = guarded(
        &site,
        "auth: {authenticator: bearertokenauth/other}",
        "token: x",
    );
    let output = whyslow()
        .args(["check", "-c"])
        .arg(&config)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(64));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("names `bearertokenauth/other`"), "{text}");
}

/// The files of one authority, with a server's and a client's certificate.
struct Keys<'a> {
    folder: &'a Path,
    authority: Authority,
    ca_file: String,
}

impl Keys<'_> {
    fn new(folder: &Path) -> Keys<'_> {
        let authority = Authority::new("CA-1");
        let ca_file = write(folder, "ca.crt", &authority.pem);
        authority.issue("server").write(folder, "server");
        authority.issue("client-1").write(folder, "client-1");
        Keys {
            folder,
            authority,
            ca_file,
        }
    }

    /// `tls` of a listener.
    fn tls(&self) -> String {
        let folder = self.folder.display();
        format!(
            "tls: {{cert_file: '{folder}/server.crt', key_file: '{folder}/server.key', \
             client_ca_file: '{folder}/ca.crt', reload_interval: 20ms}}"
        )
    }

    /// A command with the client's certificate.
    fn command(&self, args: &[&str]) -> Command {
        self.command_trusting(&self.ca_file, args)
    }

    fn command_trusting(&self, ca_file: &str, args: &[&str]) -> Command {
        let mut command = whyslow();
        command.args(args).args(["--ca-file", ca_file]);
        for (option, name) in [
            ("--cert-file", "client-1.crt"),
            ("--key-file", "client-1.key"),
        ] {
            command.arg(option).arg(self.folder.join(name));
        }
        command
    }
}

fn refused(command: &mut Command) -> String {
    let Output { status, stderr, .. } = command.output().unwrap();
    let text = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(1), "{text}");
    assert!(!text.contains("s3cr3t"), "{text}");
    text
}

#[test]
fn our_own_clients_prove_themselves_at_every_listener() {
    let site = Site::new(ALL);
    let keys = Keys::new(site.path());
    let token_file = write(site.path(), "tokens", "s3cr3t-A\n");
    let listener = format!("auth: {{authenticator: bearertokenauth}}, {}", keys.tls());
    let config = guarded(&site, &listener, &format!("filename: '{token_file}'"));
    let server = Server::start(&config);
    let address = server.query.strip_prefix("http://").unwrap();

    let token = ["--token-file", token_file.as_str()];
    let capture = capture("real-chain");
    for (protocol, endpoint) in [
        ("grpc", &server.grpc),
        ("http-protobuf", &server.http),
        ("http-json", &server.http),
    ] {
        let replay = ["replay", "--protocol", protocol, "--endpoint", endpoint];
        succeed(keys.command(&replay).args(token).arg(&capture));
        let text = refused(keys.command(&replay).arg(&capture));
        assert!(text.contains("refused"), "{text}");
    }
    let loadgen = [
        "loadgen",
        "--requests",
        "3",
        "--rate",
        "100",
        "--endpoint",
        &server.grpc,
    ];
    succeed(keys.command(&loadgen).args(token));
    let text = refused(&mut keys.command(&loadgen));
    assert!(
        text.contains("UNAUTHENTICATED: no token was sent"),
        "{text}"
    );

    let sql = ["sql", "SELECT count(*) FROM spans", "--server", address];
    succeed(keys.command(&sql).args(token));
    succeed(keys.command(&sql).env("WHYSLOW_TOKEN", "s3cr3t-A"));
    succeed(keys.command(&["slow", "--server", address]).args(token));
    let text = refused(keys.command(&sql).env("WHYSLOW_TOKEN", "s3cr3t-B"));
    assert!(
        text.contains("the token that was sent is not known here"),
        "{text}"
    );
    let url = format!("https://{address}");
    let no_certificate = [
        "sql",
        "SELECT 1",
        "--server",
        &url,
        "--ca-file",
        &keys.ca_file,
    ];
    refused(whyslow().args(no_certificate).args(token));
    // Plain text, and silence, are refused here as well, and nobody waits for them.
    refused(
        whyslow()
            .args(["sql", "SELECT 1", "--server", address])
            .args(token),
    );
    let _silent: Vec<_> = (0..200)
        .map(|_| TcpStream::connect(address).unwrap())
        .collect();
    succeed(keys.command(&sql).args(token));
    assert_eq!(http_get(&format!("{}/", server.health)).0, 200);
    server.stop();
}

/// The step of C73: a broken key is said, and the pair before it goes on; a pair of another authority is taken.
#[test]
fn c73_a_replaced_certificate_is_used_and_a_broken_one_is_said() {
    let site = Site::new(ALL);
    let keys = Keys::new(site.path());
    let server = Server::start(&guarded(&site, &keys.tls(), "token: unused"));
    let sql = [
        "sql",
        "SELECT 1",
        "--server",
        server.query.strip_prefix("http://").unwrap(),
    ];
    write(site.path(), "server.key", "garbage");
    let line = server.says("was replaced by one that cannot be used");
    assert!(
        line.contains("ERROR") && line.contains("server.key"),
        "{line}"
    );
    succeed(&mut keys.command(&sql));

    let other = Authority::new("CA-2");
    let both = format!("{}{}", keys.authority.pem, other.pem);
    let both = write(site.path(), "both.crt", &both);
    other.issue("server").write(site.path(), "server");
    let begin = std::time::Instant::now();
    // The old authority alone does not vouch for it any more.
    while keys.command(&sql).output().unwrap().status.success() {
        assert!(begin.elapsed() < Duration::from_secs(60), "the pair stays");
    }
    succeed(&mut keys.command_trusting(&both, &sql));
    server.stop();
}

#[test]
fn c73_half_a_pair_stops_the_start() {
    let site = Site::new(ALL);
    for (keys, words) in [
        ("tls: {cert_file: a}", "tls::cert_file` needs `key_file`"),
        (
            "tls: {client_ca_file: a}",
            "tls::client_ca_file` needs `cert_file`",
        ),
        ("tls: ", "has no certificate"),
        (
            "tls: {cert_file: /nowhere/a, key_file: /nowhere/b}",
            "cannot read `/nowhere/a` (set by `extensions::query::tls::cert_file`)",
        ),
    ] {
        let config = guarded(&site, keys, "token: unused");
        let output = whyslow()
            .args(["serve", "-c"])
            .arg(&config)
            .output()
            .unwrap();
        assert!(!output.status.success());
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(words), "{keys}: {text}");
        assert!(!text.contains("ready"), "{text}");
    }
}

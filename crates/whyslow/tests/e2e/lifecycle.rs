//! Start, stop, and what a damaged log does.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;

use otlp::export::{Limits, Signal};

use crate::harness::{Server, Site, whyslow};
use crate::kill::send;

const FAILED: &str =
    "      - {name: failed, type: status_code, status_code: {status_codes: [ERROR]}}\n";

/// 100 traces of one span, every other one with an error.
fn traces() -> Vec<Vec<u8>> {
    let body = |n: u32| {
        let status = if n.is_multiple_of(2) { 2 } else { 0 };
        let json = format!(
            r#"{{"resourceSpans": [{{"scopeSpans": [{{"spans": [{{
                "traceId": "7c000070a1b2c3d4e5f60718{n:08x}", "spanId": "b00000700000{n:04x}", "name": "call",
                "startTimeUnixNano": "1772366400000000000", "endTimeUnixNano": "1772366400100000000",
                "status": {{"code": {status}}} }}]}}]}}]}}"#
        );
        otlp::json::to_protobuf(Signal::Traces, json.as_bytes(), &Limits::default()).unwrap()
    };
    (1..=100).map(body).collect()
}

fn count(site: &Site, sql: &str) -> Option<i64> {
    site.stored(sql)[0][0].as_i64()
}

/// Sends half a request and waits for the rest of it: the server cannot finish it.
fn hold(server: &Server) -> TcpStream {
    let mut socket = TcpStream::connect(&server.http).unwrap();
    let head = "POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
                content-length: 10\r\nexpect: 100-continue\r\n\r\n";
    socket.write_all(head.as_bytes()).unwrap();
    // The server reads the body when it asks for it.
    let mut answer = [0; 12];
    socket.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 100");
    socket
}

#[test]
fn a_second_process_on_the_folder_is_refused_with_its_name_and_a_remedy() {
    let site = Site::new(FAILED);
    let server = site.serve();
    let mut second = whyslow();
    let second = second.args(["serve", "-c"]).arg(site.write_config());
    let output = second.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        text.contains(&format!("`{}`", site.log().display())),
        "{text}"
    );
    assert!(text.contains("is in use by another process"), "{text}");
    assert!(
        text.contains("extensions::write_ahead_log::directory"),
        "{text}"
    );
    assert!(!text.contains("ready"), "{text}");
    // The first one does not notice.
    send(&server, &traces()[..1]);
    server.stop();
}

#[test]
fn a_second_signal_ends_the_process_at_once_and_the_log_has_the_rest() {
    let site = Site::new(FAILED)
        .with_intake(", shutdown_timeout: 24h, shutdown_deadline: 24h, body_timeout: 24h");
    let mut server = site.serve();
    send(&server, &traces());
    let _held = hold(&server);
    server.terminate();
    server.says("stopping: open requests finish");
    server.terminate();
    assert_eq!(server.end().code(), Some(1));
    server.says("stopped at once by a second signal");
    site.serve().stop();
    assert_eq!(count(&site, "SELECT count(*) FROM traces"), Some(100));
}

#[test]
fn a_stop_that_takes_too_long_ends_at_its_deadline_and_the_log_has_the_rest() {
    let site = Site::new(FAILED)
        .with_intake(", shutdown_timeout: 24h, shutdown_deadline: 1s, body_timeout: 24h");
    let mut server = site.serve();
    send(&server, &traces());
    let _held = hold(&server);
    server.terminate();
    assert_eq!(server.end().code(), Some(1));
    server.says("shutdown_deadline");
    site.serve().stop();
    assert_eq!(count(&site, "SELECT count(*) FROM traces"), Some(100));
}

/// The steps of C70, on what was received: SIGTERM decides, SIGKILL keeps.
#[test]
fn c70_a_stop_decides_and_a_kill_keeps_what_is_undecided() {
    let site = Site::new(FAILED);
    let server = site.serve();
    send(&server, &traces()[..50]);
    server.kill();
    let server = site.serve();
    send(&server, &traces()[50..]);
    server.stop();
    let kept = "SELECT count(*) FROM traces WHERE decision = 'sampled'";
    assert_eq!(count(&site, kept), Some(50));
    assert_eq!(count(&site, "SELECT count(*) FROM traces"), Some(100));
    assert_eq!(
        count(&site, "SELECT count(DISTINCT trace_id) FROM spans"),
        Some(50)
    );
    assert_eq!(count(&site, "SELECT count(*) FROM spans"), Some(50));
    let triggers = site.stored("SELECT DISTINCT \"trigger\" FROM traces");
    assert_eq!(triggers, [["shutdown"]]);
}

/// The newest segment of the log.
fn segment(site: &Site) -> PathBuf {
    let entries = fs::read_dir(site.log()).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "wal"));
    paths.sort();
    paths.pop().unwrap()
}

/// The damage of C70: a torn end is cut with one warning; a byte that was synced and has changed stops the start with
/// the name of the file and what to do, and changes nothing.
#[test]
fn c70_a_torn_end_is_cut_and_damage_before_it_is_named() {
    let site = Site::new(FAILED).with_intake(", sync: always");
    let server = site.serve();
    send(&server, &traces());
    server.kill();
    let path = segment(&site);
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 7]).unwrap();
    let server = site.serve();
    // What is appended now follows the last whole record.
    send(&server, &traces()[99..]);
    server.kill();
    let whole = fs::read(&path).unwrap();
    assert!(whole.len() >= bytes.len());

    let mut flipped = whole.clone();
    flipped[bytes.len() / 2] ^= 1;
    fs::write(&path, &flipped).unwrap();
    let mut command = whyslow();
    let output = command.args(["serve", "-c"]).arg(site.write_config());
    let output = output.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains(&path.display().to_string()), "{text}");
    assert!(text.contains("is damaged at byte"), "{text}");
    assert!(text.contains("restore the file from a copy"), "{text}");
    assert_eq!(fs::read(&path).unwrap(), flipped, "nothing is changed");

    fs::write(&path, &whole).unwrap();
    site.serve().stop();
    assert_eq!(count(&site, "SELECT count(*) FROM traces"), Some(100));
    assert_eq!(count(&site, "SELECT count(*) FROM spans"), Some(50));
}

/// Sends an HTTP request; the whole answer.
fn ask(addr: &str, head: &str, body: &[u8]) -> String {
    let mut socket = TcpStream::connect(addr.trim_start_matches("http://")).unwrap();
    let head = format!(
        "{head} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/x-protobuf\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    socket.write_all(&[head.as_bytes(), body].concat()).unwrap();
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

/// One span of a trace of its own, with a value of 400,000 bytes.
fn large(n: u32) -> Vec<u8> {
    let padding = "x".repeat(400_000);
    let json = format!(
        r#"{{"resourceSpans": [{{"scopeSpans": [{{"spans": [{{
            "traceId": "7c000071a1b2c3d4e5f60718{n:08x}", "spanId": "b00000710000{n:04x}", "name": "call",
            "startTimeUnixNano": "1772366400000000000", "endTimeUnixNano": "1772366400100000000",
            "attributes": [{{"key": "padding", "value": {{"stringValue": "{padding}"}}}}]
        }}]}}]}}]}}"#
    );
    otlp::json::to_protobuf(Signal::Traces, json.as_bytes(), &Limits::default()).unwrap()
}

/// Scenario: the log's folder goes away, so that the next segment cannot be created.
/// Guarantee: exports are refused, to be sent again; `/readyz` says why; a restart has what was acknowledged.
#[test]
fn a_log_that_cannot_be_written_refuses_until_a_restart_and_readyz_says_why() {
    let site = Site::new(crate::harness::ALL);
    let server = site.serve();
    assert!(ask(&server.query, "GET /readyz", b"").starts_with("HTTP/1.1 200"));
    let away = site.path().join("away");
    fs::rename(site.log(), &away).unwrap();
    let mut n_acknowledged = 0;
    let refused = loop {
        let answer = ask(&server.http, "POST /v1/traces", &large(n_acknowledged + 1));
        if !answer.starts_with("HTTP/1.1 200") {
            break answer;
        }
        n_acknowledged += 1;
        assert!(n_acknowledged < 10, "segments have 1 MiB");
    };
    assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
    assert!(refused.contains("retry-after: 1\r\n"), "{refused}");
    let ready = ask(&server.query, "GET /readyz", b"");
    assert!(ready.starts_with("HTTP/1.1 503"), "{ready}");
    assert!(
        ready.contains("cannot append to the log: cannot create"),
        "{ready}"
    );
    let again = ask(&server.http, "POST /v1/traces", &large(100));
    assert!(again.starts_with("HTTP/1.1 503"), "{again}");
    server.kill();

    fs::rename(&away, site.log()).unwrap();
    let server = site.serve();
    let answer = ask(&server.http, "POST /v1/traces", &large(100));
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    server.stop();
    let n_stored = count(&site, "SELECT count(*) FROM spans");
    assert_eq!(n_stored, Some(i64::from(n_acknowledged) + 1));
}

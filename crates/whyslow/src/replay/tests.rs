//! Replays against a scripted server.

use std::collections::VecDeque;
use std::fs;
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::http::StatusCode;
use clap::Parser as _;
use expect_test::{Expect, expect};
use tokio::net::TcpListener;

use super::{Args, run};

/// One resource with one scope with one empty span.
const ONE_SPAN: &[u8] = b"\x0a\x04\x12\x02\x12\x00";

#[derive(clap::Parser)]
struct Cli {
    #[command(flatten)]
    args: Args,
}

/// Replays files against a server that gives these answers; tells the outcome and the bodies'
/// lengths in order.
async fn check(files: &[(&str, &[u8])], answers: &[u16], options: &[&str], expected: Expect) {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        fs::write(folder.path().join(name), content).unwrap();
    }
    let seen = Arc::new(Mutex::new(Vec::new()));
    let answers = Arc::new(Mutex::new(VecDeque::from(answers.to_vec())));
    let handler = {
        let seen = Arc::clone(&seen);
        move |body: Bytes| {
            seen.lock().unwrap().push(body.len());
            let code = answers
                .lock()
                .unwrap()
                .pop_front()
                .expect("one answer per request");
            std::future::ready(StatusCode::from_u16(code).unwrap())
        }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = listener.local_addr().unwrap().to_string();
    let router = axum::Router::new().route("/v1/traces", axum::routing::post(handler));
    tokio::spawn(async move { axum::serve(listener, router).await });

    let path = folder.path().to_str().unwrap();
    let fixed = [
        "replay",
        path,
        "--endpoint",
        &endpoint,
        "--protocol",
        "http-protobuf",
    ];
    let cli = Cli::parse_from(fixed.iter().chain(options));
    let outcome = match run(cli.args).await {
        Ok(()) => "ok".to_owned(),
        Err(error) => format!("{error:#}"),
    };
    expected.assert_eq(&format!("{outcome}; {:?}", seen.lock().unwrap()));
}

#[tokio::test]
async fn requests_arrive_in_the_order_of_their_names() {
    let two_spans = [ONE_SPAN, ONE_SPAN].concat();
    let files = [("2.pb", &two_spans[..]), ("1.pb", ONE_SPAN), ("3.pb", b"")];
    check(&files, &[200, 200, 200], &[], expect![["ok; [6, 12, 0]"]]).await;
}

#[tokio::test]
async fn a_refused_request_and_a_bad_file_do_not_stop_the_others() {
    let files = [
        ("1.pb", ONE_SPAN),
        ("2.pb", b"\x0a\x09"),
        ("3.pb", ONE_SPAN),
        ("4.pb", ONE_SPAN),
    ];
    check(
        &files,
        &[200, 400, 200],
        &["--retime", "--gzip"],
        expect![["1 request not accepted, 1 file not readable; [26, 26, 26]"]],
    )
    .await;
}

#[tokio::test]
async fn several_may_be_on_their_way() {
    let files = [("1.pb", ONE_SPAN), ("2.pb", ONE_SPAN), ("3.pb", ONE_SPAN)];
    check(
        &files,
        &[200, 200, 200],
        &["--concurrency", "8"],
        expect![["ok; [6, 6, 6]"]],
    )
    .await;
}

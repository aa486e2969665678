//! Scenario: a worker reports over gRPC which GPU it holds, and that it was moved to another; the process is killed; after
//! it is up again the captured requests of that pod come, with the scrapes of both GPUs.
//!
//! Guarantee: the evidence of each request is that of the GPU which its pod held then, by the worker's word and with its
//! rank, though the exporter's labels say otherwise; every interval is stored once.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use reports::{Kind, Message as _, Placement, ReportPlacementsRequest, Worker};

use crate::evidence::send_all;
use crate::harness::{ALL, Server, Site};

const POD: &str = "vllm-llm-5d8f7b6c4-xk9m2";
const FIRST: &str = "GPU-5c1a7b42-0e6d-4d0b-9f37-aa5e0c8d1f10";
const SECOND: &str = "GPU-9e4f2d18-7b3c-4a55-8c21-1d2e3f405162";

/// In the middle of the capture.
const MOVED: u64 = 1_795_963_769_000_000_000;

/// Reports placements; the gRPC status.
fn report(server: &Server, placements: Vec<Placement>) -> String {
    let request = ReportPlacementsRequest {
        placements,
        observation: None,
    };
    let message = request.encode_to_vec();
    let mut framed = vec![0];
    framed.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
    framed.extend(message);
    let url = format!("http://{}{}", server.grpc, Kind::Placements.method());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let client = Client::builder(TokioExecutor::new())
            .http2_only(true)
            .build_http();
        let request = http::Request::post(url)
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(Full::new(Bytes::from(framed)))
            .unwrap();
        let response = client.request(request).await.unwrap();
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap();
        let status = body
            .trailers()
            .and_then(|trailers| trailers.get("grpc-status"));
        let status = status.or_else(|| head.headers.get("grpc-status")).unwrap();
        status.to_str().unwrap().to_owned()
    })
}

fn placement(gpu_uuid: &str, valid_from_unix_nano: u64) -> Placement {
    Placement {
        worker: Some(Worker {
            namespace: "inference".to_owned(),
            pod: POD.to_owned(),
            container: "vllm".to_owned(),
            node: "gpu-node-17".to_owned(),
            ..Worker::default()
        }),
        tp_rank: Some(0),
        gpu_uuid: gpu_uuid.to_owned(),
        valid_from_unix_nano,
        ..Placement::default()
    }
}

#[test]
fn what_a_worker_reported_is_known_after_a_kill() {
    let site = Site::new(ALL);
    let server = site.serve();
    let first = placement(FIRST, MOVED - 3_600_000_000_000);
    assert_eq!(report(&server, vec![first.clone()]), "0");
    let wrong = placement("0", MOVED);
    assert_eq!(report(&server, vec![first.clone(), wrong]), "3");
    server.eventually("SELECT count(*) FROM placements", 1);
    // Committed, so that the log alone does not know it.
    server.stop();
    let server = site.serve();
    let moved = placement(SECOND, MOVED);
    assert_eq!(report(&server, vec![first, moved]), "0");
    server.kill();
    let server = site.serve();
    send_all(&server);
    server.stop();

    let intervals = "SELECT gpu_uuid, valid_from_unix_nano, valid_to_unix_nano, source, tp_rank FROM placements p \
                     WHERE source = 'reported' AND time_unix_nano = (SELECT max(time_unix_nano) FROM placements q \
                     WHERE q.placement_id = p.placement_id) ORDER BY valid_from_unix_nano";
    let rows = site.stored(intervals);
    let expected = serde_json::json!([
        [FIRST, MOVED - 3_600_000_000_000, MOVED, "reported", 0],
        [SECOND, MOVED, null, "reported", 0],
    ]);
    assert_eq!(serde_json::json!(rows), expected);
    let twice = site.stored(
        "SELECT count(*) FROM (SELECT placement_id, event FROM placements GROUP BY 1, 2 HAVING count(*) > 1)",
    );
    assert_eq!(twice[0][0], 0, "no interval is opened or ended twice");

    let rows = site.stored(
        "SELECT gpu_uuid, start_time_unix_nano, duration_ns, placement_source, tp_rank, placement_disputed FROM evidence",
    );
    assert!(rows.len() > 20, "{}", rows.len());
    let (mut n_first, mut n_second) = (0, 0);
    for row in &rows {
        let start = row[1].as_u64().unwrap();
        let end = start + row[2].as_u64().unwrap();
        let context = format!("{row:?}");
        if row[0] == FIRST {
            n_first += 1;
            assert!(end <= MOVED, "{context}");
        } else {
            assert_eq!(row[0], SECOND, "{context}");
            n_second += 1;
            assert!(start >= MOVED, "{context}");
            // Of one that was moved meanwhile, the labels name the first GPU rightly.
            let is_whole = start > MOVED;
            assert_eq!(row[5], is_whole, "the labels say otherwise: {context}");
        }
        assert_eq!(
            (&row[3], &row[4]),
            (&"reported".into(), &0.into()),
            "{context}"
        );
    }
    println!("{n_first} on the first GPU, {n_second} on the second");
    assert!(n_first > 10 && n_second > 10, "{n_first} {n_second}");
}

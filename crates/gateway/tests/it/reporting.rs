//! Reports over gRPC, at the door of the exports: what is taken comes with a release, and what is wrong is named.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};
use reports::{
    Batch, Kind, Message, Placement, ReportBatchesRequest, ReportPlacementsRequest, Worker,
};
use tonic::{Code, Status, codec::CompressionEncoding};

use crate::harness::{Fixture, T0, config, export_with};

const PLACEMENTS: &str = "/whyslow.v1.ReportService/ReportPlacements";
const BATCHES: &str = "/whyslow.v1.ReportService/ReportBatches";

fn worker() -> Option<Worker> {
    Some(Worker {
        namespace: "llm-serving".to_owned(),
        pod: "vllm-0".to_owned(),
        ..Worker::default()
    })
}

fn placements(uuids: &[&str]) -> Bytes {
    let placement = |uuid: &&str| Placement {
        worker: worker(),
        gpu_uuid: (*uuid).to_owned(),
        valid_from_unix_nano: T0,
        ..Placement::default()
    };
    let request = ReportPlacementsRequest {
        placements: uuids.iter().map(placement).collect(),
        observation: None,
    };
    request.encode_to_vec().into()
}

fn batch() -> Bytes {
    let batch = Batch {
        batch_id: "7".to_owned(),
        worker: worker(),
        start_unix_nano: T0,
        end_unix_nano: T0 + 1,
        ..Batch::default()
    };
    let request = ReportBatchesRequest {
        batches: vec![batch],
    };
    request.encode_to_vec().into()
}

const UUID: &str = "GPU-0a1b2c3d-0001-4000-8000-000000000001";

#[tokio::test(flavor = "multi_thread")]
async fn a_report_that_is_answered_is_in_a_release_also_after_a_restart() {
    let gateway = Fixture::new(config()).await;
    let zstd = Some(CompressionEncoding::Zstd);
    let placed = placements(&[UUID, UUID]);
    let answer = gateway.export(PLACEMENTS, placed.clone(), zstd).await;
    assert_eq!(answer.unwrap(), Bytes::new());
    assert!(gateway.export(BATCHES, batch(), None).await.is_ok());
    let mut gateway = gateway.restart().await;
    let mut found = Vec::new();
    while found.len() < 2 {
        let release = gateway.next_release().await;
        let reports = release.reports.iter();
        found.extend(reports.map(|report| {
            assert_eq!(report.record.received_unix_nano, T0);
            (report.kind, Bytes::copy_from_slice(report.record.body()))
        }));
    }
    let expected = [(Kind::Placements, placed), (Kind::Batches, batch())];
    assert_eq!(found, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_entry_is_named_and_nothing_of_its_report_is_taken() {
    let gateway = Fixture::new(config()).await;
    let refused = |answer: Result<Bytes, Status>| answer.unwrap_err();
    let status = refused(
        gateway
            .export(PLACEMENTS, placements(&[UUID, "0"]), None)
            .await,
    );
    assert_eq!(status.code(), Code::InvalidArgument);
    let expected = "report refused: `placements[1].gpu_uuid` is no UUID of a GPU";
    assert!(status.message().starts_with(expected), "{status:?}");
    assert!(status.details().is_empty(), "nothing to retry");
    let status = refused(
        gateway
            .export(BATCHES, Bytes::from_static(b"\xff"), None)
            .await,
    );
    assert_eq!(status.code(), Code::InvalidArgument);
    let other = "/whyslow.v1.ReportService/ReportWeather";
    let status = refused(gateway.export(other, batch(), None).await);
    assert_eq!(status.code(), Code::Unimplemented);
    let text = gateway.handle.metrics.render_prometheus();
    for line in [
        "gateway_reports_total{report=\"placements\",code=\"INVALID_ARGUMENT\"} 1",
        "gateway_reports_total{report=\"batches\",code=\"INVALID_ARGUMENT\"} 1",
        "gateway_report_entries_received_total{report=\"placements\"} 0",
    ] {
        assert!(text.contains(line), "{line}");
    }
    let answer = gateway.post(BATCHES, "application/x-protobuf", batch());
    assert_eq!(answer.await.status, StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_need_the_token_and_keep_to_the_limit_of_exports() {
    let mut config = config();
    let grpc = config.otlp.protocols.grpc.as_mut().unwrap();
    grpc.max_recv_msg_size_mib = 1;
    grpc.auth = Some(transport::Auth {
        authenticator: "bearertokenauth".to_owned(),
    });
    let settings = transport::BearerTokenAuth {
        tokens: vec![transport::Secret::new("s3cr3t")],
        ..transport::BearerTokenAuth::default()
    };
    let known = &mut config.authenticators.0;
    known.insert("bearertokenauth".to_owned(), settings);
    let gateway = Fixture::new(config).await;
    let status = gateway.export(BATCHES, batch(), None).await.unwrap_err();
    assert_eq!(status.code(), Code::Unauthenticated);
    let mut headers = HeaderMap::new();
    let token = HeaderValue::from_static("Bearer s3cr3t");
    headers.insert("authorization", token);
    let send = async |body: Bytes| {
        let channel = gateway.channel().await;
        export_with(channel, BATCHES, &headers, body, None).await
    };
    assert!(send(batch()).await.is_ok());
    let large = Bytes::from(vec![0; (1 << 20) + 1]);
    let status = send(large).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
}

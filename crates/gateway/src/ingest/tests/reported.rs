//! Reports by number: what a test sends, and finds again in a release.

use bytes::Bytes;
use reports::{
    Batch, Kind, Message, Placement, ReportBatchesRequest, ReportPlacementsRequest, Worker,
};

use super::harness::T0;
use crate::release::Release;

/// The report `n`, with one entry: of a placement if `n` is odd, else of a batch.
pub(super) fn report(n: u8) -> (Kind, Bytes) {
    let worker = Some(Worker {
        pod: format!("p{n}"),
        ..Worker::default()
    });
    if n % 2 == 1 {
        let placement = Placement {
            worker,
            gpu_uuid: "GPU-0a1b2c3d-0001-4000-8000-000000000001".to_owned(),
            valid_from_unix_nano: T0,
            ..Placement::default()
        };
        let request = ReportPlacementsRequest {
            placements: vec![placement],
            observation: None,
        };
        return (Kind::Placements, request.encode_to_vec().into());
    }
    let batch = Batch {
        batch_id: "1".to_owned(),
        worker,
        start_unix_nano: T0,
        end_unix_nano: T0,
        ..Batch::default()
    };
    let request = ReportBatchesRequest {
        batches: vec![batch],
    };
    (Kind::Batches, request.encode_to_vec().into())
}

/// Numbers of the reports of a release.
pub(super) fn reports_of(release: &Release) -> Vec<u8> {
    let workers = release.reports.iter().map(|report| {
        let body = report.record.body();
        match report.kind {
            Kind::Placements => {
                let mut request = reports::read_placements(body).expect("readable");
                request.placements.remove(0).worker
            }
            Kind::Batches => {
                let mut request = reports::read_batches(body).expect("readable");
                request.batches.remove(0).worker
            }
        }
    });
    let number = |worker: Option<Worker>| {
        let pod = worker.expect("a worker").pod;
        let number = pod.strip_prefix('p').and_then(|n| n.parse().ok());
        number.expect("`p` and a number")
    };
    workers.map(number).collect()
}

//! One look: `List` over the Unix socket, within a time, a size and a number of entries.
//!
//! The connection is made for the look and ends with it: one that the kubelet has left says nothing until it is tried.

use std::{io, path::Path, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::{body::Incoming, client::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use reports::pod_resources::{self, ListPodResourcesResponse};
use tokio::net::UnixStream;
use tonic::Code;

use crate::{
    body::Compression,
    grpc::{self, FRAME_HEADER_BYTES},
};

/// Why a look gave nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// There is no such file.
    #[error(
        "there is no socket: mount the host's folder `/var/lib/kubelet/pod-resources` into the pod, or name the kubelet's socket in `socket`"
    )]
    NoSocket,
    /// The socket is there.
    #[error("the socket may not be opened: run as a user who may, the kubelet's socket is root's")]
    Forbidden,
    /// Nobody listens, or not as gRPC.
    #[error("nobody answers on the socket: is the kubelet running?")]
    NoAnswer,
    /// Within `timeout`.
    #[error("the kubelet took longer than `timeout`")]
    Timeout,
    /// With another status.
    #[error(
        "the kubelet answers with status {0:?}; `KubeletPodResources` must be on, and its rate limit allows ten calls a second"
    )]
    Status(Code),
    /// Over `answer_bytes_max`, or more entries than a node has.
    #[error("the answer is larger than `answer_bytes_max`, or than a node can be")]
    TooLarge,
    /// Not the message.
    #[error("the answer is not what `PodResources` v1 gives")]
    Broken,
    /// The intake is closed; nothing was asked, or what was seen was not taken.
    #[error("the intake is closed")]
    Refused,
}

impl Failure {
    pub(crate) const ALL: [&str; 8] = [
        "no_socket",
        "forbidden",
        "no_answer",
        "timeout",
        "status",
        "too_large",
        "broken",
        "refused",
    ];

    /// Place in [`Failure::ALL`].
    pub(crate) const fn idx(self) -> usize {
        match self {
            Self::NoSocket => 0,
            Self::Forbidden => 1,
            Self::NoAnswer => 2,
            Self::Timeout => 3,
            Self::Status(_) => 4,
            Self::TooLarge => 5,
            Self::Broken => 6,
            Self::Refused => 7,
        }
    }
}

/// Asks for all pods of the node.
pub(super) async fn list(
    socket: &Path,
    timeout: Duration,
    answer_bytes_max: u64,
) -> Result<ListPodResourcesResponse, Failure> {
    let asked = ask(socket, answer_bytes_max);
    let message = tokio::time::timeout(timeout, asked).await;
    let message = message.map_err(|_| Failure::Timeout)??;
    // Megabytes at most, once in an interval; and what a node says is some kilobytes.
    pod_resources::read(&message).map_err(|error| {
        if matches!(error, reports::Error::TooMany { .. }) {
            Failure::TooLarge
        } else {
            Failure::Broken
        }
    })
}

async fn ask(socket: &Path, answer_bytes_max: u64) -> Result<Bytes, Failure> {
    let stream = UnixStream::connect(socket).await;
    let stream = stream.map_err(|error| {
        let known = [
            (io::ErrorKind::NotFound, Failure::NoSocket),
            (io::ErrorKind::PermissionDenied, Failure::Forbidden),
        ];
        let known = known.into_iter().find(|(kind, _)| *kind == error.kind());
        known.map_or(Failure::NoAnswer, |(_, failure)| failure)
    })?;
    let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|_| Failure::NoAnswer)?;
    let exchange = async {
        let answered = sender.send_request(request()?).await;
        read(answered.map_err(|_| Failure::NoAnswer)?, answer_bytes_max).await
    };
    // Whoever ends first ends both: the connection is of no use afterwards.
    tokio::select! {
        message = exchange => message,
        _ = connection => Err(Failure::NoAnswer),
    }
}

fn request() -> Result<Request<Full<Bytes>>, Failure> {
    let empty = Bytes::from_static(&[0; FRAME_HEADER_BYTES]);
    Request::post(format!("http://localhost{}", pod_resources::LIST))
        .header(header::CONTENT_TYPE, "application/grpc")
        .header(header::TE, HeaderValue::from_static("trailers"))
        .header(header::USER_AGENT, "whyslow")
        .body(Full::new(empty))
        .map_err(|_| Failure::NoAnswer)
}

async fn read(response: Response<Incoming>, answer_bytes_max: u64) -> Result<Bytes, Failure> {
    let (head, body) = response.into_parts();
    let refused = |status: tonic::Status| {
        if status.code() == Code::Ok {
            Failure::Broken
        } else {
            Failure::Status(status.code())
        }
    };
    if let Some(status) = tonic::Status::from_header_map(&head.headers) {
        return Err(refused(status));
    }
    if head.status != StatusCode::OK {
        return Err(Failure::NoAnswer);
    }
    let limit = usize::try_from(answer_bytes_max).unwrap_or(usize::MAX);
    let limited = Limited::new(body, limit.saturating_add(FRAME_HEADER_BYTES));
    let body = limited.collect().await.map_err(|error| {
        if error.is::<LengthLimitError>() {
            Failure::TooLarge
        } else {
            Failure::NoAnswer
        }
    })?;
    let status = body.trailers().and_then(tonic::Status::from_header_map);
    match status {
        Some(status) if status.code() == Code::Ok => unframe(body.to_bytes()),
        Some(status) => Err(refused(status)),
        None => Err(Failure::Broken),
    }
}

/// The one message; nothing was said of compression, so none is allowed.
fn unframe(framed: Bytes) -> Result<Bytes, Failure> {
    let unframed = grpc::unframe(framed, Compression::None);
    unframed
        .map(|(_, message)| message)
        .map_err(|_| Failure::Broken)
}

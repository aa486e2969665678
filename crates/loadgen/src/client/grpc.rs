//! OTLP/gRPC: the body goes through tonic as it is.

use std::error::Error as _;
use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes};
use http::uri::PathAndQuery;
use otlp::export::Signal;
use otlp::reply::{Reply, printable, read_export_response, read_status};
use tonic::Request;
use tonic::client::Grpc;
use tonic::codec::{Codec, CompressionEncoding, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::Channel;
use transport::{Alpn, TokenSource};

use super::failure::{Failure, Status};
use super::{ANSWER_BYTES_MAX, Config};
use crate::{Error, Result};

/// One HTTP/2 connection, made when first needed and made again when it broke.
#[derive(Debug, Clone)]
pub(super) struct Transport {
    grpc: Grpc<Channel>,
    token: Option<Arc<TokenSource>>,
}

impl Transport {
    pub(super) fn new(config: &Config) -> Result<Self> {
        let origin = config.endpoint.origin();
        let channel = Channel::from_shared(origin)
            .map_err(|_invalid| Error::EndpointSyntax {
                endpoint: config.endpoint.to_string(),
            })?
            .connect_timeout(config.timeout)
            .connect_with_connector_lazy(config.connector(Alpn::Http2)?);
        let mut grpc = Grpc::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
        if config.gzip {
            grpc = grpc.send_compressed(CompressionEncoding::Gzip);
        }
        Ok(Self {
            grpc: grpc.accept_compressed(CompressionEncoding::Gzip),
            token: config.token.clone(),
        })
    }

    pub(super) fn attempt(
        &self,
        signal: Signal,
        body: Bytes,
    ) -> impl Future<Output = Result<Reply, Failure>> + use<> {
        let mut grpc = self.grpc.clone();
        let mut request = Request::new(body);
        if let Some(token) = &self.token {
            token.add_to(request.metadata_mut().as_mut());
        }
        async move {
            grpc.ready()
                .await
                .map_err(|error| Failure::no_answer(&error))?;
            let answer = grpc
                .unary(request, method(signal), RawCodec)
                .await
                .map_err(|status| failure(&status))?;
            // The request is accepted even if its answer cannot be read.
            Ok(read_export_response(answer.get_ref()).unwrap_or_default())
        }
    }
}

fn method(signal: Signal) -> PathAndQuery {
    PathAndQuery::from_static(match signal {
        Signal::Traces => "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
        Signal::Metrics => "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
        Signal::Logs => "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
    })
}

fn failure(status: &tonic::Status) -> Failure {
    // Only statuses made on this side have a source: a connection that could not be made or broke.
    if let Some(source) = status.source() {
        return Failure::no_answer(source);
    }
    Failure {
        status: Status::Grpc(status.code().into()),
        message: printable(status.message()),
        retry_after: read_status(status.details()).and_then(|details| details.retry_after),
    }
}

/// Hands the bytes of messages over without encoding or decoding them.
#[derive(Debug, Clone, Copy, Default)]
pub struct RawCodec;

impl Codec for RawCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for RawCodec {
    type Item = Bytes;
    type Error = tonic::Status;

    fn encode(&mut self, item: Bytes, into: &mut EncodeBuf<'_>) -> Result<(), tonic::Status> {
        into.put(item);
        Ok(())
    }
}

impl Decoder for RawCodec {
    type Item = Bytes;
    type Error = tonic::Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, tonic::Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

//! Answers, descriptions and errors as Flight has them, and parameters as they come.

use std::pin::Pin;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::ipc::writer::IpcWriteOptions;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use arrow_flight::sql::ProstMessageExt;
use arrow_flight::sql::server::PeekableFlightDataStream;
use arrow_flight::{
    FlightData, FlightDescriptor, FlightEndpoint, FlightInfo, IpcMessage, SchemaAsIpc, Ticket,
};
use bytes::Bytes;
use futures::{Stream, StreamExt, TryStreamExt, stream};
use prost::Message;
use tonic::{Code, Request, Response, Status};

use super::handle::PARAMETER_BYTES_MAX;
use crate::answer::Answer;
use crate::error::Error;

/// An answer on its way.
pub(super) type Batches = Pin<Box<dyn Stream<Item = Result<FlightData, Status>> + Send>>;

/// Most messages in which parameters come.
const PARAMETER_MESSAGES_MAX: usize = 16;

/// The one place where errors of statements become statuses. What only we can act on goes to the log.
pub(super) fn status(error: &Error) -> Status {
    let code = match error {
        Error::NoStatement
        | Error::SeveralStatements { .. }
        | Error::NotReadOnly { .. }
        | Error::Syntax { .. }
        | Error::UnknownColumn { .. }
        | Error::Unanswerable { .. }
        | Error::TooLong { .. }
        | Error::TooComplex { .. } => Code::InvalidArgument,
        Error::UnknownTable { .. } => Code::NotFound,
        Error::TimedOut { .. } => Code::DeadlineExceeded,
        Error::OutOfMemory { .. } => Code::ResourceExhausted,
        Error::Busy { .. } | Error::BusyUser { .. } => Code::Unavailable,
        Error::Storage { .. }
        | Error::Internal { .. }
        | Error::Ended { .. }
        | Error::Threads { .. }
        | Error::View { .. } => Code::Internal,
    };
    if code == Code::Internal {
        crate::http::log_fault(error);
    }
    Status::new(code, error.explanation())
}

pub(super) fn fault(error: impl std::fmt::Display) -> Status {
    Status::internal(error.to_string())
}

/// Encodes batches as they are taken.
pub(super) fn stream_answer(answer: Answer) -> Response<Batches> {
    let schema = Arc::clone(answer.schema());
    let batches = answer.map(|batch| batch.map_err(|error| FlightError::from(status(&error))));
    Response::new(encoded(schema, batches))
}

pub(super) fn encoded(
    schema: SchemaRef,
    batches: impl Stream<Item = Result<RecordBatch, FlightError>> + Send + 'static,
) -> Batches {
    let encoder = FlightDataEncoderBuilder::new().with_schema(schema);
    encoder.build(batches).map_err(Status::from).boxed()
}

/// One batch that is there already.
pub(super) fn listed(batch: Result<RecordBatch, FlightError>) -> Result<Response<Batches>, Status> {
    let batch = batch.map_err(fault)?;
    let batches = stream::iter([Ok(batch.clone())]);
    Ok(Response::new(encoded(batch.schema(), batches)))
}

/// Where to get an answer: here, with this ticket.
pub(super) fn info(
    schema: &Schema,
    ticket: Bytes,
    request: Request<FlightDescriptor>,
) -> Result<Response<FlightInfo>, Status> {
    let endpoint = FlightEndpoint::new().with_ticket(Ticket::new(ticket));
    let info = FlightInfo::new()
        .try_with_schema(schema)
        .map_err(fault)?
        .with_endpoint(endpoint)
        .with_descriptor(request.into_inner());
    Ok(Response::new(info))
}

pub(super) fn ticket(command: &impl ProstMessageExt) -> Bytes {
    command.as_any().encode_to_vec().into()
}

pub(super) fn as_ipc(schema: &Schema) -> Result<Bytes, Status> {
    let message = SchemaAsIpc::new(schema, &IpcWriteOptions::default()).try_into();
    let IpcMessage(bytes) = message.map_err(fault)?;
    Ok(bytes)
}

/// Parameters as columns `$1`, `$2` and so on; text where the statement leaves the type open.
pub(super) fn parameter_schema(parameters: &[Option<DataType>]) -> Schema {
    let fields = parameters.iter().enumerate().map(|(idx, data_type)| {
        let data_type = data_type.clone().unwrap_or(DataType::Utf8);
        Field::new(format!("${}", idx + 1), data_type, true)
    });
    Schema::new(fields.collect::<Vec<_>>())
}

/// The only batch that a client sends; `None` if it sends no column.
pub(super) async fn parameters(
    stream: PeekableFlightDataStream,
) -> Result<Option<RecordBatch>, Status> {
    let mut n_bytes = 0;
    let messages = stream.take(PARAMETER_MESSAGES_MAX).map(move |message| {
        let message = message?;
        n_bytes += message.data_header.len() + message.data_body.len();
        if n_bytes > PARAMETER_BYTES_MAX {
            return Err(Status::invalid_argument(format!(
                "the parameters have more than {PARAMETER_BYTES_MAX} bytes"
            )));
        }
        Ok(message)
    });
    let messages: Vec<FlightData> = messages.try_collect().await?;
    // Bytes that nobody has checked are decoded apart, so that what they break is one task.
    let decoded = tokio::spawn(async move {
        let messages = stream::iter(messages.into_iter().map(Ok));
        let mut batches = FlightRecordBatchStream::new_from_flight_data(messages);
        let mut only = None;
        while let Some(batch) = batches.try_next().await? {
            if only.replace(batch).is_some() {
                let message = "the parameters come in several batches".to_owned();
                return Err(FlightError::DecodeError(message));
            }
        }
        Ok(only.filter(|batch| batch.num_columns() > 0))
    });
    let wrong = || Status::invalid_argument("the parameters cannot be read");
    let decoded = decoded.await.map_err(|_broken| wrong())?;
    decoded.map_err(|error: FlightError| {
        Status::invalid_argument(format!("the parameters cannot be read: {error}"))
    })
}

//! What a ticket, and the handle of a prepared statement, say: the statement, and the values of its parameters.
//!
//! Layout: a byte for the version (1), the length of the statement (4 bytes, big endian), the statement, then the
//! parameters as an Arrow IPC stream, or nothing. A client could write one itself, and would get what the statement in
//! it gets.

use std::io::Cursor;

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use bytes::{BufMut, Bytes, BytesMut};
use datafusion::common::ScalarValue;
use tonic::Status;

const VERSION: u8 = 1;

/// Bytes before the statement.
const HEAD_BYTES: usize = 5;

/// Most bytes of parameters.
pub(crate) const PARAMETER_BYTES_MAX: usize = 1024 * 1024;

/// A statement and its parameters.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Handle {
    pub(crate) sql: String,
    pub(crate) parameters: Option<RecordBatch>,
}

impl Handle {
    pub(crate) fn new(sql: impl Into<String>) -> Self {
        Self {
            sql: sql.into(),
            parameters: None,
        }
    }

    pub(crate) fn write(&self) -> Result<Bytes, Status> {
        let n_bytes = u32::try_from(self.sql.len());
        let n_bytes = n_bytes.map_err(|_| Status::invalid_argument("the statement is too long"))?;
        let mut out = BytesMut::new();
        out.put_u8(VERSION);
        out.put_u32(n_bytes);
        out.put_slice(self.sql.as_bytes());
        if let Some(parameters) = &self.parameters {
            let written = written(parameters).map_err(|error| unreadable(&error))?;
            if written.len() > PARAMETER_BYTES_MAX {
                let message = format!(
                    "the parameters have {} bytes, more than {PARAMETER_BYTES_MAX}",
                    written.len()
                );
                return Err(Status::invalid_argument(message));
            }
            out.put_slice(&written);
        }
        Ok(out.freeze())
    }

    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Status> {
        let wrong = || Status::invalid_argument("the handle is not one of this server");
        let (head, rest) = bytes.split_at_checked(HEAD_BYTES).ok_or_else(wrong)?;
        let (VERSION, Ok(n_bytes)) = (
            head.first().copied().unwrap_or_default(),
            head.get(1..).unwrap_or_default().try_into(),
        ) else {
            return Err(wrong());
        };
        let n_bytes = usize::try_from(u32::from_be_bytes(n_bytes)).map_err(|_| wrong())?;
        let (sql, parameters) = rest.split_at_checked(n_bytes).ok_or_else(wrong)?;
        let sql = std::str::from_utf8(sql).map_err(|_| wrong())?;
        if parameters.len() > PARAMETER_BYTES_MAX {
            return Err(wrong());
        }
        let parameters = match parameters {
            [] => None,
            parameters => Some(read(parameters).map_err(|error| unreadable(&error))?),
        };
        Ok(Self {
            sql: sql.to_owned(),
            parameters,
        })
    }

    /// The parameters, one for each column of the only row.
    pub(crate) fn values(&self) -> Result<Vec<ScalarValue>, Status> {
        let Some(parameters) = &self.parameters else {
            return Ok(Vec::new());
        };
        if parameters.num_rows() != 1 {
            let message = format!(
                "the parameters have {} rows: a query is answered for one row of them",
                parameters.num_rows()
            );
            return Err(Status::invalid_argument(message));
        }
        let values = parameters.columns().iter();
        let values = values.map(|column| ScalarValue::try_from_array(column, 0));
        let values: Result<Vec<_>, _> = values.collect();
        values.map_err(|error| Status::invalid_argument(error.to_string()))
    }
}

fn unreadable(error: &ArrowError) -> Status {
    Status::invalid_argument(format!("the parameters cannot be read: {error}"))
}

fn written(batch: &RecordBatch) -> Result<Vec<u8>, ArrowError> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema())?;
    writer.write(batch)?;
    writer.into_inner()
}

fn read(bytes: &[u8]) -> Result<RecordBatch, ArrowError> {
    let mut batches = StreamReader::try_new(Cursor::new(bytes), None)?;
    let nothing = || ArrowError::ParseError("there are none".to_owned());
    batches.next().ok_or_else(nothing)?
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, RecordBatch, StringArray};

    use super::Handle;

    #[test]
    fn what_is_written_is_read_and_what_is_cut_is_refused() {
        let parameters = RecordBatch::try_from_iter([
            ("$1", Arc::new(Int64Array::from(vec![7])) as _),
            ("$2", Arc::new(StringArray::from(vec!["a"])) as _),
        ]);
        let handle = Handle {
            sql: "SELECT $1, $2".to_owned(),
            parameters: Some(parameters.unwrap()),
        };
        let bytes = handle.write().unwrap();
        assert_eq!(Handle::read(&bytes).unwrap(), handle);
        assert_eq!(handle.values().unwrap().len(), 2);
        for end in 0..18 {
            assert!(Handle::read(&bytes[..end]).is_err(), "{end}");
        }
        for end in 18..bytes.len() {
            // Without its end the stream may still hold the whole batch; it must not hold another.
            if let Ok(read) = Handle::read(&bytes[..end]) {
                assert!(read.parameters.is_none() || read == handle, "{end}");
            }
        }
        assert!(Handle::read(&[2, 0, 0, 0, 0]).is_err());
        assert!(Handle::read(&[1, 255, 255, 255, 255]).is_err());
    }
}

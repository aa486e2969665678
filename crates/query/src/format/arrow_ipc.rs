//! Rows as an Arrow IPC stream.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::writer::StreamWriter;
use bytes::Bytes;

pub(crate) struct Encoder {
    writer: StreamWriter<Vec<u8>>,
}

impl Encoder {
    pub(crate) fn new(schema: &SchemaRef) -> Result<Self, ArrowError> {
        Ok(Self {
            writer: StreamWriter::try_new(Vec::new(), schema)?,
        })
    }

    /// The schema message, which the writer has made already.
    pub(crate) fn begin(&mut self) -> Bytes {
        self.take()
    }

    pub(crate) fn batch(&mut self, batch: &RecordBatch) -> Result<Bytes, ArrowError> {
        self.writer.write(batch)?;
        Ok(self.take())
    }

    pub(crate) fn end(&mut self) -> Result<Bytes, ArrowError> {
        self.writer.finish()?;
        Ok(self.take())
    }

    fn take(&mut self) -> Bytes {
        Bytes::from(std::mem::take(self.writer.get_mut()))
    }
}

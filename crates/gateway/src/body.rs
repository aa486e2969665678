//! From the frames of a body to the bytes of one export request, within the limits.
//!
//! The limit counts the bytes of the message as sent *and* as inflated, and is applied while inflating, so
//! that a bomb costs at most the limit. The same functions serve gRPC and HTTP.

use std::{
    io::{self, Read},
    mem,
    time::Duration,
};

use bytes::{Buf, Bytes};
use flate2::{Decompress, FlushDecompress, Status, bufread::MultiGzDecoder};
use http_body_util::BodyExt;

use crate::{admission::Permit, status::Refusal};

/// First allocation of an inflated body; doubles from there up to the limit.
const INFLATE_CAPACITY_MIN: usize = 16 * 1024;

/// Largest window that a zstd frame may ask for (2^23 = 8 MiB, what RFC 8878 section 3.1.1.1.2 asks every
/// decoder to support): a frame of a few bytes could otherwise claim 128 MiB.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// How a body is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Gzip,
    /// Zlib format, as HTTP means by `deflate` (RFC 9110 section 8.4.1.2).
    Deflate,
    Zstd,
}

impl Compression {
    /// What a sender may use, for `Accept-Encoding` and `grpc-accept-encoding`.
    pub(crate) const ACCEPTED: &'static str = "gzip, zstd, deflate, identity";

    /// Reads `Content-Encoding` or `grpc-encoding`. Stacked encodings are refused.
    pub(crate) fn parse(name: &[u8]) -> Result<Compression, Refusal> {
        let known = [
            ("", Compression::None),
            ("identity", Compression::None),
            ("gzip", Compression::Gzip),
            ("x-gzip", Compression::Gzip),
            ("deflate", Compression::Deflate),
            ("zlib", Compression::Deflate),
            ("zstd", Compression::Zstd),
        ];
        let name = name.trim_ascii();
        known
            .into_iter()
            .find(|(known, _)| name.eq_ignore_ascii_case(known.as_bytes()))
            .map(|(_, compression)| compression)
            .ok_or(Refusal::UnknownEncoding)
    }
}

/// Collects the chunks of a body, within the limit and the budget.
///
/// One chunk is kept as it came. More are copied together: a list of chunks would cost a sender of one-byte
/// frames nothing and us 32 bytes each.
#[derive(Debug)]
pub(crate) struct Collector {
    first: Bytes,
    joined: Vec<u8>,
    limit_bytes: u64,
    permit: Permit,
}

impl Collector {
    pub(crate) fn new(limit_bytes: u64, permit: Permit) -> Collector {
        Collector {
            first: Bytes::new(),
            joined: Vec::new(),
            limit_bytes,
            permit,
        }
    }

    /// Adds a chunk, or says that the limit or the budget is passed.
    pub(crate) fn push(&mut self, chunk: Bytes) -> Result<(), Refusal> {
        let n_bytes = self.n_bytes().saturating_add(chunk.len());
        if n_bytes as u64 > self.limit_bytes {
            return Err(Refusal::TooLarge {
                limit_bytes: self.limit_bytes,
            });
        }
        self.permit.grow(chunk.len())?;
        if self.n_bytes() == 0 {
            self.first = chunk;
        } else {
            self.joined.extend_from_slice(&mem::take(&mut self.first));
            self.joined.extend_from_slice(&chunk);
        }
        Ok(())
    }

    /// Bytes collected so far.
    pub(crate) fn n_bytes(&self) -> usize {
        self.first.len().saturating_add(self.joined.len())
    }

    /// The bytes in one piece, and the permit that covers them.
    pub(crate) fn finish(self) -> (Bytes, Permit) {
        let bytes = if self.joined.is_empty() {
            self.first
        } else {
            Bytes::from(self.joined)
        };
        (bytes, self.permit)
    }
}

/// Reads a body to its end within the limit and the time.
pub(crate) async fn read<B>(
    body: &mut B,
    limit_bytes: u64,
    timeout: Duration,
    permit: Permit,
) -> Result<(Bytes, Permit), Refusal>
where
    B: http_body::Body<Data = Bytes> + Unpin,
{
    let mut collector = Collector::new(limit_bytes, permit);
    let whole = async {
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| Refusal::BodyBroken)?;
            if let Ok(chunk) = frame.into_data() {
                collector.push(chunk)?;
            }
        }
        Ok::<(), Refusal>(())
    };
    tokio::time::timeout(timeout, whole)
        .await
        .map_err(|_| Refusal::BodyTimedOut)??;
    Ok(collector.finish())
}

/// Reads and forgets what is left of a refused body, at most `n_bytes_max`.
///
/// A socket that is closed with unread bytes is reset, and the reset can overtake the answer: without this an
/// HTTP/1.1 sender that writes all of its body first sees a broken connection instead of 413 or 401. The answer
/// does not wait for it.
pub(crate) async fn drain<B>(body: &mut B, n_bytes_max: u64, timeout: Duration)
where
    B: http_body::Body<Data = Bytes> + Unpin,
{
    let rest = async {
        let mut n_bytes = 0_u64;
        while let Some(Ok(frame)) = body.frame().await {
            if let Some(chunk) = frame.data_ref() {
                n_bytes = n_bytes.saturating_add(chunk.len() as u64);
            }
            if n_bytes > n_bytes_max {
                break;
            }
        }
    };
    // Out of time means that the connection is closed, as it is after the rest.
    tokio::time::timeout(timeout, rest).await.ok();
}

/// Inflates `bytes`. The permit grows with what is allocated and in the end covers the result alone.
pub(crate) fn inflate(
    compression: Compression,
    bytes: Bytes,
    limit_bytes: u64,
    permit: &mut Permit,
) -> Result<Bytes, Refusal> {
    let n_bytes = bytes.len();
    let inflated = match compression {
        Compression::None => return Ok(bytes),
        Compression::Gzip => read_limited(
            MultiGzDecoder::new(bytes.reader()),
            n_bytes,
            limit_bytes,
            permit,
        )?,
        Compression::Deflate => read_limited(ZlibReader::new(bytes), n_bytes, limit_bytes, permit)?,
        Compression::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(bytes.reader())
                .map_err(Refusal::BadCompression)?;
            decoder
                .window_log_max(ZSTD_WINDOW_LOG_MAX)
                .map_err(Refusal::BadCompression)?;
            read_limited(decoder, n_bytes, limit_bytes, permit)?
        }
    };
    permit.shrink_to(inflated.len());
    Ok(Bytes::from(inflated))
}

/// Zlib as a reader that tells the end of the stream from the end of its input. flate2's own reads a body that
/// was cut short as a shorter one.
struct ZlibReader {
    stream: Decompress,
    input: Bytes,
    is_finished: bool,
}

impl ZlibReader {
    fn new(input: Bytes) -> ZlibReader {
        ZlibReader {
            stream: Decompress::new(true),
            input,
            is_finished: false,
        }
    }
}

impl Read for ZlibReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while !self.is_finished && !out.is_empty() {
            let (in_before, out_before) = (self.stream.total_in(), self.stream.total_out());
            let status = self
                .stream
                .decompress(&self.input, out, FlushDecompress::None)?;
            // Both are at most the lengths of the slices given.
            let n_in = self.stream.total_in().saturating_sub(in_before) as usize;
            let n_out = self.stream.total_out().saturating_sub(out_before) as usize;
            self.input.advance(n_in);
            self.is_finished = status == Status::StreamEnd;
            if n_out > 0 {
                return Ok(n_out);
            }
            if n_in == 0 && !self.is_finished {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(0)
    }
}

/// Reads to the end, refusing at the first byte over the limit.
fn read_limited(
    mut reader: impl Read,
    n_bytes_compressed: usize,
    limit_bytes: u64,
    permit: &mut Permit,
) -> Result<Vec<u8>, Refusal> {
    let limit = usize::try_from(limit_bytes).unwrap_or(usize::MAX);
    let mut out = Vec::new();
    let mut target = n_bytes_compressed
        .saturating_mul(4)
        .max(INFLATE_CAPACITY_MIN)
        .min(limit.max(1));
    loop {
        permit.grow(target.saturating_sub(out.len()))?;
        let mut n_read = out.len();
        out.reserve_exact(target.saturating_sub(n_read));
        out.resize(target, 0);
        while let Some(room) = out.get_mut(n_read..).filter(|room| !room.is_empty()) {
            match reader.read(room) {
                Ok(0) => {
                    out.truncate(n_read);
                    return Ok(out);
                }
                Ok(n) => n_read = n_read.saturating_add(n),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Refusal::BadCompression(error)),
            }
        }
        if target >= limit {
            return match reader.read(&mut [0]) {
                Ok(0) => Ok(out),
                Ok(_) => Err(Refusal::TooLarge { limit_bytes }),
                Err(error) => Err(Refusal::BadCompression(error)),
            };
        }
        target = target.saturating_mul(2).min(limit);
    }
}

#[cfg(test)]
mod tests;

//! Messages of clients, from bytes that nobody has checked yet.
//!
//! A message is a byte for its kind, its length with itself (4 bytes), and its body. The first one of a connection has
//! no kind. Lengths are checked against the limit of the kind before a body is waited for, memory grows with what has
//! arrived and not with what was announced, and a body is read by its own length alone, whole.
//!
//! Our own reader, although `pgwire` has one: that one takes up to a gigabyte before anybody is known, and trusts
//! counts inside a body. What we send is written by `pgwire`.

use std::io;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout_at};

use super::problem::Problem;

/// Longest message before a client is known; as in Postgres.
pub(crate) const STARTUP_BYTES_MAX: usize = 10_000;

/// Longest message that holds no statement and no values.
const SMALL_BYTES_MAX: usize = 64 * 1024;

/// What a message with a statement or values may have beside them.
const BESIDE_STATEMENT: usize = 64 * 1024;

/// Bytes of later messages that are read while a statement runs, to notice that the client is gone.
const LOOKAHEAD_BYTES: usize = 64 * 1024;

/// Bytes that one read asks for.
const READ_BYTES: usize = 16 * 1024;

/// Time in which a message that has begun must be whole, and in which a client must take what is not an answer's row.
pub(crate) const MESSAGE_TIME: Duration = Duration::from_secs(30);

/// Both directions of a connection.
#[derive(Debug)]
pub(crate) struct Wire<S> {
    stream: S,
    input: BytesMut,
    pub(crate) output: BytesMut,
    statement_bytes_max: usize,
}

/// Why there is no next message.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The connection is closed, or was silent for too long: nobody to tell.
    Gone,
    /// The client did not take what was sent to it in time.
    Slow,
    /// What came is no message: told, then closed.
    Malformed(Problem),
}

impl From<io::Error> for Broken {
    fn from(_error: io::Error) -> Self {
        Self::Gone
    }
}

/// A message of a known client.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Message {
    Query(String),
    Parse {
        name: String,
        sql: String,
        types: Vec<u32>,
    },
    Bind(Bind),
    Describe(Target),
    Close(Target),
    Execute {
        portal: String,
        /// 0: all.
        rows_max: u32,
    },
    Flush,
    Sync,
    Terminate,
    Password(Bytes),
    /// Left over from a copy that never began.
    Copy,
    FunctionCall,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bind {
    pub(crate) portal: String,
    pub(crate) statement: String,
    pub(crate) formats: Vec<i16>,
    pub(crate) values: Vec<Option<Bytes>>,
    pub(crate) result_formats: Vec<i16>,
}

/// What a `Describe` or `Close` is about.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Statement(String),
    Portal(String),
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    pub(crate) fn new(stream: S, statement_bytes_max: usize) -> Self {
        Self {
            stream,
            input: BytesMut::new(),
            output: BytesMut::new(),
            statement_bytes_max,
        }
    }

    /// The stream, if nothing was read beyond the messages so far.
    pub(crate) fn into_stream(self) -> Option<S> {
        self.input.is_empty().then_some(self.stream)
    }

    /// The body of a first message.
    pub(crate) async fn startup(&mut self, deadline: Instant) -> Result<Bytes, Broken> {
        loop {
            if let Some(length) = self.input.get(..4) {
                let n_bytes = length_of(length)?;
                if !(8..=STARTUP_BYTES_MAX).contains(&n_bytes) {
                    let problem = Problem::protocol("the length of the first message is invalid");
                    return Err(Broken::Malformed(problem));
                }
                if self.input.len() >= n_bytes {
                    let mut message = self.input.split_to(n_bytes);
                    message.advance(4);
                    return Ok(message.freeze());
                }
            }
            self.fill_until(deadline).await?;
        }
    }

    /// The next message; it may take until `idle` to begin.
    pub(crate) async fn message(&mut self, idle: Instant) -> Result<Message, Broken> {
        let mut deadline = idle;
        let mut has_begun = false;
        loop {
            if let Some((kind, body)) = self.frame()? {
                return read(kind, body).map_err(Broken::Malformed);
            }
            if !has_begun && !self.input.is_empty() {
                has_begun = true;
                deadline = idle.min(Instant::now() + MESSAGE_TIME);
            }
            self.fill_until(deadline).await?;
        }
    }

    /// A message whose bytes are there.
    fn frame(&mut self) -> Result<Option<(u8, Bytes)>, Broken> {
        let (Some(kind), Some(length)) = (self.input.first().copied(), self.input.get(1..5)) else {
            return Ok(None);
        };
        let n_bytes = length_of(length)?;
        let bytes_max = self.bytes_max(kind).ok_or_else(|| {
            Broken::Malformed(Problem::protocol(format!(
                "there is no message of kind {kind}"
            )))
        })?;
        if n_bytes < 4 {
            let problem = Problem::protocol("the length of a message is less than its own");
            return Err(Broken::Malformed(problem));
        }
        if n_bytes > bytes_max {
            let message =
                format!("a message has {n_bytes} bytes, more than the limit of {bytes_max}");
            return Err(Broken::Malformed(Problem::new("54000", message)));
        }
        if self.input.len() < n_bytes + 1 {
            return Ok(None);
        }
        let mut frame = self.input.split_to(n_bytes + 1);
        frame.advance(5);
        Ok(Some((kind, frame.freeze())))
    }

    /// `None`: there is no such kind.
    fn bytes_max(&self, kind: u8) -> Option<usize> {
        match kind {
            b'Q' | b'P' | b'B' => Some(self.statement_bytes_max.saturating_add(BESIDE_STATEMENT)),
            b'd' | b'D' | b'C' | b'E' | b'F' | b'H' | b'S' | b'X' | b'c' | b'f' => {
                Some(SMALL_BYTES_MAX)
            }
            b'p' => Some(STARTUP_BYTES_MAX),
            _ => None,
        }
    }

    /// Waits while a statement runs; ends only when the client is gone. Bytes of its next messages are kept.
    pub(crate) async fn gone(&mut self) {
        while self.input.len() < LOOKAHEAD_BYTES {
            if self.fill().await.is_err() {
                return;
            }
        }
        std::future::pending().await
    }

    async fn fill_until(&mut self, deadline: Instant) -> Result<(), Broken> {
        timeout_at(deadline, self.fill())
            .await
            .map_err(|_elapsed| Broken::Gone)?
    }

    async fn fill(&mut self) -> Result<(), Broken> {
        self.input.reserve(READ_BYTES);
        match self.stream.read_buf(&mut self.input).await? {
            0 => Err(Broken::Gone),
            _ => Ok(()),
        }
    }

    /// Sends what has been written.
    pub(crate) async fn send(&mut self, deadline: Instant) -> Result<(), Broken> {
        let sent = async {
            self.stream.write_all_buf(&mut self.output).await?;
            self.stream.flush().await
        };
        Ok(timeout_at(deadline, sent)
            .await
            .map_err(|_elapsed| Broken::Slow)??)
    }

    /// Sends what is left, and closes.
    pub(crate) async fn close(&mut self) {
        self.send(Instant::now() + MESSAGE_TIME).await.ok();
        self.stream.shutdown().await.ok();
    }
}

fn length_of(bytes: &[u8]) -> Result<usize, Broken> {
    let bytes: Result<[u8; 4], _> = bytes.try_into();
    let length = bytes.map(i32::from_be_bytes).unwrap_or(-1);
    usize::try_from(length).map_err(|_negative| {
        Broken::Malformed(Problem::protocol("the length of a message is negative"))
    })
}

fn read(kind: u8, body: Bytes) -> Result<Message, Problem> {
    let mut body = Body(body);
    let message = match kind {
        b'Q' => Message::Query(body.text()?),
        b'P' => Message::Parse {
            name: body.text()?,
            sql: body.text()?,
            types: body.list(Body::number::<u32, 4>)?,
        },
        b'B' => Message::Bind(Bind {
            portal: body.text()?,
            statement: body.text()?,
            formats: body.list(Body::number::<i16, 2>)?,
            values: body.list(Body::value)?,
            result_formats: body.list(Body::number::<i16, 2>)?,
        }),
        b'D' => Message::Describe(body.target()?),
        b'C' => Message::Close(body.target()?),
        b'E' => Message::Execute {
            portal: body.text()?,
            rows_max: u32::try_from(body.number::<i32, 4>()?).unwrap_or(0),
        },
        b'H' => Message::Flush,
        b'S' => Message::Sync,
        b'X' => Message::Terminate,
        b'p' => return Ok(Message::Password(body.0)),
        b'F' => return Ok(Message::FunctionCall),
        _ => return Ok(Message::Copy),
    };
    if body.0.is_empty() {
        Ok(message)
    } else {
        Err(Problem::protocol("a message is longer than what it holds"))
    }
}

/// Numbers of the protocol.
trait Number<const N: usize> {
    fn of(bytes: [u8; N]) -> Self;
}

impl Number<2> for i16 {
    fn of(bytes: [u8; 2]) -> Self {
        Self::from_be_bytes(bytes)
    }
}

impl Number<4> for i32 {
    fn of(bytes: [u8; 4]) -> Self {
        Self::from_be_bytes(bytes)
    }
}

impl Number<4> for u32 {
    fn of(bytes: [u8; 4]) -> Self {
        Self::from_be_bytes(bytes)
    }
}

/// What is left of a message, or of any bytes in the protocol's forms.
#[derive(Debug)]
pub(crate) struct Body(pub(crate) Bytes);

impl Body {
    fn short() -> Problem {
        Problem::protocol("a message is shorter than what it should hold")
    }

    fn take(&mut self, n_bytes: usize) -> Result<Bytes, Problem> {
        if self.0.len() < n_bytes {
            return Err(Self::short());
        }
        Ok(self.0.split_to(n_bytes))
    }

    #[expect(private_bounds, reason = "a closed set of numbers")]
    pub(crate) fn number<T: Number<N>, const N: usize>(&mut self) -> Result<T, Problem> {
        let bytes = self.take(N)?;
        let bytes: Result<[u8; N], _> = bytes.as_ref().try_into();
        bytes.map(T::of).map_err(|_length| Self::short())
    }

    /// Text up to a zero byte.
    pub(crate) fn text(&mut self) -> Result<String, Problem> {
        let n_bytes = self.0.iter().position(|byte| *byte == 0);
        let text = self.take(n_bytes.ok_or_else(Self::short)?)?;
        self.0.advance(1);
        let text = std::str::from_utf8(&text);
        text.map(str::to_owned)
            .map_err(|_| Problem::new("22021", "a text is not UTF-8"))
    }

    /// A count of 16 bits, and as many items.
    fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, Problem>,
    ) -> Result<Vec<T>, Problem> {
        let count = self.number::<i16, 2>()?.cast_unsigned();
        // Grows with what is there: a count may lie.
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// A length and as many bytes; -1 is NULL.
    pub(crate) fn value(&mut self) -> Result<Option<Bytes>, Problem> {
        match self.number::<i32, 4>()? {
            -1 => Ok(None),
            length => {
                let n_bytes = usize::try_from(length).map_err(|_negative| Self::short())?;
                self.take(n_bytes).map(Some)
            }
        }
    }

    fn target(&mut self) -> Result<Target, Problem> {
        let kind = self.take(1)?;
        let name = self.text()?;
        match kind.first() {
            Some(b'S') => Ok(Target::Statement(name)),
            Some(b'P') => Ok(Target::Portal(name)),
            _ => Err(Problem::protocol(
                "there is nothing of this kind to describe or close",
            )),
        }
    }
}

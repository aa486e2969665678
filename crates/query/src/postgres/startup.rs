//! The beginning of a connection: encryption, who it is, and what it is told about us.
//!
//! All of it has to be over within [`STARTUP_TIME`]. Where `tls` is configured, a client that does not ask for it is
//! refused: there is no way back to clear text. Where `auth` is, the password is one of the tokens; it is asked for
//! in clear only inside TLS, and by SCRAM-SHA-256 outside, where it is never sent. The name of the user and of the
//! database are taken as they come: there is one role and one database.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{BufMut, Bytes};
use pgwire::messages::Message as _;
use pgwire::messages::response::{ReadyForQuery, TransactionStatus};
use pgwire::messages::startup::{
    Authentication, BackendKeyData, NegotiateProtocolVersion, ParameterStatus, SecretKey,
};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use transport::scram::{MECHANISM, Reply};
use transport::{Stream, TokenCheck, TokenId, Unauthenticated};

use super::Shared;
use super::cancel::Key;
use super::problem::{Problem, Severity};
use super::wire::{Body, Broken, Message, Wire};
use crate::asker::Asker;
use crate::pg_catalog::{SERVER_VERSION, setting};

/// Time until a client must have said who it is.
pub(crate) const STARTUP_TIME: Duration = Duration::from_secs(10);

const CANCEL: i32 = 80_877_102;
const TLS: i32 = 80_877_103;
const GSS: i32 = 80_877_104;

/// First byte of a TLS handshake that begins without being asked for.
const TLS_RECORD: u8 = 0x16;

/// First messages of one connection: at most a question for GSS, one for TLS and the start.
const FIRST_MESSAGES_MAX: usize = 4;

/// A client that may ask.
pub(crate) struct Admitted {
    pub(crate) wire: Wire<Stream>,
    pub(crate) asker: Asker,
    pub(crate) key: Key,
    pub(crate) application_name: String,
}

/// The first messages, up to the one that says that the connection is ready. `None`: it is over.
pub(crate) async fn admit(tcp: TcpStream, peer: SocketAddr, shared: &Shared) -> Option<Admitted> {
    let deadline = Instant::now() + STARTUP_TIME;
    let (mut wire, started) = match begin(tcp, shared, deadline).await {
        Ok(Some(begun)) => begun,
        Ok(None) | Err(_) => return None,
    };
    match welcome(&mut wire, started, peer, shared, deadline).await {
        Ok((asker, key, application_name)) => Some(Admitted {
            wire,
            asker,
            key,
            application_name,
        }),
        Err(Broken::Malformed(problem)) => {
            refuse(&mut wire, &problem).await;
            None
        }
        Err(Broken::Gone | Broken::Slow) => None,
    }
}

/// Says why, and closes.
pub(crate) async fn refuse(wire: &mut Wire<Stream>, problem: &Problem) {
    problem.write(Severity::Fatal, &mut wire.output);
    wire.close().await;
}

/// What a start message says.
struct Start {
    minor: i16,
    parameters: BTreeMap<String, String>,
    is_encrypted: bool,
}

type Begun = (Wire<Stream>, Start);

/// Encryption, and the start message. `None`: the connection was for something else, or is refused.
async fn begin(
    tcp: TcpStream,
    shared: &Shared,
    deadline: Instant,
) -> Result<Option<Begun>, Broken> {
    let bytes_max = shared.engine.config().statement_bytes();
    let mut is_encrypted = false;
    let mut first = [0; 1];
    let n_bytes = timeout_at(deadline, tcp.peek(&mut first)).await;
    let n_bytes = n_bytes.map_err(|_elapsed| Broken::Gone)??;
    let stream = if n_bytes == 1 && first == [TLS_RECORD] {
        is_encrypted = true;
        encrypt(tcp, shared, deadline).await?
    } else {
        Stream::Plain(tcp)
    };
    let mut wire = Wire::new(stream, bytes_max);
    for _ in 0..FIRST_MESSAGES_MAX {
        let body = match wire.startup(deadline).await {
            Ok(body) => body,
            Err(Broken::Malformed(problem)) => {
                refuse(&mut wire, &problem).await;
                return Ok(None);
            }
            Err(broken) => return Err(broken),
        };
        let mut body = Body(body);
        let Ok(code) = body.number::<i32, 4>() else {
            return Ok(None);
        };
        match code {
            CANCEL => {
                cancel(&mut body, shared);
                return Ok(None);
            }
            TLS if shared.door.tls.is_some() && !is_encrypted => {
                wire.output.put_u8(b'S');
                wire.send(deadline).await?;
                // Bytes that came before the handshake would be taken as if they were part of it.
                let Some(Stream::Plain(tcp)) = wire.into_stream() else {
                    return Ok(None);
                };
                is_encrypted = true;
                wire = Wire::new(encrypt(tcp, shared, deadline).await?, bytes_max);
            }
            TLS | GSS => {
                wire.output.put_u8(b'N');
                wire.send(deadline).await?;
            }
            version => {
                return match start(version, body, is_encrypted, shared) {
                    Ok(start) => Ok(Some((wire, start))),
                    Err(problem) => {
                        refuse(&mut wire, &problem).await;
                        Ok(None)
                    }
                };
            }
        }
    }
    Ok(None)
}

async fn encrypt(tcp: TcpStream, shared: &Shared, deadline: Instant) -> Result<Stream, Broken> {
    let tls = shared.door.tls.as_ref().ok_or(Broken::Gone)?;
    let shaken = timeout_at(deadline, tls.accept(tcp)).await;
    let shaken = shaken.map_err(|_elapsed| Broken::Gone)?;
    shaken.map_err(|error| {
        shared.handshakes_failed.count(error.reason);
        Broken::Gone
    })
}

fn cancel(body: &mut Body, shared: &Shared) {
    if let (Ok(process), Ok(secret)) = (body.number::<i32, 4>(), body.number::<i32, 4>()) {
        shared.cancels.cancel(process, secret);
    }
}

fn start(
    version: i32,
    mut body: Body,
    is_encrypted: bool,
    shared: &Shared,
) -> Result<Start, Problem> {
    let [major_high, major_low, minor_high, minor_low] = version.to_be_bytes();
    let major = i16::from_be_bytes([major_high, major_low]);
    if major != 3 {
        let message = format!("version {major} of the protocol is not spoken here, 3 is");
        return Err(Problem::new("0A000", message));
    }
    if shared.door.tls.is_some() && !is_encrypted {
        return Err(
            Problem::new("28000", "this listener takes encrypted connections only")
                .hint("connect with `sslmode=require`, or `verify-full` to be sure who answers"),
        );
    }
    let mut parameters = BTreeMap::new();
    loop {
        let name = body.text()?;
        if name.is_empty() {
            break;
        }
        parameters.insert(name, body.text()?);
    }
    if parameters.get("user").is_none_or(String::is_empty) {
        return Err(Problem::new("28000", "no user is named"));
    }
    let replication = parameters.get("replication").map(String::as_str);
    if replication.is_some_and(|value| !matches!(value, "false" | "off" | "no" | "0")) {
        return Err(Problem::new("0A000", "there is no replication here"));
    }
    Ok(Start {
        minor: i16::from_be_bytes([minor_high, minor_low]),
        parameters,
        is_encrypted,
    })
}

/// Who it is, and what it is told about us.
async fn welcome(
    wire: &mut Wire<Stream>,
    start: Start,
    peer: SocketAddr,
    shared: &Shared,
    deadline: Instant,
) -> Result<(Asker, Key, String), Broken> {
    let options = start
        .parameters
        .keys()
        .filter(|name| name.starts_with("_pq_."));
    let options: Vec<String> = options.cloned().collect();
    if start.minor > 0 || !options.is_empty() {
        let answer = NegotiateProtocolVersion::new(0, options);
        answer.encode(&mut wire.output).map_err(unwritten)?;
    }
    let asker = match &shared.door.tokens {
        None => Asker::Address(peer.ip()),
        Some(tokens) => {
            let proved = prove(wire, tokens, start.is_encrypted, deadline).await;
            if matches!(proved, Err(Broken::Malformed(_))) {
                shared.connections.unauthenticated();
            }
            Asker::Token(proved?)
        }
    };
    let key = shared.cancels.register();
    let user = start.parameters.get("user").cloned().unwrap_or_default();
    let application_name = start.parameters.get("application_name").cloned();
    let application_name = application_name.unwrap_or_default();

    authentication(wire, Authentication::Ok)?;
    for (name, value) in told(&user, &application_name) {
        let status = ParameterStatus::new(name.to_owned(), value);
        status.encode(&mut wire.output).map_err(unwritten)?;
    }
    let secret = SecretKey::I32(key.secret);
    let secret = BackendKeyData::new(key.process, secret);
    secret.encode(&mut wire.output).map_err(unwritten)?;
    let ready = ReadyForQuery::new(TransactionStatus::Idle);
    ready.encode(&mut wire.output).map_err(unwritten)?;
    wire.send(deadline).await?;
    Ok((asker, key, application_name))
}

fn unwritten(error: impl std::fmt::Display) -> Broken {
    Broken::Malformed(Problem::new("XX000", error.to_string()))
}

fn authentication(wire: &mut Wire<Stream>, message: Authentication) -> Result<(), Broken> {
    message.encode(&mut wire.output).map_err(unwritten)
}

/// The settings that clients want to know without asking.
fn told(user: &str, application_name: &str) -> Vec<(&'static str, String)> {
    let of_setting = |name: &str| setting(name).unwrap_or_default().to_owned();
    vec![
        ("application_name", application_name.to_owned()),
        ("client_encoding", of_setting("client_encoding")),
        ("DateStyle", of_setting("datestyle")),
        (
            "default_transaction_read_only",
            of_setting("default_transaction_read_only"),
        ),
        ("in_hot_standby", of_setting("in_hot_standby")),
        ("integer_datetimes", of_setting("integer_datetimes")),
        ("IntervalStyle", of_setting("intervalstyle")),
        ("is_superuser", of_setting("is_superuser")),
        ("server_encoding", of_setting("server_encoding")),
        (
            "server_version",
            format!("{SERVER_VERSION} (Whyslow {})", env!("CARGO_PKG_VERSION")),
        ),
        ("session_authorization", user.to_owned()),
        (
            "standard_conforming_strings",
            of_setting("standard_conforming_strings"),
        ),
        ("TimeZone", of_setting("timezone")),
    ]
}

/// Asks for a token.
async fn prove(
    wire: &mut Wire<Stream>,
    tokens: &TokenCheck,
    is_encrypted: bool,
    deadline: Instant,
) -> Result<TokenId, Broken> {
    if is_encrypted {
        authentication(wire, Authentication::CleartextPassword)?;
        wire.send(deadline).await?;
        let password = password(wire, deadline).await?;
        let token = password.strip_suffix(&[0]).unwrap_or(&password);
        return tokens.check_token(token).map_err(unproved);
    }
    let mut exchange = tokens.scram();
    authentication(wire, Authentication::SASL(vec![MECHANISM.to_owned()]))?;
    wire.send(deadline).await?;
    let mut first = Body(password(wire, deadline).await?);
    let mechanism = first.text().map_err(Broken::Malformed)?;
    let message = first.value().map_err(Broken::Malformed)?;
    let (true, Some(message)) = (mechanism == MECHANISM, message) else {
        return Err(unproved(Unauthenticated::Malformed));
    };
    let mut reply = exchange.next(&message).map_err(unproved)?;
    loop {
        match reply {
            Reply::Continue(message) => {
                authentication(wire, Authentication::SASLContinue(Bytes::from(message)))?;
                wire.send(deadline).await?;
                let message = password(wire, deadline).await?;
                reply = exchange.next(&message).map_err(unproved)?;
            }
            Reply::Proved { message, token } => {
                authentication(wire, Authentication::SASLFinal(Bytes::from(message)))?;
                return Ok(token);
            }
        }
    }
}

async fn password(wire: &mut Wire<Stream>, deadline: Instant) -> Result<Bytes, Broken> {
    match wire.message(deadline).await? {
        Message::Password(password) => Ok(password),
        Message::Terminate => Err(Broken::Gone),
        _ => Err(Broken::Malformed(Problem::protocol(
            "a password is expected",
        ))),
    }
}

fn unproved(error: Unauthenticated) -> Broken {
    let message = match error {
        Unauthenticated::Missing | Unauthenticated::Malformed => error.to_string(),
        Unauthenticated::Unknown => {
            "the password is none of the tokens that are known here".to_owned()
        }
    };
    Broken::Malformed(Problem::new("28P01", message))
}

//! Who may connect, and how it is proved: TLS, mTLS and bearer tokens, for listeners and for clients, with
//! the Collector's keys (`tls`, `auth`, `bearertokenauth`).
//!
//! A crate of its own because the gateway and the query listener must not know each other, and one policy must
//! hold at both doors; exporters and our own command line clients prove themselves to the same doors.
//!
//! | module | does |
//! |---|---|
//! | [`door`] | what one listener asks of those who come |
//! | [`server`] | a listener's `tls`, and the handshake of one connection |
//! | [`listener`] | accepts where nobody else has a loop: handshakes beside each other |
//! | [`client`] | a client's `tls`, and the connector for hyper and tonic |
//! | [`bearer`] | `bearertokenauth`: the check of a request, and the header of a client |
//! | [`scram`] | the same tokens, proved without being sent: SCRAM-SHA-256 |
//! | `suites`, `material` | versions, ciphers and curves; PEM from files and from the configuration |
//! | `watched` | what is read again when its files change |
//! | `stream` | a connection with or without TLS |
//! | [`time_span`] | `500ms`, `30s`, `1m30s` |
//!
//! It knows nothing of ours: not OTLP, not SQL, no file but key material. It does not answer requests: what a
//! refused peer is told is the matter of who serves.
//!
//! # Limits
//!
//! TLS 1.2 and 1.3 by rustls with the `ring` provider. No revocation lists, no client certificate from a TPM, no
//! encrypted private keys. A certificate's names are not mapped to rights: who proves a certificate of the
//! configured authorities, or a token, may do everything that the listener offers.
//!
//! # Decided
//!
//! **Files are compared by content, not by time**: a rotation by symbolic link, a copied file and a clock that
//! jumps are all seen, and these files are small. A pair that does not work (half of it replaced, garbage) leaves
//! the one before in use, and is logged once.
//!
//! **A new client CA starts a new session cache**: a session that was resumed would not show its certificate again.

pub mod bearer;
pub mod client;
pub mod door;
pub mod listener;
pub mod scram;
pub mod server;
pub mod time_span;

mod error;
mod material;
mod secret;
mod stream;
mod suites;
mod watched;

#[cfg(any(test, feature = "testing"))]
#[expect(
    clippy::expect_used,
    reason = "a test that cannot make its certificates has to stop"
)]
pub mod testing;

#[cfg(test)]
mod tests;

pub use crate::{
    bearer::{
        Auth, Authenticators, BearerTokenAuth, TokenCheck, TokenId, TokenSource, Unauthenticated,
    },
    client::{ClientTls, ConnectError, Connector},
    door::Door,
    error::{Error, Result},
    listener::Listener,
    scram::Scram,
    secret::Secret,
    server::{Acceptor, HandshakeError, HandshakeFailure, HandshakeFailures, ServerTls},
    stream::Stream,
    suites::Alpn,
};

//! Raw bytes against a listener on the loopback.

mod attacks;
mod bytes;
mod client;
mod proof;
mod protocol;
mod statement_log;
mod tools;

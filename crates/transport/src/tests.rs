//! Both sides against each other, over real sockets.

mod bearer;
mod handshake;
mod settings;

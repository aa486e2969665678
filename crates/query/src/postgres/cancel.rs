//! Requests to stop a statement, which come on a connection of their own.
//!
//! A connection is told a process number and a secret, both random, when it begins; who knows both may stop what the
//! connection is doing at that moment. A request is never answered, so that nothing can be learned from it. As in
//! Postgres it is taken without TLS and token: older clients have no other way, and the numbers are its proof.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;
use uuid::Uuid;

/// The connections that can be asked to stop.
#[derive(Debug, Default)]
pub(crate) struct Cancels {
    known: Mutex<HashMap<i32, (i32, Arc<Notify>)>>,
}

/// What one connection is known by, as long as it lasts.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) process: i32,
    pub(crate) secret: i32,
    notify: Arc<Notify>,
    cancels: Arc<Cancels>,
}

impl Cancels {
    pub(crate) fn register(self: &Arc<Self>) -> Key {
        let notify = Arc::new(Notify::new());
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (process, secret) = loop {
            let (process, secret) = numbers();
            if !known.contains_key(&process) {
                break (process, secret);
            }
        };
        known.insert(process, (secret, Arc::clone(&notify)));
        Key {
            process,
            secret,
            notify,
            cancels: Arc::clone(self),
        }
    }

    /// Stops what the connection does now; nothing, if it does nothing or the numbers are wrong.
    pub(crate) fn cancel(&self, process: i32, secret: i32) {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((expected, notify)) = known.get(&process)
            && *expected == secret
        {
            notify.notify_waiters();
        }
    }
}

/// A positive number and a secret.
fn numbers() -> (i32, i32) {
    let (high, low) = Uuid::new_v4().as_u64_pair();
    // The middle of an UUID holds its version, which is not random.
    let [a, b, c, d, ..] = high.to_be_bytes();
    let [.., e, f, g, h] = low.to_be_bytes();
    let process = i32::from_be_bytes([a & 0x7f, b, c, d]);
    (process.max(1), i32::from_be_bytes([e, f, g, h]))
}

impl Key {
    /// Ends when somebody asks for it from now on.
    pub(crate) async fn cancelled(&self) {
        self.notify.notified().await;
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        let known = self.cancels.known.lock();
        let mut known = known.unwrap_or_else(PoisonError::into_inner);
        known.remove(&self.process);
    }
}

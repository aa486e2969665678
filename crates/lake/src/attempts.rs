//! Tries for a version of the log until one attempt settles it.
//!
//! A put that is not known to have made its version may have made it all the same: its answer was
//! lost, it lands later, or the store's client repeated it, met its own first put and calls that a
//! conflict. So an attempt sets the doubt before it puts, whatever the answer will be, and nobody
//! deletes files while there is doubt: the log may name them.

use std::time::Duration;

use uuid::Uuid;

use crate::error::{Error, Result};

/// Lost races before giving up. Sixteen writers at full speed lose about ten per commit.
const CONFLICTS_MAX: u32 = 64;
/// Attempts at a store that fails, before the caller is told. The store's client has repeated each
/// request by itself; the rows stay in memory and the caller comes back.
const FAILURES_MAX: u32 = 3;
const BACKOFF_MIN: Duration = Duration::from_millis(5);
const BACKOFF_MAX: Duration = Duration::from_secs(1);

/// What one attempt came to.
pub(crate) enum Attempt<T> {
    /// It is settled.
    Done(T),
    /// Another writer took the version, or what was prepared does not fit the log any more.
    Lost,
}

/// May an attempt have made its version unseen?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Doubt(bool);

impl Doubt {
    /// To be called before a put.
    pub(crate) fn set(&mut self) {
        self.0 = true;
    }

    pub(crate) fn is_set(self) -> bool {
        self.0
    }
}

/// Repeats an attempt while others are faster, and a few times while the store fails.
///
/// # Errors
///
/// [`Error::Contended`] when others are always faster; what the attempt says when it cannot be
/// retried or has failed too often.
pub(crate) fn until_settled<T>(
    table: &'static str,
    doubt: &mut Doubt,
    mut attempt: impl FnMut(&mut Doubt) -> Result<Attempt<T>>,
) -> Result<T> {
    let (mut conflicts, mut failures) = (0, 0);
    loop {
        match attempt(doubt) {
            Ok(Attempt::Done(done)) => return Ok(done),
            Ok(Attempt::Lost) => {
                conflicts += 1;
                if conflicts == CONFLICTS_MAX {
                    return Err(Error::Contended {
                        table,
                        attempts: conflicts,
                    });
                }
                back_off(conflicts);
            }
            Err(error) => {
                failures += 1;
                if failures == FAILURES_MAX || !error.is_retryable() {
                    return Err(error);
                }
                back_off(failures);
            }
        }
    }
}

/// Waits a random part of a time that doubles with each attempt, so that writers that met once do
/// not meet again.
fn back_off(attempt: u32) {
    let ceiling = BACKOFF_MIN
        .saturating_mul(1 << attempt.min(16))
        .min(BACKOFF_MAX);
    let random = Uuid::new_v4().as_u128() % ceiling.as_micros().max(1);
    std::thread::sleep(Duration::from_micros(random.try_into().unwrap_or_default()));
}

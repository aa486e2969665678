//! Who asks, and how many statements of theirs are under way.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use transport::TokenId;

use crate::error::{Error, Result};

/// Who a statement is counted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Asker {
    /// Who proved a token, whatever address they come from.
    Token(TokenId),
    /// Whoever comes from an address where no token is asked for.
    Address(IpAddr),
}

impl fmt::Display for Asker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token(token) => write!(f, "the token number {}", token.number()),
            Self::Address(address) => address.fmt(f),
        }
    }
}

/// Statements under way, by who asked. Holds only those who have one.
#[derive(Debug)]
pub(crate) struct Askers {
    statements_max: Option<NonZeroUsize>,
    counts: Mutex<HashMap<Asker, usize>>,
}

impl Askers {
    pub(crate) fn new(statements_max: Option<NonZeroUsize>) -> Self {
        Self {
            statements_max,
            counts: Mutex::default(),
        }
    }

    /// Counts a statement until the turn is dropped.
    pub(crate) fn enter(self: &Arc<Self>, asker: &Asker) -> Result<Turn> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(*asker).or_default();
        match self.statements_max {
            Some(statements_max) if *count >= statements_max.get() => Err(Error::BusyUser {
                user: asker.to_string(),
                statements_max: statements_max.get(),
            }),
            _ => {
                *count += 1;
                Ok(Turn {
                    askers: Arc::clone(self),
                    asker: *asker,
                })
            }
        }
    }
}

/// One statement under way.
#[derive(Debug)]
pub(crate) struct Turn {
    askers: Arc<Askers>,
    asker: Asker,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let counts = self.askers.counts.lock();
        let mut counts = counts.unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.asker) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.asker);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::num::NonZeroUsize;
    use std::sync::Arc;

    use super::{Asker, Askers};
    use crate::Error;

    #[test]
    fn a_turn_that_is_over_leaves_its_place_and_others_are_not_counted() {
        let askers = Arc::new(Askers::new(NonZeroUsize::new(1)));
        let one = Asker::Address(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let other = Asker::Address(IpAddr::V4(Ipv4Addr::BROADCAST));
        let turn = askers.enter(&one).unwrap();
        let error = askers.enter(&one).unwrap_err();
        assert!(matches!(error, Error::BusyUser { .. }), "{error}");
        let _other = askers.enter(&other).unwrap();
        drop(turn);
        drop(askers.enter(&one).unwrap());
        assert_eq!(askers.counts.lock().unwrap().len(), 1);
    }
}

//! Everything that a listener asks of those who come: `tls` and `auth`, side by side in its section.

use std::sync::Arc;

use http::HeaderMap;

use crate::{
    bearer::{Auth, Authenticators, TokenCheck, Unauthenticated},
    error::Result,
    server::{Acceptor, ServerTls},
    suites::Alpn,
};

/// What must be proved at one listener. The default asks nothing.
#[derive(Clone, Debug, Default)]
pub struct Door {
    /// The handshake, where there is one.
    pub tls: Option<Arc<Acceptor>>,
    /// The check of each request, where there is one.
    pub tokens: Option<Arc<TokenCheck>>,
}

impl Door {
    /// Checks everything but the files; `section` is the path of the section that has `tls` and `auth`.
    ///
    /// # Errors
    ///
    /// What [`Door::open`] would say without looking at a file.
    pub fn validate(
        section: &str,
        tls: Option<&ServerTls>,
        auth: Option<&Auth>,
        known: &Authenticators,
    ) -> Result<()> {
        if let Some(tls) = tls {
            tls.validate(&format!("{section}::tls"))?;
        }
        if let Some(auth) = auth {
            known.find(&format!("{section}::auth"), auth)?;
        }
        Ok(())
    }

    /// Reads key material and tokens. What is read again when it changes needs a Tokio runtime.
    ///
    /// # Errors
    ///
    /// Settings that contradict each other, an unknown authenticator, files that cannot be read or used.
    pub fn open(
        section: &str,
        tls: Option<&ServerTls>,
        auth: Option<&Auth>,
        known: &Authenticators,
        alpn: Alpn,
    ) -> Result<Door> {
        let tls = tls.map(|tls| Acceptor::open(&format!("{section}::tls"), tls, alpn));
        let tokens = auth.map(|auth| known.check(&format!("{section}::auth"), auth));
        Ok(Door {
            tls: tls.transpose()?.map(Arc::new),
            tokens: tokens.transpose()?.map(Arc::new),
        })
    }

    /// Looks at the head of a request.
    ///
    /// # Errors
    ///
    /// A token is asked for, and there is none that is known.
    pub fn check(&self, headers: &HeaderMap) -> Result<(), Unauthenticated> {
        match &self.tokens {
            Some(tokens) => tokens.check(headers).map(drop),
            None => Ok(()),
        }
    }
}

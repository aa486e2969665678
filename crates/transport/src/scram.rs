//! SCRAM-SHA-256 (RFC 5802 and 7677) with the known tokens as passwords: the listener's side.
//!
//! For protocols that ask for a password on a connection that may not be encrypted. What goes over the wire lets
//! nobody find a token that is not guessable, and cannot be used a second time.
//!
//! The user's name is not looked at: who has a token may come by any name. All tokens share one salt, so that the
//! proof alone tells which of them the client has. Channel binding is not offered; a client that insists on it is
//! refused.

use std::{fmt, num::NonZeroU32, sync::Arc};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use ring::{
    digest::{self, SHA256, SHA256_OUTPUT_LEN},
    hmac::{self, HMAC_SHA256},
    pbkdf2,
    rand::{SecureRandom, SystemRandom},
};
use subtle::ConstantTimeEq;

use crate::bearer::{Known, TokenId, Unauthenticated};

/// Name of the mechanism, as it is offered.
pub const MECHANISM: &str = "SCRAM-SHA-256";

/// What RFC 7677 asks for at least, and Postgres uses. Tokens are long and random, unlike passwords.
const ITERATIONS: NonZeroU32 = NonZeroU32::MIN.saturating_add(4095);

const SALT_BYTES: usize = 16;
const NONCE_BYTES: usize = 18;

/// Longest message of a client; a nonce has some 30 bytes.
const MESSAGE_MAX: usize = 2048;

type Hash = [u8; SHA256_OUTPUT_LEN];

/// What the tokens are checked by, without the tokens.
#[derive(Clone)]
pub(crate) struct Verifiers {
    salt: [u8; SALT_BYTES],
    keys: Vec<Keys>,
}

#[derive(Clone, Copy)]
struct Keys {
    stored: Hash,
    server: Hash,
}

impl Verifiers {
    fn derive(known: &Known) -> Option<Verifiers> {
        let mut salt = [0; SALT_BYTES];
        SystemRandom::new().fill(&mut salt).ok()?;
        let keys = known.tokens.iter();
        let keys = keys.map(|token| Keys::derive(token.expose().as_bytes(), &salt));
        Some(Verifiers {
            salt,
            keys: keys.collect(),
        })
    }
}

impl Keys {
    fn derive(password: &[u8], salt: &[u8]) -> Keys {
        let mut salted: Hash = [0; SHA256_OUTPUT_LEN];
        let algorithm = pbkdf2::PBKDF2_HMAC_SHA256;
        pbkdf2::derive(algorithm, ITERATIONS, salt, password, &mut salted);
        let client = sign(&salted, b"Client Key");
        Keys {
            stored: hash(digest::digest(&SHA256, &client).as_ref()),
            server: sign(&salted, b"Server Key"),
        }
    }
}

fn sign(key: &[u8], message: &[u8]) -> Hash {
    hash(hmac::sign(&hmac::Key::new(HMAC_SHA256, key), message).as_ref())
}

fn hash(bytes: &[u8]) -> Hash {
    let mut out = [0; SHA256_OUTPUT_LEN];
    for (to, from) in out.iter_mut().zip(bytes) {
        *to = *from;
    }
    out
}

/// One exchange. Each step takes a message of the client.
pub struct Scram {
    known: Arc<Known>,
    step: Step,
}

enum Step {
    First,
    Final(Box<Begun>),
    Over,
}

struct Begun {
    /// What the client's second message must begin with.
    begin: String,
    /// Both first messages, each with a comma behind it.
    signed: String,
}

/// What the listener answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Go on with this message.
    Continue(String),
    /// Proved; the client wants to see this message.
    Proved {
        /// The proof of the listener.
        message: String,
        /// Which token.
        token: TokenId,
    },
}

impl Scram {
    pub(crate) fn new(known: Arc<Known>) -> Scram {
        Scram {
            known,
            step: Step::First,
        }
    }

    /// Takes the client's next message.
    ///
    /// # Errors
    ///
    /// A message that is not of this exchange, or a proof of none of the tokens. The exchange is over then.
    pub fn next(&mut self, message: &[u8]) -> Result<Reply, Unauthenticated> {
        let mut nonce = [0; NONCE_BYTES];
        let filled = SystemRandom::new().fill(&mut nonce);
        filled.map_err(|_| Unauthenticated::Malformed)?;
        self.next_with(message, &BASE64_STANDARD.encode(nonce))
    }

    fn next_with(&mut self, message: &[u8], nonce: &str) -> Result<Reply, Unauthenticated> {
        let wrong = Unauthenticated::Malformed;
        let message = std::str::from_utf8(message).map_err(|_| wrong)?;
        if message.len() > MESSAGE_MAX {
            return Err(wrong);
        }
        match std::mem::replace(&mut self.step, Step::Over) {
            Step::First => {
                let verifiers = self.verifiers().ok_or(wrong)?;
                let (reply, begun) = begin(message, nonce, &verifiers.salt).ok_or(wrong)?;
                self.step = Step::Final(Box::new(begun));
                Ok(Reply::Continue(reply))
            }
            Step::Final(begun) => {
                let verifiers = self.verifiers().ok_or(wrong)?;
                finish(message, &begun, verifiers)
            }
            Step::Over => Err(wrong),
        }
    }

    fn verifiers(&self) -> Option<&Verifiers> {
        if let Some(verifiers) = self.known.verifiers.get() {
            return Some(verifiers);
        }
        let verifiers = Verifiers::derive(&self.known)?;
        Some(self.known.verifiers.get_or_init(|| verifiers))
    }
}

impl fmt::Debug for Scram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scram")
    }
}

/// The answer to the client's first message, and what to keep of it.
fn begin(message: &str, nonce: &str, salt: &[u8]) -> Option<(String, Begun)> {
    let mut parts = message.splitn(3, ',');
    let (binding, identity, bare) = (parts.next()?, parts.next()?, parts.next()?);
    let is_without_binding = matches!(binding, "n" | "y");
    let is_nobody_else = identity.is_empty() || identity.starts_with("a=");
    if !is_without_binding || !is_nobody_else {
        return None;
    }
    let mut attributes = bare.split(',');
    attributes.next()?.strip_prefix("n=")?;
    let of_client = attributes.next()?.strip_prefix("r=")?;
    if of_client.is_empty() || !of_client.bytes().all(|byte| byte.is_ascii_graphic()) {
        return None;
    }
    let nonce = format!("{of_client}{nonce}");
    let salt = BASE64_STANDARD.encode(salt);
    let reply = format!("r={nonce},s={salt},i={ITERATIONS}");
    let header = BASE64_STANDARD.encode(format!("{binding},{identity},"));
    let begun = Begun {
        begin: format!("c={header},r={nonce}"),
        signed: format!("{bare},{reply},"),
    };
    Some((reply, begun))
}

fn finish(message: &str, begun: &Begun, verifiers: &Verifiers) -> Result<Reply, Unauthenticated> {
    let wrong = Unauthenticated::Malformed;
    let (before, proof) = message.rsplit_once(",p=").ok_or(wrong)?;
    if before != begun.begin {
        return Err(wrong);
    }
    let proof = BASE64_STANDARD.decode(proof).map_err(|_| wrong)?;
    if proof.len() != SHA256_OUTPUT_LEN {
        return Err(wrong);
    }
    let signed = format!("{}{before}", begun.signed);
    let mut found = None;
    for (idx, keys) in verifiers.keys.iter().enumerate() {
        let mut client = sign(&keys.stored, signed.as_bytes());
        for (byte, proof) in client.iter_mut().zip(&proof) {
            *byte ^= proof;
        }
        let stored = digest::digest(&SHA256, &client);
        if bool::from(stored.as_ref().ct_eq(&keys.stored)) {
            found = Some((TokenId(idx), sign(&keys.server, signed.as_bytes())));
        }
    }
    let (token, signature) = found.ok_or(Unauthenticated::Unknown)?;
    Ok(Reply::Proved {
        message: format!("v={}", BASE64_STANDARD.encode(signature)),
        token,
    })
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, prelude::BASE64_STANDARD};

    use super::{Keys, Reply, Verifiers, begin, finish};
    use crate::bearer::{TokenId, Unauthenticated};

    /// The example of RFC 7677.
    const FIRST: &str = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
    const NONCE: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    const SALT: &str = "W22ZaJ0SNY7soEsUEjb6gQ==";
    const FINAL: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                         p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";

    fn verifiers(passwords: &[&str]) -> Verifiers {
        let salt = BASE64_STANDARD.decode(SALT).unwrap();
        let keys = passwords.iter();
        let keys = keys.map(|password| Keys::derive(password.as_bytes(), &salt));
        Verifiers {
            keys: keys.collect(),
            salt: salt.try_into().unwrap(),
        }
    }

    fn exchange(first: &str, last: &str, passwords: &[&str]) -> Result<Reply, Unauthenticated> {
        let verifiers = verifiers(passwords);
        let begun = begin(first, NONCE, &verifiers.salt);
        let (_, begun) = begun.ok_or(Unauthenticated::Malformed)?;
        finish(last, &begun, &verifiers)
    }

    #[test]
    fn the_example_of_the_rfc_is_proved_by_whichever_token_it_is() {
        let (reply, _) = begin(FIRST, NONCE, &verifiers(&[]).salt).unwrap();
        assert_eq!(
            reply,
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
        );
        let message = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=".to_owned();
        let token = TokenId(1);
        assert_eq!(
            exchange(FIRST, FINAL, &["other", "pencil"]),
            Ok(Reply::Proved { message, token })
        );
        assert_eq!(
            exchange(FIRST, FINAL, &["other"]),
            Err(Unauthenticated::Unknown)
        );
    }

    #[test]
    fn what_is_not_of_the_exchange_is_refused() {
        let wrong = Err(Unauthenticated::Malformed);
        for first in [
            "",
            "n",
            "n,,",
            "n,,n=user",
            "n,,r=nonce",
            "n,,n=user,r=",
            "n,b=x,n=user,r=nonce",
            "p=tls-exporter,,n=user,r=rOprNGfwEbeRWgbNEkqO",
        ] {
            assert_eq!(exchange(first, FINAL, &["pencil"]), wrong, "{first}");
        }
        for last in [
            "",
            "c=biws",
            "p=",
            &FINAL.replace("c=biws", "c=eSws"),
            &FINAL.replace("$k0", "$k1"),
            &FINAL.replace("p=dHzb", "p=!"),
            &FINAL.replace("VQ=", ""),
        ] {
            assert_eq!(exchange(FIRST, last, &["pencil"]), wrong, "{last}");
        }
        let other = FINAL.replace("p=d", "p=e");
        assert_eq!(
            exchange(FIRST, &other, &["pencil"]),
            Err(Unauthenticated::Unknown)
        );
    }
}

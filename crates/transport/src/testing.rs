//! Certificates for tests, made on the spot. Every name is good for `localhost` and `127.0.0.1`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// A certificate authority.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its certificate.
    pub pem: String,
}

/// A certificate and its private key, as PEM.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The certificate.
    pub cert: String,
    /// The private key.
    pub key: String,
}

fn params(name: &str) -> CertificateParams {
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let mut params = CertificateParams::new(names).expect("the names are plain");
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn key() -> KeyPair {
    KeyPair::generate().expect("there are random numbers")
}

impl Authority {
    /// A new one.
    pub fn new(name: &str) -> Authority {
        let mut params = params(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = key();
        let certificate = params.self_signed(&key).expect("a CA signs itself");
        Authority {
            pem: certificate.pem(),
            issuer: Issuer::new(params, key),
        }
    }

    /// A certificate that it vouches for.
    pub fn issue(&self, name: &str) -> Pair {
        let key = key();
        let certificate = params(name).signed_by(&key, &self.issuer);
        Pair {
            cert: certificate.expect("a CA signs").pem(),
            key: key.serialize_pem(),
        }
    }
}

/// A certificate that nobody vouches for.
pub fn self_signed(name: &str) -> Pair {
    let key = key();
    let certificate = params(name).self_signed(&key);
    Pair {
        cert: certificate.expect("a key signs itself").pem(),
        key: key.serialize_pem(),
    }
}

impl Pair {
    /// Writes `NAME.crt` and `NAME.key`, each at once; their paths.
    pub fn write(&self, folder: &Path, name: &str) -> (String, String) {
        let cert = write(folder, &format!("{name}.crt"), &self.cert);
        (cert, write(folder, &format!("{name}.key"), &self.key))
    }
}

/// Replaces a file at once; its path.
pub fn write(folder: &Path, name: &str, text: &str) -> String {
    let path: PathBuf = folder.join(name);
    let new = folder.join(format!("{name}.new"));
    fs::write(&new, text).expect("the folder can be written");
    fs::rename(&new, &path).expect("a file can be replaced");
    path.display().to_string()
}

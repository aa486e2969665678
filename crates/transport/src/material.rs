//! Certificates and keys in PEM form, from a file or from the configuration itself.

use std::{fs, path::PathBuf};

use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

use crate::{
    error::{Error, Result},
    secret::Secret,
};

/// Where bytes come from, with the whole path of the key that says so.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) key: String,
    from: From,
}

#[derive(Clone, Debug)]
enum From {
    File(PathBuf),
    Text(Secret),
}

impl Source {
    pub(crate) fn file(section: &str, name: &'static str, path: &str) -> Source {
        Source {
            key: format!("{section}::{name}"),
            from: From::File(PathBuf::from(path)),
        }
    }

    /// One of two keys, of which at most one may be set.
    pub(crate) fn either(
        section: &str,
        (file_name, file): (&'static str, &str),
        (text_name, text): (&'static str, &Secret),
    ) -> Result<Option<Source>> {
        match (file, text.expose()) {
            ("", "") => Ok(None),
            (file, "") => Ok(Some(Source::file(section, file_name, file))),
            ("", _) => Ok(Some(Source {
                key: format!("{section}::{text_name}"),
                from: From::Text(text.clone()),
            })),
            _ => Err(Error::Both {
                key: section.to_owned(),
                first: file_name,
                second: text_name,
            }),
        }
    }

    pub(crate) fn read(&self) -> Result<Vec<u8>> {
        match &self.from {
            From::Text(text) => Ok(text.expose().as_bytes().to_vec()),
            From::File(path) => fs::read(path).map_err(|source| Error::Read {
                key: self.key.clone(),
                path: path.clone(),
                source,
            }),
        }
    }

    pub(crate) fn is_file(&self) -> bool {
        matches!(self.from, From::File(_))
    }

    /// All certificates, in their order.
    pub(crate) fn certificates(&self, bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
        match read {
            Ok(certificates) if !certificates.is_empty() => Ok(certificates),
            _ => Err(self.no_pem("certificate")),
        }
    }

    /// The first private key. What is wrong with one is not told: it would show a part of it.
    pub(crate) fn private_key(&self, bytes: &[u8]) -> Result<PrivateKeyDer<'static>> {
        PrivateKeyDer::from_pem_slice(bytes).map_err(|_| self.no_pem("private key"))
    }

    /// Adds every certificate of a bundle.
    pub(crate) fn add_authorities(&self, bytes: &[u8], roots: &mut RootCertStore) -> Result<()> {
        for certificate in self.certificates(bytes)? {
            roots.add(certificate).map_err(|error| Error::Authority {
                key: self.key.clone(),
                problem: error.to_string(),
            })?;
        }
        Ok(())
    }

    fn no_pem(&self, what: &'static str) -> Error {
        Error::Pem {
            key: match &self.from {
                From::File(path) => format!("{}: {}", self.key, path.display()),
                From::Text(_) => self.key.clone(),
            },
            what,
        }
    }
}

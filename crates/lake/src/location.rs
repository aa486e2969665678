//! Where a lake lives: a local folder or a prefix of an S3 bucket.
//!
//! S3 options come from the environment (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`,
//! `AWS_SESSION_TOKEN`, `AWS_DEFAULT_REGION`, `AWS_ENDPOINT_URL`, `AWS_ALLOW_HTTP`, web identity and
//! container credentials; the list is `object_store`'s `AmazonS3Builder::from_env`) and are
//! overridden by [`Location::with_options`]. The store must answer conditional puts
//! (`If-None-Match`): S3, R2, `MinIO`, Ceph and `SeaweedFS` do.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path as FsPath, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, S3ConditionalPut};
use object_store::{ObjectStore, RetryConfig};
use url::Url;

use crate::error::{Error, Result};
use crate::synced::SyncedFolder;

/// The longest time in which the S3 client repeats one request by itself. Longer outages are
/// reported, so that a commit neither blocks its stage for minutes nor signs with old credentials.
const S3_RETRY_TIMEOUT: Duration = Duration::from_secs(30);
/// How often the S3 client repeats one request by itself.
const S3_RETRIES_MAX: usize = 6;

/// A checked place for a lake; opens nothing by itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Location {
    /// Always ends with a slash.
    root: Url,
    options: BTreeMap<String, String>,
}

impl Location {
    /// Parses a folder (absolute, or relative to the working directory), a `file://` URL, or
    /// `s3://bucket/prefix`.
    ///
    /// # Errors
    ///
    /// [`Error::UnsupportedScheme`] for other schemes, [`Error::InvalidLocation`] for an empty
    /// text or a URL without a bucket.
    pub fn parse(text: &str) -> Result<Self> {
        let invalid = |source: Box<dyn std::error::Error + Send + Sync>| Error::InvalidLocation {
            location: text.to_owned(),
            source,
        };
        let root = match text.split_once("://") {
            Some(("s3", _)) => {
                let url = Url::parse(text).map_err(|error| invalid(error.into()))?;
                if url.host_str().is_none_or(str::is_empty) {
                    return Err(invalid("the URL names no bucket".into()));
                }
                directory_url(url)
            }
            Some(("file", _)) => {
                directory_url(Url::parse(text).map_err(|error| invalid(error.into()))?)
            }
            Some((scheme, _)) => {
                return Err(Error::UnsupportedScheme {
                    location: text.to_owned(),
                    scheme: scheme.to_owned(),
                });
            }
            None => {
                let path = std::path::absolute(text).map_err(|error| invalid(error.into()))?;
                Url::from_directory_path(path)
                    .map_err(|()| invalid("the path is not absolute".into()))?
            }
        };
        Ok(Self {
            root,
            options: BTreeMap::new(),
        })
    }

    /// Adds object store options, by the names of `object_store` (`aws_endpoint`, `region`, ...);
    /// they win over the environment. A local folder ignores them.
    #[must_use]
    pub fn with_options(mut self, options: impl IntoIterator<Item = (String, String)>) -> Self {
        self.options.extend(options);
        self
    }

    /// The root as a URL that ends with a slash: `file:///...` or `s3://bucket/prefix/`.
    pub fn root_url(&self) -> &Url {
        &self.root
    }

    /// The local folder, if it is one.
    pub fn local_path(&self) -> Option<PathBuf> {
        (self.root.scheme() == "file")
            .then(|| self.root.to_file_path().ok())
            .flatten()
    }

    /// Opens the object store; its paths are those of the URL (whole bucket, whole file system).
    /// `create` makes a missing local folder.
    ///
    /// Returns the store and the root as the store sees it: symbolic links of a local folder are
    /// resolved, because the Delta kernel resolves them too.
    pub(crate) fn open(&self, create: bool) -> Result<(Arc<dyn ObjectStore>, Url)> {
        match self.local_path() {
            Some(path) => {
                let root = self.resolved(&path, create)?;
                Ok((Arc::new(SyncedFolder::new()), root))
            }
            None => Ok((Arc::new(self.s3()?), self.root.clone())),
        }
    }

    fn resolved(&self, path: &FsPath, create: bool) -> Result<Url> {
        let invalid = |source: std::io::Error| Error::InvalidLocation {
            location: path.display().to_string(),
            source: source.into(),
        };
        if create {
            std::fs::create_dir_all(path).map_err(invalid)?;
        } else if !path.exists() {
            // The tables report themselves missing, with their names.
            return Ok(self.root.clone());
        }
        let path = path.canonicalize().map_err(invalid)?;
        Ok(Url::from_directory_path(path).unwrap_or_else(|()| self.root.clone()))
    }

    fn s3(&self) -> Result<impl ObjectStore> {
        let retry = RetryConfig {
            max_retries: S3_RETRIES_MAX,
            retry_timeout: S3_RETRY_TIMEOUT,
            ..RetryConfig::default()
        };
        let bucket = self.root.host_str().unwrap_or_default();
        let mut builder = AmazonS3Builder::from_env()
            .with_bucket_name(bucket)
            .with_conditional_put(S3ConditionalPut::ETagMatch)
            .with_retry(retry);
        for (option, value) in &self.options {
            let key: AmazonS3ConfigKey =
                option
                    .to_ascii_lowercase()
                    .parse()
                    .map_err(|source| Error::UnknownOption {
                        option: option.clone(),
                        source,
                    })?;
            builder = builder.with_config(key, value);
        }
        builder
            .build()
            .map_err(|source| Error::store("open", &self.root, source))
    }
}

/// Shows the root and the names of the options; their values may be secrets.
impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Location")
            .field("root", &self.root.as_str())
            .field("options", &self.options.keys().collect::<Vec<_>>())
            .finish()
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.local_path() {
            Some(path) => write!(f, "{}", path.display()),
            None => f.write_str(self.root.as_str()),
        }
    }
}

impl std::str::FromStr for Location {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

fn directory_url(mut url: Url) -> Url {
    url.set_query(None);
    url.set_fragment(None);
    if !url.path().ends_with('/') {
        url.set_path(&format!("{}/", url.path()));
    }
    url
}

//! How a command of ours knows a server over TLS, and proves itself to it: options that all of them share.
//!
//! A token comes from a file or the environment, never from the command line, where every user of the machine
//! could read it.

use std::sync::Arc;

use anyhow::Context as _;
use loadgen::client::{Endpoint, Protocol};
use transport::{BearerTokenAuth, ClientTls, Secret, TokenSource};

/// The token, where no file is given. Not an option of clap's, which would show its value in `--help`.
const TOKEN_VARIABLE: &str = "WHYSLOW_TOKEN";

/// Options for servers with TLS or tokens.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct ConnectArgs {
    /// TLS: authorities of the server's certificate, PEM; without it, those of the system. An address without a
    /// scheme is `https` then.
    #[arg(long, value_name = "FILE", env = "WHYSLOW_CA_FILE")]
    ca_file: Option<String>,
    /// TLS: certificate to show to the server, PEM.
    #[arg(long, value_name = "FILE", requires = "key_file")]
    cert_file: Option<String>,
    /// TLS: private key of that certificate, PEM.
    #[arg(long, value_name = "FILE", requires = "cert_file")]
    key_file: Option<String>,
    /// TLS: name of the server's certificate, where it is not the host of the address.
    #[arg(long, value_name = "HOST")]
    server_name: Option<String>,
    /// TLS: take any certificate of the server. Whoever is in between can read and change everything.
    #[arg(long)]
    insecure_skip_verify: bool,
    /// File with a bearer token; without it the variable `WHYSLOW_TOKEN` is sent, if it is set.
    #[arg(long, value_name = "FILE")]
    token_file: Option<String>,
}

impl ConnectArgs {
    /// Whether an address without a scheme is asked for TLS: something here makes sense with it alone.
    pub(crate) fn is_secure(&self) -> bool {
        self.ca_file.is_some()
            || self.cert_file.is_some()
            || self.server_name.is_some()
            || self.insecure_skip_verify
    }

    /// How the server is known, and what is shown to it.
    pub(crate) fn tls(&self) -> ClientTls {
        let text = |option: &Option<String>| option.clone().unwrap_or_default();
        ClientTls {
            ca_file: text(&self.ca_file),
            cert_file: text(&self.cert_file),
            key_file: text(&self.key_file),
            server_name_override: text(&self.server_name),
            insecure_skip_verify: self.insecure_skip_verify,
            ..ClientTls::default()
        }
    }

    /// The token of the file, else of the environment. Needs a Tokio runtime.
    pub(crate) fn token(&self) -> anyhow::Result<Option<TokenSource>> {
        let variable = std::env::var(TOKEN_VARIABLE).unwrap_or_default();
        let (key, settings) = match &self.token_file {
            Some(file) => (
                "--token-file",
                BearerTokenAuth {
                    filename: file.clone(),
                    ..BearerTokenAuth::default()
                },
            ),
            None if variable.is_empty() => return Ok(None),
            None => (
                TOKEN_VARIABLE,
                BearerTokenAuth {
                    token: Secret::new(variable),
                    ..BearerTokenAuth::default()
                },
            ),
        };
        let token = TokenSource::open(key, &settings).context("read the token")?;
        Ok(Some(token))
    }

    /// An OTLP client for this address, with everything else by default.
    pub(crate) fn client(
        &self,
        address: &str,
        protocol: Protocol,
    ) -> anyhow::Result<loadgen::client::Config> {
        let endpoint = if self.is_secure() {
            Endpoint::parse_secure(address, protocol)?
        } else {
            Endpoint::parse(address, protocol)?
        };
        Ok(loadgen::client::Config {
            tls: self.tls(),
            token: self.token()?.map(Arc::new),
            ..loadgen::client::Config::new(endpoint, protocol)
        })
    }
}

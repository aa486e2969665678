//! `HOST`, `HOST:PORT`, `http://HOST:PORT/PATH` or `https://HOST:PORT/PATH`.

use std::fmt;

use http::Uri;
use http::uri::{Authority, Scheme};
use otlp::export::Signal;

use super::Protocol;
use crate::{Error, Result};

/// A server to send to, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    scheme: Scheme,
    authority: Authority,
    /// Begins with a slash and does not end with one; empty for none.
    path: String,
}

impl Endpoint {
    /// Reads an endpoint; a bare host gets the protocol's own port (4317 or 4318), and is not asked for TLS.
    ///
    /// # Errors
    ///
    /// The text is not an authority or URL, or carries credentials, or names a scheme other than `http` and
    /// `https`.
    pub fn parse(text: &str, protocol: Protocol) -> Result<Self> {
        Self::read(text, protocol, Scheme::HTTP)
    }

    /// The same; an endpoint without a scheme is asked for TLS.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::parse`].
    pub fn parse_secure(text: &str, protocol: Protocol) -> Result<Self> {
        Self::read(text, protocol, Scheme::HTTPS)
    }

    /// Whether the connection is to be a TLS one.
    pub fn is_secure(&self) -> bool {
        self.scheme == Scheme::HTTPS
    }

    fn read(text: &str, protocol: Protocol, scheme_default: Scheme) -> Result<Self> {
        if text.contains('@') {
            return Err(Error::EndpointCredentials);
        }
        let syntax = || Error::EndpointSyntax {
            endpoint: text.to_owned(),
        };
        let has_scheme = text.contains("://");
        let uri: Uri = if has_scheme {
            text.parse::<Uri>()
        } else {
            format!("{scheme_default}://{text}").parse::<Uri>()
        }
        .map_err(|_invalid| syntax())?;
        let scheme = uri.scheme().ok_or_else(syntax)?.clone();
        if scheme != Scheme::HTTP && scheme != Scheme::HTTPS {
            return Err(Error::EndpointScheme {
                scheme: scheme.to_string(),
            });
        }
        if uri.query().is_some() {
            return Err(syntax());
        }
        let mut authority = uri.authority().ok_or_else(syntax)?.clone();
        if authority.host().is_empty() {
            return Err(syntax());
        }
        if authority.port_u16().is_none() {
            if authority.as_str().len() != authority.host().len() {
                // A colon without a port, or a port past 65535.
                return Err(syntax());
            }
            if !has_scheme {
                authority = format!("{authority}:{}", protocol.default_port())
                    .parse()
                    .map_err(|_invalid| syntax())?;
            }
        }
        let path = uri.path().trim_end_matches('/').to_owned();
        if protocol == Protocol::Grpc && !path.is_empty() {
            return Err(Error::EndpointPath {
                endpoint: text.to_owned(),
            });
        }
        Ok(Self {
            scheme,
            authority,
            path,
        })
    }

    /// The URL without a path, for gRPC.
    pub(super) fn origin(&self) -> String {
        format!("{}://{}", self.scheme, self.authority)
    }

    /// The URL to post a signal to: the usual path is added unless the endpoint already ends with
    /// it.
    pub(super) fn url(&self, signal: Signal) -> String {
        let usual = match signal {
            Signal::Traces => "/v1/traces",
            Signal::Metrics => "/v1/metrics",
            Signal::Logs => "/v1/logs",
        };
        let path = self.path.strip_suffix(usual).unwrap_or(&self.path);
        format!("{}://{}{path}{usual}", self.scheme, self.authority)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            scheme,
            authority,
            path,
        } = self;
        write!(formatter, "{scheme}://{authority}{path}")
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use otlp::export::Signal;

    use super::{Endpoint, Protocol};

    fn check(text: &str, protocol: Protocol, expected: Expect) {
        let told = match Endpoint::parse(text, protocol) {
            Ok(endpoint) if protocol == Protocol::Grpc => endpoint.origin(),
            Ok(endpoint) => endpoint.url(Signal::Traces),
            Err(error) => format!("error: {error}"),
        };
        expected.assert_eq(&told);
    }

    #[test]
    fn a_host_alone_gets_the_port_of_its_protocol() {
        check("gateway", Protocol::Grpc, expect!["http://gateway:4317"]);
        check(
            "gateway",
            Protocol::HttpJson,
            expect!["http://gateway:4318/v1/traces"],
        );
        check("[::1]", Protocol::Grpc, expect!["http://[::1]:4317"]);
    }

    #[test]
    fn a_given_port_and_path_stay() {
        check(
            "127.0.0.1:5000",
            Protocol::Grpc,
            expect!["http://127.0.0.1:5000"],
        );
        check(
            "http://[::1]:5000/",
            Protocol::Grpc,
            expect!["http://[::1]:5000"],
        );
        check(
            "http://host:1/otlp/",
            Protocol::HttpProtobuf,
            expect!["http://host:1/otlp/v1/traces"],
        );
        check(
            "http://host:1/otlp/v1/traces",
            Protocol::HttpProtobuf,
            expect!["http://host:1/otlp/v1/traces"],
        );
        check(
            "http://host",
            Protocol::HttpProtobuf,
            expect!["http://host/v1/traces"],
        );
    }

    #[test]
    fn tls_is_asked_for_by_the_scheme_or_by_the_caller() {
        check(
            "https://host:1",
            Protocol::HttpJson,
            expect!["https://host:1/v1/traces"],
        );
        for (text, expected) in [
            ("host", "https://host:4317"),
            ("http://host:1", "http://host:1"),
        ] {
            let endpoint = Endpoint::parse_secure(text, Protocol::Grpc).unwrap();
            assert_eq!(endpoint.origin(), expected);
            assert_eq!(endpoint.is_secure(), expected.starts_with("https"));
        }
    }

    #[test]
    fn an_unusable_endpoint_says_why_and_repeats_no_password() {
        check(
            "ftp://host:4318",
            Protocol::HttpJson,
            expect!["error: endpoint scheme `ftp` is not supported, only `http` and `https`"],
        );
        check(
            "http://user:secret@host:4318",
            Protocol::HttpJson,
            expect!["error: endpoint holds credentials, which are not supported"],
        );
        check(
            "http://host:4317/v1/traces",
            Protocol::Grpc,
            expect![
                "error: gRPC endpoint `http://host:4317/v1/traces` has a path; use HTTP or leave the path out"
            ],
        );
        for text in [
            "",
            ":4317",
            "host:99999",
            "host:",
            "http://",
            "a b",
            "host:1?x=1",
        ] {
            let told = Endpoint::parse(text, Protocol::HttpProtobuf)
                .unwrap_err()
                .to_string();
            assert_eq!(
                told,
                format!("endpoint `{text}` is not `HOST:PORT` or `http://HOST:PORT`"),
                "{text}"
            );
        }
    }
}

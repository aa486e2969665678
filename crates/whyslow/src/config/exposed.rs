//! Listeners that others than this machine can reach, and what they let through.

use std::net::{IpAddr, SocketAddr};

use transport::{Auth, ServerTls};

use super::Config;
use super::error::Warning;
use super::tree::Node;

const REMEDY: &str = "set `tls` with `client_ca_file`, or `tls` and `auth`; or listen on 127.0.0.1 where all \
                      senders are on this machine or a proxy on it asks for proof";

/// Warns of each listener on an address that is not of this machine alone, without encryption or without proof.
pub(super) fn warn(config: &Config, root: &Node, warnings: &mut Vec<Warning>) {
    let protocols = &config.gateway.otlp.protocols;
    let at = |keys: &[&str]| keys.iter().try_fold(root, |node, key| node.child(key));
    let mut look = |keys: &[&str], endpoint: &str, tls: Option<&ServerTls>, auth: Option<&Auth>| {
        if let Some(fault) = fault(endpoint, tls, auth) {
            let line = at(keys).map_or(0, |node| node.line);
            let mut warning = Warning::new(&keys.join("::"), line, fault);
            warning.remedy = Some(REMEDY);
            warnings.push(warning);
        }
    };
    if let Some(grpc) = &protocols.grpc {
        let keys = ["receivers", "otlp", "protocols", "grpc"];
        look(&keys, &grpc.endpoint, grpc.tls.as_ref(), grpc.auth.as_ref());
    }
    if let Some(http) = &protocols.http {
        let keys = ["receivers", "otlp", "protocols", "http"];
        look(&keys, &http.endpoint, http.tls.as_ref(), http.auth.as_ref());
    }
    if let Some(query) = &config.query {
        let endpoint = query.endpoint.to_string();
        let (tls, auth) = (query.tls.as_ref(), query.auth.as_ref());
        look(&["extensions", "query"], &endpoint, tls, auth);
        if query.postgres.enabled {
            let door = &query.postgres;
            let (endpoint, keys) = (
                door.endpoint.to_string(),
                ["extensions", "query", "postgres"],
            );
            look(&keys, &endpoint, door.tls.as_ref(), door.auth.as_ref());
        }
        if query.flight_sql.enabled {
            let door = &query.flight_sql;
            let (endpoint, keys) = (
                door.endpoint.to_string(),
                ["extensions", "query", "flight_sql"],
            );
            look(&keys, &endpoint, door.tls.as_ref(), door.auth.as_ref());
        }
    }
}

fn fault(endpoint: &str, tls: Option<&ServerTls>, auth: Option<&Auth>) -> Option<String> {
    if is_loopback(endpoint) {
        return None;
    }
    let has_proof = auth.is_some() || tls.is_some_and(|tls| !tls.client_ca_file.is_empty());
    let what = match (tls.is_some(), has_proof) {
        (true, true) => return None,
        (false, false) => "is open to other machines, without TLS and without `auth`",
        (false, true) => "is open to other machines without TLS: its tokens can be read on the way",
        (true, false) => {
            "is open to other machines, and asks for neither `auth` nor clients' certificates"
        }
    };
    Some(format!("`{endpoint}` {what}"))
}

/// A name other than `localhost` may stand for any address.
fn is_loopback(endpoint: &str) -> bool {
    if let Ok(addr) = endpoint.parse::<SocketAddr>() {
        return addr.ip().is_loopback();
    }
    let host = endpoint.rsplit_once(':').map_or(endpoint, |(host, _)| host);
    let ip: Result<IpAddr, _> = host.parse();
    host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use transport::{Auth, ServerTls};

    use super::{fault, is_loopback};

    #[test]
    fn only_addresses_of_this_machine_are_its_own() {
        for (endpoint, expected) in [
            ("127.0.0.1:4317", true),
            ("127.8.0.1:4317", true),
            ("[::1]:4317", true),
            ("localhost:4317", true),
            ("0.0.0.0:4317", false),
            ("[::]:4317", false),
            (":4317", false),
            ("gateway:4317", false),
            ("10.0.0.1:4317", false),
        ] {
            assert_eq!(is_loopback(endpoint), expected, "{endpoint}");
        }
    }

    #[test]
    fn encryption_and_proof_are_both_asked_for() {
        let auth = Auth {
            authenticator: "bearertokenauth".to_owned(),
        };
        let tls = ServerTls::default();
        let mut with_clients = ServerTls::default();
        with_clients.client_ca_file.push_str("ca.crt");
        let fault = |tls, auth| fault(":1", tls, auth).is_some();
        assert!(fault(None, None));
        assert!(fault(None, Some(&auth)));
        assert!(fault(Some(&tls), None));
        assert!(!fault(Some(&tls), Some(&auth)));
        assert!(!fault(Some(&with_clients), None));
    }
}

//! The doors to SQL beside HTTP: the protocol of Postgres and Arrow Flight SQL.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use query::{Connections, Engine, Entrance, flight, postgres};
use transport::{Alpn, Authenticators, Door, HandshakeFailures};

use super::ops::{Server, bind};

/// Counts of the doors, and of the statements that came through any of them.
#[derive(Debug, Default)]
pub(super) struct Doors {
    /// Set where SQL is answered.
    pub(super) engine: OnceLock<Arc<Engine>>,
    postgres: Counts,
    flight_sql: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    connections: Arc<Connections>,
    handshakes_failed: Arc<HandshakeFailures>,
}

impl Doors {
    /// As Prometheus text; nothing where there is no SQL.
    pub(super) fn render(&self) -> String {
        let Some(engine) = self.engine.get() else {
            return String::new();
        };
        let mut out = engine.metrics().render();
        out.push_str(Connections::HEADS);
        let doors = [
            (Entrance::Postgres, &self.postgres),
            (Entrance::FlightSql, &self.flight_sql),
        ];
        for (entrance, counts) in doors {
            out.push_str(&counts.connections.render(entrance));
        }
        out.push_str(
            "# HELP query_door_handshakes_failed_total TLS handshakes that came to nothing.\n\
             # TYPE query_door_handshakes_failed_total counter\n",
        );
        for (entrance, counts) in doors {
            let door = entrance.as_str();
            for (reason, n_handshakes) in counts.handshakes_failed.counts() {
                let reason = reason.as_str();
                out.push_str(&format!(
                    "query_door_handshakes_failed_total{{door=\"{door}\",reason=\"{reason}\"}} {n_handshakes}\n"
                ));
            }
        }
        out
    }
}

/// The protocol of Postgres.
pub(super) async fn postgres(
    config: &postgres::Config,
    known: &Authenticators,
    engine: &Arc<Engine>,
    doors: &Doors,
) -> anyhow::Result<(SocketAddr, Server)> {
    let section = "extensions::query::postgres";
    let (tls, auth) = (config.tls.as_ref(), config.auth.as_ref());
    let door = Door::open(section, tls, auth, known, Alpn::Postgres)?;
    let key = format!("{section}::endpoint");
    let listener = bind(&key, &config.endpoint.to_string()).await?;
    let addr = listener.local_addr()?;
    let server = postgres::Server::new(
        Arc::clone(engine),
        door,
        config.connections_max,
        Arc::clone(&doors.postgres.connections),
        Arc::clone(&doors.postgres.handshakes_failed),
    );
    let server = Server::run(|stopped| async move {
        server.serve(listener, stopped).await;
        Ok::<(), Infallible>(())
    });
    Ok((addr, server))
}

/// Arrow Flight SQL.
pub(super) async fn flight_sql(
    config: &flight::Config,
    known: &Authenticators,
    engine: &Arc<Engine>,
    doors: &Doors,
) -> anyhow::Result<(SocketAddr, Server)> {
    let section = "extensions::query::flight_sql";
    let (tls, auth) = (config.tls.as_ref(), config.auth.as_ref());
    let door = Door::open(section, tls, auth, known, Alpn::Http2)?;
    let key = format!("{section}::endpoint");
    let listener = bind(&key, &config.endpoint.to_string()).await?;
    let addr = listener.local_addr()?;
    let engine = Arc::clone(engine);
    let connections = Arc::clone(&doors.flight_sql.connections);
    let handshakes_failed = Arc::clone(&doors.flight_sql.handshakes_failed);
    let server = Server::run(|stopped| {
        flight::serve(
            engine,
            door,
            connections,
            handshakes_failed,
            listener,
            stopped,
        )
    });
    Ok((addr, server))
}

//! The exporters beside `lake`: which component is which, and what of it means nothing here.

use std::fmt::Write as _;

use gateway::export::balance::Loadbalancing;
use gateway::export::config::{ConfigError, Debug, OtlpGrpc, OtlpHttp, SendingQueue};
use transport::Authenticators;

use super::components::{Section, Used, type_of};
use super::de;
use super::error::{Error, Warning};

/// An exporter to another backend.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Exporter {
    /// `type/name`.
    pub(crate) id: String,
    /// Line of its section.
    pub(super) line: u64,
    pub(crate) kind: Kind,
}

/// What an exporter sends with.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    /// `otlp`, `otlp_grpc`.
    Grpc(Box<OtlpGrpc>),
    /// `otlp_http`, `otlphttp`.
    Http(Box<OtlpHttp>),
    /// `loadbalancing`.
    Balanced(Box<Loadbalancing>),
    /// `debug`.
    Debug(Debug),
}

/// Reads those that the pipeline names.
pub(super) fn read(used: &Used<'_>, warnings: &mut Vec<Warning>) -> Result<Vec<Exporter>, Error> {
    let mut exporters: Vec<Exporter> = Vec::new();
    for (id, node) in used.all() {
        let path = format!("{}::{id}", Section::Exporters.key());
        let kind = match type_of(id) {
            "otlp" | "otlp_grpc" => Kind::Grpc(de::read(node, &path)?),
            "otlp_http" | "otlphttp" => Kind::Http(de::read(node, &path)?),
            "loadbalancing" => Kind::Balanced(de::read(node, &path)?),
            "debug" => Kind::Debug(de::read(node, &path)?),
            _ => continue,
        };
        if exporters.iter().any(|known| known.id == id) {
            return Err(Error::at(
                &path,
                node.line,
                "is named twice by the pipeline",
            ));
        }
        for key in kind.unused() {
            let message =
                "accepted; it changes nothing here, where the queue is the log on the disk";
            let path = format!("{path}::{key}");
            warnings.push(Warning::new(&path, node.line, message));
        }
        exporters.push(Exporter {
            id: id.to_owned(),
            line: node.line,
            kind,
        });
    }
    Ok(exporters)
}

/// Wherever they are written.
pub(super) fn are_same(some: &[Exporter], others: &[Exporter]) -> bool {
    let same = |(a, b): (&Exporter, &Exporter)| a.id == b.id && a.kind == b.kind;
    some.len() == others.len() && some.iter().zip(others).all(same)
}

impl Exporter {
    /// Checks what types cannot say.
    pub(super) fn validate(&self, authenticators: &Authenticators) -> Result<(), Error> {
        let checked = match &self.kind {
            Kind::Grpc(grpc) => grpc.validate(authenticators),
            Kind::Http(http) => http.validate(authenticators),
            Kind::Balanced(balanced) => balanced.validate(authenticators),
            Kind::Debug(_) => Ok(()),
        };
        checked.map_err(|error: ConfigError| {
            let path = format!("{}::{}", Section::Exporters.key(), self.id);
            let message = crate::show::text::error_chain(&error);
            Error::at(&path, self.line, message)
        })
    }

    /// In words: where to and how.
    pub(crate) fn describe(&self) -> String {
        let mut out = match &self.kind {
            Kind::Grpc(grpc) => format!("OTLP/gRPC to {}", grpc.endpoint),
            Kind::Http(http) if http.traces_endpoint.is_empty() => {
                format!("OTLP/HTTP to {}", http.endpoint)
            }
            Kind::Http(http) => format!("OTLP/HTTP to {}", http.traces_endpoint),
            Kind::Balanced(balanced) => {
                format!("each trace by OTLP/gRPC to one of {}", balanced.describe())
            }
            Kind::Debug(debug) => format!("to this program's log, {:?}", debug.verbosity),
        };
        let retry = match &self.kind {
            Kind::Grpc(grpc) => grpc.retry_on_failure,
            Kind::Http(http) => http.retry_on_failure,
            Kind::Balanced(balanced) => balanced.protocol.otlp.retry_on_failure,
            Kind::Debug(_) => return out,
        };
        // Writing to a `String` cannot fail.
        match retry.max_elapsed_time {
            _ if !retry.enabled => out.push_str(", lost if an attempt fails"),
            never if never.is_zero() => out.push_str(", tried until it is taken"),
            limit => write!(out, ", tried for {limit:?} and then lost").unwrap_or_default(),
        }
        out
    }
}

impl Kind {
    /// How much is sent at once.
    pub(crate) fn queue(&self) -> SendingQueue {
        match self {
            Self::Grpc(grpc) => grpc.sending_queue.clone(),
            Self::Http(http) => http.sending_queue.clone(),
            Self::Balanced(balanced) => balanced.queue().clone(),
            Self::Debug(_) => SendingQueue::default(),
        }
    }

    fn unused(&self) -> Vec<&'static str> {
        match self {
            Self::Grpc(grpc) => grpc.unused(),
            Self::Http(http) => http.unused(),
            Self::Balanced(balanced) => balanced.unused(),
            Self::Debug(debug) => debug.unused(),
        }
    }
}

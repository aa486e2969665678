//! Limits of the query engine, each with a name and a reason.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use transport::{Auth, ServerTls};

use crate::{flight, postgres, statement_log};

const MIB: u64 = 1024 * 1024;

/// As many as the panels of a dashboard ask for at once.
const STATEMENTS_MAX: NonZeroUsize = NonZeroUsize::MIN.saturating_add(7);

/// What the engine and its listeners may use.
///
/// Memory is bounded by `statements_max * memory_mib` for running statements, plus
/// `metadata_cache_mib`, `id_filters_mib` and `small_files_mib`, plus what is held by rows on their way to clients (two batches each).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where HTTP listens. Default `127.0.0.1:7070`: nobody from outside, until told otherwise.
    pub endpoint: SocketAddr,
    /// TLS, and the authorities of clients' certificates. Unset: plain text.
    #[serde(deserialize_with = "named")]
    pub tls: Option<ServerTls>,
    /// What each request for SQL or metrics must prove. Unset: nothing.
    pub auth: Option<Auth>,
    /// The protocol of Postgres.
    pub postgres: postgres::Config,
    /// Arrow Flight SQL.
    pub flight_sql: flight::Config,
    /// Longest time from the arrival of a statement to its last row, planning and waiting for a free
    /// place included. Default `30s`; text such as `500ms`, `30s`, `2m`.
    #[serde(deserialize_with = "transport::time_span::deserialize")]
    pub timeout: Duration,
    /// Memory of one statement in MiB. Default 256. Sorts and aggregations beyond it spill; what
    /// cannot spill fails with an error that names this limit.
    pub memory_mib: u64,
    /// Spill files of one statement in MiB. Default 1024; 0 switches spilling off.
    pub spill_mib: u64,
    /// Folder for spill files. Default: the system's temporary folder. Files of a statement are
    /// removed when it ends.
    pub spill_directory: Option<PathBuf>,
    /// Most rows of one answer. Default 1,000,000. A longer answer is cut and says so; a client can
    /// ask for less.
    pub rows_max: u64,
    /// Most spans of a trace that is given whole, such as by `/v1/traces/{id}`. Default 100,000. A larger one is refused:
    /// half a trace would pass for all of it. Its rows together may take `memory_mib`.
    pub trace_spans_max: u64,
    /// Statements that run at once. Default 8.
    pub statements_max: NonZeroUsize,
    /// Statements that one user may have running or waiting. A user is who proved one of the configured tokens, or,
    /// where none is asked for, an address. Unset: as many as there are places.
    pub statements_per_user_max: Option<NonZeroUsize>,
    /// Statements that wait for a place before the next one is refused with a delay. Default 64.
    pub statements_waiting_max: usize,
    /// Longest statement in KiB. Default 1024, enough for a list of 20,000 trace ids.
    pub statement_kib: u64,
    /// Threads that execute, and partitions of one plan. Default: the number of CPUs.
    pub threads: Option<NonZeroUsize>,
    /// Parquet footers and page indexes kept in memory, in MiB. Default 256: a wide `spans` file
    /// needs some 100 KiB.
    pub metadata_cache_mib: u64,
    /// A line of the log for each statement.
    pub statement_log: statement_log::Config,
    /// Bloom filters of identifiers kept in memory, in MiB, so that one trace by its id is looked for in the files that
    /// have it. Default 128, enough for some five million requests and their spans: an identifier takes a little more than
    /// two bytes, and each of the ten id columns has the same room. Beyond it, the newest files are kept; with 0 each
    /// statement reads the filters that it needs.
    pub id_filters_mib: u64,
    /// Rows of small files kept in memory, in MiB, so that a list of the last hour does not open each file that a commit
    /// made. Default 64, shared by the tables, enough for what is committed between two maintenances at some hundred
    /// requests a second. Beyond it, the newest files are kept; with 0 each statement reads the files that it needs.
    pub small_files_mib: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            endpoint: SocketAddr::from((Ipv4Addr::LOCALHOST, 7070)),
            tls: None,
            auth: None,
            postgres: postgres::Config::default(),
            flight_sql: flight::Config::default(),
            timeout: Duration::from_secs(30),
            memory_mib: 256,
            spill_mib: 1024,
            spill_directory: None,
            rows_max: 1_000_000,
            trace_spans_max: 100_000,
            statements_max: STATEMENTS_MAX,
            statements_per_user_max: None,
            statements_waiting_max: 64,
            statement_kib: 1024,
            threads: None,
            metadata_cache_mib: 256,
            statement_log: statement_log::Config::default(),
            id_filters_mib: 128,
            small_files_mib: 64,
        }
    }
}

/// Why a [`Config`] cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// A limit is zero, which would refuse every statement.
    #[error("`{key}` must be more than zero")]
    Zero {
        /// The configuration key.
        key: &'static str,
    },
    /// A limit does not fit this machine's address space.
    #[error("`{key}` is more than this machine can address")]
    TooLarge {
        /// The configuration key.
        key: &'static str,
    },
}

impl Config {
    /// Checks what the types cannot.
    ///
    /// # Errors
    ///
    /// [`Invalid`] names the first key whose value cannot be used.
    pub fn validate(&self) -> Result<(), Invalid> {
        if self.timeout.is_zero() {
            return Err(Invalid::Zero { key: "timeout" });
        }
        for (key, value) in [
            ("memory_mib", self.memory_mib),
            ("rows_max", self.rows_max),
            ("trace_spans_max", self.trace_spans_max),
            ("statement_kib", self.statement_kib),
        ] {
            if value == 0 {
                return Err(Invalid::Zero { key });
            }
        }
        for (key, value) in [
            ("memory_mib", self.memory_mib),
            ("spill_mib", self.spill_mib),
            ("metadata_cache_mib", self.metadata_cache_mib),
            ("id_filters_mib", self.id_filters_mib),
            ("small_files_mib", self.small_files_mib),
            ("statement_kib", self.statement_kib),
        ] {
            let bytes = value.checked_mul(MIB);
            if bytes
                .and_then(|bytes| usize::try_from(bytes).ok())
                .is_none()
            {
                return Err(Invalid::TooLarge { key });
            }
        }
        Ok(())
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        bytes_of(self.memory_mib, MIB)
    }

    pub(crate) fn spill_bytes(&self) -> u64 {
        self.spill_mib.saturating_mul(MIB)
    }

    /// Sorted files that one merge reads at a time. Each needs memory that cannot be spilled, and the
    /// threads of a statement merge at once: the more memory, the more files and the fewer passes.
    pub(crate) fn spill_merge_fan_in(&self) -> usize {
        bytes_of(self.memory_mib, 1).div_euclid(16).clamp(2, 16)
    }

    pub(crate) fn statement_bytes(&self) -> usize {
        bytes_of(self.statement_kib, 1024)
    }

    pub(crate) fn metadata_cache_bytes(&self) -> usize {
        bytes_of(self.metadata_cache_mib, MIB)
    }

    pub(crate) fn id_filters_bytes(&self) -> usize {
        bytes_of(self.id_filters_mib, MIB)
    }

    pub(crate) fn small_files_bytes(&self) -> usize {
        bytes_of(self.small_files_mib, MIB)
    }

    pub(crate) fn threads(&self) -> usize {
        self.threads
            .or_else(|| std::thread::available_parallelism().ok())
            .map_or(1, NonZeroUsize::get)
    }
}

fn bytes_of(count: u64, unit: u64) -> usize {
    usize::try_from(count.saturating_mul(unit)).unwrap_or(usize::MAX)
}

/// Reads a section that may be present without keys: `tls:` is not the same as no TLS.
pub(crate) fn named<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<ServerTls>, D::Error> {
    Ok(Some(Option::deserialize(deserializer)?.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::{Config, Invalid};

    #[test]
    fn the_default_is_valid_and_a_zero_limit_is_named() {
        assert_eq!(Config::default().validate(), Ok(()));
        let config = Config {
            memory_mib: 0,
            ..Config::default()
        };
        assert_eq!(config.validate(), Err(Invalid::Zero { key: "memory_mib" }));
        let config = Config {
            spill_mib: u64::MAX,
            ..Config::default()
        };
        assert_eq!(
            config.validate(),
            Err(Invalid::TooLarge { key: "spill_mib" })
        );
    }

    #[test]
    fn unknown_keys_are_refused() {
        let error = serde_json::from_str::<Config>(r#"{"time_out":"3s"}"#).unwrap_err();
        assert!(error.to_string().contains("time_out"), "{error}");
    }
}

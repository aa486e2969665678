//! What can go wrong while a row is appended.

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a row was not appended. The builder is as it was before the call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are not a span that `otlp::export::check` accepts.
    #[error("read the span at byte {offset} of its export request")]
    Span {
        /// Where the span begins in the request's body.
        offset: u32,
        /// What is wrong with it.
        #[source]
        source: otlp::Error,
    },
    /// The bytes are not a metrics export that `otlp::export::check` accepts.
    #[error("read a metrics export")]
    Metrics {
        /// What is wrong with it.
        #[source]
        source: otlp::Error,
    },
    /// The batch holds as much as its 32-bit offsets safely carry: finish it first.
    #[error("batch of {n_rows} rows is full at {n_bytes} bytes")]
    Full {
        /// Rows in the batch.
        n_rows: usize,
        /// Its size as [`crate::spans::SpansBuilder::byte_size`] counts.
        n_bytes: usize,
    },
    /// A pattern of the redaction configuration cannot match any key.
    #[error("redaction pattern `{pattern}` in `{field}` is empty or longer than {bytes_max} bytes")]
    Pattern {
        /// Configuration field: `keys` or `keep_keys`.
        field: &'static str,
        /// The pattern as configured.
        pattern: String,
        /// Longest pattern.
        bytes_max: usize,
    },
    /// The limit for values leaves no room for text beside the mark.
    #[error("redaction limit value_bytes_max = {value_bytes_max} is below {value_bytes_min}")]
    ValueLimit {
        /// As configured.
        value_bytes_max: u32,
        /// Smallest limit.
        value_bytes_min: u32,
    },
}

impl Error {
    /// Is there room again after `finish`?
    pub const fn is_full(&self) -> bool {
        matches!(self, Self::Full { .. })
    }

    /// Is it the operator's configuration?
    pub const fn is_config(&self) -> bool {
        matches!(self, Self::Pattern { .. } | Self::ValueLimit { .. })
    }
}

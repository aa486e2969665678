//! What can go wrong while a request is read from its span.

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a span gave no request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are not a span that `otlp::export::check` accepts.
    #[error("read the engine span at byte {offset} of its export request")]
    Span {
        /// Where the span begins in the request's body.
        offset: u32,
        /// What is wrong with it.
        #[source]
        source: otlp::Error,
    },
}

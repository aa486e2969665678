//! What can go wrong while requests are read and joined.

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a span gave no request, or samples no evidence.
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
    /// A batch lacks a column that it must have.
    #[error("a batch of samples has no column `{name}`")]
    NoColumn {
        /// The column.
        name: &'static str,
    },
    /// A column of a batch has another type than its table says.
    #[error("column `{name}` of a batch of samples has another type than the table")]
    ColumnType {
        /// The column.
        name: &'static str,
    },
}

//! What can be wrong with a report.

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a report is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are not the message.
    #[error("not a `{message}`")]
    Unreadable {
        /// The message that was expected.
        message: &'static str,
    },
    /// More entries than a request may have.
    #[error("`{field}` has more than {limit} entries in all; send several requests")]
    TooMany {
        /// The list.
        field: &'static str,
        /// What it may have.
        limit: usize,
    },
    /// A value that cannot be used.
    #[error("`{place}` {problem}")]
    Invalid {
        /// The entry and its field, such as `placements[3].gpu_uuid`.
        place: String,
        /// What is wrong with it, and what would be right.
        problem: &'static str,
    },
}

//! What can be wrong with OTLP bytes, and where.

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why bytes were refused. Offsets count bytes from the start of what was given to the function:
/// the body for [`crate::export::check`] and [`crate::json::to_protobuf`], the message for readers
/// of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A field goes on past the end of its message.
    #[error("protobuf field at byte {offset} is cut off")]
    Truncated {
        /// Where the missing bytes should have begun.
        offset: u32,
    },
    /// A varint of more than ten bytes or 64 bits.
    #[error("varint at byte {offset} does not fit into 64 bits")]
    Varint {
        /// First byte of the varint.
        offset: u32,
    },
    /// Field number zero, or above 2^29 - 1, or a wire type that does not exist.
    #[error("field key at byte {offset} is not valid")]
    FieldKey {
        /// First byte of the key.
        offset: u32,
    },
    /// A group ends that was not open, or groups are nested too deeply.
    #[error("protobuf groups at byte {offset} do not match or are nested too deeply")]
    Group {
        /// The key in question.
        offset: u32,
    },
    /// A known field with the wire type of another kind of field.
    #[error("field {field} before byte {offset} has the wrong wire type")]
    WireType {
        /// End of the field.
        offset: u32,
        /// Field number.
        field: u32,
    },
    /// A string field that is not UTF-8 (proto3 requires it).
    #[error("string field {field} at byte {offset} is not UTF-8")]
    Utf8 {
        /// First byte of the string.
        offset: u32,
        /// Field number; 0 for a whole JSON body.
        field: u32,
    },
    /// A field that may occur once occurs again and merging would be needed to read it.
    #[error("field {field} before byte {offset} may occur only once")]
    Repeated {
        /// End of the second occurrence.
        offset: u32,
        /// Field number.
        field: u32,
    },
    /// Values nested more deeply than allowed.
    #[error("value at byte {offset} is nested deeper than {depth_max} levels")]
    Depth {
        /// Where the level that is too deep begins.
        offset: u32,
        /// The limit that applied.
        depth_max: u32,
    },
    /// The span has no usable trace id.
    #[error("trace id is not 16 bytes with at least one of them not zero")]
    TraceId,
    /// The span has no usable span id.
    #[error("span id is not 8 bytes with at least one of them not zero")]
    SpanId,
    /// More bytes than are read: 4 GiB, of JSON 512 MiB.
    #[error("body of {n_bytes} bytes is larger than is ever read")]
    TooLarge {
        /// Its size.
        n_bytes: u64,
    },
    /// The text is not JSON.
    #[error("invalid JSON at byte {offset}: expected {expected}")]
    JsonSyntax {
        /// Where reading stopped.
        offset: u32,
        /// What would have been right there.
        expected: &'static str,
    },
    /// JSON, but not a value that the OTLP field can have.
    #[error("value of `{field}` at byte {offset} does not fit its type")]
    JsonValue {
        /// First byte of the value.
        offset: u32,
        /// Name of the field in lowerCamelCase.
        field: &'static str,
    },
}

impl Error {
    /// Is it a value that is nested too deeply?
    pub const fn is_too_deep(&self) -> bool {
        matches!(self, Self::Depth { .. })
    }

    /// Is it a string that is not UTF-8?
    pub const fn is_utf8(&self) -> bool {
        matches!(self, Self::Utf8 { .. })
    }

    /// Is it about JSON text, not about protobuf bytes?
    pub const fn is_json(&self) -> bool {
        matches!(self, Self::JsonSyntax { .. } | Self::JsonValue { .. })
    }

    /// Is it an id that cannot be one (a reason to reject a span, not a request)?
    pub const fn is_invalid_id(&self) -> bool {
        matches!(self, Self::TraceId | Self::SpanId)
    }

    /// Where it was found, in bytes, if it has a place.
    pub const fn offset(&self) -> Option<u32> {
        match self {
            Self::Truncated { offset }
            | Self::Varint { offset }
            | Self::FieldKey { offset }
            | Self::Group { offset }
            | Self::WireType { offset, .. }
            | Self::Utf8 { offset, .. }
            | Self::Repeated { offset, .. }
            | Self::Depth { offset, .. }
            | Self::JsonSyntax { offset, .. }
            | Self::JsonValue { offset, .. } => Some(*offset),
            Self::TraceId | Self::SpanId | Self::TooLarge { .. } => None,
        }
    }
}

/// An offset as errors carry it; saturates above 4 GiB.
#[inline]
pub(crate) fn offset_u32(offset: usize) -> u32 {
    u32::try_from(offset).unwrap_or(u32::MAX)
}

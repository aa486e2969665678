//! Table `spans`: the spans of kept traces, straight from their bytes.
//!
//! # Decided
//!
//! *Promoted keys.* Every key that a view, policy or panel uses has a typed column. The canonical
//! key with a value of the right type is in its column only. An alias, or a value of another type
//! or not finite, stays in the map as raw text too, while the column gets what it can be read as, or
//! NULL. Where several spellings are usable the canonical one wins, then the aliases in their order.
//! Span columns read span attributes, resource columns resource attributes.
//!
//! *Repeated keys.* The last one counts, in maps and columns alike; a map never holds a key twice.
//!
//! *Times* outside what 64 bits of nanoseconds hold are NULL, never wrapped; a `duration_ns` needs a
//! start and an end that is not before it. For `date` see [`crate::PARTITION`].
//!
//! *Links with invalid ids* stay, with NULL in place of the id.

mod builder;
mod cell;
mod coerce;
mod columns;
mod entries;
mod promoted;
mod resource;
mod restore;

pub use builder::{SpanInput, SpansBuilder, TraceContext};
pub use coerce::texts;
pub use columns::SPEC;
pub use restore::{
    Attribute, Holder, Loss, ReadError, Restored, StoredSpan, StoredSpans, StoredValue,
};

//! The instrumentation scope of spans.

use crate::{error::Result, wire::Fields};

/// Name and version of what produced spans; both may be empty. Its attributes are read by
/// [`crate::attribute::of_scope`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scope<'a> {
    /// `InstrumentationScope.name`.
    pub name: &'a str,
    /// `InstrumentationScope.version`.
    pub version: &'a str,
}

/// Reads the bytes of an `InstrumentationScope` message (`common.proto`).
///
/// # Errors
/// Broken framing, or a name or version that is not UTF-8.
pub fn read(scope: &[u8]) -> Result<Scope<'_>> {
    let mut read = Scope::default();
    let mut fields = Fields::new(scope);
    while let Some((number, value)) = fields.step()? {
        match number {
            1 => read.name = fields.str_of(number, value)?,
            2 => read.version = fields.str_of(number, value)?,
            _ => {}
        }
    }
    Ok(read)
}

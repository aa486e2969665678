//! What people see: tables, the timeline of a trace, progress of long work.
//!
//! Everything here turns values into text; only [`print()`] and [`progress`] write it. Values come
//! from strangers' spans: [`text::printable`] stands between them and the terminal.

use std::io::{self, Write as _};

pub(crate) mod progress;
pub(crate) mod table;
pub(crate) mod text;
pub(crate) mod timeline;

/// Writes text to standard output.
///
/// A reader that has gone (`| head`) is not an error: what it wanted, it has.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    let written = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Writes text to standard error, as far as anybody still reads it.
pub(crate) fn print_error(text: &str) {
    drop(io::stderr().lock().write_all(text.as_bytes()));
}

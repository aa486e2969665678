//! Comparisons of sides that are known: alike, changed, hostile.

mod fleet;
mod hostile;
mod oracle;

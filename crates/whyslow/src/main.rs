//! Placeholder until the command is written.

fn main() {}

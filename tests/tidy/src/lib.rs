//! Checks of the tree itself: what a compiler does not see and a reader relies on.
//!
//! - `arrows`: crates depend on each other as `crates/README.md` draws it, and on nothing else of ours;
//! - `sources`: heads, sizes, characters;
//! - `web`: the same for the web page, and that its built files are those of its sources;
//! - `documents`: what README files, the compose file and the Dockerfile name exists.
//!
//! It depends on no crate of ours, so that it runs before DataFusion is compiled. Documents that are
//! generated from code (`storage/README.md`, `pipelines/local.yaml`) are compared where the code is.

#[cfg(test)]
mod arrows;
#[cfg(test)]
mod documents;
#[cfg(test)]
mod sources;
#[cfg(test)]
mod tree;
#[cfg(test)]
mod web;

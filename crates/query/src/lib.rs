//! SQL over the lake: each committed row and each row that is kept but not yet committed, exactly
//! once, read only, within limits.
//!
//! The route of a statement, in reading order:
//!
//! | module | does |
//! |---|---|
//! | [`config`] | names every limit |
//! | `statement` | parses one statement, refuses what is not a query |
//! | `question`, `asker` | one statement with who asks it, counted by `metrics` |
//! | [`statement_log`] | on request, a line of the log for each, without the values in it |
//! | `catalog`, `views`, `naming` | the names that a statement may use: lake tables and the views of `storage/views` |
//! | `functions` | the functions of SQL that are ours |
//! | `pg_catalog` | what tools of Postgres ask about names and types, for statements that name it |
//! | `profile` | chooses from the statement how files are read |
//! | `plans` | plans of statements that were asked before, but for the identifiers in them |
//! | `time_bounds` | hands filters on times through groupings and windows, towards the files |
//! | `cross_join` | keeps a rule of DataFusion from dropping join keys |
//! | `scan`, `pruning`, `id_index`, `small_files`, `in_memory` | one table: files that can hold an answer, and the rows in memory |
//! | `constants` | columns of a file that need not be read |
//! | `newest` | what is kept in memory of files, as far as there is room |
//! | `session` | DataFusion state of one statement: memory, spill folder, settings |
//! | `executor` | the threads that plan and execute |
//! | [`Engine`] | the route as one function |
//! | `produced`, [`Answer`] | the stream of rows under the time limit and the row limit |
//! | `trace` | one trace whole, by its id, as the OTLP that it was |
//! | [`explain`] | why the requests of a trace were slow, and the statements behind each fact |
//! | `find` | traces by conditions on a span, and the names that can stand in one |
//! | `format`, [`http`] | JSON, CSV and Arrow over HTTP |
//! | [`postgres`] | the protocol of Postgres: psql, DBeaver, Grafana, every language's driver |
//! | [`flight`] | Arrow Flight SQL: ADBC, JDBC, notebooks that want columns |
//!
//! Does not: write anything but its own spill files, read anything but the lake, know the log or the
//! gateway.
//!
//! # Decided
//!
//! **Read only by construction.** A statement is checked three times: the syntax tree is of a query
//! kind, the plan passes `SQLOptions` with everything off, and the session has no table factories,
//! no file formats and an object store registry that knows the lake alone.
//!
//! **A session per statement.** Each statement has its own catalog, memory pool and spill folder.
//! The catalog takes a table's state once, so that a self join sees one state; a pool of its own
//! means that a hungry statement fails alone.
//!
//! **One engine behind every door.** HTTP, Postgres and Flight SQL hand a `Question` to the same [`Engine`]: the same
//! checks, places, limits and counts. A door adds how it is spoken to, and who may.
//!
//! **Own threads.** Plans are made, run and freed on threads of this crate with large stacks. A long
//! chain of `OR` is a deep tree, and DataFusion evaluates and frees it recursively; on the stacks
//! of the server's own threads that ends the process. It also keeps a heavy statement off the
//! threads that answer other listeners.

pub mod config;
mod error;
mod statement;
mod stop;

mod asker;
mod metrics;
mod question;
pub mod statement_log;

mod catalog;
mod functions;
mod naming;
mod pg_catalog;
mod views;

mod cross_join;
mod plans;
mod profile;
mod time_bounds;

mod constants;
mod file_reader;
mod id_index;
mod in_memory;
mod newest;
mod pruning;
mod scan;
mod small_files;

mod answer;
mod engine;
mod executor;
mod produced;
mod session;

pub mod explain;
mod trace;

mod find;

pub mod flight;
mod format;
pub mod http;
pub mod postgres;
mod reference;

#[cfg(test)]
mod tests;

pub use answer::Answer;
pub use asker::Asker;
pub use config::Config;
pub use engine::Engine;
pub use error::{Error, Result};
pub use http::router;
pub use metrics::{Connections, Entrance, Metrics};
pub use views::{VIEWS, View, ViewColumn};

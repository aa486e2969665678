//! Parquet and Delta: commits rows exactly once and opens tables for reading.
//!
//! A [`Lake`] is a folder (or a prefix of an S3 bucket) with one Delta table per [`tables::Spec`].
//! Writers [`append`](Table::append) batches, which are visible to [`view`](Table::view) at once,
//! and [`commit`](Table::commit) them under a release sequence; readers take a view: a list of
//! Parquet files with their statistics, and the batches that are not in a file yet.
//!
//! [`maintain`](Table::maintain) merges small files, removes old rows and deletes what is not needed.
//!
//! Does not: know what a trace is or run SQL.
//!
//! # Decided
//!
//! * **Delta through the official kernel, Parquet through our own writer.** The kernel gives
//!   commits that cost the same at any table size and the conflict answers that exactly-once needs;
//!   the writer gives sort order, bloom filters and small pages (module `parquet_file`).
//! * **Protocol reader 1, writer 2**, no column mapping, no deletion vectors: every reader of Delta
//!   opens the tables. The kernel can only create reader 3 / writer 7, so version 0 is written by
//!   hand (module `create`).
//! * **Exactly once by the application transaction.** Every commit carries `txn(app_id, sequence)`;
//!   it is compared before each attempt and after each failure (module `commit`).
//! * **A file is durable before the log names it.** The local store syncs what it writes (module
//!   `synced`), because the write-ahead log is deleted after a commit.
//!
//! # Where to look
//!
//! | to change | look at |
//! |---|---|
//! | where tables live, S3 options | `location` |
//! | how the local store writes and reads | `synced`, `page_cache` |
//! | how a Parquet file looks | `parquet_file`, `layout` |
//! | how rows get into the log, retries, conflicts | `commit`, `written` |
//! | compaction, retention, vacuum | `maintain` |
//! | what readers see, refresh | `table`, `data_file`, `statistics` |
//! | the newest rows without SQL, all rows of a file | `recent`, `file_rows` |

mod attempts;
mod checkpoint;
mod commit;
mod create;
mod data_file;
mod error;
mod file_rows;
mod kernel;
mod lake;
mod layout;
mod location;
mod maintain;
mod object;
mod page_cache;
mod parquet_file;
mod recent;
#[cfg(feature = "testing")]
pub mod sim;
mod statistics;
mod synced;
mod table;
#[cfg(test)]
mod tests;
mod written;

pub use crate::commit::Commit;
pub use crate::data_file::DataFile;
pub use crate::error::{Error, Result};
pub use crate::lake::{Lake, Mode};
pub use crate::location::Location;
pub use crate::maintain::{Compacted, Deleted, Expired, Maintenance, Report};
pub use crate::parquet_file::uniform::empty_columns;
pub use crate::recent::{Recent, RecentRows};
pub use crate::statistics::{Bound, ColumnStatistics};
pub use crate::table::{Table, View};

//! One maintainer per table at a time, among all processes.
//!
//! A lease is an object `_maintenance/NUMBER.json` below the table's root with an owner and an end;
//! the one with the highest number counts. It is taken by creating the next number, which only one
//! of several processes can do, and only when the one before has ended. A crash leaves a lease that
//! ends by itself.
//!
//! It only saves work. Nothing relies on it for being right: clocks may differ and a paused process
//! may go on after its lease has ended, so every version is checked and put as if others did the same.

use std::time::Duration;

use futures::TryStreamExt as _;
use object_store::path::Path;
use object_store::{ObjectStoreExt as _, PutMode};
use serde_json::{Value, json};

use crate::create;
use crate::error::{Error, Result};
use crate::table::Inner;

/// Longer than one step of maintenance takes; it is extended at each.
const LENGTH: Duration = Duration::from_secs(300);
const FOLDER: &str = "_maintenance";

/// A lease that this process has taken.
#[derive(Debug)]
pub(crate) struct Lease {
    number: u64,
    owner: String,
}

impl Inner {
    /// Takes the lease; `None` while another has it.
    pub(crate) fn take_lease(&self, owner: &str, now_ms: i64) -> Result<Option<Lease>> {
        let numbers = self.lease_numbers()?;
        let newest = numbers.last().copied();
        if let Some(newest) = newest
            && self.lease_end(newest)? > now_ms
        {
            return Ok(None);
        }
        let lease = Lease {
            number: newest.unwrap_or_default().saturating_add(1),
            owner: owner.to_owned(),
        };
        if !self.put_lease(&lease, end_after(now_ms), PutMode::Create)? {
            return Ok(None);
        }
        for old in numbers {
            // One that stays is no longer the newest.
            let path = self.lease_path(old)?;
            self.kernel.wait(self.kernel.store().delete(&path)).ok();
        }
        Ok(Some(lease))
    }

    /// Extends the lease; false when another has taken the next one.
    pub(crate) fn extend_lease(&self, lease: &Lease, now_ms: i64) -> Result<bool> {
        if self.lease_numbers()?.last() != Some(&lease.number) {
            return Ok(false);
        }
        self.put_lease(lease, end_after(now_ms), PutMode::Overwrite)
    }

    /// Lets others in at once. If that fails, they come in when it ends.
    pub(crate) fn end_lease(&self, lease: &Lease) {
        if let Err(error) = self.put_lease(lease, 0, PutMode::Overwrite) {
            tracing::debug!(table = self.layout.name, %error, "the maintenance lease stays until it ends");
        }
    }

    fn lease_numbers(&self) -> Result<Vec<u64>> {
        let folder = create::object_path(&self.root, FOLDER)?;
        let listed = self.kernel.wait(
            self.kernel
                .store()
                .list(Some(&folder))
                .try_collect::<Vec<_>>(),
        );
        let listed = match listed {
            Ok(listed) => listed,
            Err(object_store::Error::NotFound { .. }) => Vec::new(),
            Err(source) => return Err(Error::store("list", &folder, source)),
        };
        let mut numbers: Vec<u64> = listed
            .iter()
            .filter_map(|object| {
                object
                    .location
                    .filename()?
                    .strip_suffix(".json")?
                    .parse()
                    .ok()
            })
            .collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// When a lease ends, in milliseconds since 1970; one that cannot be understood has ended.
    fn lease_end(&self, number: u64) -> Result<i64> {
        let path = self.lease_path(number)?;
        let content = self
            .kernel
            .wait(async { self.kernel.store().get(&path).await?.bytes().await });
        match content {
            Ok(content) => {
                let lease: Value = serde_json::from_slice(&content).unwrap_or_default();
                Ok(lease["expires_unix_ms"].as_i64().unwrap_or_default())
            }
            // Whoever took the next one has deleted it.
            Err(object_store::Error::NotFound { .. }) => Ok(i64::MAX),
            Err(source) => Err(Error::store("read", &path, source)),
        }
    }

    fn put_lease(&self, lease: &Lease, end_ms: i64, mode: PutMode) -> Result<bool> {
        let path = self.lease_path(lease.number)?;
        let content = json!({"owner": lease.owner, "expires_unix_ms": end_ms}).to_string();
        let put = self
            .kernel
            .store()
            .put_opts(&path, content.into(), mode.into());
        match self.kernel.wait(put) {
            Ok(_) => Ok(true),
            Err(object_store::Error::AlreadyExists { .. }) => Ok(false),
            Err(source) => Err(Error::store("write", &path, source)),
        }
    }

    fn lease_path(&self, number: u64) -> Result<Path> {
        create::object_path(&self.root, &format!("{FOLDER}/{number:020}.json"))
    }
}

fn end_after(now_ms: i64) -> i64 {
    now_ms.saturating_add(i64::try_from(LENGTH.as_millis()).unwrap_or(i64::MAX))
}

//! An object store that fails on command: before or after a call took effect, or with a put that
//! lands later.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures::stream::{self, BoxStream};
use futures::{FutureExt as _, StreamExt as _};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use crate::synced::SyncedFolder;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Fails and has no effect.
    Before,
    /// Takes effect and fails all the same.
    After,
    /// Fails now; a put takes effect when [`FaultyStore::land`] is called.
    Late,
    /// A put takes effect, its answer is lost, and the store's client sends it again by itself: a
    /// create is then told that the object exists.
    Repeated,
}

/// Which calls fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) fault: Fault,
    /// Calls that go well first, of those that touch such a path.
    pub(super) skip: usize,
    /// How many fail then.
    pub(super) count: usize,
    /// Part of the path.
    pub(super) path: &'static str,
    /// Only puts, or every call.
    pub(super) only_puts: bool,
}

#[derive(Debug)]
pub(super) struct FaultyStore {
    files: SyncedFolder,
    plan: Mutex<Option<Plan>>,
    calls: AtomicUsize,
    late: Mutex<Vec<(Path, PutPayload)>>,
}

impl FaultyStore {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            files: SyncedFolder::new(),
            plan: Mutex::new(None),
            calls: AtomicUsize::new(0),
            late: Mutex::new(Vec::new()),
        })
    }

    pub(super) fn set(&self, plan: Option<Plan>) {
        *self.plan.lock().unwrap() = plan;
    }

    pub(super) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// Lets the late puts take effect, as a server would: a create loses against what is there.
    pub(super) async fn land(&self) -> usize {
        let late = std::mem::take(&mut *self.late.lock().unwrap());
        let mut landed = 0;
        for (path, payload) in late {
            let put = self
                .files
                .put_opts(&path, payload, PutMode::Create.into())
                .await;
            landed += usize::from(put.is_ok());
        }
        landed
    }

    fn fault(&self, path: &str, is_put: bool) -> Option<Fault> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let mut plan = self.plan.lock().unwrap();
        let plan = plan.as_mut()?;
        if !path.contains(plan.path) || (plan.only_puts && !is_put) {
            return None;
        }
        if plan.skip > 0 {
            plan.skip -= 1;
            return None;
        }
        plan.count = plan.count.checked_sub(1)?;
        Some(plan.fault)
    }
}

fn outage() -> Error {
    Error::Generic {
        store: "FaultyStore",
        source: "the store is down".into(),
    }
}

impl fmt::Display for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FaultyStore")
    }
}

#[async_trait]
impl ObjectStore for FaultyStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        match self.fault(location.as_ref(), true) {
            None => self.files.put_opts(location, payload, opts).await,
            Some(Fault::Before) => Err(outage()),
            Some(Fault::After) => {
                self.files.put_opts(location, payload, opts).await?;
                Err(outage())
            }
            Some(Fault::Late) => {
                self.late.lock().unwrap().push((location.clone(), payload));
                Err(outage())
            }
            Some(Fault::Repeated) => {
                let first = self.files.put_opts(location, payload.clone(), opts.clone());
                first.await?;
                self.files.put_opts(location, payload, opts).await
            }
        }
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        match self.fault(location.as_ref(), true) {
            None => self.files.put_multipart_opts(location, opts).await,
            Some(_) => Err(outage()),
        }
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        match self.fault(location.as_ref(), false) {
            None => self.files.get_opts(location, options).await,
            Some(_) => Err(outage()),
        }
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        match self.fault("", false) {
            None => self.files.delete_stream(locations),
            Some(_) => failing(),
        }
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.fault(prefix.map_or("", |path| path.as_ref()), false) {
            None => self.files.list(prefix),
            Some(_) => failing(),
        }
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.fault(offset.as_ref(), false) {
            None => self.files.list_with_offset(prefix, offset),
            Some(_) => failing(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        match self.fault(prefix.map_or("", |path| path.as_ref()), false) {
            None => self.files.list_with_delimiter(prefix).await,
            Some(_) => Err(outage()),
        }
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.files.copy_opts(from, to, options).await
    }
}

fn failing<T: Send + 'static>() -> BoxStream<'static, Result<T>> {
    stream::once(async { Err(outage()) }.boxed()).boxed()
}

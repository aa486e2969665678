//! An object store that fails on command: before or after a call took effect, or with a put that
//! lands later; or one that does all of that, and waits, by chance (`Chaos`).

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::{self, BoxStream};
use futures::{FutureExt as _, StreamExt as _};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt as _, PutMode, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, Result,
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

/// Faults by chance, the same for a seed as far as the calls come in the same order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chaos {
    pub(super) seed: u64,
    /// Of a hundred calls so many fail, a third of them each way.
    pub(super) percent: u64,
    /// Calls wait up to this long, so that they overtake each other; late puts three times as long.
    pub(super) delay_max: Duration,
}

#[derive(Debug)]
pub(super) struct FaultyStore {
    files: SyncedFolder,
    faults: Arc<Faults>,
    late: Mutex<Vec<(Path, PutPayload)>>,
}

#[derive(Debug, Default)]
struct Faults {
    plan: Mutex<Option<Plan>>,
    chaos: Mutex<Option<Chaos>>,
    calls: AtomicUsize,
    failures: AtomicUsize,
}

impl Faults {
    fn next(&self, path: &str, is_put: bool) -> Option<Fault> {
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

    /// The fault of a call, after its delay.
    async fn wait(&self, path: &str, is_put: bool) -> Option<Fault> {
        let (fault, delay) = self.draw();
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        let fault = fault.or_else(|| self.next(path, is_put));
        if fault.is_some() {
            self.failures.fetch_add(1, Ordering::SeqCst);
        }
        fault
    }

    fn draw(&self) -> (Option<Fault>, Duration) {
        let mut chaos = self.chaos.lock().unwrap();
        let Some(chaos) = chaos.as_mut() else {
            return (None, Duration::ZERO);
        };
        let mut random = || {
            // xorshift64
            chaos.seed ^= chaos.seed << 13;
            chaos.seed ^= chaos.seed >> 7;
            chaos.seed ^= chaos.seed << 17;
            chaos.seed
        };
        let fault = (random() % 100 < chaos.percent).then(|| match random() % 3 {
            0 => Fault::Before,
            1 => Fault::After,
            _ => Fault::Late,
        });
        let micros = random() % (chaos.delay_max.as_micros() as u64 + 1);
        (fault, Duration::from_micros(micros))
    }
}

impl FaultyStore {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            files: SyncedFolder::new(),
            faults: Arc::default(),
            late: Mutex::new(Vec::new()),
        })
    }

    pub(super) fn set(&self, plan: Option<Plan>) {
        *self.faults.plan.lock().unwrap() = plan;
    }

    pub(super) fn set_chaos(&self, chaos: Option<Chaos>) {
        *self.faults.chaos.lock().unwrap() = chaos;
    }

    pub(super) fn calls(&self) -> usize {
        self.faults.calls.load(Ordering::SeqCst)
    }

    pub(super) fn failures(&self) -> usize {
        self.faults.failures.load(Ordering::SeqCst)
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

    /// A put that its client has given up: under `Chaos` it lands by itself, else by
    /// [`FaultyStore::land`].
    fn put_late(&self, location: Path, payload: PutPayload) {
        let chaos = *self.faults.chaos.lock().unwrap();
        match chaos {
            None => self.late.lock().unwrap().push((location, payload)),
            Some(chaos) => {
                let files = self.files.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(chaos.delay_max * 3).await;
                    let create = PutMode::Create.into();
                    files.put_opts(&location, payload, create).await.ok();
                });
            }
        }
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
        match self.faults.wait(location.as_ref(), true).await {
            None => self.files.put_opts(location, payload, opts).await,
            Some(Fault::Before) => Err(outage()),
            Some(Fault::After) => {
                self.files.put_opts(location, payload, opts).await?;
                Err(outage())
            }
            Some(Fault::Late) => {
                self.put_late(location.clone(), payload);
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
        match self.faults.wait(location.as_ref(), true).await {
            None => self.files.put_multipart_opts(location, opts).await,
            Some(_) => Err(outage()),
        }
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        match self.faults.wait(location.as_ref(), false).await {
            None => self.files.get_opts(location, options).await,
            Some(_) => Err(outage()),
        }
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let (files, faults) = (self.files.clone(), Arc::clone(&self.faults));
        // One by one, so that a fault can stop it anywhere.
        let delete = move |location: Result<Path>| {
            let (files, faults) = (files.clone(), Arc::clone(&faults));
            async move {
                let location = location?;
                match faults.wait(location.as_ref(), false).await {
                    None => files.delete(&location).await.map(|()| location),
                    Some(Fault::After) => {
                        files.delete(&location).await?;
                        Err(outage())
                    }
                    Some(_) => Err(outage()),
                }
            }
        };
        locations.then(delete).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self
            .faults
            .next(prefix.map_or("", |path| path.as_ref()), false)
        {
            None => self.files.list(prefix),
            Some(_) => failing(),
        }
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.faults.next(offset.as_ref(), false) {
            None => self.files.list_with_offset(prefix, offset),
            Some(_) => failing(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let path = prefix.map_or("", |path| path.as_ref());
        match self.faults.wait(path, false).await {
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

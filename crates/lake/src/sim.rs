//! A simulated object store for tests: in memory, it stops, fails with or without effect, and lets
//! puts land late and out of order.
//!
//! Which call fails follows from the seed, the object's path (random parts left out) and how often
//! that path was called, so that a run replays although tables are opened at the same time.

use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures::stream::{self, BoxStream};
use futures::{FutureExt as _, StreamExt as _};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use crate::{Lake, Mode};

const STORE: &str = "SimStore";

/// A store in memory, as one process sees it. Clones are the same.
#[derive(Clone, Debug)]
pub struct SimStore {
    objects: Arc<InMemory>,
    state: Arc<Mutex<State>>,
}

#[derive(Clone, Debug, Default)]
struct State {
    seed: u64,
    n_calls: u64,
    stop_at: Option<(u64, bool)>,
    is_down: bool,
    /// In 1024ths.
    failing: u64,
    n_calls_of: HashMap<String, u64>,
    late: Vec<(Path, PutPayload, PutOptions)>,
    n_failed: u64,
    read: Reads,
}

/// What was asked of the store by readers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// Lists of objects.
    pub n_lists: u64,
    /// Reads of an object or of a part of one.
    pub n_gets: u64,
    /// Bytes that were read, of those whose head alone was asked for none.
    pub n_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Succeeds,
    /// Fails and has no effect.
    Before,
    /// Takes effect and fails all the same.
    After,
    /// Fails now; a put takes effect when [`SimStore::land`] is called.
    Late,
    /// A put takes effect, its answer is lost, and the store's client sends it again by itself: a
    /// create is then told that the object exists.
    Repeated,
}

impl SimStore {
    /// An empty store; everything random on it follows from the seed.
    pub fn new(seed: u64) -> Self {
        Self {
            objects: Arc::new(InMemory::new()),
            state: Arc::new(Mutex::new(State {
                seed,
                ..State::default()
            })),
        }
    }

    /// Opens tables on it, as [`Lake::open`] does at a location.
    ///
    /// # Errors
    ///
    /// Those of [`Lake::open`].
    pub async fn open(
        &self,
        specs: &[&'static tables::Spec],
        mode: Mode,
    ) -> crate::error::Result<Lake> {
        const ROOT: &str = "memory:///";
        let root =
            ROOT.parse()
                .map_err(|error: url::ParseError| crate::Error::InvalidLocation {
                    location: ROOT.to_owned(),
                    source: error.into(),
                })?;
        Lake::open_in(Arc::new(self.clone()), root, specs, mode).await
    }

    /// How many calls this process has made.
    pub fn n_calls(&self) -> u64 {
        self.state().n_calls
    }

    /// How many of them failed, with or without effect.
    pub fn n_failed(&self) -> u64 {
        self.state().n_failed
    }

    /// What readers have asked for since the last time this was called.
    pub fn take_reads(&self) -> Reads {
        std::mem::take(&mut self.state().read)
    }

    /// The call with this number (counted from 0) and all later ones fail, as if the process ended
    /// inside that call, before or after it took effect.
    pub fn stop_at(&self, call: u64, takes_effect: bool) {
        self.state().stop_at = Some((call, takes_effect));
    }

    /// All calls fail, or do not any more.
    pub fn set_down(&self, is_down: bool) {
        self.state().is_down = is_down;
    }

    /// So many of 1024 calls fail: before they take effect or after it; puts also take effect
    /// later, or are repeated by the store's client.
    pub fn set_failing(&self, of_1024: u64) {
        self.state().failing = of_1024;
    }

    /// Lets the late puts take effect, the last one first, as a server would: a create loses against
    /// what is there. Gives how many did.
    pub async fn land(&self) -> usize {
        let late = std::mem::take(&mut self.state().late);
        let mut n_landed = 0;
        for (path, payload, options) in late.into_iter().rev() {
            let put = self.objects.put_opts(&path, payload, options).await;
            n_landed += usize::from(put.is_ok());
        }
        n_landed
    }

    /// The store as the next process finds it: what was put is there, what is late may yet land, and
    /// nothing fails.
    pub fn after_kill(&self) -> Self {
        let (seed, late) = {
            let state = self.state();
            (state.seed.wrapping_add(1), state.late.clone())
        };
        Self {
            objects: Arc::clone(&self.objects),
            state: Arc::new(Mutex::new(State {
                seed,
                late,
                ..State::default()
            })),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fate(&self, verb: &str, path: &str) -> Fate {
        let fate = self.state().fate(verb, path);
        if fate != Fate::Succeeds {
            self.state().n_failed += 1;
        }
        fate
    }

    fn read(&self, verb: &str, path: &str) -> Result<()> {
        match self.fate(verb, path) {
            Fate::Succeeds => Ok(()),
            Fate::Before | Fate::After | Fate::Late | Fate::Repeated => Err(outage()),
        }
    }
}

impl State {
    fn fate(&mut self, verb: &str, path: &str) -> Fate {
        let call = self.n_calls;
        self.n_calls += 1;
        match verb {
            "list" => self.read.n_lists += 1,
            "get" => self.read.n_gets += 1,
            _ => {}
        }
        match self.stop_at {
            Some((stop_at, true)) if call == stop_at => return Fate::After,
            Some((stop_at, _)) if call >= stop_at => return Fate::Before,
            Some(_) | None => {}
        }
        if self.is_down {
            return Fate::Before;
        }
        if self.failing == 0 {
            return Fate::Succeeds;
        }
        // A data file's name is random, its folder is not.
        let known = match path.rsplit_once('/') {
            Some((folder, name)) if name.ends_with(".parquet") => folder,
            Some(_) | None => path,
        };
        let key = format!("{verb} {known}");
        let n_before = self.n_calls_of.entry(key.clone()).or_default();
        let mut hasher = DefaultHasher::new();
        (self.seed, key, *n_before).hash(&mut hasher);
        *n_before += 1;
        let drawn = hasher.finish();
        if drawn % 1024 >= self.failing {
            return Fate::Succeeds;
        }
        match (drawn >> 32) % 4 {
            0 => Fate::Before,
            1 => Fate::After,
            2 => Fate::Repeated,
            _ => Fate::Late,
        }
    }
}

fn outage() -> Error {
    Error::Generic {
        store: STORE,
        source: "the store is down".into(),
    }
}

fn failing<T: Send + 'static>() -> BoxStream<'static, Result<T>> {
    stream::once(async { Err(outage()) }.boxed()).boxed()
}

impl fmt::Display for SimStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(STORE)
    }
}

#[async_trait]
impl ObjectStore for SimStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        match self.fate("put", location.as_ref()) {
            Fate::Succeeds => self.objects.put_opts(location, payload, options).await,
            Fate::Before => Err(outage()),
            Fate::After => {
                self.objects.put_opts(location, payload, options).await?;
                Err(outage())
            }
            Fate::Late => {
                let late = (location.clone(), payload, options);
                self.state().late.push(late);
                Err(outage())
            }
            Fate::Repeated => {
                let first = self
                    .objects
                    .put_opts(location, payload.clone(), options.clone());
                first.await?;
                self.objects.put_opts(location, payload, options).await
            }
        }
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.read("put", location.as_ref())?;
        self.objects.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.read("get", location.as_ref())?;
        let is_head = options.head;
        let got = self.objects.get_opts(location, options).await?;
        if !is_head {
            self.state().read.n_bytes += got.range.end - got.range.start;
        }
        Ok(got)
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        match self.fate("delete", "") {
            Fate::Succeeds => self.objects.delete_stream(locations),
            Fate::Before | Fate::After | Fate::Late | Fate::Repeated => failing(),
        }
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.fate("list", prefix.map_or("", |path| path.as_ref())) {
            Fate::Succeeds => self.objects.list(prefix),
            Fate::Before | Fate::After | Fate::Late | Fate::Repeated => failing(),
        }
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.fate("list", offset.as_ref()) {
            Fate::Succeeds => self.objects.list_with_offset(prefix, offset),
            Fate::Before | Fate::After | Fate::Late | Fate::Repeated => failing(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.read("list", prefix.map_or("", |path| path.as_ref()))?;
        self.objects.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.objects.copy_opts(from, to, options).await
    }
}

//! The intake core without network and threads (feature `testing`): at once for measurements ([`Core`]),
//! one step at a time for simulations ([`Stepped`]).

mod backend;
mod stepped;

use std::{
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

use bytes::Bytes;
use otlp::export::Signal;
use sampler::Sampler;
use tokio::sync::oneshot;
use wal::{Disk, RealDisk, Wal};

use crate::{
    admission::{Budget, Gate},
    config::{Shutdown, SyncPolicy},
    error::{Error, Result},
    ingest::{Effect, Ingest, Input, IsRequest, Request, Settings},
    metrics::{Conservation, Metrics},
    progress::Progress,
    record::SpanWindow,
    status::Refusal,
};

pub use self::backend::{Answer as BackendAnswer, Backend, Received};
pub use self::stepped::{Answer, Setup, Stepped, Ticket};

/// The core over a real log. Releases are committed at once, unread.
#[derive(Debug)]
pub struct Core {
    ingest: Ingest,
    metrics: Arc<Metrics>,
    budget: Budget,
    sync: Option<JoinHandle<wal::Result<()>>>,
}

impl Core {
    /// Opens the log in its folder.
    ///
    /// # Errors
    ///
    /// As [`crate::start`], without listeners.
    pub fn open(
        log: wal::Config,
        sampler: &sampler::Config,
        is_request: IsRequest,
    ) -> Result<Core> {
        let metrics = Arc::new(Metrics::default());
        let gate = Arc::new(Gate::default());
        let settings = unlimited(is_request);
        let mut ingest = open(log, RealDisk, sampler, settings, &metrics, &gate)?;
        ingest.recover(Some(0), &Progress::default(), &mut |_| {})?;
        Ok(Core {
            ingest,
            metrics,
            budget: Budget::new(u64::MAX),
            sync: None,
        })
    }

    /// Appends, acknowledges and indexes one checked export of `n_spans` spans.
    pub fn export(&mut self, body: Bytes, n_spans: u64, now_unix_nano: u64) {
        let (request, _replied) = request(&self.budget, body, n_spans, now_unix_nano);
        self.apply(Input::Request(request), now_unix_nano);
        self.ingest.settle(&mut |_| {});
    }

    /// Decides what is due, and takes the end of a sync that runs on its own thread.
    pub fn tick(&mut self, now_unix_nano: u64) {
        if let Some(sync) = self.sync.take_if(|sync| sync.is_finished())
            && let Ok(synced) = sync.join()
        {
            self.apply(Input::Synced(synced), now_unix_nano);
        }
        self.apply(Input::Tick, now_unix_nano);
        while self.ingest.is_behind() {
            self.apply(Input::Tick, now_unix_nano);
        }
    }

    /// Where the spans are.
    pub fn conservation(&self) -> Conservation {
        self.metrics.conservation()
    }

    fn apply(&mut self, input: Input, now_unix_nano: u64) {
        let mut effects = Vec::new();
        self.ingest
            .apply(input, now_unix_nano, &mut |effect| effects.push(effect));
        for effect in effects {
            match effect {
                Effect::Release(plan) => {
                    self.apply(Input::Released(plan.sequence), now_unix_nano);
                }
                Effect::Sync(handle) => self.sync = Some(thread::spawn(move || handle.sync())),
                Effect::Reply(..) | Effect::Reloaded(..) | Effect::Stopped => {}
            }
        }
    }
}

/// Settings whose limits are never reached.
fn unlimited(is_request: IsRequest) -> Settings {
    let day = Duration::from_secs(24 * 3600);
    Settings {
        window: SpanWindow {
            age_max: day,
            ahead_max: day,
        },
        sync: SyncPolicy::Interval(Duration::from_secs(1)),
        log_bytes_max: u64::MAX,
        pending_heap_bytes_max: u64::MAX,
        release_backlog_spans_max: u64::MAX,
        shutdown: Shutdown::Keep,
        is_request,
        is_exporting: false,
        is_storing: true,
    }
}

/// The core over a log that is opened and not yet replayed.
fn open<D: Disk>(
    log: wal::Config,
    disk: D,
    sampler: &sampler::Config,
    settings: Settings,
    metrics: &Arc<Metrics>,
    gate: &Arc<Gate>,
) -> Result<Ingest<D>> {
    let sampler = Sampler::new(sampler).map_err(Error::Sampler)?;
    let (wal, _) = Wal::open(log, disk).map_err(|source| Error::Log {
        operation: "open",
        source,
    })?;
    Ok(Ingest::new(
        wal,
        sampler,
        settings,
        Arc::clone(metrics),
        Arc::clone(gate),
    ))
}

/// One checked export of `n_spans` spans, and where its answer arrives.
fn request(
    budget: &Budget,
    body: Bytes,
    n_spans: u64,
    now_unix_nano: u64,
) -> (Request, oneshot::Receiver<std::result::Result<(), Refusal>>) {
    let (reply, replied) = oneshot::channel();
    let request = Request {
        content: Signal::Traces.into(),
        received_unix_nano: now_unix_nano,
        body,
        n_items: n_spans,
        permit: budget.permit(),
        reply,
    };
    (request, replied)
}

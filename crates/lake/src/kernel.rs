//! The Delta kernel, its object store and the threads that both may block.
//!
//! The kernel's API is synchronous and its default engine runs the object store's futures on a
//! runtime. Checkpoints need that runtime to be multi-threaded (documented at
//! `Snapshot::checkpoint`), callers may have any runtime: so the lake owns one. Blocking calls run
//! on its blocking threads and are never cut short when a caller drops its future: a commit is
//! either made and seen, or not made.

use std::future::Future;
use std::sync::Arc;

use delta_kernel_default_engine::executor::tokio::TokioMultiThreadExecutor;
use delta_kernel_default_engine::{DefaultEngine, DefaultEngineBuilder};
use object_store::ObjectStore;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::error::{Error, Result};

/// Threads that drive the store's futures; they never compute.
const WORKER_THREADS: usize = 2;

/// Engine, store and runtime, shared by all tables of a lake.
pub(crate) struct Kernel {
    engine: DefaultEngine<TokioMultiThreadExecutor>,
    store: Arc<dyn ObjectStore>,
    handle: Handle,
    /// Only `None` while dropping.
    runtime: Option<Runtime>,
}

impl Kernel {
    pub(crate) fn new(store: Arc<dyn ObjectStore>) -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(WORKER_THREADS)
            .thread_name("lake")
            .enable_all()
            .build()
            .map_err(|error| Error::Workers {
                source: error.into(),
            })?;
        let handle = runtime.handle().clone();
        let engine = DefaultEngineBuilder::new(Arc::clone(&store))
            .with_task_executor(Arc::new(TokioMultiThreadExecutor::new(handle.clone())))
            .build();
        Ok(Self {
            engine,
            store,
            handle,
            runtime: Some(runtime),
        })
    }

    pub(crate) fn engine(&self) -> &DefaultEngine<TokioMultiThreadExecutor> {
        &self.engine
    }

    pub(crate) fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.store
    }

    /// Runs blocking work on the lake's own threads; the work goes on when the caller stops
    /// waiting. A panic of the work is the caller's panic.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        match self.handle.spawn_blocking(work).await {
            Ok(result) => result,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(error) => Err(Error::Workers {
                    source: error.into(),
                }),
            },
        }
    }

    /// Waits for a future; only for use inside [`Kernel::blocking`].
    pub(crate) fn wait<F: Future>(&self, future: F) -> F::Output {
        self.handle.block_on(future)
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Dropping a runtime waits, which panics inside of another runtime.
            runtime.shutdown_background();
        }
    }
}

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kernel")
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

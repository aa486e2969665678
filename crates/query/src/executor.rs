//! The threads that plan and execute statements.

use std::sync::{Mutex, PoisonError};

use tokio::runtime::{Builder, Handle, Runtime};

use crate::error::{Error, Result};

/// Stack of each thread. Evaluating and freeing an expression recurses once per level; a tree may
/// have [`crate::statement::OPERATORS_MAX`] levels. Only pages that are touched cost memory.
pub(crate) const STACK_BYTES: usize = 64 * 1024 * 1024;

/// Threads for planning and for local file reads; both come in bursts.
const BLOCKING_THREADS_MAX: usize = 64;

/// A runtime apart from the server's.
#[derive(Debug)]
pub(crate) struct Executor {
    /// `None` once stopped.
    runtime: Mutex<Option<Runtime>>,
    handle: Handle,
}

impl Executor {
    pub(crate) fn new(threads: usize) -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads.max(1))
            .max_blocking_threads(BLOCKING_THREADS_MAX)
            .thread_name("query")
            .thread_stack_size(STACK_BYTES)
            .enable_all()
            .build()
            .map_err(|source| Error::Threads { source })?;
        Ok(Self {
            handle: runtime.handle().clone(),
            runtime: Mutex::new(Some(runtime)),
        })
    }

    /// Ends what runs, without waiting for it; nothing runs here any more.
    pub(crate) fn stop(&self) {
        let mut runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner);
        // A plain drop waits for running statements, which is forbidden on an async thread.
        if let Some(runtime) = runtime.take() {
            runtime.shutdown_background();
        }
    }

    /// Runs a future on a thread of its own kind, where it may compute for seconds without an await.
    /// It runs to its end even if nobody waits for the answer any more.
    pub(crate) async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let handle = self.handle.clone();
        self.handle
            .spawn_blocking(move || handle.block_on(work))
            .await
            .ok()
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        self.stop();
    }
}

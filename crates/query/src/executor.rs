//! The threads that plan and execute statements.
//!
//! Limits first: [`BLOCKING_THREADS_MAX`] threads beside those that execute; of the work that may compute for long as much
//! runs at once as there are threads that execute, until some of it has run for [`TURN`].
//!
//! # Decided
//!
//! **In the order that they came.** If all statements of four clients ran at once on two processors, each would take turns
//! with all others, and a short one would be done when all are. A thread that is done takes the next piece of work itself:
//! to wake another one for it would leave a processor idle meanwhile.
//!
//! **Spans first.** The threads have a lower priority than those that receive spans and talk with clients: who has little to do
//! is not kept from it by what computes for long, be it an export that arrives or the next statement.
//!
//! **Nobody waits for a long one.** Work that waits for a store gives up its turn, and so does what has run for long.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use futures::poll;
use thread_priority::{ThreadPriority, ThreadPriorityValue};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::error::{Error, Result};

/// Stack of each thread. Evaluating and freeing an expression recurses once per level; a tree may
/// have [`crate::statement::OPERATORS_MAX`] levels. Only pages that are touched cost memory.
pub(crate) const STACK_BYTES: usize = 64 * 1024 * 1024;

/// Threads for planning and for local file reads; both come in bursts.
const BLOCKING_THREADS_MAX: usize = 64;

/// Of 100; on Linux a niceness of 5, a third of the processor beside a thread of usual priority that wants all of it.
const PRIORITY: u8 = 35;

/// Planning and the first rows of most statements take less.
const TURN: Duration = Duration::from_millis(100);

/// A runtime apart from the server's.
#[derive(Debug)]
pub(crate) struct Executor {
    /// `None` once stopped.
    runtime: Mutex<Option<Runtime>>,
    handle: Handle,
    queue: Arc<Queue>,
}

impl Executor {
    pub(crate) fn new(threads: usize) -> Result<Self> {
        let threads = threads.max(1);
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            .max_blocking_threads(BLOCKING_THREADS_MAX)
            .thread_name("query")
            .thread_stack_size(STACK_BYTES)
            .on_thread_start(lower_priority)
            .enable_all()
            .build()
            .map_err(|source| Error::Threads { source })?;
        Ok(Self {
            handle: runtime.handle().clone(),
            runtime: Mutex::new(Some(runtime)),
            queue: Arc::new(Queue {
                n_threads_max: threads,
                waiting: Mutex::default(),
            }),
        })
    }

    /// Ends what runs, without waiting for it; nothing runs here any more.
    pub(crate) fn stop(&self) {
        let mut runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner);
        // A plain drop waits for running statements, which is forbidden on an async thread.
        if let Some(runtime) = runtime.take() {
            runtime.shutdown_background();
        }
        self.queue.stop();
    }

    /// Runs a future on a thread of its own kind, where it may compute for seconds without an await.
    /// It runs to its end even if nobody waits for the answer any more; what has not begun by then does not begin.
    /// `None`: it ended by a panic, or all has been stopped.
    pub(crate) async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let (sender, mut done) = oneshot::channel();
        let handle = self.handle.clone();
        let is_thread_needed = self.queue.push(Box::new(move || {
            if sender.is_closed() {
                return;
            }
            let mut work = Box::pin(work);
            match handle.block_on(async { poll!(&mut work) }) {
                // Whoever waited may be gone by now.
                Poll::Ready(done) => drop(sender.send(done)),
                Poll::Pending => {
                    let waiting = handle.clone();
                    handle.spawn_blocking(move || sender.send(waiting.block_on(work)));
                }
            }
        }))?;
        if !is_thread_needed {
            // Only what finds all threads busy needs a timer.
            if let Ok(done) = timeout(TURN, &mut done).await {
                return done.ok();
            }
            self.queue.add_thread();
        }
        let queue = Arc::clone(&self.queue);
        self.handle.spawn_blocking(move || queue.work());
        done.await.ok()
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        self.stop();
    }
}

type Work = Box<dyn FnOnce() + Send>;

/// Work in the order that it came.
struct Queue {
    n_threads_max: usize,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    work: VecDeque<Work>,
    /// At work, or about to be.
    n_threads: usize,
    is_stopped: bool,
}

impl Queue {
    /// Is a thread wanted for it? `None` once stopped.
    fn push(&self, work: Work) -> Option<bool> {
        let mut waiting = self.waiting();
        if waiting.is_stopped {
            return None;
        }
        waiting.work.push_back(work);
        let is_thread_needed = waiting.n_threads < self.n_threads_max;
        waiting.n_threads += usize::from(is_thread_needed);
        Some(is_thread_needed)
    }

    /// One thread more, because the others have had their turn.
    fn add_thread(&self) {
        self.waiting().n_threads += 1;
    }

    /// What each thread does that was counted: until nothing waits.
    fn work(&self) {
        loop {
            let mut waiting = self.waiting();
            let Some(work) = waiting.work.pop_front() else {
                // Under the same lock: whoever pushes next sees that a thread is needed.
                waiting.n_threads -= 1;
                return;
            };
            drop(waiting);
            run(work);
        }
    }

    fn stop(&self) {
        let mut waiting = self.waiting();
        waiting.is_stopped = true;
        let work = std::mem::take(&mut waiting.work);
        drop(waiting);
        // Whoever waits for it is told by that.
        drop(work);
    }

    /// Nothing panics while it is locked.
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").finish_non_exhaustive()
    }
}

fn lower_priority() {
    let lowered = ThreadPriorityValue::try_from(PRIORITY).and_then(|priority| {
        let lowered = ThreadPriority::Crossplatform(priority).set_for_current();
        lowered.map_err(|error| error.to_string())
    });
    // A process that is lower still stays there.
    if let Err(error) = lowered {
        tracing::debug!(error, "a thread keeps its priority");
    }
}

/// A panic ends its own work: whoever waits for it is told, because nothing is sent.
fn run(work: Work) {
    catch_unwind(AssertUnwindSafe(work)).ok();
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use futures::future::join_all;

    use super::*;

    #[tokio::test]
    async fn one_after_another_in_the_order_that_they_came() {
        let executor = Executor::new(1).unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let all = (0..50).map(|number| {
            let order = Arc::clone(&order);
            executor.run_blocking(async move {
                order.lock().unwrap().push(number);
                number
            })
        });
        let done: Vec<_> = join_all(all).await.into_iter().flatten().collect();
        assert_eq!(done, (0..50).collect::<Vec<_>>());
        assert_eq!(*order.lock().unwrap(), done);
    }

    /// Work that keeps its thread until it is told to end; the receiver says that it has begun.
    fn long(
        executor: &Executor,
    ) -> (
        impl Future<Output = Option<bool>>,
        oneshot::Receiver<()>,
        mpsc::Sender<()>,
    ) {
        let (end, until) = mpsc::channel::<()>();
        let (begun, has_begun) = oneshot::channel();
        let running = executor.run_blocking(async move {
            begun.send(()).unwrap();
            until.recv().is_ok()
        });
        (running, has_begun, end)
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn threads_have_a_lower_priority() {
        // The niceness, behind the name in parentheses: proc_pid_stat(5).
        let niceness = || {
            let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            let (_, fields) = stat.rsplit_once(')').unwrap();
            fields
                .split_whitespace()
                .nth(16)
                .unwrap()
                .parse::<i32>()
                .unwrap()
        };
        let executor = Executor::new(1).unwrap();
        let of_thread = executor
            .run_blocking(async move { niceness() })
            .await
            .unwrap();
        assert_eq!(of_thread, niceness().max(5));
    }

    #[tokio::test]
    async fn what_takes_long_keeps_nobody_from_its_turn() {
        let executor = Executor::new(1).unwrap();
        let (end, until) = mpsc::channel::<()>();
        let long = executor.run_blocking(async move { until.recv().is_ok() });
        let short = async {
            let short = executor.run_blocking(async { 7 }).await;
            end.send(()).unwrap();
            short
        };
        assert_eq!(tokio::join!(long, short), (Some(true), Some(7)));
    }

    #[tokio::test]
    async fn what_waits_for_another_gives_up_its_turn() {
        let executor = Executor::new(1).unwrap();
        let (sender, receiver) = oneshot::channel();
        let (begun, has_begun) = oneshot::channel();
        let waiting = executor.run_blocking(async move {
            begun.send(()).unwrap();
            receiver.await
        });
        let other = async {
            has_begun.await.unwrap();
            // The thread is free once the first step is done.
            while executor.queue.waiting().n_threads > 0 {
                tokio::task::yield_now().await;
            }
            executor.run_blocking(async move { sender.send(7) }).await
        };
        assert_eq!(tokio::join!(waiting, other), (Some(Ok(7)), Some(Ok(()))));
    }

    #[tokio::test]
    async fn a_panic_is_its_own_affair() {
        let executor = Executor::new(1).unwrap();
        let broken = executor.run_blocking(async { panic!("expected by this test") });
        let whole = executor.run_blocking(async { 7 });
        assert_eq!(tokio::join!(broken, whole), (None::<()>, Some(7)));
    }

    #[tokio::test]
    async fn what_waits_at_the_end_is_told() {
        let executor = Executor::new(1).unwrap();
        let (running, has_begun, end) = long(&executor);
        let stopped = async {
            has_begun.await.unwrap();
            let waiting = executor.run_blocking(async { 7 });
            let stop = async {
                executor.stop();
                end.send(()).unwrap();
            };
            tokio::join!(waiting, stop).0
        };
        let (_, waiting) = tokio::join!(running, stopped);
        assert_eq!(waiting, None);
        assert_eq!(
            executor.run_blocking(async { 7 }).await,
            None,
            "after the end"
        );
    }

    #[tokio::test]
    async fn what_nobody_waits_for_does_not_begin() {
        let executor = Executor::new(1).unwrap();
        let (running, has_begun, end) = long(&executor);
        let rest = async {
            has_begun.await.unwrap();
            let (sender, has_run) = mpsc::channel();
            let unwanted = executor.run_blocking(async move { sender.send(()) });
            timeout(Duration::ZERO, unwanted).await.unwrap_err();
            end.send(()).unwrap();
            executor.run_blocking(async {}).await.unwrap();
            has_run.try_recv().unwrap_err()
        };
        tokio::join!(running, rest);
    }
}

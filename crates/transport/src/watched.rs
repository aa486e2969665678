//! What is read again when its files change.
//!
//! The value in use is swapped whole: whoever has taken it keeps it. A change that cannot be used leaves the
//! value before in use and is logged once, until the files change again.

use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use tokio::{
    task::{self, JoinHandle},
    time::{self, MissedTickBehavior},
};

use crate::{
    error::{Error, Result},
    material::Source,
};

/// Makes a value from the contents of its sources.
pub(crate) trait Load: Send + Sync + 'static {
    /// What is made.
    type Value: Send + Sync + 'static;

    /// What it is called in a log.
    fn name(&self) -> &str;

    fn sources(&self) -> Vec<&Source>;

    /// `contents` are those of the sources, in their order.
    fn build(&self, contents: &[Vec<u8>]) -> Result<Self::Value>;
}

/// A value that follows its files.
pub(crate) struct Watched<T> {
    current: Arc<RwLock<Arc<T>>>,
    task: Option<JoinHandle<()>>,
}

impl<T: Send + Sync + 'static> Watched<T> {
    /// Loads; looks for changes at every `interval` if there is one. That needs a Tokio runtime.
    pub(crate) fn open<L: Load<Value = T>>(
        load: L,
        interval: Option<Duration>,
    ) -> Result<Watched<T>> {
        let contents = read(&load)?;
        let current = Arc::new(RwLock::new(Arc::new(load.build(&contents)?)));
        let has_files = load.sources().into_iter().any(Source::is_file);
        let task = interval
            .filter(|interval| has_files && !interval.is_zero())
            .map(|interval| {
                let current = Arc::clone(&current);
                task::spawn(watch(Arc::new(load), contents, current, interval))
            });
        Ok(Watched { current, task })
    }

    /// The value in use.
    pub(crate) fn current(&self) -> Arc<T> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<T> Drop for Watched<T> {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl<T> fmt::Debug for Watched<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watched")
    }
}

fn read<L: Load>(load: &L) -> Result<Vec<Vec<u8>>> {
    load.sources().into_iter().map(Source::read).collect()
}

async fn watch<L: Load>(
    load: Arc<L>,
    mut seen: Vec<Vec<u8>>,
    current: Arc<RwLock<Arc<L::Value>>>,
    interval: Duration,
) {
    let mut ticks = time::interval(interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    let mut unread = String::new();
    loop {
        ticks.tick().await;
        let looked = {
            let (load, seen) = (Arc::clone(&load), seen.clone());
            task::spawn_blocking(move || look(&*load, &seen)).await
        };
        match looked {
            Ok(Looked::Same) => unread.clear(),
            Ok(Looked::Changed { contents, built }) => {
                seen = contents;
                unread.clear();
                match built {
                    Ok(value) => {
                        *current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(value);
                        tracing::info!("{} was replaced and is in use", load.name());
                    }
                    Err(error) => keep_old(load.name(), &error),
                }
            }
            Ok(Looked::Unreadable(error)) => {
                let text = error.to_string();
                if text != unread {
                    keep_old(load.name(), &error);
                    unread = text;
                }
            }
            // The runtime is ending.
            Err(_) => return,
        }
    }
}

enum Looked<T> {
    Same,
    Changed {
        contents: Vec<Vec<u8>>,
        built: Result<T>,
    },
    Unreadable(Error),
}

fn look<L: Load>(load: &L, seen: &[Vec<u8>]) -> Looked<L::Value> {
    match read(load) {
        Ok(contents) if contents == seen => Looked::Same,
        Ok(contents) => {
            let built = load.build(&contents);
            Looked::Changed { contents, built }
        }
        Err(error) => Looked::Unreadable(error),
    }
}

fn keep_old(name: &str, error: &Error) {
    let error = chain(error);
    tracing::error!(
        error,
        "{name} was replaced by one that cannot be used; the one before stays in use"
    );
}

/// An error with its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

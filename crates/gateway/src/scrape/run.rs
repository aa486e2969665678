//! The loop of one receiver: reads what its targets are, asks each when it is due, and says how it went.

use std::{collections::HashSet, sync::Arc, time::Duration};

use tokio::{
    sync::watch,
    task::JoinSet,
    time::{self, Instant},
};
use transport::Authenticators;

use super::{
    Receiver, Target,
    ask::{Asker, Failure, Scraped},
    files::Files,
    metrics::Scraping,
    schedule::Schedule,
};
use crate::{error::Result, receive::Edge};

/// Looks at files where none is named: never soon.
const HOUR: Duration = Duration::from_secs(3600);

/// A receiver with its client.
#[derive(Debug)]
pub(crate) struct Scraper {
    receiver: Receiver,
    asker: Arc<Asker>,
    files: Files,
    schedule: Schedule,
    /// Targets that were told to be down, or to have lines that cannot be read.
    told_down: HashSet<String>,
    told_skipped: HashSet<String>,
}

type Outcome = (Arc<Target>, std::result::Result<Scraped, Failure>);

impl Scraper {
    /// Reads key material, asks nobody yet.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Door`] where key material or a token cannot be used.
    pub(crate) fn new(receiver: Receiver, known: &Authenticators) -> Result<Self> {
        let asker = Asker::new(&receiver.id, &receiver.config, receiver.kind, known)?;
        let interval = receiver.config.interval(receiver.kind);
        Ok(Self {
            receiver,
            asker: Arc::new(asker),
            files: Files::default(),
            schedule: Schedule::new(interval),
            told_down: HashSet::new(),
            told_skipped: HashSet::new(),
        })
    }

    /// Runs until it is told to stop; scrapes that are under way then are given up.
    pub(crate) async fn run(mut self, edge: Arc<Edge>, mut stop: watch::Receiver<bool>) {
        let begin = Instant::now();
        let mut under_way: JoinSet<Outcome> = JoinSet::new();
        let mut refresh_at = Duration::ZERO;
        while !*stop.borrow() {
            let now = begin.elapsed();
            if now >= refresh_at {
                self = self.find_targets(now, &edge).await;
                refresh_at = now.saturating_add(self.refresh_interval());
            }
            for target in self.schedule.take_due(now) {
                let (asker, edge) = (Arc::clone(&self.asker), Arc::clone(&edge));
                under_way.spawn(async move {
                    let scraped = asker.scrape(&target, &edge).await;
                    (target, scraped)
                });
            }
            edge.metrics
                .scraping
                .set_overlapped(&self.receiver.id, self.schedule.n_skipped());
            let next = self.schedule.next_due().unwrap_or(HOUR).min(refresh_at);
            tokio::select! {
                () = time::sleep_until(begin + next) => {}
                Some(ended) = under_way.join_next() => {
                    if let Ok((target, outcome)) = ended {
                        self.note(&target, outcome, &edge.metrics.scraping);
                    }
                }
                _ = stop.changed() => {}
            }
        }
    }

    fn refresh_interval(&self) -> Duration {
        let files = self.receiver.config.file_sd_configs.iter();
        let interval = files.map(|files| files.refresh_interval).min();
        interval.unwrap_or(HOUR)
    }

    /// Files are read off the runtime's threads.
    async fn find_targets(mut self, now: Duration, edge: &Edge) -> Self {
        let configs = self.receiver.config.file_sd_configs.clone();
        let mut files = std::mem::take(&mut self.files);
        let reading = move || {
            files.refresh(&configs);
            files
        };
        self.files = tokio::task::spawn_blocking(reading)
            .await
            .unwrap_or_default();
        let config = &self.receiver.config;
        let named = config.static_configs.iter().chain(self.files.groups());
        let groups: Vec<_> = named.cloned().collect();
        let (targets, dropped) = config.targets(self.receiver.kind, &groups);
        for dropped in dropped {
            let receiver = &self.receiver.id;
            tracing::debug!(receiver, %dropped, "a target is not scraped");
        }
        let urls: HashSet<&str> = targets.iter().map(Target::url).collect();
        edge.metrics.scraping.keep_targets(&self.receiver.id, &urls);
        self.told_down.retain(|url| urls.contains(url.as_str()));
        self.told_skipped.retain(|url| urls.contains(url.as_str()));
        self.schedule.set_targets(targets, now);
        self
    }

    /// Counts, and tells once when a target goes down, comes back, or has lines that cannot be read.
    fn note(
        &mut self,
        target: &Target,
        outcome: std::result::Result<Scraped, Failure>,
        metrics: &Scraping,
    ) {
        self.schedule.finished(target);
        let (receiver, url) = (&self.receiver.id, target.url());
        match outcome {
            Ok(scraped) => {
                metrics.count_scrape(receiver, url, scraped.n_points, scraped.n_skipped);
                if self.told_down.remove(url) {
                    tracing::info!(receiver, url, "the target answers again");
                }
                if let Some(first) = scraped.skipped
                    && self.told_skipped.insert(url.to_owned())
                {
                    let (n_skipped, line) = (scraped.n_skipped, first.line);
                    let reason = first.reason;
                    tracing::warn!(
                        receiver,
                        url,
                        n_skipped,
                        line,
                        ?reason,
                        "lines of the target cannot be read; the rest is taken"
                    );
                }
            }
            Err(failure) => {
                metrics.count_failure(receiver, url, failure);
                // A closed intake is told of elsewhere, and no fault of the target.
                if failure != Failure::Refused && self.told_down.insert(url.to_owned()) {
                    tracing::warn!(receiver, url, %failure, "a scrape failed");
                }
            }
        }
    }
}

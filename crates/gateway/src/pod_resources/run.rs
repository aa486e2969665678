//! The loop of one receiver: looks, reports what is worth it, says how it went.

use std::{sync::Arc, time::Duration};

use otlp::reply::Encoding;
use reports::{Kind, Message, Observation, PLACEMENTS_MAX, Placement, ReportPlacementsRequest};
use tokio::{
    sync::watch,
    time::{self, Instant},
};

use super::{
    HEARTBEAT, Receiver,
    ask::{self, Failure},
    devices,
};
use crate::{
    body::Compression,
    receive::{Edge, Received},
    record::Content,
    status::Refusal,
};

/// Longest time between two looks while nobody answers.
const BACKOFF_MAX: Duration = Duration::from_secs(60);

/// A receiver and what it knows.
#[derive(Debug)]
pub(crate) struct Watcher {
    receiver: Receiver,
    /// What is in the log.
    reported: Option<Reported>,
    n_failed: u32,
    /// The failure that was told last.
    told: Option<Failure>,
}

/// The last report.
#[derive(Debug)]
struct Reported {
    placements: Vec<Placement>,
    at: Instant,
    /// When a look saw it last.
    seen_unix_nano: u64,
}

/// A look that worked.
struct Seen {
    n_placements: usize,
    is_reported: bool,
}

impl Watcher {
    pub(crate) const fn new(receiver: Receiver) -> Self {
        Self {
            receiver,
            reported: None,
            n_failed: 0,
            told: None,
        }
    }

    /// Runs until it is told to stop; a look that is under way then is given up.
    pub(crate) async fn run(mut self, edge: Arc<Edge>, mut stop: watch::Receiver<bool>) {
        while !*stop.borrow() {
            let begin = Instant::now();
            tokio::select! {
                outcome = self.look(&edge) => self.note(&outcome, &edge),
                _ = stop.changed() => return,
            }
            tokio::select! {
                () = time::sleep_until(begin + self.pause()) => {}
                _ = stop.changed() => {}
            }
        }
    }

    /// Until the next look: longer each time that nobody answers.
    fn pause(&self) -> Duration {
        let interval = self.receiver.config.interval;
        let factor = 1_u32.checked_shl(self.n_failed.min(16)).unwrap_or(1);
        interval
            .saturating_mul(factor)
            .min(BACKOFF_MAX.max(interval))
    }

    async fn look(&mut self, edge: &Edge) -> Result<Seen, Failure> {
        edge.gate.pass().map_err(|_| Failure::Refused)?;
        let config = &self.receiver.config;
        let observed_unix_nano = edge.clock.unix_nano();
        let listed = ask::list(&config.socket, config.timeout, config.answer_bytes_max);
        let placements = devices::placements(listed.await?, config);
        let n_placements = placements.len();
        if n_placements > PLACEMENTS_MAX {
            return Err(Failure::TooLarge);
        }
        let before = self.reported.as_mut();
        let is_same = before.is_some_and(|before| {
            let is_same = before.placements == placements;
            // Also where it is reported below: its end, if it has one, is not before this look.
            if is_same {
                before.seen_unix_nano = before.seen_unix_nano.max(observed_unix_nano);
            }
            is_same && before.at.elapsed() < HEARTBEAT
        });
        if is_same {
            return Ok(Seen {
                n_placements,
                is_reported: false,
            });
        }
        let before = self.reported.as_ref();
        let observation = Observation {
            node: config.node.clone(),
            observed_unix_nano,
            unchanged_until_unix_nano: before
                .map(|before| before.seen_unix_nano.min(observed_unix_nano)),
        };
        report(edge, &placements, observation).await?;
        self.reported = Some(Reported {
            placements,
            at: Instant::now(),
            seen_unix_nano: observed_unix_nano,
        });
        Ok(Seen {
            n_placements,
            is_reported: true,
        })
    }

    /// Counts, and tells once when looking begins to fail, in another way than before, and when it works again.
    fn note(&mut self, outcome: &Result<Seen, Failure>, edge: &Edge) {
        let (receiver, metrics) = (&self.receiver.id, &edge.metrics.watching);
        let socket = self.receiver.config.socket.display();
        match outcome {
            Ok(seen) => {
                self.n_failed = 0;
                metrics.count_look(receiver, seen.n_placements as u64, seen.is_reported);
                if self.told.take().is_some() {
                    tracing::info!(receiver, %socket, "the kubelet answers again");
                }
            }
            Err(Failure::Refused) => {
                // A closed intake is told of elsewhere, and no fault of the kubelet.
                metrics.count_failure(receiver, Failure::Refused);
            }
            Err(failure) => {
                self.n_failed = self.n_failed.saturating_add(1);
                metrics.count_failure(receiver, *failure);
                if self.told != Some(*failure) {
                    let next = self.pause();
                    tracing::warn!(receiver, %socket, %failure, retry_in = ?next,
                        "the kubelet cannot be asked which pod holds which GPU");
                }
                self.told = Some(*failure);
            }
        }
    }
}

/// In the log when this returns `Ok`.
async fn report(
    edge: &Edge,
    placements: &[Placement],
    observation: Observation,
) -> Result<(), Failure> {
    let request = ReportPlacementsRequest {
        placements: placements.to_vec(),
        observation: Some(observation),
    };
    let bytes = bytes::Bytes::from(request.encode_to_vec());
    let mut permit = edge.budget.permit();
    permit.grow(bytes.len()).map_err(|_| Failure::Refused)?;
    let limit_bytes = bytes.len() as u64;
    let received = Received {
        content: Content::Report(Kind::Placements),
        encoding: Encoding::Protobuf,
        compression: Compression::None,
        bytes,
        permit,
        limit_bytes,
    };
    let taken = edge.export(received).await;
    taken.map(drop).map_err(|refusal| {
        // Names longer than a report may have, from whoever answers on the socket.
        if matches!(refusal, Refusal::BadReport(_)) {
            Failure::Broken
        } else {
            Failure::Refused
        }
    })
}

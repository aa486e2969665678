//! Settings of the batches of engines, under the processor `correlate`.

use std::time::Duration;

use correlate::BatchNames;
use serde::Deserialize;

/// How engines speak of their batches, and how long a batch waits for its participants. Of several keys for one thing, the
/// first that a span, event or link has counts.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Batches {
    /// Whether batches are looked for. Default `true`.
    pub(crate) enabled: bool,
    /// How long a batch waits for participants after the release that showed it first, at most; the time of those who come
    /// later stays nobody's. Default `60s`.
    #[serde(deserialize_with = "sampler::duration::deserialize")]
    pub(crate) max_lateness: Duration,
    /// Take the participants that were named as all of them where the engine does not say how many there are. True to the facts
    /// where every request is traced; shares are marked `estimated`. Default `false`: shares are unknown then.
    pub(crate) all_listed: bool,
    /// Id of the batch: what makes a span or event speak of one. Default `[batch_id, bid]`.
    pub(crate) batch_id: Vec<String>,
    /// Number of the engine's step. Default `[step, step_id]`.
    pub(crate) step: Vec<String>,
    /// Number of participants. Default `[batch_size, num_seqs]`.
    pub(crate) batch_size: Vec<String>,
    /// Tokens of all participants. Default `[batch_tokens, num_batched_tokens]`.
    pub(crate) batch_tokens: Vec<String>,
    /// Tokens of one participant, on its span, event or link. Default `[tokens, num_tokens, num_scheduled_tokens]`.
    pub(crate) tokens: Vec<String>,
    /// What the step did: prefill, extend, decode or mixed. Default `[phase, forward_mode]`.
    pub(crate) phase: Vec<String>,
    /// Start, nanoseconds since 1970. Default `[batch_start_time_ns, batch_start_time_unix_nano]`.
    pub(crate) start: Vec<String>,
    /// End, nanoseconds since 1970. Default `[batch_end_time_ns, batch_end_time_unix_nano]`.
    pub(crate) end: Vec<String>,
    /// Length in nanoseconds. Default `[batch_duration_ns]`.
    pub(crate) duration: Vec<String>,
    /// Data parallel rank of the engine, where one pod runs several. Default `[dp_rank]`.
    pub(crate) dp_rank: Vec<String>,
    /// Names of spans that are batches, with links to their participants. Default `[engine_step, batch]`.
    pub(crate) spans: Vec<String>,
}

impl Default for Batches {
    fn default() -> Self {
        let names = BatchNames::default();
        Self {
            enabled: true,
            max_lateness: Duration::from_secs(60),
            all_listed: names.is_all_listed,
            batch_id: names.batch_id,
            step: names.step,
            batch_size: names.batch_size,
            batch_tokens: names.batch_tokens,
            tokens: names.tokens,
            phase: names.phase,
            start: names.start,
            end: names.end,
            duration: names.duration,
            dp_rank: names.dp_rank,
            spans: names.spans,
        }
    }
}

impl Batches {
    pub(super) fn validate(&self) -> Result<(), String> {
        const HOUR: Duration = Duration::from_secs(3600);
        if self.max_lateness > HOUR {
            return Err(
                "`batches.max_lateness` must be at most `1h`: batches wait in memory".to_owned(),
            );
        }
        if self.enabled && self.batch_id.is_empty() {
            return Err(
                "`batches.batch_id` is empty; name a key, or write `enabled: false`".to_owned(),
            );
        }
        Ok(())
    }

    pub(crate) fn names(&self) -> BatchNames {
        BatchNames {
            batch_id: self.batch_id.clone(),
            step: self.step.clone(),
            batch_size: self.batch_size.clone(),
            batch_tokens: self.batch_tokens.clone(),
            tokens: self.tokens.clone(),
            phase: self.phase.clone(),
            start: self.start.clone(),
            end: self.end.clone(),
            duration: self.duration.clone(),
            dp_rank: self.dp_rank.clone(),
            spans: self.spans.clone(),
            is_all_listed: self.all_listed,
        }
    }

    /// In one line, for `whyslow check`.
    pub(crate) fn describe(&self) -> String {
        if !self.enabled {
            return "not looked for".to_owned();
        }
        let keys: Vec<String> = self.batch_id.iter().map(|key| format!("`{key}`")).collect();
        let unknown = if self.all_listed {
            "those who are named are all"
        } else {
            "the time of who is not named is nobody's"
        };
        format!(
            "by {}; written when all who took part are known, after {:?} at the latest; {unknown}",
            keys.join(", "),
            self.max_lateness
        )
    }
}

//! By which keys engines speak of batches.

/// What a key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    BatchId,
    Step,
    Size,
    BatchTokens,
    Tokens,
    Phase,
    Start,
    End,
    Duration,
    DpRank,
    RequestId,
    Model,
}

impl Field {
    pub(super) const COUNT: usize = 12;
}

/// Attribute keys and span names; of several keys for one thing, the first that is there counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchNames {
    /// Id of the batch: what makes a span or event speak of one.
    pub batch_id: Vec<String>,
    /// Number of the engine's step.
    pub step: Vec<String>,
    /// Number of participants.
    pub batch_size: Vec<String>,
    /// Tokens of all participants.
    pub batch_tokens: Vec<String>,
    /// Tokens of one participant.
    pub tokens: Vec<String>,
    /// What the step did for a participant.
    pub phase: Vec<String>,
    /// Start, nanoseconds since 1970.
    pub start: Vec<String>,
    /// End, nanoseconds since 1970.
    pub end: Vec<String>,
    /// Length in nanoseconds.
    pub duration: Vec<String>,
    /// Data parallel rank.
    pub dp_rank: Vec<String>,
    /// Names of spans that are batches.
    pub spans: Vec<String>,
    /// Take those that were named as all where the number of participants is not said.
    pub is_all_listed: bool,
}

impl Default for BatchNames {
    fn default() -> Self {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Self {
            batch_id: list(&["batch_id", "bid"]),
            step: list(&["step", "step_id"]),
            batch_size: list(&["batch_size", "num_seqs"]),
            batch_tokens: list(&["batch_tokens", "num_batched_tokens"]),
            tokens: list(&["tokens", "num_tokens", "num_scheduled_tokens"]),
            phase: list(&["phase", "forward_mode"]),
            start: list(&["batch_start_time_ns", "batch_start_time_unix_nano"]),
            end: list(&["batch_end_time_ns", "batch_end_time_unix_nano"]),
            duration: list(&["batch_duration_ns"]),
            dp_rank: list(&["dp_rank"]),
            spans: list(&["engine_step", "batch"]),
            is_all_listed: false,
        }
    }
}

/// Keys of a request's id and model, as in a row of `requests`.
const REQUEST_IDS: [&str; 3] = ["gen_ai.request.id", "rid", "request_id"];
const MODELS: [&str; 3] = ["gen_ai.response.model", "gen_ai.request.model", "model"];

/// Keys by their length: almost all of a span's are refused without comparing.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    /// Bit `n`: some key has `n` bytes; the last bit is for all that are longer.
    lengths: u64,
    /// Key, what it is for, and its rank among those for the same.
    keys: Vec<(Box<str>, Field, usize)>,
}

impl Keys {
    pub(super) fn new(names: &BatchNames) -> Self {
        let lists: [(&[String], Field); 10] = [
            (&names.batch_id, Field::BatchId),
            (&names.step, Field::Step),
            (&names.batch_size, Field::Size),
            (&names.batch_tokens, Field::BatchTokens),
            (&names.tokens, Field::Tokens),
            (&names.phase, Field::Phase),
            (&names.start, Field::Start),
            (&names.end, Field::End),
            (&names.duration, Field::Duration),
            (&names.dp_rank, Field::DpRank),
        ];
        let ours = lists.into_iter().flat_map(|(list, field)| {
            let ranked = list.iter().enumerate();
            ranked.map(move |(rank, key)| (key.as_str().into(), field, rank))
        });
        let fixed = [(REQUEST_IDS, Field::RequestId), (MODELS, Field::Model)];
        let fixed = fixed.into_iter().flat_map(|(list, field)| {
            let ranked = list.into_iter().enumerate();
            ranked.map(move |(rank, key)| (key.into(), field, rank))
        });
        let keys: Vec<(Box<str>, Field, usize)> = ours.chain(fixed).collect();
        let lengths = keys
            .iter()
            .fold(0, |lengths, (key, _, _)| lengths | Self::bit(key));
        Self { lengths, keys }
    }

    fn bit(key: &str) -> u64 {
        1 << key.len().min(63)
    }

    pub(super) fn find(&self, key: &str) -> Option<(Field, usize)> {
        if self.lengths & Self::bit(key) == 0 {
            return None;
        }
        let mut all = self.keys.iter();
        all.find(|(known, _, _)| **known == *key)
            .map(|(_, field, rank)| (*field, *rank))
    }
}

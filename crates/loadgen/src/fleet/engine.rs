//! One replica of an engine with continuous batching.
//!
//! In each step every running sequence decodes one token or computes a chunk of its prompt, within a budget of tokens.
//! Waiting sequences join while there are slots and room in the KV cache for their prompt. When the cache is full, the
//! sequence that joined last loses its place, waits in front of the queue, and computes everything again. That is
//! the scheduler of vLLM V1 in its outlines (first come first served, chunked prefill, recompute preemption).

use std::collections::VecDeque;

use super::fault::{Cause, Delays, FaultKind, Faults};

/// Sequences that run at once.
const SEQUENCES_MAX: usize = 24;
/// Tokens of a step.
const STEP_TOKENS_MAX: u32 = 2_048;
/// Tokens that the KV cache holds.
pub(super) const KV_TOKENS: u32 = 64_000;

const MILLI: u64 = 1_000_000;
/// Of any step: scheduling, sampling, launching.
const STEP_BASE: u64 = 4 * MILLI;
/// Reading the weights, if anything is decoded.
const DECODE_BASE: u64 = 7 * MILLI;
const DECODE_PER_SEQUENCE: u64 = MILLI / 6;
const PREFILL_PER_TOKEN: u64 = MILLI / 16;
/// Prompts of this length are in the way of others; the usual ones are the usual.
const LONG_PROMPT: u32 = 8_000;
/// Exchange between the GPUs of the replica.
const EXCHANGE: u64 = MILLI;

/// A hot or braked GPU runs at little over half of its clock, and the others wait for it.
const THROTTLE_PERCENT: u64 = 90;
/// A slow link makes the exchange this much longer.
const SLOW_EXCHANGE: u64 = 14 * MILLI;

/// A scheduling step and who took part in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Which replica ran it.
    pub replica_idx: u8,
    /// Number of the step on that replica.
    pub step: u64,
    /// When it began, in nanoseconds since 1970.
    pub start_unix_nano: u64,
    /// When it ended.
    pub end_unix_nano: u64,
    /// Places of the requests in [`super::Run::requests`], and their tokens in the step.
    pub participants: Vec<(usize, u32)>,
}

/// A request in the engine.
#[derive(Debug, Clone)]
pub(super) struct Sequence {
    pub(super) request: usize,
    pub(super) prompt: u32,
    pub(super) target: u32,
    pub(super) arrived: u64,
    pub(super) scheduled: Option<u64>,
    pub(super) first_token: Option<u64>,
    pub(super) n_preemptions: u32,
    pub(super) delays: Delays,
    /// Part of its waiting for which another cause than the queue itself is to blame.
    pub(super) waited_for_cause: u64,
    output: u32,
    /// Tokens that are in the KV cache.
    computed: u32,
    /// When it lost its place, and how much was computed then.
    lost: Option<(u64, u32)>,
}

impl Sequence {
    pub(super) fn new(request: usize, prompt: u32, target: u32, arrived: u64) -> Self {
        Self {
            request,
            prompt,
            target: target.max(1),
            arrived,
            scheduled: None,
            first_token: None,
            n_preemptions: 0,
            delays: Delays::default(),
            waited_for_cause: 0,
            output: 0,
            computed: 0,
            lost: None,
        }
    }

    /// Tokens that must be computed before the next one can be sampled.
    const fn missing(&self) -> u32 {
        (self.prompt + self.output).saturating_sub(self.computed)
    }
}

/// What the engine counts since its start, and what it has at the moment.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counters {
    pub(super) n_preemptions: u64,
    pub(super) prompt_tokens: u64,
    pub(super) generation_tokens: u64,
    pub(super) n_steps: u64,
    pub(super) step_tokens: u64,
    pub(super) n_finished: u64,
    pub(super) n_running: usize,
    pub(super) n_waiting: usize,
    pub(super) kv_tokens: u32,
}

/// A replica.
#[derive(Debug)]
pub(super) struct Engine {
    replica_idx: u8,
    running: Vec<Sequence>,
    waiting: VecDeque<Sequence>,
    counters: Counters,
    /// When the step that runs began and ends, and its tokens by place in `running`.
    step: Option<Step>,
    /// Why the next in the queue could not join although there was a slot: no room in the KV cache, or the tokens of the
    /// step went to a long prompt.
    shortage: Option<Cause>,
    /// When steps ran that [`Self::take_busy`] has not gone past.
    busy: VecDeque<(u64, u64)>,
}

#[derive(Debug)]
struct Step {
    start: u64,
    end: u64,
    /// By place in `running`.
    tokens: Vec<u32>,
    costs: Vec<(Cause, u64)>,
    /// Part of it that long prompts took.
    long_prefill: u64,
}

impl Engine {
    pub(super) fn new(replica_idx: u8) -> Self {
        Self {
            replica_idx,
            running: Vec::new(),
            waiting: VecDeque::new(),
            counters: Counters::default(),
            step: None,
            shortage: None,
            busy: VecDeque::new(),
        }
    }

    pub(super) fn add(&mut self, sequence: Sequence) {
        self.waiting.push_back(sequence);
    }

    /// When the step that runs ends.
    pub(super) fn due(&self) -> Option<u64> {
        self.step.as_ref().map(|step| step.end)
    }

    pub(super) const fn replica_idx(&self) -> u8 {
        self.replica_idx
    }

    pub(super) fn counters(&self) -> Counters {
        Counters {
            n_running: self.running.len(),
            n_waiting: self.waiting.len(),
            kv_tokens: self.kv_tokens(),
            ..self.counters
        }
    }

    /// Nanoseconds of work in `from..to`, and forgets what was before.
    pub(super) fn take_busy(&mut self, from: u64, to: u64) -> u64 {
        while self.busy.front().is_some_and(|(_, end)| *end <= from) {
            self.busy.pop_front();
        }
        let running = self.step.as_ref().map(|step| (step.start, step.end));
        let all = self.busy.iter().copied().chain(running);
        all.map(|(start, end)| end.min(to).saturating_sub(start.max(from)))
            .sum()
    }

    fn kv_tokens(&self) -> u32 {
        self.running.iter().map(|sequence| sequence.computed).sum()
    }

    /// Begins a step if none runs and there is something to do.
    pub(super) fn begin(&mut self, now: u64, faults: &Faults) {
        if self.step.is_some() || (self.running.is_empty() && self.waiting.is_empty()) {
            return;
        }
        let tokens = self.schedule(now);
        if tokens.is_empty() {
            return;
        }
        let is_prefill =
            |(sequence, tokens): &(&Sequence, &u32)| sequence.missing() > 1 || **tokens > 1;
        let pairs = || self.running.iter().zip(&tokens);
        let prefill_tokens: u32 = pairs().filter(is_prefill).map(|(_, tokens)| *tokens).sum();
        let n_decoding = pairs().filter(|pair| !is_prefill(pair)).count() as u64;
        let long_tokens: u32 = pairs()
            .filter(|(sequence, tokens)| sequence.prompt >= LONG_PROMPT && **tokens > 1)
            .map(|(_, tokens)| *tokens)
            .sum();
        let prefill = u64::from(prefill_tokens) * PREFILL_PER_TOKEN;
        let decode = if n_decoding > 0 {
            DECODE_BASE + n_decoding * DECODE_PER_SEQUENCE
        } else {
            0
        };
        let work = prefill + decode + EXCHANGE;
        let costs = self.costs(now, work, faults);
        let extra: u64 = costs.iter().map(|(_, nanos)| nanos).sum();
        self.step = Some(Step {
            start: now,
            end: now + STEP_BASE + work + extra,
            tokens,
            costs,
            long_prefill: u64::from(long_tokens) * PREFILL_PER_TOKEN,
        });
    }

    /// What makes a step longer than its work.
    fn costs(&self, now: u64, work: u64, faults: &Faults) -> Vec<(Cause, u64)> {
        let mut costs = Vec::new();
        if self.replica_idx != 0 {
            return costs;
        }
        for cause in [Cause::ThermalThrottle, Cause::PowerThrottle] {
            // On the GPUs that it left, it is no longer this engine's trouble.
            if faults.is_slow(cause, now) && !has_moved(faults, now) {
                costs.push((cause, work * THROTTLE_PERCENT / 100));
            }
        }
        if faults.is_slow(Cause::NvlinkSlow, now) {
            costs.push((Cause::NvlinkSlow, SLOW_EXCHANGE));
        }
        if let Some(end) = faults.end(FaultKind::Slow(Cause::Xid), now) {
            costs.push((Cause::Xid, end - now));
        }
        costs
    }

    /// Tokens of each running sequence in the step that begins; sequences join and lose their place here.
    fn schedule(&mut self, now: u64) -> Vec<u32> {
        let mut budget = STEP_TOKENS_MAX;
        let mut tokens: Vec<u32> = Vec::new();
        self.shortage = None;
        let mut at = 0;
        while at < self.running.len() {
            let wanted = self.running[at].missing().max(1).min(budget);
            while at < self.running.len()
                && self.kv_tokens() + tokens.iter().sum::<u32>() + wanted > KV_TOKENS
            {
                self.preempt_last(now);
            }
            if at < self.running.len() {
                tokens.push(wanted);
                budget -= wanted;
            }
            at += 1;
        }
        while let Some(next) = self.waiting.front() {
            let reserved: u32 = self
                .running
                .iter()
                .map(|sequence| sequence.computed.max(sequence.prompt))
                .sum();
            let has_room =
                reserved + next.missing() <= KV_TOKENS * 97 / 100 || self.running.is_empty();
            if self.running.len() >= SEQUENCES_MAX || budget == 0 || !has_room {
                self.shortage = if self.running.len() >= SEQUENCES_MAX {
                    None
                } else if budget == 0 {
                    let has_long = self
                        .running
                        .iter()
                        .any(|sequence| sequence.prompt >= LONG_PROMPT);
                    has_long.then_some(Cause::LongPrefill)
                } else {
                    Some(Cause::KvPreemption)
                };
                break;
            }
            let Some(mut next) = self.waiting.pop_front() else {
                break;
            };
            next.scheduled.get_or_insert(now);
            let chunk = next.missing().min(budget);
            budget -= chunk;
            tokens.push(chunk);
            self.running.push(next);
        }
        tokens.truncate(self.running.len());
        tokens
    }

    fn preempt_last(&mut self, now: u64) {
        if let Some(mut last) = self.running.pop() {
            last.n_preemptions += 1;
            last.lost.get_or_insert((now, last.computed));
            last.computed = 0;
            self.counters.n_preemptions += 1;
            self.waiting.push_front(last);
        }
    }

    /// Ends the step that runs; gives it and the sequences that are finished.
    pub(super) fn end(&mut self) -> Option<(Batch, Vec<(Sequence, u64)>)> {
        let step = self.step.take()?;
        let now = step.end;
        self.busy.push_back((step.start, step.end));
        self.counters.n_steps += 1;
        let mut participants = Vec::with_capacity(step.tokens.len());
        for (sequence, tokens) in self.running.iter_mut().zip(&step.tokens) {
            participants.push((sequence.request, *tokens));
            self.counters.step_tokens += u64::from(*tokens);
            advance(sequence, *tokens, now, &mut self.counters);
            for (cause, nanos) in &step.costs {
                sequence.delays.add(*cause, *nanos);
            }
            if *tokens == 1 || sequence.prompt < LONG_PROMPT {
                sequence.delays.add(Cause::LongPrefill, step.long_prefill);
            }
        }
        self.blame_waiting(&step);
        let (done, running): (Vec<_>, Vec<_>) = std::mem::take(&mut self.running)
            .into_iter()
            .partition(|sequence| sequence.output >= sequence.target);
        self.running = running;
        self.counters.n_finished += done.len() as u64;
        let batch = Batch {
            replica_idx: self.replica_idx,
            step: self.counters.n_steps,
            start_unix_nano: step.start,
            end_unix_nano: now,
            participants,
        };
        Some((
            batch,
            done.into_iter().map(|sequence| (sequence, now)).collect(),
        ))
    }

    /// Who waits because the engine stands still, or for room or tokens that others have, waits for that reason.
    fn blame_waiting(&mut self, step: &Step) {
        let stood = step.costs.iter().find(|(cause, _)| *cause == Cause::Xid);
        let is_new = |sequence: &&mut Sequence| sequence.scheduled.is_none();
        for sequence in self.waiting.iter_mut().filter(is_new) {
            let (cause, since) = match (stood, self.shortage) {
                (Some((cause, nanos)), _) => (*cause, step.end - nanos),
                (None, Some(cause)) => (cause, step.start),
                (None, None) => continue,
            };
            let waited = step.end.saturating_sub(sequence.arrived.max(since));
            sequence.delays.add(cause, waited);
            sequence.waited_for_cause += waited;
        }
    }
}

fn advance(sequence: &mut Sequence, tokens: u32, now: u64, counters: &mut Counters) {
    sequence.computed += tokens;
    if let Some((lost, computed)) = sequence.lost
        && sequence.computed >= computed
    {
        sequence.delays.add(Cause::KvPreemption, now - lost);
        sequence.lost = None;
    }
    if sequence.missing() > 0 {
        return;
    }
    if sequence.first_token.is_none() {
        counters.prompt_tokens += u64::from(sequence.prompt);
    }
    sequence.first_token.get_or_insert(now);
    sequence.output += 1;
    counters.generation_tokens += 1;
}

pub(super) fn has_moved(faults: &Faults, now: u64) -> bool {
    faults
        .first(FaultKind::PodMoved)
        .is_some_and(|moved| moved <= now)
}

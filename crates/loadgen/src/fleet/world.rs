//! The clock of the fleet: arrivals, steps and scrapes in order of time.

use std::{cmp::Reverse, collections::BinaryHeap, time::Duration};

use super::{
    Batch, Config, GPUS_PER_REPLICA, N_NODES, N_REPLICAS, Run, Scrape, Served, Target, batches,
    engine::{Engine, Sequence},
    exposition,
    fault::{Cause, Delays, FaultKind, Faults},
    gpu::Gpus,
};
use crate::{
    rng::Rng,
    traffic::{Outside, Request, Told, nanos},
};

const SECOND: u64 = 1_000_000_000;

/// From the client to the gateway's routing, and from there to the search.
const TO_ENGINE: u64 = 6_000_000;

/// Extra arrivals a second while a burst lasts, per request a second otherwise.
const BURST_FACTOR: f64 = 7.0;
/// Long prompts a second while they interfere.
const LONG_PROMPTS_RATE: f64 = 0.5;
/// Long answers a second while they fill the cache.
const LONG_ANSWERS_RATE: f64 = 0.6;

/// How much the clock of the engines' hosts can be ahead.
const CLOCK_AHEAD: Duration = Duration::from_secs(2);

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Usual,
    LongPrompt,
    LongAnswer,
}

/// What happens next; the order is that of equal times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrive { request: usize },
    StepEnds { replica_idx: u8 },
    Scrape,
}

pub(super) struct World {
    config: Config,
    faults: Faults,
    rng: Rng,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    engines: Vec<Engine>,
    gpus: Gpus,
    requests: Vec<Served>,
    batches: Vec<Batch>,
    scrapes: Vec<Scrape>,
    n_open: usize,
    n_routed: usize,
}

impl World {
    pub(super) fn new(config: &Config) -> Self {
        let faults = Faults::new(&config.faults, config.start_unix_nano);
        Self {
            config: config.clone(),
            rng: Rng::new(config.seed),
            events: BinaryHeap::new(),
            engines: (0..N_REPLICAS).map(Engine::new).collect(),
            gpus: Gpus::new(config.seed, config.start_unix_nano, &faults),
            faults,
            requests: Vec::new(),
            batches: Vec::new(),
            scrapes: Vec::new(),
            n_open: 0,
            n_routed: 0,
        }
    }

    pub(super) fn run(mut self) -> Run {
        self.draw_requests();
        self.n_open = self.requests.len();
        self.events.push(Reverse((
            self.config.start_unix_nano + SECOND,
            Event::Scrape,
        )));
        while let Some(Reverse((now, event))) = self.events.pop() {
            match event {
                Event::Arrive { request } => self.arrive(request, now),
                Event::StepEnds { replica_idx } => self.end_step(replica_idx),
                Event::Scrape => self.scrape(now),
            }
            for engine in &mut self.engines {
                let was_idle = engine.due().is_none();
                engine.begin(now, &self.faults);
                if was_idle && let Some(due) = engine.due() {
                    self.events.push(Reverse((
                        due,
                        Event::StepEnds {
                            replica_idx: engine.replica_idx(),
                        },
                    )));
                }
            }
        }
        let steps = batches::by_request(&self.config, &self.batches, self.requests.len());
        let requests = self.requests.iter().zip(&steps);
        let requests = requests.map(|(served, steps)| (&served.request, steps.told(&self.config)));
        let mut told = Told::new(requests, self.config.seed);
        if self.config.batch_spans {
            for batch in &self.batches {
                let interval = (batch.start_unix_nano, batch.end_unix_nano);
                told.step(batch.replica_idx, batch.step, interval, &batch.participants);
            }
        }
        Run {
            placements: self.gpus.placements(),
            requests: self.requests,
            exports: told.into_exports(),
            scrapes: self.scrapes,
            batches: self.batches,
        }
    }

    /// All requests of the run, and when each reaches the engines.
    fn draw_requests(&mut self) {
        let end = self.config.start_unix_nano + nanos(self.config.duration);
        let mut at = self.config.start_unix_nano;
        while at < end {
            let is_burst = self.faults.is_slow(Cause::QueueBurst, at);
            let rate = self.config.rate * if is_burst { BURST_FACTOR } else { 1.0 };
            let extra = [
                (Shape::LongPrompt, Cause::LongPrefill, LONG_PROMPTS_RATE),
                (Shape::LongAnswer, Cause::KvPreemption, LONG_ANSWERS_RATE),
            ];
            let extra = extra.map(|(shape, cause, rate)| {
                (
                    shape,
                    if self.faults.is_slow(cause, at) {
                        rate
                    } else {
                        0.0
                    },
                )
            });
            let total = rate + extra.iter().map(|(_, rate)| rate).sum::<f64>();
            at += nanos(Duration::from_secs_f64(self.rng.exponential(1.0 / total)));
            let mut drawn = self.rng.unit() * total;
            let shape = extra.iter().find(|(_, rate)| {
                drawn -= rate;
                drawn < 0.0
            });
            self.draw_request(at, shape.map_or(Shape::Usual, |(shape, _)| *shape));
        }
    }

    fn draw_request(&mut self, at: u64, shape: Shape) {
        let mut own = Rng::new(self.rng.next_u64());
        let mut delays = Delays::default();
        let mut outside = Outside::default();
        let mut slow = |cause: Cause, from: f64, to: f64, own: &mut Rng| {
            let is_on = self.faults.is_slow(cause, at);
            let delay = Duration::from_secs_f64(if is_on { own.between(from, to) } else { 0.0 });
            delays.add(cause, nanos(delay));
            delay
        };
        outside.gateway = slow(Cause::GatewayStall, 2.0, 5.0, &mut own);
        outside.delivery = slow(Cause::SlowClient, 3.0, 7.0, &mut own);
        let rag = slow(Cause::SlowRag, 2.0, 5.0, &mut own);
        outside.context_lost = self.faults.is_on(FaultKind::ContextLost, at);
        if self.faults.is_on(FaultKind::ClockAhead, at) {
            outside.engine_clock_ahead = CLOCK_AHEAD;
        }
        let (input, output) = match shape {
            Shape::Usual => (200 + own.below(2_600), 20 + own.below(240)),
            Shape::LongPrompt => (20_000 + own.below(8_000), 1 + own.below(60)),
            Shape::LongAnswer => (2_000 + own.below(1_000), 3_000 + own.below(2_000)),
        };
        // In turn, but what is injected goes to replica 0.
        let replica_idx = match shape {
            Shape::Usual => self.n_routed % usize::from(N_REPLICAS),
            Shape::LongPrompt | Shape::LongAnswer => 0,
        };
        self.n_routed += 1;
        let retrieval = Duration::from_secs_f64(own.between(0.012, 0.080)) + rag;
        let engine_at = at + TO_ENGINE + nanos(outside.gateway) + nanos(retrieval);
        let mut request = Request::ordinary(&mut own, at, u8::try_from(replica_idx).unwrap_or(0));
        request.input_tokens = u32::try_from(input).unwrap_or(u32::MAX);
        request.output_tokens = u32::try_from(output).unwrap_or(u32::MAX);
        request.output_tokens_max = request.output_tokens + 64;
        request.retrieval = retrieval;
        request.outside = outside;
        self.events.push(Reverse((
            engine_at,
            Event::Arrive {
                request: self.requests.len(),
            },
        )));
        self.requests.push(Served {
            request,
            delays,
            n_preemptions: 0,
            is_injected: shape != Shape::Usual,
        });
    }

    fn arrive(&mut self, place: usize, now: u64) {
        let request = &self.requests[place].request;
        let sequence = Sequence::new(place, request.input_tokens, request.output_tokens, now);
        self.engines[usize::from(request.replica_idx)].add(sequence);
    }

    fn end_step(&mut self, replica_idx: u8) {
        let Some((batch, done)) = self.engines[usize::from(replica_idx)].end() else {
            return;
        };
        self.batches.push(batch);
        for (sequence, now) in done {
            self.finish(&sequence, now);
        }
    }

    fn finish(&mut self, sequence: &Sequence, now: u64) {
        let served = &mut self.requests[sequence.request];
        let scheduled = sequence.scheduled.unwrap_or(now);
        let first_token = sequence.first_token.unwrap_or(now);
        let queue = scheduled - sequence.arrived;
        served.request.queue = Duration::from_nanos(queue);
        served.request.prefill = Duration::from_nanos(first_token - scheduled);
        served.request.decode = Duration::from_nanos(now - first_token);
        served.n_preemptions = sequence.n_preemptions;
        for cause in Cause::ALL {
            served.delays.add(cause, sequence.delays.of(cause));
        }
        let waited = queue.saturating_sub(sequence.waited_for_cause);
        served.delays.add(Cause::QueueBurst, waited);
        self.n_open -= 1;
    }

    fn scrape(&mut self, now: u64) {
        let mut busy = [0; N_REPLICAS as usize];
        for (busy, engine) in busy.iter_mut().zip(&mut self.engines) {
            *busy = engine.take_busy(now - SECOND, now);
        }
        for (replica_idx, engine) in (0..).zip(&self.engines) {
            let text = exposition::engine(engine.counters());
            self.scrapes.push(Scrape {
                target: Target::Engine { replica_idx },
                at_unix_nano: now,
                text,
            });
        }
        self.gpus.advance(now, busy, &self.faults);
        for node_idx in 0..N_NODES {
            let text = exposition::gpus(&self.gpus, node_idx, self.config.names_pods);
            self.scrapes.push(Scrape {
                target: Target::Gpus { node_idx },
                at_unix_nano: now,
                text,
            });
        }
        let is_over = now > self.config.start_unix_nano + nanos(self.config.duration) + 5 * SECOND;
        if self.n_open > 0 || !is_over {
            self.events.push(Reverse((now + SECOND, Event::Scrape)));
        }
    }
}

/// GPUs of a replica by their number in the fleet.
pub(super) fn gpus_of(replica_idx: u8) -> std::ops::Range<u8> {
    replica_idx * GPUS_PER_REPLICA..(replica_idx + 1) * GPUS_PER_REPLICA
}

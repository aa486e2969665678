//! The parts of the route that are counted, each over the same spans.

use std::{error::Error, hint::black_box};

use measure::{Arrived, Shape, T0, Template};
use otlp::{
    export::{Limits, Signal},
    span::SpanSummary,
};
use sampler::{Reports, Sampler, SpanHandle};
use wal::{RealDisk, Wal};

/// One part: all that is needed for it is made beforehand and not counted. Gives the number of spans.
pub(crate) type Prepared = Box<dyn FnMut() -> u64>;

/// A part of the route.
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) prepare: fn() -> Result<Prepared, Box<dyn Error>>,
}

pub(crate) const PARTS: &[Part] = &[
    Part {
        name: "check",
        what: "an export is checked at the door",
        prepare: check,
    },
    Part {
        name: "walk",
        what: "its accepted spans are found again",
        prepare: walk,
    },
    Part {
        name: "summary",
        what: "the summary of a span is read",
        prepare: summary,
    },
    Part {
        name: "summaries",
        what: "both in one pass as indexing has it",
        prepare: summaries,
    },
    Part {
        name: "fold-5",
        what: "a span is folded into its trace under 5 policies",
        prepare: || fold(5),
    },
    Part {
        name: "fold-10",
        what: "the same under 10 policies",
        prepare: || fold(10),
    },
    Part {
        name: "decide-5",
        what: "traces of 3 spans are decided under 5 policies",
        prepare: || decide(5),
    },
    Part {
        name: "decide-10",
        what: "the same under 10 policies",
        prepare: || decide(10),
    },
    Part {
        name: "append",
        what: "exports are framed and appended to the log",
        prepare: append,
    },
    #[cfg(feature = "intake")]
    Part {
        name: "intake",
        what: "append and index and fold and decide under 5 policies",
        prepare: intake,
    },
];

const SHAPE: Shape = Shape::USUAL;
/// Enough that growing maps and lists has its usual share.
const N_EXPORTS: u64 = 24;
/// Of the given time: half a million spans per second.
const EXPORT_INTERVAL_NS: u64 = 1_000_000;
/// Then what is due is decided.
#[cfg(feature = "intake")]
const EXPORTS_PER_TICK: u64 = 8;

fn bodies() -> Vec<Vec<u8>> {
    let template = Template::new(SHAPE, 1);
    (0..N_EXPORTS).map(|n| template.export(n).body).collect()
}

fn n_spans() -> u64 {
    N_EXPORTS * SHAPE.n_spans() as u64
}

fn check() -> Result<Prepared, Box<dyn Error>> {
    let (bodies, limits) = (bodies(), Limits::default());
    Ok(Box::new(move || {
        let checked = |body: &Vec<u8>| otlp::export::check(Signal::Traces, body, &limits);
        let counts = bodies
            .iter()
            .flat_map(checked)
            .map(|checked| checked.n_items);
        counts.sum()
    }))
}

fn walk() -> Result<Prepared, Box<dyn Error>> {
    let (bodies, limits) = (bodies(), Limits::default());
    Ok(Box::new(move || {
        let mut n_spans = 0;
        for body in &bodies {
            for at in otlp::export::spans(body, &limits).flatten() {
                black_box(&at);
                n_spans += 1;
            }
        }
        n_spans
    }))
}

fn summary() -> Result<Prepared, Box<dyn Error>> {
    let mut spans = Vec::new();
    for body in bodies() {
        for at in otlp::export::spans(&body, &Limits::default()) {
            spans.push(at?.span.to_vec());
        }
    }
    Ok(Box::new(move || {
        let mut n_spans = 0;
        for span in &spans {
            n_spans += u64::from(black_box(SpanSummary::read(span)).is_ok());
        }
        n_spans
    }))
}

fn summaries() -> Result<Prepared, Box<dyn Error>> {
    let (bodies, limits) = (bodies(), Limits::default());
    Ok(Box::new(move || {
        let mut n_spans = 0;
        for body in &bodies {
            for found in otlp::export::summaries(body, &limits).flatten() {
                black_box(&found);
                n_spans += 1;
            }
        }
        n_spans
    }))
}

fn sampling(n_policies: usize) -> Result<sampler::Config, Box<dyn Error>> {
    Ok(serde_saphyr::from_str(&measure::tail_sampling(
        n_policies,
    )?)?)
}

pub(crate) fn fold(n_policies: usize) -> Result<Prepared, Box<dyn Error>> {
    let mut folding = Folding::new(n_policies)?;
    Ok(Box::new(move || folding.fold_all()))
}

pub(crate) fn decide(n_policies: usize) -> Result<Prepared, Box<dyn Error>> {
    let mut folding = Folding::new(n_policies)?;
    folding.fold_all();
    Ok(Box::new(move || {
        let mut decided = Vec::new();
        folding.sampler.tick(u64::MAX, usize::MAX, &mut decided);
        decided
            .iter()
            .map(|trace| u64::from(trace.summary.n_spans))
            .sum()
    }))
}

/// A sampler and what it is given, as indexing has it.
struct Folding {
    sampler: Sampler,
    spans: Vec<Arrived>,
}

impl Folding {
    fn new(n_policies: usize) -> Result<Self, Box<dyn Error>> {
        Ok(Self {
            sampler: Sampler::new(&sampling(n_policies)?)?,
            spans: measure::arrived(&Template::new(SHAPE, 1), N_EXPORTS)?,
        })
    }

    fn fold_all(&mut self) -> u64 {
        let mut facts = None;
        for span in &self.spans {
            if span.has_new_resource {
                facts = self.sampler.read_resource(span.at.resource).ok();
            }
            let Some(facts) = &facts else { return 0 };
            let handle = SpanHandle {
                position: span.export,
                offset: span.at.offset,
            };
            let observed = self.sampler.observe(
                facts,
                span.at.span,
                &span.summary,
                handle,
                Reports::Itself,
                T0 + span.export * EXPORT_INTERVAL_NS,
            );
            black_box(observed);
        }
        self.sampler.stats().n_spans
    }
}

fn append() -> Result<Prepared, Box<dyn Error>> {
    const HEADER: [u8; 9] = [0; 9];
    let folder = tempfile::tempdir()?;
    let log = wal::Config::in_directory(folder.path().join("wal"));
    let (mut wal, _) = Wal::open(log, RealDisk)?;
    let bodies = bodies();
    Ok(Box::new(move || {
        for body in &bodies {
            if wal
                .append(&[&HEADER, body])
                .and_then(|_| wal.flush())
                .is_err()
            {
                return 0;
            }
        }
        let _until_here = &folder;
        n_spans()
    }))
}

#[cfg(feature = "intake")]
fn intake() -> Result<Prepared, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let log = wal::Config::in_directory(folder.path().join("wal"));
    let reports_of = |summary: &SpanSummary<'_>, _: &[u8], _: &[u8]| {
        if summary.name == "llm_request" {
            Reports::Request
        } else {
            Reports::Itself
        }
    };
    let mut core = gateway::testing::Core::open(log, &sampling(5)?, reports_of)?;
    let bodies: Vec<bytes::Bytes> = bodies().into_iter().map(bytes::Bytes::from).collect();
    Ok(Box::new(move || {
        for (body, n) in bodies.iter().zip(1..) {
            let now_unix_nano = T0 + n * EXPORT_INTERVAL_NS;
            core.export(body.clone(), SHAPE.n_spans() as u64, now_unix_nano);
            if n % EXPORTS_PER_TICK == 0 {
                core.tick(now_unix_nano);
            }
        }
        // All that is left.
        core.tick(T0 + 3_600_000_000_000);
        let _until_here = &folder;
        n_spans()
    }))
}

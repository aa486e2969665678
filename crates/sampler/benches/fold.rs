//! Spans per second of the sampler: folding spans into their traces under several policies, deciding, and keeping the index of
//! undecided traces.
//!
//! `cargo bench -p sampler --features criterion --bench fold`. Spans come with their summaries, as indexing has them. The
//! index is under a policy that reads no attributes, so that what is left is finding the trace and keeping the span's place.

use std::hint::black_box;

use measure::{
    Arrived, Shape, T0, Template,
    criterion::{BatchSize, BenchmarkGroup, Criterion, Throughput, measurement::WallTime},
};
use sampler::{Config, Reports, Sampler, SpanHandle};

/// As in the service.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// Spans of one round, about: some ten thousand traces.
const N_SPANS: usize = 32_768;

/// Of the given time, between two exports.
const EXPORT_INTERVAL_NS: u64 = 1_000_000;

/// Conditions in the Collector's language, beside five simple policies.
const CONDITIONS: &str = r#"
- name: ottl
  type: ottl_condition
  ottl_condition:
    error_mode: ignore
    span:
      - attributes["gen_ai.response.finish_reasons"] == "abort"
      - attributes["gen_ai.usage.completion_tokens"] > 1000
      - IsMatch(name, "^chat") and end_time - start_time > Duration("30s")
    spanevent: ['name == "exception"']
- name: flags
  type: trace_flags
"#;

fn main() -> Result<()> {
    let mut criterion = Criterion::default().configure_from_args();
    fold(&mut criterion)?;
    index(&mut criterion)?;
    criterion.final_summary();
    Ok(())
}

fn fold(criterion: &mut Criterion) -> Result<()> {
    let spans = spans(Shape::USUAL)?;
    let mut group = group(criterion, "fold", &spans);
    for n_policies in [5, 10] {
        bench_fold(
            &mut group,
            &format!("{n_policies} policies"),
            &config(n_policies)?,
            &spans,
        )?;
    }
    let mut with_conditions = config(5)?;
    with_conditions
        .policies
        .extend(serde_saphyr::from_str::<Vec<_>>(CONDITIONS)?);
    bench_fold(
        &mut group,
        "5 policies and conditions",
        &with_conditions,
        &spans,
    )?;
    group.finish();

    let mut group = self::group(criterion, "decide", &spans);
    for n_policies in [5, 10] {
        let config = config(n_policies)?;
        Sampler::new(&config)?;
        group.bench_function(format!("{n_policies} policies"), |bencher| {
            let folded = || {
                let mut sampler = Sampler::new(&config).ok()?;
                fold_all(&mut sampler, &spans);
                Some(sampler)
            };
            let decide = |sampler: &mut Option<Sampler>| {
                let mut decided = Vec::new();
                if let Some(sampler) = sampler {
                    sampler.tick(u64::MAX, usize::MAX, &mut decided);
                }
                decided
            };
            bencher.iter_batched_ref(folded, decide, BatchSize::PerIteration);
        });
    }
    group.finish();
    Ok(())
}

fn index(criterion: &mut Criterion) -> Result<()> {
    for spans_per_trace in [3, 300] {
        let shape = Shape {
            spans_per_trace,
            ..Shape::USUAL
        };
        let spans = spans(shape)?;
        let mut group = group(criterion, "index", &spans);
        let name = format!("{spans_per_trace} spans a trace");
        bench_fold(&mut group, &name, &config(1)?, &spans)?;
        group.finish();
    }
    Ok(())
}

fn config(n_policies: usize) -> Result<Config> {
    Ok(serde_saphyr::from_str(&measure::tail_sampling(
        n_policies,
    )?)?)
}

/// Whole exports of this shape.
fn spans(shape: Shape) -> Result<Vec<Arrived>> {
    let n_exports = N_SPANS.div_ceil(shape.n_spans()) as u64;
    Ok(measure::arrived(&Template::new(shape, 1), n_exports)?)
}

fn group<'a>(
    criterion: &'a mut Criterion,
    name: &str,
    spans: &[Arrived],
) -> BenchmarkGroup<'a, WallTime> {
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Elements(spans.len() as u64));
    group
}

/// Into an empty sampler.
fn bench_fold(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    config: &Config,
    spans: &[Arrived],
) -> Result<()> {
    // Below it cannot fail any more.
    Sampler::new(config)?;
    group.bench_function(name, |bencher| {
        bencher.iter_batched_ref(
            || Sampler::new(config).ok(),
            |sampler| sampler.as_mut().map(|sampler| fold_all(sampler, spans)),
            BatchSize::PerIteration,
        );
    });
    Ok(())
}

fn fold_all(sampler: &mut Sampler, spans: &[Arrived]) {
    let mut facts = None;
    for span in spans {
        if span.has_new_resource {
            facts = sampler.read_resource(span.at.resource).ok();
        }
        let Some(facts) = &facts else { continue };
        let handle = SpanHandle {
            position: span.export,
            offset: span.at.offset,
        };
        let now_unix_nano = T0 + span.export * EXPORT_INTERVAL_NS;
        let (reports, bytes) = (Reports::Itself, span.at.span);
        black_box(sampler.observe(facts, bytes, &span.summary, handle, reports, now_unix_nano));
    }
}

//! Spans per second of what is read of an export before it is indexed: the check at the door, the walk over its spans, and
//! their summaries.
//!
//! `cargo bench -p otlp --features criterion --bench walker`.

use std::hint::black_box;

use measure::{
    Shape, Template,
    criterion::{Criterion, Throughput},
};
use otlp::{
    export::{self, Limits, Signal},
    span::SpanSummary,
};

/// More than the nearest caches of a processor hold.
const N_EXPORTS: u64 = 24;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    walker(&mut criterion);
    criterion.final_summary();
}

fn walker(criterion: &mut Criterion) {
    let template = Template::new(Shape::USUAL, 1);
    let bodies: Vec<Vec<u8>> = (0..N_EXPORTS).map(|n| template.export(n).body).collect();
    let limits = Limits::default();
    let mut group = criterion.benchmark_group("walker");
    group.throughput(Throughput::Elements(
        N_EXPORTS * Shape::USUAL.n_spans() as u64,
    ));
    group.bench_function("check", |bencher| {
        bencher.iter(|| {
            for body in &bodies {
                black_box(export::check(Signal::Traces, black_box(body), &limits)).ok();
            }
        });
    });
    group.bench_function("walk", |bencher| {
        bencher.iter(|| {
            for body in &bodies {
                for at in export::spans(black_box(body), &limits) {
                    black_box(at).ok();
                }
            }
        });
    });
    group.bench_function("summary", |bencher| {
        let spans: Vec<_> = bodies
            .iter()
            .flat_map(|body| export::spans(body, &limits).flatten())
            .collect();
        bencher.iter(|| {
            for at in &spans {
                black_box(SpanSummary::read(black_box(at.span))).ok();
            }
        });
    });
    group.bench_function("walk and summary", |bencher| {
        bencher.iter(|| {
            for body in &bodies {
                for found in export::summaries(black_box(body), &limits) {
                    black_box(found).ok();
                }
            }
        });
    });
    group.finish();
}

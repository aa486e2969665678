//! Lists of several parts, read from wherever an exporter was.

use std::{path::Path, sync::Arc};

use otlp::{
    Signal,
    export::Limits,
    testing::{TimeSpan, trace},
};
use sampler::{SpanHandle, ThresholdChange};
use wal::{Position, Wal, sim::SimDisk};

use super::{Batch, Mark, Tail};
use crate::{
    export::Queue,
    record::{self, Kept, KeptSpan},
    release::{KeptList, Releaser},
};

const N_EXPORTS: usize = 5;
const SPANS_EACH: usize = 6;

/// A log of exports and of two releases, with an empty one between them: every second span in parts of four, then
/// the others in one part.
struct Fixture {
    wal: Wal<SimDisk>,
    queue: Arc<Queue>,
    /// Names of spans in the order of their lists.
    names: Vec<String>,
}

fn fixture() -> Fixture {
    let config = wal::Config::in_directory(Path::new("log"));
    let (mut wal, _) = Wal::open(config, SimDisk::new(1)).unwrap();
    let mut lists: [Vec<(SpanHandle, String)>; 2] = Default::default();
    for n in 0..N_EXPORTS {
        let mut export = trace(1)
            .service(&format!("service {}", n / 2))
            .scope("s", "1");
        for idx in 0..SPANS_EACH {
            export = export.span(&format!("{n}/{idx}"), 1.ms());
        }
        let body = export.build();
        let header = record::content_header(Signal::Traces.into(), 1);
        let position = wal.append(&[&header, &body]).unwrap();
        for (idx, at) in otlp::export::spans(&body, &Limits::default()).enumerate() {
            let handle = SpanHandle {
                position: position.as_u64(),
                offset: at.unwrap().offset,
            };
            lists[idx % 2].push((handle, format!("{n}/{idx}")));
        }
    }
    let queue = Arc::new(Queue::new(vec![0]));
    let mut names = Vec::new();
    for (list, (sequence, part_len)) in lists.into_iter().zip([(1, 4), (3, 100)]) {
        let (mut previous, mut n_spans) = (Position::MIN, 0);
        for part in list.chunks(part_len) {
            n_spans += part.len() as u64;
            let kept = Kept {
                sequence,
                previous,
                n_spans,
                n_bytes: 0,
                spans: part
                    .iter()
                    .map(|(handle, _)| KeptSpan {
                        handle: *handle,
                        threshold: ThresholdChange::Unchanged,
                    })
                    .collect(),
            };
            let mut bytes = Vec::new();
            kept.write(&mut bytes);
            previous = wal.append(&[&bytes]).unwrap();
        }
        let kept = KeptList {
            position: previous,
            n_spans,
            n_bytes: 0,
        };
        queue.push(sequence, Some(kept));
        if sequence == 1 {
            queue.push(2, None);
        }
        names.extend(list.into_iter().map(|(_, name)| name));
    }
    wal.flush().unwrap();
    Fixture { wal, queue, names }
}

impl Fixture {
    fn batches(&self, request_max: (usize, usize), at: Mark) -> Vec<Batch> {
        let releaser = Releaser {
            reader: self.wal.reader(),
        };
        let mut tail = Tail::new(releaser, Arc::clone(&self.queue), request_max, at);
        std::iter::from_fn(|| tail.next_batch().unwrap()).collect()
    }
}

fn names(batches: &[Batch]) -> Vec<String> {
    let mut names = Vec::new();
    for batch in batches {
        let spans = otlp::export::spans(&batch.body, &Limits::default());
        let before = names.len();
        for at in spans {
            let summary = otlp::span::SpanSummary::read(at.unwrap().span).unwrap();
            names.push(summary.name.to_owned());
        }
        assert_eq!((names.len() - before) as u64, batch.n_spans);
    }
    names
}

#[test]
fn whatever_the_size_of_requests_and_wherever_one_goes_on_the_spans_are_the_same() {
    let fixture = fixture();
    for n_spans_max in [1, 2, 3, 7, 15, 16, 1000] {
        for n_bytes_max in [1, 300, 1000, 1 << 20] {
            let all = fixture.batches((n_bytes_max, n_spans_max), Mark::default());
            assert_eq!(names(&all), fixture.names);
            let mut n_sent = 0;
            for batch in &all {
                assert!(batch.n_spans <= n_spans_max as u64);
                assert!(batch.n_spans <= 1 || batch.body.len() <= n_bytes_max);
                n_sent += usize::try_from(batch.n_spans).unwrap();
                // The next process may be told another size.
                for request_max in [(n_bytes_max, n_spans_max), (700, 4)] {
                    let rest = fixture.batches(request_max, batch.after);
                    assert_eq!(names(&rest), fixture.names[n_sent..], "{:?}", batch.after);
                }
            }
            assert_eq!(all.last().unwrap().after, Mark::after(3));
        }
    }
}

#[test]
fn neighbours_share_their_resource() {
    let fixture = fixture();
    let all = fixture.batches((1 << 20, 1000), Mark::default());
    assert_eq!(all.len(), 1, "several releases fit into one request");
    let text = otlp::json::from_protobuf(Signal::Traces, &all[0].body).unwrap();
    assert_eq!(
        text.matches("\"resource\"").count(),
        6,
        "three services, twice"
    );
}

#[test]
fn nothing_is_read_where_nothing_is_new() {
    let fixture = fixture();
    assert_eq!(fixture.batches((1 << 20, 1000), Mark::after(3)), []);
    let empty = fixture.batches((1 << 20, 0), Mark::after(1));
    assert_eq!(empty[0].n_spans, 1, "a request has a span at least");
}

#[test]
fn spans_are_sent_with_the_threshold_that_sampling_gave_them() {
    let config = wal::Config::in_directory(Path::new("log"));
    let (mut wal, _) = Wal::open(config, SimDisk::new(1)).unwrap();
    let mut export = trace(1).service("s").scope("s", "1");
    for name in ["same", "raised", "erased"] {
        export = export.span(name, 1.ms()).trace_state("ot=th:4,v=1");
    }
    let body = export.build();
    let header = record::content_header(Signal::Traces.into(), 1);
    let position = wal.append(&[&header, &body]).unwrap().as_u64();
    let quarter = sampler::Threshold::from_bits(0xc << 52);
    let changes = [
        ThresholdChange::Unchanged,
        ThresholdChange::RaisedTo(quarter),
        ThresholdChange::Erased,
    ];
    let spans = otlp::export::spans(&body, &Limits::default()).zip(changes);
    let kept = Kept {
        sequence: 1,
        previous: Position::MIN,
        n_spans: 3,
        n_bytes: 0,
        spans: spans
            .map(|(at, threshold)| KeptSpan {
                handle: SpanHandle {
                    position,
                    offset: at.unwrap().offset,
                },
                threshold,
            })
            .collect(),
    };
    let mut bytes = Vec::new();
    kept.write(&mut bytes);
    assert_eq!(record::Record::read(&bytes), Ok(record::Record::Kept(kept)));
    let position = wal.append(&[&bytes]).unwrap();
    wal.flush().unwrap();
    let queue = Arc::new(Queue::new(vec![0]));
    let list = KeptList {
        position,
        n_spans: 3,
        n_bytes: 0,
    };
    queue.push(1, Some(list));
    let fixture = Fixture {
        wal,
        queue,
        names: Vec::new(),
    };
    let all = fixture.batches((1 << 20, 1000), Mark::default());
    let spans = otlp::export::spans(&all[0].body, &Limits::default());
    let states: Vec<String> = spans
        .map(|at| {
            let summary = otlp::span::SpanSummary::read(at.unwrap().span).unwrap();
            summary.trace_state.to_owned()
        })
        .collect();
    assert_eq!(states, ["ot=th:4,v=1", "ot=th:c,v=1", "v=1"]);
}

//! An export, encoded once; each copy has trace ids of its own.
//!
//! A copy costs the copying of its bytes, so that one processor can send several gigabytes per second. Trace ids are
//! a hash of a number that counts up, so that two runs with one seed send the same traces.

use crate::export::{self, Shape};

/// An encoded export and where its trace ids stand.
#[derive(Debug)]
pub struct Template {
    encoded: Vec<u8>,
    /// Offsets of the trace ids of each trace.
    places: Vec<Vec<usize>>,
    shape: Shape,
    seed: u64,
}

/// A copy.
#[derive(Debug)]
pub struct Export {
    /// The `ExportTraceServiceRequest`.
    pub body: Vec<u8>,
    /// Spans in it.
    pub n_spans: usize,
}

impl Template {
    /// Encodes an export of this shape.
    pub fn new(shape: Shape, seed: u64) -> Self {
        let encoded = export::marked(&shape);
        let mut places = vec![Vec::new(); shape.n_traces];
        for at in otlp::export::spans(&encoded, &otlp::export::Limits::default()).flatten() {
            // The trace id is the first field of a span: key, length, 16 bytes.
            let place = at.offset as usize + 2;
            let trace = at.span.get(2..18).and_then(export::marked_trace);
            if let Some(places) = trace.and_then(|trace_idx| places.get_mut(trace_idx)) {
                places.push(place);
            }
        }
        Self {
            encoded,
            places,
            shape,
            seed,
        }
    }

    /// The export with this number.
    pub fn export(&self, number: u64) -> Export {
        let mut body = self.encoded.clone();
        for (trace_idx, places) in self.places.iter().enumerate() {
            let trace_id = self.trace_id(number, trace_idx);
            for place in places {
                body[*place..*place + 16].copy_from_slice(&trace_id);
            }
        }
        Export {
            body,
            n_spans: self.shape.n_spans(),
        }
    }

    /// Bytes of an export.
    pub fn n_bytes(&self) -> usize {
        self.encoded.len()
    }

    /// Spans of an export.
    pub fn n_spans(&self) -> usize {
        self.shape.n_spans()
    }

    fn trace_id(&self, number: u64, trace_idx: usize) -> [u8; 16] {
        let counter = number
            .wrapping_mul(self.shape.n_traces as u64)
            .wrapping_add(trace_idx as u64);
        let high = mixed(self.seed ^ mixed(counter));
        let low = mixed(high ^ counter) | 1;
        let mut id = [0; 16];
        id[..8].copy_from_slice(&high.to_be_bytes());
        id[8..].copy_from_slice(&low.to_be_bytes());
        id
    }
}

/// The finalizer of `splitmix64` (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014): a
/// bijection, so that counters give distinct values.
const fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use otlp::export::{Limits, Signal, check, spans};
    use otlp::span::SpanSummary;

    use super::{Shape, Template};
    use crate::T0;

    /// Every trace of every export is whole, has one root, and is in no other export.
    #[test]
    fn traces_are_whole_and_their_own() {
        for (n_traces, spans_per_trace, prompt_bytes) in
            [(5, 3, 0), (2, 20, 5_400), (1, 300, 0), (4, 1, 7)]
        {
            let shape = Shape {
                n_traces,
                spans_per_trace,
                prompt_bytes,
                start_time_unix_nano: T0,
            };
            let template = Template::new(shape, 7);
            let mut traces = BTreeMap::<_, (usize, usize)>::new();
            for number in 0..4 {
                let export = template.export(number);
                assert_eq!(export.body.len(), template.n_bytes());
                let checked = check(Signal::Traces, &export.body, &Limits::default()).unwrap();
                assert_eq!(checked.n_items as usize, export.n_spans);
                for at in spans(&export.body, &Limits::default()) {
                    let summary = SpanSummary::read(at.unwrap().span).unwrap();
                    let trace = traces.entry(summary.trace_id).or_default();
                    trace.0 += 1;
                    trace.1 += usize::from(summary.parent_span_id.is_none());
                }
            }
            assert_eq!(traces.len(), 4 * n_traces);
            assert!(traces.values().all(|trace| *trace == (spans_per_trace, 1)));
        }
    }

    #[test]
    fn a_span_is_as_large_as_an_engines() {
        let shape = Shape {
            n_traces: 100,
            spans_per_trace: 3,
            prompt_bytes: 0,
            start_time_unix_nano: T0,
        };
        let per_span = Template::new(shape, 0).n_bytes() / shape.n_spans();
        assert!((600..750).contains(&per_span), "{per_span}");
    }
}

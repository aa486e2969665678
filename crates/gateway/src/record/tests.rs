//! Records read back as written, and nothing else does.

use sampler::Threshold;

use super::*;

fn decision_record() -> DecisionRecord {
    let trace = |n: u8, policy: Option<&str>, threshold| DecidedTrace {
        trace_id: TraceId::from_slice(&[n; 16]).unwrap(),
        decision: Decision::Sampled,
        trigger: Trigger::RootEnded,
        policy: policy.map(Arc::from),
        adjusted_count: policy.map(|_| 2.5),
        threshold,
    };
    let raised = ThresholdChange::RaisedTo(Threshold::parse("e666").unwrap());
    let late = LateSpan {
        trace_id: TraceId::from_slice(&[9; 16]).unwrap(),
        handle: SpanHandle {
            position: u64::MAX,
            offset: 7,
        },
        decision: Decision::Dropped,
        policy: Some("latency".into()),
        is_request: true,
        erases_threshold: true,
    };
    DecisionRecord {
        sequence: i64::MAX,
        decided_unix_nano: 1_772_366_400_000_000_000,
        traces: vec![
            trace(1, Some("errors"), ThresholdChange::Unchanged),
            trace(2, None, raised),
            trace(3, Some("latency"), ThresholdChange::Erased),
        ],
        late: vec![late],
        duplicates: vec![SpanHandle {
            position: 3,
            offset: u32::MAX,
        }],
        side_lane: vec![Position::MIN, Position::from_u64(u64::MAX)],
    }
}

fn written(record: &DecisionRecord) -> Vec<u8> {
    let mut bytes = Vec::new();
    record.write(&mut bytes);
    bytes
}

#[test]
fn a_decision_reads_back_as_written() {
    let without_duplicates = DecisionRecord {
        duplicates: Vec::new(),
        side_lane: Vec::new(),
        ..decision_record()
    };
    for record in [
        decision_record(),
        without_duplicates,
        DecisionRecord::default(),
    ] {
        assert_eq!(
            Record::read(&written(&record)),
            Ok(Record::Decision(record))
        );
    }
}

#[test]
fn every_decision_and_trigger_has_a_number_of_its_own() {
    for code in 0..=u8::MAX {
        if let Ok(decision) = decision(code) {
            assert_eq!(decision_code(decision), code);
        }
        if let Ok(trigger) = trigger(code) {
            assert_eq!(trigger_code(trigger), code);
        }
    }
    assert_eq!(
        (0..=u8::MAX).filter(|code| decision(*code).is_ok()).count(),
        3
    );
    assert_eq!(
        (0..=u8::MAX).filter(|code| trigger(*code).is_ok()).count(),
        12
    );
}

#[test]
fn a_decision_cut_anywhere_or_extended_is_an_error() {
    let bytes = written(&decision_record());
    for n_bytes in 0..bytes.len() {
        assert!(Record::read(&bytes[..n_bytes]).is_err(), "cut at {n_bytes}");
    }
    let longer = [bytes.as_slice(), &[0]].concat();
    assert_eq!(Record::read(&longer), Err("has bytes after its end"));
}

#[test]
fn a_flipped_byte_is_never_a_panic() {
    let bytes = written(&decision_record());
    for idx in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[idx] ^= 0xff;
        if let Ok(Record::Decision(record)) = Record::read(&flipped) {
            assert!(record.traces.len() <= 3);
        }
    }
}

#[test]
fn an_export_and_a_report_read_back_as_written() {
    let exports = [Signal::Traces, Signal::Metrics, Signal::Logs].map(Content::Export);
    let reports = reports::Kind::ALL.map(Content::Report);
    for content in exports.into_iter().chain(reports) {
        let header = content_header(content, 42);
        let bytes = [header.as_slice(), b"body"].concat();
        let record = Record::Content {
            content,
            received_unix_nano: 42,
            body: b"body",
        };
        assert_eq!(Record::read(&bytes), Ok(record));
    }
    assert!(Record::read(&[10]).is_err());
    assert!(Record::read(&[]).is_err());
    assert!(Record::read(&content_header(Signal::Traces.into(), 1)[..8]).is_err());
}

#[test]
fn carried_spans_and_the_sequence_read_back_as_written() {
    let bytes = [&carried_header(42)[..], b"body"].concat();
    let carried = Record::Carried {
        received_unix_nano: 42,
        body: b"body",
    };
    assert_eq!(Record::read(&bytes), Ok(carried));
    let bytes = sequence_record(i64::MAX);
    assert_eq!(Record::read(&bytes), Ok(Record::Sequence(i64::MAX)));
    for n_bytes in 0..bytes.len() {
        assert!(Record::read(&bytes[..n_bytes]).is_err(), "cut at {n_bytes}");
    }
    assert!(Record::read(&[&bytes[..], &[0]].concat()).is_err());
}

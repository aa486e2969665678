//! Against the vectors, the table of the specification, and generated values.

use otlp::TraceId;
use proptest::prelude::*;

use super::{END, OtEntry, Randomness, Threshold, ThresholdChange, set};

const VECTORS: &str = include_str!("../../testdata/probabilistic_vectors.txt");

fn threshold(text: &str) -> Threshold {
    Threshold::parse(text).unwrap()
}

fn trace_id(randomness: u64) -> TraceId {
    let mut id = [0x7c; 16];
    id[8..].copy_from_slice(&randomness.to_be_bytes());
    TraceId::from_slice(&id).unwrap()
}

/// The second half of the file: which ids a threshold keeps, and what each threshold means.
#[test]
fn choices_probabilities_and_counts_equal_the_vectors() {
    let (mut n_ids, mut n_choices, mut n_thresholds) = (0, 0, 0);
    let lines = VECTORS
        .lines()
        .skip_while(|line| !line.starts_with("# consistent"));
    for line in lines.skip(1) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["th", text, probability, count] = words.as_slice() {
            n_thresholds += 1;
            let threshold = threshold(text);
            assert_eq!(threshold.to_string(), *text);
            assert_eq!(format!("p={:.12}", threshold.probability()), *probability);
            assert_eq!(format!("adj={:.6}", 1.0 / threshold.probability()), *count);
            continue;
        }
        n_ids += 1;
        let id = TraceId::parse_hex(words[0]).unwrap();
        let randomness = Randomness::of_trace(&id);
        assert_eq!(format!("{:#x}", randomness.0), words[1], "{line}");
        for choice in words[2..].chunks(2) {
            n_choices += 1;
            let text = choice[0].trim_matches(['{', ':', '\'']);
            let is_kept = threshold(text).keeps(randomness);
            assert_eq!(is_kept, choice[1].contains('S'), "{line}: {text}");
        }
    }
    assert_eq!((n_ids, n_choices, n_thresholds), (8, 40, 9));
}

/// The specification's table of 1 in N with 3, 4 and 5 digits.
#[test]
fn probabilities_become_the_thresholds_of_the_specification() {
    for (n, want) in [
        (1.0, ["0", "0", "0"]),
        (2.0, ["8", "8", "8"]),
        (3.0, ["aab", "aaab", "aaaab"]),
        (4.0, ["c", "c", "c"]),
        (5.0, ["ccd", "cccd", "ccccd"]),
        (8.0, ["e", "e", "e"]),
        (10.0, ["e66", "e666", "e6666"]),
        (16.0, ["f", "f", "f"]),
        (100.0, ["fd71", "fd70a", "fd70a4"]),
        (1_000.0, ["ffbe7", "ffbe77", "ffbe76d"]),
        (10_000.0, ["fff972", "fff9724", "fff97247"]),
        (100_000.0, ["ffff584", "ffff583a", "ffff583a5"]),
        (1_000_000.0, ["ffffef4", "ffffef39", "ffffef391"]),
    ] {
        for (precision, want) in (3..).zip(want) {
            let found = Threshold::of_probability(1.0 / n, precision).unwrap();
            assert_eq!(found.to_string(), want, "1 in {n}, {precision} digits");
        }
    }
    for nothing in [0.0, -1.0, 1e-18, f64::NAN] {
        assert_eq!(Threshold::of_probability(nothing, 4), None, "{nothing}");
    }
    let least = Threshold::of_probability((END as f64).recip(), 14).unwrap();
    assert_eq!(least.bits(), END - 1);
}

#[test]
fn what_breaks_the_format_counts_as_absent() {
    for (text, want) in [
        ("0", Some(0)),
        ("00000000000000", Some(0)),
        ("8", Some(1 << 55)),
        ("80", Some(1 << 55)),
        ("00000000000001", Some(1)),
        ("ffffffffffffff", Some(END - 1)),
        ("", None),
        ("000000000000000", None),
        ("E", None),
        ("+8", None),
        ("8 ", None),
        ("g", None),
        ("\u{e9}", None),
    ] {
        assert_eq!(Threshold::parse(text).map(Threshold::bits), want, "{text}");
    }
    for (trace_state, th, rv) in [
        (
            "ot=th:8;rv:0123456789abcd",
            Some(1 << 55),
            Some(0x01_2345_6789_abcd),
        ),
        (
            "v=1, ot=rv:0123456789abcd;x:y;th:0",
            Some(0),
            Some(0x01_2345_6789_abcd),
        ),
        ("ot=th:8;th:4", None, None),
        ("ot=th:8;rv:123", Some(1 << 55), None),
        ("ot=TH:8;rv:0123456789ABCD", None, None),
        ("ot=th", None, None),
        ("x@ot=th:8", None, None),
        ("ot=th:8,OT=1", None, None),
        ("", None, None),
    ] {
        let read = OtEntry::read(trace_state);
        assert_eq!(read.threshold.map(Threshold::bits), th, "{trace_state}");
        assert_eq!(read.randomness.map(|rv| rv.0), rv, "{trace_state}");
    }
}

#[test]
fn spans_get_the_threshold_that_is_true_of_them() {
    use ThresholdChange::{Erased, RaisedTo, Unchanged};
    let high = trace_id(END - 1);
    let full: Vec<String> = (0..32).map(|n| format!("k{n}=v")).collect();
    let full = full.join(",");
    let long = format!("ot=x:{}", "y".repeat(250));
    for (change, before, after) in [
        (Unchanged, "ot=th:8", None),
        (RaisedTo(threshold("c")), "", Some("ot=th:c")),
        (RaisedTo(threshold("c")), "v=1,w=2", Some("ot=th:c,v=1,w=2")),
        (
            RaisedTo(threshold("c")),
            "v=1, ot=th:8;x:y",
            Some("ot=x:y;th:c,v=1"),
        ),
        // Never lowered.
        (RaisedTo(threshold("8")), "ot=th:c", None),
        (RaisedTo(threshold("c")), "ot=th:c", None),
        (
            Erased,
            "ot=th:8;rv:ffffffffffffff,v=1",
            Some("ot=rv:ffffffffffffff,v=1"),
        ),
        (Erased, "v=1,ot=th:8", Some("v=1")),
        (Erased, "ot=th:8", Some("")),
        (Erased, "v=1", None),
        // A value that cannot be read is a wrong claim too.
        (Erased, "ot=th:X", Some("")),
        // `rv` says that the trace would not have been kept: whatever is claimed is wrong.
        (RaisedTo(threshold("c")), "ot=rv:80000000000000", None),
        (
            RaisedTo(threshold("c")),
            "ot=th:8;rv:80000000000000",
            Some("ot=rv:80000000000000"),
        ),
        // No room, or nothing that could be understood.
        (RaisedTo(threshold("c")), &full, None),
        (RaisedTo(threshold("c")), &long, None),
        (RaisedTo(threshold("c")), "K=1", None),
    ] {
        let found = change.apply(&high, before);
        assert_eq!(found.as_deref(), after, "{change:?} {before}");
    }
}

fn any_threshold() -> impl Strategy<Value = Threshold> {
    // Few digits as well as many.
    (0_u64..END, 0_u32..14).prop_map(|(bits, n)| Threshold(bits >> (4 * n) << (4 * n)))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_threshold_reads_back_as_written_with_any_zeros_behind(threshold in any_threshold(), n_zeros in 0_usize..14) {
        let text = threshold.to_string();
        prop_assert_eq!(Threshold::parse(&text), Some(threshold));
        prop_assert!(text == "0" || !text.ends_with('0'));
        let padded = format!("{text}{}", "0".repeat(n_zeros.min(14 - text.len())));
        prop_assert_eq!(Threshold::parse(&padded), Some(threshold));
        let longer = format!("{text}{}", "0".repeat(15 - text.len()));
        prop_assert_eq!(Threshold::parse(&longer), None);
        prop_assert_eq!(Threshold::parse(&text.to_uppercase()).is_some(), text == text.to_uppercase());
    }

    /// What a higher threshold keeps, every lower one keeps.
    #[test]
    fn thresholds_keep_nested_sets(a in any_threshold(), b in any_threshold(), randomness in 0_u64..END) {
        let (low, high) = (a.min(b), a.max(b));
        if high.keeps(Randomness(randomness)) {
            prop_assert!(low.keeps(Randomness(randomness)));
        }
        prop_assert!(low.probability() >= high.probability());
    }

    /// No probability is further off than half a unit of its last digit, and more is never less.
    #[test]
    fn probabilities_survive_rounding(p in 1e-12_f64..1.0, q in 1e-12_f64..1.0, precision in 1_u32..=14) {
        let of = |p| Threshold::of_probability(p, precision).unwrap();
        let error = (of(p).probability() - p).abs() / p;
        prop_assert!(error <= 8.01 * 16_f64.powi(-(precision as i32)) + 1e-3_f64.powi(3), "{error}");
        if p <= q {
            prop_assert!(of(p) >= of(q));
        }
    }

    /// Whatever is in a tracestate: other entries and sub-keys stay, and the result can be read.
    #[test]
    fn a_rewritten_tracestate_keeps_what_is_of_others(
        members in prop::collection::vec("(th:[0-9a-f]{1,3}|rv:[0-9a-f]{14}|[a-z]{1,3}:[a-z0-9]{0,3})", 0..4),
        others in prop::collection::vec("[a-np-z]{3}=[a-z0-9]{1,3}", 0..4),
        place in 0_usize..4,
        new in any_threshold(),
    ) {
        let mut entries = others.clone();
        if !members.is_empty() {
            entries.insert(place.min(entries.len()), format!("ot={}", members.join(";")));
        }
        let before = entries.join(",");
        let is_well_formed = crate::trace_state::search(&before, "ot").is_some();
        match set(&before, Some(new)) {
            None => {
                let is_there = before.contains(&format!("th:{new}"));
                prop_assert!(!is_well_formed || is_there);
            }
            Some(after) => {
                prop_assert!(is_well_formed);
                prop_assert_eq!(OtEntry::read(&after).threshold, Some(new));
                let kept: Vec<&str> = after.split(',').skip(1).collect();
                prop_assert_eq!(kept, others);
                for member in members.iter().filter(|member| !member.starts_with("th:")) {
                    prop_assert!(after.contains(member.as_str()));
                }
                prop_assert_eq!(set(&after, Some(new)), None);
            }
        }
    }
}

//! Who held which device when, by several sources.

use super::{Confidence, Held, MissingLink, Placement, Placements, Pod, Ranks, Reported, Source};
use crate::Device;

fn device(number: u32) -> Device {
    Device::parse(&format!("GPU-{number:08x}"), None).expect("a device")
}

fn pod(text: &str) -> Pod {
    // cluster/namespace/name/uid, `-` where unknown
    let mut parts = text
        .split('/')
        .map(|part| (part != "-").then(|| part.into()));
    let mut next = || parts.next().flatten();
    Pod {
        cluster: next(),
        namespace: next(),
        name: next(),
        uid: next(),
    }
}

fn placement(text: &str, number: u32, from: i64, to: Option<i64>, source: Source) -> Placement {
    Placement {
        device: device(number),
        pod: pod(text),
        container: None,
        node: None,
        ranks: Ranks::default(),
        valid_from_unix_nano: from,
        valid_to_unix_nano: to,
        source,
    }
}

fn numbers(held: &[Held<'_>]) -> Vec<(Device, (i64, i64))> {
    held.iter()
        .map(|held| (held.placement.device.clone(), held.during))
        .collect()
}

#[test]
fn intervals_are_half_open() {
    let all = Placements::new(vec![
        placement("-/ns/a", 1, 0, Some(10), Source::StaticFile),
        placement("-/ns/a", 2, 10, None, Source::StaticFile),
    ]);
    let held = |start, end| numbers(&all.held_by(&pod("-/ns/a"), start, end).expect("held"));
    assert_eq!(held(5, 10), [(device(1), (5, 10))]);
    assert_eq!(held(10, 20), [(device(2), (10, 20))]);
    assert_eq!(held(10, 10), [(device(2), (10, 10))]);
    assert_eq!(held(5, 20), [(device(1), (5, 10)), (device(2), (10, 20))]);
    let before = all.held_by(&pod("-/ns/a"), -5, 0);
    assert_eq!(before, Err(MissingLink::Placement));
}

#[test]
fn the_uid_decides_where_both_know_it_and_the_name_where_one_does_not() {
    let all = Placements::new(vec![
        placement("-/ns/a/uid-1", 1, 0, Some(10), Source::Reported),
        placement("-/ns/a/uid-2", 2, 0, Some(10), Source::Reported),
        placement("-/ns/a/-", 3, 20, Some(30), Source::PodResources),
    ]);
    assert_eq!(
        numbers(&all.held_by(&pod("-/ns/a/uid-2"), 0, 10).expect("held")),
        [(device(2), (0, 10))]
    );
    // Found by name: this source knows no UID.
    assert_eq!(
        numbers(&all.held_by(&pod("-/ns/a/uid-2"), 20, 25).expect("held")),
        [(device(3), (20, 25))]
    );
    assert_eq!(
        all.held_by(&pod("-/ns/a/uid-3"), 0, 10),
        Err(MissingLink::Placement)
    );
}

#[test]
fn a_name_that_fits_several_pods_is_not_guessed_and_no_name_is_no_pod() {
    let all = Placements::new(vec![
        placement("-/one/a", 1, 0, None, Source::StaticFile),
        placement("-/two/a", 2, 0, None, Source::StaticFile),
    ]);
    assert_eq!(
        all.held_by(&pod("-/-/a"), 0, 10),
        Err(MissingLink::PodAmbiguous)
    );
    assert_eq!(
        numbers(&all.held_by(&pod("-/two/a"), 0, 10).expect("held")),
        [(device(2), (0, 10))]
    );
    assert_eq!(all.held_by(&pod("-/one/-"), 0, 10), Err(MissingLink::Pod));
}

#[test]
fn the_best_source_of_that_time_is_believed_and_a_dispute_is_marked() {
    let all = Placements::new(vec![
        placement("-/ns/a", 1, 0, None, Source::StaticFile),
        placement("-/ns/a", 2, 50, None, Source::Reported),
    ]);
    let early = all.held_by(&pod("-/ns/a"), 0, 10).expect("held");
    assert_eq!(
        (numbers(&early), early[0].is_disputed),
        (vec![(device(1), (0, 10))], false)
    );
    let later = all.held_by(&pod("-/ns/a"), 60, 70).expect("held");
    assert_eq!(
        (numbers(&later), later[0].is_disputed),
        (vec![(device(2), (60, 70))], true)
    );
}

#[test]
fn other_pods_on_the_device_are_counted_once_each() {
    let all = Placements::new(vec![
        placement("-/ns/a", 1, 0, None, Source::PodResources),
        placement("-/ns/b", 1, 0, Some(5), Source::PodResources),
        placement("-/ns/b", 1, 5, None, Source::PodResources),
        placement("-/ns/c", 1, 90, None, Source::PodResources),
        // The same pod under a source that knows less.
        placement("-/-/a", 1, 0, None, Source::ExporterLabels),
    ]);
    let others =
        |start, end| all.held_by(&pod("-/ns/a"), start, end).expect("held")[0].n_other_pods;
    assert_eq!((others(0, 10), others(0, 100)), (1, 2));
}

#[test]
fn a_device_is_never_there_twice_for_one_request() {
    let all = Placements::new(vec![
        placement("-/ns/a", 1, 0, Some(10), Source::PodResources),
        placement("-/ns/a", 1, 5, Some(20), Source::PodResources),
        placement("-/ns/a", 1, 20, Some(30), Source::PodResources),
    ]);
    assert_eq!(
        numbers(&all.held_by(&pod("-/ns/a"), 0, 40).expect("held")),
        [(device(1), (0, 30))]
    );
}

fn of_rank(tp: i64, number: u32, from: i64, to: Option<i64>) -> Placement {
    Placement {
        ranks: Ranks {
            tp: Some(tp),
            ..Ranks::default()
        },
        ..placement("-/ns/a/uid-1", number, from, to, Source::Reported)
    }
}

/// `from..to` and the device of all that is known, in order.
fn known(reported: &Reported) -> Vec<(i64, Option<i64>, Device)> {
    let mut known: Vec<_> = reported
        .all()
        .map(|placement| {
            let Placement {
                valid_from_unix_nano,
                valid_to_unix_nano,
                device,
                ..
            } = placement.clone();
            (valid_from_unix_nano, valid_to_unix_nano, device)
        })
        .collect();
    known.sort();
    known
}

#[test]
fn a_rank_that_moves_to_another_gpu_leaves_the_one_before_in_any_order() {
    let first = of_rank(0, 1, 10, None);
    let second = of_rank(0, 2, 20, None);
    let third = of_rank(0, 1, 30, None);
    let expected = [
        (10, Some(20), device(1)),
        (20, Some(30), device(2)),
        (30, None, device(1)),
    ];
    let orders = [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ];
    for order in orders {
        let all = [&first, &second, &third];
        let mut reported = Reported::default();
        for idx in order {
            reported.take(all[idx].clone(), 100);
            reported.take(all[idx].clone(), 101);
        }
        assert_eq!(known(&reported), expected, "{order:?}");
        // An end is corrected once, where the one between came last.
        let changes = reported.take_changes();
        assert!(changes.len() <= 6, "{order:?}: {changes:#?}");
    }
}

#[test]
fn ranks_of_one_pod_hold_their_gpus_side_by_side() {
    let mut reported = Reported::default();
    for rank in 0..4 {
        reported.take(of_rank(i64::from(rank), rank, 10, None), 10);
    }
    // Whose ranks are not known may be several processes.
    reported.take(placement("-/ns/b", 8, 10, None, Source::Reported), 10);
    reported.take(placement("-/ns/b", 9, 20, None, Source::Reported), 20);
    assert!(known(&reported).iter().all(|(_, to, _)| to.is_none()));
    assert_eq!(reported.n_intervals(), 6);
    // The end of one, told later.
    reported.take(of_rank(2, 2, 10, Some(50)), 60);
    reported.take(of_rank(2, 2, 10, None), 70);
    let ended = (10, Some(50), device(2));
    assert!(known(&reported).contains(&ended));
}

#[test]
fn a_pod_made_anew_under_its_name_has_left_what_it_held() {
    let mut reported = Reported::default();
    reported.take(placement("-/ns/a/uid-1", 1, 10, None, Source::Reported), 10);
    reported.take(placement("-/ns/a/uid-2", 2, 40, None, Source::Reported), 40);
    reported.take(
        placement("-/other/a/uid-3", 3, 50, None, Source::Reported),
        50,
    );
    let expected = [
        (10, Some(40), device(1)),
        (40, None, device(2)),
        (50, None, device(3)),
    ];
    assert_eq!(known(&reported), expected);
    reported.forget(40);
    assert_eq!(known(&reported).len(), 3, "it ended no earlier than that");
    reported.forget(41);
    assert_eq!(known(&reported).len(), 2);
}

#[test]
fn reports_of_a_sender_without_measure_are_bounded() {
    let mut reported = Reported::default();
    for from in 0..5_000 {
        reported.take(placement("-/ns/a", 1, from, None, Source::Reported), from);
        reported.take_changes();
    }
    assert!(reported.n_intervals() <= 1024);
    for number in 0..70_000 {
        let name = format!("-/ns/p{number}");
        reported.take(placement(&name, number, 0, None, Source::Reported), 0);
        reported.take_changes();
    }
    assert!(reported.n_intervals() <= 1 << 16);
    assert!(reported.n_refused() > 0);
}

#[test]
fn disputes_and_confidence_follow_from_who_says_what() {
    let all = Placements::new(vec![
        placement("-/ns/a", 1, 0, None, Source::Reported),
        placement("-/ns/a", 1, 0, None, Source::PodResources),
        placement("-/ns/b", 2, 0, Some(10), Source::Reported),
        placement("-/ns/b", 3, 5, None, Source::PodResources),
        placement("-/-/c", 4, 0, None, Source::PodResources),
        placement("-/ns/d", 5, 0, None, Source::StaticFile),
        placement("-/ns/e", 6, 0, None, Source::ExporterLabels),
    ]);
    let mut told: Vec<_> = all
        .all()
        .iter()
        .map(|placement| {
            let name = placement.pod.name.as_deref().unwrap_or_default();
            let source = placement.source.as_str();
            (
                name,
                source,
                all.is_disputed(placement),
                all.confidence(placement),
            )
        })
        .collect();
    told.sort_unstable();
    let expected = [
        ("a", "pod_resources", false, Confidence::High),
        ("a", "reported", false, Confidence::High),
        ("b", "pod_resources", true, Confidence::Medium),
        ("b", "reported", true, Confidence::Medium),
        ("c", "pod_resources", false, Confidence::Medium),
        ("d", "static_file", false, Confidence::Low),
        ("e", "exporter_labels", false, Confidence::Medium),
    ];
    assert_eq!(told, expected);
    // One rank on two devices at a time, by the same word.
    let twice = vec![of_rank(0, 1, 0, Some(20)), of_rank(0, 2, 10, None)];
    let all = Placements::new(twice);
    assert!(all.all().iter().all(|placement| all.is_disputed(placement)));
    let in_turn = vec![of_rank(0, 1, 0, Some(10)), of_rank(0, 2, 10, None)];
    let all = Placements::new(in_turn);
    assert!(!all.all().iter().any(|placement| all.is_disputed(placement)));
}

//! Who held which device when, by several sources.

use super::{Held, MissingLink, Placement, Placements, Pod, Ranks, Source};
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

//! The consistent hash ring: which endpoint has a trace.
//!
//! Positions are those of the Collector's `loadbalancing` exporter, so that Collectors and Whyslows in one tier agree
//! (opentelemetry-collector-contrib v0.161.0, `exporter/loadbalancingexporter/consistent_hashing.go`; the vectors of
//! the tests come from it). Older Collectors had another ring: do not mix those.
//!
//! ```text
//! ring       131,071 positions, 200 points per endpoint
//! point i    CRC-32 (IEEE) of the endpoint as it was resolved (without a default port) and of i, 4 bytes little-endian;
//!            modulo the ring
//! collision  points in the order of position, checksum, endpoint; one whose position is taken goes to the next free
//!            one, at most 9 further, or is left out
//! trace      CRC-32 (IEEE) of the 16 bytes of its id, modulo the ring; the next point at or after it has it
//! ```
//!
//! An endpoint that joins or leaves moves only its own share, but for the few points that a collision moves by a
//! position or two. Shares are not equal: of a few endpoints one may have one and a half times what would be fair.

use otlp::TraceId;

const POSITIONS: u32 = 131_071;
const POINTS_PER_ENDPOINT: u32 = 200;
/// A point that has found so many positions taken is left out.
const PROBES_MAX: u32 = 10;

/// A ring of endpoints, which are known by their place in the list that it was made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ring {
    /// By position, which is there once.
    points: Vec<Point>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Point {
    position: u32,
    endpoint_idx: usize,
}

/// A point before collisions are seen to.
#[derive(Clone, Copy)]
struct Candidate<'a> {
    position: u32,
    checksum: u32,
    endpoint: &'a str,
    endpoint_idx: usize,
}

impl Ring {
    /// Of these endpoints, in any order. One that is listed twice has two shares, as in the Collector.
    pub(super) fn new(endpoints: &[String]) -> Ring {
        let mut candidates: Vec<Candidate<'_>> = Vec::new();
        for (endpoint_idx, endpoint) in endpoints.iter().enumerate() {
            candidates.extend((0..POINTS_PER_ENDPOINT).map(|number| {
                let mut hasher = crc32fast::Hasher::new();
                hasher.update(endpoint.as_bytes());
                hasher.update(&number.to_le_bytes());
                let checksum = hasher.finalize();
                Candidate {
                    position: checksum % POSITIONS,
                    checksum,
                    endpoint,
                    endpoint_idx,
                }
            }));
        }
        candidates.sort_by_key(|point| (point.position, point.checksum, point.endpoint));
        let mut is_taken = vec![false; POSITIONS as usize];
        let mut points: Vec<Point> = candidates
            .iter()
            .filter_map(|candidate| {
                let probes = (0..PROBES_MAX).map(|probe| (candidate.position + probe) % POSITIONS);
                let position = take_free(&mut is_taken, probes)?;
                let endpoint_idx = candidate.endpoint_idx;
                Some(Point {
                    position,
                    endpoint_idx,
                })
            })
            .collect();
        points.sort_unstable_by_key(|point| point.position);
        Ring { points }
    }

    /// The endpoint that has this trace; `None` on an empty ring.
    pub(super) fn endpoint_of(&self, trace_id: &TraceId) -> Option<usize> {
        let position = crc32fast::hash(trace_id.as_bytes()) % POSITIONS;
        let next = self
            .points
            .partition_point(|point| point.position < position);
        // Past the last one it goes round.
        let point = self.points.get(next).or(self.points.first())?;
        Some(point.endpoint_idx)
    }
}

/// Takes the first of these positions that is free.
fn take_free(is_taken: &mut [bool], positions: impl Iterator<Item = u32>) -> Option<u32> {
    for position in positions {
        let taken = is_taken.get_mut(usize::try_from(position).ok()?)?;
        if !*taken {
            *taken = true;
            return Some(position);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use otlp::TraceId;
    use proptest::prelude::*;

    use super::{POINTS_PER_ENDPOINT, Ring};

    /// Written by the Collector's own ring; see `tests/interop/loadbalancing`.
    const VECTORS: &str = include_str!("../../../testdata/loadbalancing-ring-v0.161.txt");

    fn trace_ids(n: u32) -> impl Iterator<Item = TraceId> {
        (0..n).map(|number| {
            let number =
                u128::from(number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
            TraceId::from_slice(&number.to_be_bytes()).unwrap()
        })
    }

    /// The endpoints of a section: written out, or `PREFIX 0..N`.
    fn endpoints_of(section: &str) -> Vec<String> {
        match section.split_once(" 0..") {
            Some((prefix, n)) => {
                let n: u32 = n.parse().unwrap();
                (0..n).map(|number| format!("{prefix}{number}")).collect()
            }
            None => section.split(' ').map(str::to_owned).collect(),
        }
    }

    #[test]
    fn traces_have_the_endpoints_that_the_collector_gives_them() {
        let (mut endpoints, mut ring, mut n_checked) = (Vec::new(), Ring::default(), 0);
        for line in VECTORS.lines().filter(|line| !line.starts_with('#')) {
            let (first, rest) = line.split_once(' ').unwrap();
            match first {
                "ring" => {
                    endpoints = endpoints_of(rest);
                    ring = Ring::new(&endpoints);
                }
                "points" => {
                    let (n, checksum) = rest.split_once(' ').unwrap();
                    assert_eq!(ring.points.len().to_string(), n, "{endpoints:?}");
                    let mut hasher = crc32fast::Hasher::new();
                    for point in &ring.points {
                        let endpoint = &endpoints[point.endpoint_idx];
                        hasher.update(format!("{} {endpoint}\n", point.position).as_bytes());
                    }
                    assert_eq!(format!("{:08x}", hasher.finalize()), checksum);
                }
                trace => {
                    let id = u128::from_str_radix(trace, 16).unwrap();
                    let id = TraceId::from_slice(&id.to_be_bytes()).unwrap();
                    let endpoint = ring.endpoint_of(&id).map(|idx| endpoints[idx].as_str());
                    assert_eq!(endpoint, Some(rest), "{trace} of {endpoints:?}");
                    n_checked += 1;
                }
            }
        }
        assert_eq!(n_checked, 280);
    }

    #[test]
    fn nobody_has_a_trace_on_an_empty_ring() {
        let ring = Ring::new(&[]);
        assert_eq!(ring.endpoint_of(&trace_ids(1).next().unwrap()), None);
    }

    fn any_endpoints() -> impl Strategy<Value = Vec<String>> {
        let endpoint = (0_u8..=255, 0_u8..=255).prop_map(|(a, b)| format!("10.0.{a}.{b}:4317"));
        prop::collection::btree_set(endpoint, 2..9).prop_map(|set| set.into_iter().collect())
    }

    const N_TRACES: u32 = 4_000;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn the_order_of_endpoints_makes_no_difference(endpoints in any_endpoints()) {
            let ring = Ring::new(&endpoints);
            let reversed: Vec<String> = endpoints.iter().rev().cloned().collect();
            let other = Ring::new(&reversed);
            for id in trace_ids(500) {
                let endpoint = ring.endpoint_of(&id).map(|idx| &endpoints[idx]);
                prop_assert_eq!(endpoint, other.endpoint_of(&id).map(|idx| &reversed[idx]));
            }
        }

        #[test]
        fn no_share_is_twice_or_a_third_of_a_fair_one(endpoints in any_endpoints()) {
            let ring = Ring::new(&endpoints);
            prop_assert!(ring.points.len() <= endpoints.len() * POINTS_PER_ENDPOINT as usize);
            let mut n_of = vec![0_u32; endpoints.len()];
            for id in trace_ids(N_TRACES) {
                n_of[ring.endpoint_of(&id).unwrap()] += 1;
            }
            let fair = N_TRACES / u32::try_from(endpoints.len()).unwrap();
            for n in n_of {
                prop_assert!(n > fair / 3 && n < fair * 2, "{} of {}", n, fair);
            }
        }

        #[test]
        fn one_that_leaves_or_joins_moves_its_own_share(endpoints in any_endpoints(), place in any::<prop::sample::Index>()) {
            let place = place.index(endpoints.len());
            let mut fewer = endpoints.clone();
            fewer.remove(place);
            let (ring, smaller) = (Ring::new(&endpoints), Ring::new(&fewer));
            let mut n_moved_between_others = 0;
            for id in trace_ids(N_TRACES) {
                let before = &endpoints[ring.endpoint_of(&id).unwrap()];
                let after = &fewer[smaller.endpoint_of(&id).unwrap()];
                if before != after && before != &endpoints[place] {
                    n_moved_between_others += 1;
                }
            }
            // Only points that collide.
            prop_assert!(n_moved_between_others <= N_TRACES / 200, "{}", n_moved_between_others);
        }
    }
}

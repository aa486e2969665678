//! Requests that are alike: cohorts by the values of some attributes.

use std::collections::HashMap;

use super::samples::{Attribute, Samples};

/// Attributes that tell how a request ended, which a failure changes: they do not make cohorts of failures.
const RESULTS: [&str; 4] = ["output_band", "finish_reason", "outcome", "error_type"];

/// Cohorts, the largest first.
#[derive(Debug)]
pub(super) struct Groups<'a> {
    attributes: Vec<&'a Attribute>,
    keys: Vec<Vec<u32>>,
    /// Requests of both sides.
    pub(super) n: Vec<[usize; 2]>,
    pub(super) of_row: Vec<u32>,
}

impl<'a> Groups<'a> {
    /// By these attributes; names that samples do not have are left out.
    pub(super) fn new(samples: &'a Samples, by: &[String]) -> Self {
        let attributes: Vec<&Attribute> = by
            .iter()
            .filter_map(|name| samples.attribute(name))
            .collect();
        let mut known: HashMap<Vec<u32>, u32> = HashMap::new();
        let (mut keys, mut n): (Vec<Vec<u32>>, Vec<[usize; 2]>) = (Vec::new(), Vec::new());
        let mut of_row = Vec::with_capacity(samples.len());
        let mut key = Vec::new();
        for (row, side) in samples.sides.iter().enumerate() {
            key.clear();
            key.extend(attributes.iter().map(|attribute| attribute.codes[row]));
            let group = match known.get(&key) {
                Some(group) => *group,
                None => {
                    let group = keys.len() as u32;
                    known.insert(key.clone(), group);
                    keys.push(key.clone());
                    n.push([0, 0]);
                    group
                }
            };
            n[group as usize][*side as usize] += 1;
            of_row.push(group);
        }
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.sort_by_key(|group| std::cmp::Reverse(n[*group][0] + n[*group][1]));
        let mut place = vec![0; keys.len()];
        for (at, group) in order.iter().enumerate() {
            place[*group] = at as u32;
        }
        of_row
            .iter_mut()
            .for_each(|group| *group = place[*group as usize]);
        Self {
            attributes,
            keys: order.iter().map(|group| keys[*group].clone()).collect(),
            n: order.iter().map(|group| n[*group]).collect(),
            of_row,
        }
    }

    /// The same, but not by what tells how a request ended.
    pub(super) fn by_what_was_asked(samples: &'a Samples, by: &[String]) -> Self {
        let asked: Vec<String> = by
            .iter()
            .filter(|name| !RESULTS.contains(&name.as_str()))
            .cloned()
            .collect();
        Self::new(samples, &asked)
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Names and values of a cohort; a value is `None` where requests have none.
    pub(super) fn name(&self, group: usize) -> Vec<(String, Option<String>)> {
        let pairs = self.attributes.iter().zip(&self.keys[group]);
        pairs
            .map(|(attribute, code)| {
                (
                    attribute.name.clone(),
                    attribute.value(*code).map(str::to_owned),
                )
            })
            .collect()
    }

    /// Is it on both sides, with at least so many requests?
    pub(super) fn is_on_both(&self, group: usize, n_least: usize) -> bool {
        self.n[group].iter().all(|n| *n >= n_least)
    }

    /// Rows of the first `n_groups`.
    pub(super) fn rows(&self, n_groups: usize) -> Vec<Vec<u32>> {
        let mut rows = vec![Vec::new(); n_groups.min(self.len())];
        for (row, group) in self.of_row.iter().enumerate() {
            if let Some(rows) = rows.get_mut(*group as usize) {
                rows.push(row as u32);
            }
        }
        rows
    }

    /// Share of each side's requests in cohorts that are on both.
    pub(super) fn coverage(&self, n_least: usize) -> [f64; 2] {
        [0, 1].map(|side| {
            let all: usize = self.n.iter().map(|n| n[side]).sum();
            let groups = (0..self.len()).filter(|group| self.is_on_both(*group, n_least));
            let covered: usize = groups.map(|group| self.n[group][side]).sum();
            covered as f64 / (all as f64).max(1.0)
        })
    }

    /// Share of traffic that is elsewhere than before (total variation).
    pub(super) fn distance(&self) -> f64 {
        let totals = [0, 1].map(|side| self.n.iter().map(|n| n[side]).sum::<usize>().max(1) as f64);
        let moved = self
            .n
            .iter()
            .map(|n| (n[0] as f64 / totals[0] - n[1] as f64 / totals[1]).abs());
        0.5 * moved.sum::<f64>()
    }
}

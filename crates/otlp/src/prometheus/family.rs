//! Histograms and summaries, whose points are spread over several lines.

use std::{borrow::Cow, collections::HashMap};

use super::{FamilyKind, SkipReason};

/// Most buckets or quantiles of a point.
const STEPS_MAX: usize = 1_024;

type Labels<'a> = [(Cow<'a, str>, Cow<'a, str>)];

/// Which part of a point a line holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Part {
    /// A bucket or quantile: its bound.
    Step(f64),
    Sum,
    Count,
}

impl Part {
    /// `None` if the line is a point of its own.
    pub(super) fn of(
        kind: FamilyKind,
        family: &str,
        name: &str,
        labels: &Labels<'_>,
    ) -> Option<Result<Self, SkipReason>> {
        let suffix = name.strip_prefix(family)?;
        let key = match (kind, suffix) {
            (FamilyKind::Histogram, "_bucket") => "le",
            (FamilyKind::Summary, "") => "quantile",
            (FamilyKind::Histogram | FamilyKind::Summary, "_sum") => return Some(Ok(Self::Sum)),
            (FamilyKind::Histogram | FamilyKind::Summary, "_count") => {
                return Some(Ok(Self::Count));
            }
            _ => return None,
        };
        let bound = labels.iter().find(|(name, _)| name == key);
        let bound = bound.and_then(|(_, text)| text.parse::<f64>().ok());
        Some(
            bound
                .filter(|bound| !bound.is_nan())
                .map(Self::Step)
                .ok_or(SkipReason::Labels),
        )
    }
}

/// The points of one family whose lines are being read.
#[derive(Debug, Default)]
pub(super) struct Groups<'a> {
    family: String,
    groups: Vec<Group<'a>>,
    /// Where the group of a label set and time is; built only when lines are not in order.
    index: HashMap<String, usize>,
    /// The group of the line before.
    last: usize,
}

/// A histogram or summary point.
#[derive(Debug)]
pub(super) struct Group<'a> {
    /// Without `le` and `quantile`.
    pub(super) labels: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    pub(super) time_unix_nano: u64,
    /// Bound and cumulative count, or quantile and value.
    pub(super) steps: Vec<(f64, f64)>,
    pub(super) sum: Option<f64>,
    pub(super) count: Option<u64>,
}

/// Buckets as OTLP has them.
pub(super) struct Buckets {
    pub(super) bounds: Vec<f64>,
    /// Not cumulative; one more than bounds, or none.
    pub(super) counts: Vec<u64>,
    pub(super) count: u64,
}

impl<'a> Groups<'a> {
    pub(super) fn family(&self) -> &str {
        &self.family
    }

    pub(super) fn len(&self) -> u64 {
        u64::try_from(self.groups.len()).unwrap_or(u64::MAX)
    }

    pub(super) fn into_groups(self) -> Vec<Group<'a>> {
        self.groups
    }

    /// Begins another family; the one before is written.
    pub(super) fn begin(&mut self, family: String) {
        *self = Self {
            family,
            ..Self::default()
        };
    }

    pub(super) fn add(
        &mut self,
        part: Part,
        labels: &Labels<'a>,
        time_unix_nano: u64,
        value: f64,
    ) -> Result<(), SkipReason> {
        let group = self.group(labels, time_unix_nano);
        match part {
            Part::Sum => group.sum = Some(value),
            Part::Count => group.count = Some(whole(value).ok_or(SkipReason::Value)?),
            Part::Step(_) if group.steps.len() >= STEPS_MAX => {
                return Err(SkipReason::TooManyPoints);
            }
            Part::Step(bound) => group.steps.push((bound, value)),
        }
        Ok(())
    }

    fn group(&mut self, labels: &Labels<'a>, time_unix_nano: u64) -> &mut Group<'a> {
        let is_last = |group: &Group<'_>| {
            group.time_unix_nano == time_unix_nano && group.labels.iter().eq(common(labels))
        };
        if !self.groups.get(self.last).is_some_and(is_last) {
            let n_groups = self.groups.len();
            let key = key(labels, time_unix_nano);
            self.last = *self.index.entry(key).or_insert(n_groups);
            if self.last == n_groups {
                self.groups.push(Group {
                    labels: common(labels).cloned().collect(),
                    time_unix_nano,
                    steps: Vec::new(),
                    sum: None,
                    count: None,
                });
            }
        }
        let last = self.last;
        #[expect(
            clippy::indexing_slicing,
            reason = "the index of a group that exists or was just pushed"
        )]
        &mut self.groups[last]
    }
}

impl Group<'_> {
    /// `None` if the counts are not whole and cumulative.
    pub(super) fn buckets(&self) -> Option<Buckets> {
        let mut steps = self.steps.clone();
        steps.sort_by(|a, b| a.0.total_cmp(&b.0));
        steps.dedup_by(|a, b| a.0.total_cmp(&b.0).is_eq());
        let mut buckets = Buckets {
            bounds: Vec::new(),
            counts: Vec::new(),
            count: 0,
        };
        for (bound, cumulative) in steps {
            let cumulative = whole(cumulative)?;
            buckets.counts.push(cumulative.checked_sub(buckets.count)?);
            buckets.count = cumulative;
            if bound != f64::INFINITY {
                buckets.bounds.push(bound);
            }
        }
        if buckets.bounds.len() == buckets.counts.len() {
            // No bucket without bound: the rest follows from the count.
            let count = self.count.unwrap_or(buckets.count);
            let above = count.checked_sub(buckets.count)?;
            if !buckets.bounds.is_empty() {
                buckets.counts.push(above);
            }
            buckets.count = count;
        }
        Some(buckets)
    }
}

fn common<'l, 'a>(
    labels: &'l Labels<'a>,
) -> impl Iterator<Item = &'l (Cow<'a, str>, Cow<'a, str>)> {
    labels
        .iter()
        .filter(|(name, _)| !matches!(name.as_ref(), "le" | "quantile"))
}

fn key(labels: &Labels<'_>, time_unix_nano: u64) -> String {
    let mut key = time_unix_nano.to_string();
    for text in common(labels).flat_map(|(name, value)| [name, value]) {
        // With their lengths, so that two label sets cannot read alike.
        key.push_str(&format!(" {} {text}", text.len()));
    }
    key
}

/// A count, which the text writes as a float.
fn whole(value: f64) -> Option<u64> {
    const BEYOND: f64 = 18_446_744_073_709_551_616.0;
    let is_whole = value.fract() == 0.0 && (0.0..BEYOND).contains(&value);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be a whole number that 64 bits hold"
    )]
    is_whole.then_some(value as u64)
}

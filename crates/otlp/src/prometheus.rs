//! Prometheus text to OTLP: what a scrape answered becomes a metrics export request.
//!
//! Reads the text exposition format 0.0.4 and OpenMetrics text 1.0, and writes what the Collector's
//! `prometheus` receiver would send for it, so that scraped and received metrics take one route:
//! gauges and whatever has no known type become gauges, counters monotonic cumulative sums, `info`
//! and `stateset` other sums, histograms and summaries themselves. Metric names stay as they are
//! (`_total` included), values are doubles, counters have no start time. Exemplars are left out;
//! `_created` samples of OpenMetrics are gauges of that name.
//!
//! # Decided
//!
//! *One bad line costs that line*, where Prometheus fails the whole scrape: exporters do write text
//! where a number belongs, and the other GPUs of the node should not vanish with it. Every skipped
//! line is counted with a reason.
//!
//! *More is accepted than the format says*: blanks anywhere between tokens, a trailing comma, a
//! family that comes twice, a missing last line feed, quoted names. NaN and infinities are values.
//!
//! *Limits* ([`Limits`]) bound a line, the labels of a sample and the points of a scrape; the text
//! itself is bounded by who reads it from the network.

mod family;
mod line;

use std::{borrow::Cow, collections::HashMap};

use crate::encode::Writer;

use family::{Group, Groups, Part};
use line::{Comment, Line, Sample};

/// Which of the two formats the text is in: they differ in the unit of timestamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Text exposition format 0.0.4: timestamps in milliseconds.
    #[default]
    Text,
    /// OpenMetrics 1.0: timestamps in seconds.
    OpenMetrics,
}

impl Format {
    /// The format that a `Content-Type` header names; without one, the text format.
    pub fn of_content_type(content_type: &str) -> Self {
        let media_type = content_type.split(';').next().unwrap_or_default().trim();
        if media_type.eq_ignore_ascii_case("application/openmetrics-text") {
            Self::OpenMetrics
        } else {
            Self::Text
        }
    }
}

/// What was scraped, and when.
#[derive(Clone, Copy, Debug)]
pub struct Scrape<'a> {
    /// Resource attributes of the target: `service.name` (the job), `service.instance.id`,
    /// `server.address` and so on.
    pub resource: &'a [(&'a str, &'a str)],
    /// Name of the instrumentation scope.
    pub scope: &'a str,
    /// Time of samples that have none, in nanoseconds since 1970.
    pub time_unix_nano: u64,
}

/// Bounds of what is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest line in bytes.
    pub line_bytes_max: usize,
    /// Most labels of a sample.
    pub labels_max: usize,
    /// Most points of a scrape.
    pub points_max: usize,
}

impl Default for Limits {
    /// 64 KiB a line, 128 labels, 1,000,000 points.
    fn default() -> Self {
        Self {
            line_bytes_max: 64 << 10,
            labels_max: 128,
            points_max: 1_000_000,
        }
    }
}

/// An export request and what did not get into it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Converted {
    /// `ExportMetricsServiceRequest`.
    pub body: Vec<u8>,
    /// Points in it.
    pub n_points: u64,
    /// Lines (and histograms) that are not in it.
    pub n_skipped: u64,
    /// The first of them, at most [`SKIPPED_MAX`].
    pub skipped: Vec<Skipped>,
}

/// How many skipped lines are named.
pub const SKIPPED_MAX: usize = 8;

/// A line that was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Its number, from 1; of a histogram, the line behind it.
    pub line: u64,
    /// Why.
    pub reason: SkipReason,
}

/// Why a line was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SkipReason {
    /// It is not UTF-8.
    Utf8,
    /// It is longer than the limit.
    TooLong,
    /// It does not begin with a name.
    Name,
    /// Its labels are not `{name="value",...}`.
    Labels,
    /// It has more labels than the limit.
    TooManyLabels,
    /// Its value is missing or no number.
    Value,
    /// What follows the value is no timestamp that can be stored.
    Timestamp,
    /// A histogram whose buckets are not cumulative counts.
    Histogram,
    /// The scrape has more points than the limit.
    TooManyPoints,
}

impl SkipReason {
    /// For logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Utf8 => "not_utf8",
            Self::TooLong => "line_too_long",
            Self::Name => "no_metric_name",
            Self::Labels => "malformed_labels",
            Self::TooManyLabels => "too_many_labels",
            Self::Value => "not_a_number",
            Self::Timestamp => "malformed_timestamp",
            Self::Histogram => "inconsistent_histogram",
            Self::TooManyPoints => "too_many_points",
        }
    }
}

/// Turns the text of one scrape into an export request. Never fails: what is not readable is left
/// out and counted. Linear in the text.
pub fn to_protobuf(text: &[u8], format: Format, scrape: &Scrape<'_>, limits: &Limits) -> Converted {
    let mut conversion = Conversion::new(format, scrape, limits);
    let mut labels = Vec::new();
    for (line_idx, bytes) in text.split(|byte| *byte == b'\n').enumerate() {
        conversion.line = u64::try_from(line_idx)
            .unwrap_or(u64::MAX)
            .saturating_add(1);
        if let Err(reason) = conversion.read(bytes, &mut labels) {
            conversion.skip(reason);
        }
    }
    conversion.finish()
}

/// What comments say of a family.
#[derive(Clone, Copy, Debug, Default)]
struct Family<'a> {
    kind: FamilyKind,
    help: &'a str,
    unit: &'a str,
}

/// The types of families.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum FamilyKind {
    /// Also what has no type, or one that does not exist.
    #[default]
    Gauge,
    Counter,
    /// `info` and `stateset`.
    State,
    Histogram,
    Summary,
}

impl FamilyKind {
    fn of(name: &str) -> Self {
        match name {
            "counter" => Self::Counter,
            "info" | "stateset" => Self::State,
            "histogram" => Self::Histogram,
            "summary" => Self::Summary,
            _ => Self::Gauge,
        }
    }
}

/// A scrape being converted.
struct Conversion<'a, 's> {
    format: Format,
    scrape: &'s Scrape<'s>,
    limits: &'s Limits,
    out: Writer,
    families: HashMap<Cow<'a, str>, Family<'a>>,
    /// Name of the metric whose number points are being written.
    open: Option<Cow<'a, str>>,
    /// Histograms or summaries of one family, until all their lines are read.
    groups: Groups<'a>,
    line: u64,
    n_points: u64,
    n_skipped: u64,
    skipped: Vec<Skipped>,
}

impl<'a, 's> Conversion<'a, 's> {
    fn new(format: Format, scrape: &'s Scrape<'s>, limits: &'s Limits) -> Self {
        let mut out = Writer::default();
        // ResourceMetrics and its resource, then ScopeMetrics and its scope.
        out.open(1);
        out.open(1);
        for (key, value) in scrape.resource {
            write_attribute(&mut out, 1, key, value);
        }
        out.close();
        out.open(2);
        out.open(1);
        out.bytes(1, scrape.scope.as_bytes());
        out.close();
        Self {
            format,
            scrape,
            limits,
            out,
            families: HashMap::new(),
            open: None,
            groups: Groups::default(),
            line: 0,
            n_points: 0,
            n_skipped: 0,
            skipped: Vec::new(),
        }
    }

    fn read(
        &mut self,
        bytes: &'a [u8],
        labels: &mut Vec<(Cow<'a, str>, Cow<'a, str>)>,
    ) -> Result<(), SkipReason> {
        if bytes.len() > self.limits.line_bytes_max {
            return Err(SkipReason::TooLong);
        }
        let text = crate::wire::text(bytes).ok_or(SkipReason::Utf8)?;
        match line::read(text, self.format, self.limits.labels_max, labels)? {
            Line::Blank => Ok(()),
            Line::Comment(comment) => {
                self.note(comment);
                Ok(())
            }
            Line::Sample(sample) => self.sample(sample, labels),
        }
    }

    fn note(&mut self, comment: Comment<'a>) {
        let (Comment::Help(name, text) | Comment::Type(name, text) | Comment::Unit(name, text)) =
            comment;
        let family = self.families.entry(Cow::Borrowed(name)).or_default();
        match comment {
            Comment::Help(..) => family.help = text,
            Comment::Type(..) => family.kind = FamilyKind::of(text),
            Comment::Unit(..) => family.unit = text,
        }
    }

    fn sample(
        &mut self,
        sample: Sample<'a>,
        labels: &[(Cow<'a, str>, Cow<'a, str>)],
    ) -> Result<(), SkipReason> {
        let time = sample.time_unix_nano.unwrap_or(self.scrape.time_unix_nano);
        if self.open.as_ref() != Some(&sample.name) {
            let (family_name, family) = self.family_of(&sample.name);
            if let Some(part) = Part::of(family.kind, family_name, &sample.name, labels) {
                let part = part?;
                if self.groups.family() != family_name {
                    let family_name = family_name.to_owned();
                    self.write_groups();
                    self.groups.begin(family_name);
                }
                self.check_room()?;
                return self.groups.add(part, labels, time, sample.value);
            }
            self.check_room()?;
            self.write_groups();
            self.open_numbers(sample.name, family);
        }
        self.check_room()?;
        self.write_number(labels, time, sample.value);
        Ok(())
    }

    /// The family that a sample belongs to. Without a type it is its own.
    fn family_of<'n>(&self, name: &'n str) -> (&'n str, Family<'a>) {
        use FamilyKind::{Counter, Histogram, State, Summary};
        const SUFFIXES: [(&str, &[FamilyKind]); 5] = [
            ("_bucket", &[Histogram]),
            ("_count", &[Histogram, Summary]),
            ("_sum", &[Histogram, Summary]),
            ("_total", &[Counter]),
            ("_info", &[State]),
        ];
        if let Some(family) = self.families.get(name) {
            return (name, *family);
        }
        for (suffix, kinds) in SUFFIXES {
            if let Some(stem) = name.strip_suffix(suffix)
                && let Some(family) = self.families.get(stem)
                && kinds.contains(&family.kind)
            {
                return (stem, *family);
            }
        }
        (name, Family::default())
    }

    fn check_room(&self) -> Result<(), SkipReason> {
        let n_points = self.n_points.saturating_add(self.groups.len());
        let is_full = usize::try_from(n_points).map_or(true, |n| n >= self.limits.points_max);
        if is_full {
            return Err(SkipReason::TooManyPoints);
        }
        Ok(())
    }

    fn open_numbers(&mut self, name: Cow<'a, str>, family: Family<'a>) {
        self.close_numbers();
        write_head(&mut self.out, &name, &family);
        match family.kind {
            FamilyKind::Counter | FamilyKind::State => {
                self.out.open(7);
                self.out.varint(2, 2);
                let is_monotonic = family.kind == FamilyKind::Counter;
                self.out.varint(3, u64::from(is_monotonic));
            }
            _ => self.out.open(5),
        }
        self.open = Some(name);
    }

    fn close_numbers(&mut self) {
        if self.open.take().is_some() {
            self.out.close();
            self.out.close();
        }
    }

    fn write_number(&mut self, labels: &[(Cow<'a, str>, Cow<'a, str>)], time: u64, value: f64) {
        let out = &mut self.out;
        out.open(1);
        out.fixed64(3, time);
        out.fixed64(4, value.to_bits());
        for (key, value) in labels {
            write_attribute(out, 7, key, value);
        }
        out.close();
        self.n_points = self.n_points.saturating_add(1);
    }

    /// Writes the histograms or summaries of the family whose lines are all read.
    fn write_groups(&mut self) {
        if self.groups.len() == 0 {
            return;
        }
        self.close_numbers();
        let groups = std::mem::take(&mut self.groups);
        let family = self
            .families
            .get(groups.family())
            .copied()
            .unwrap_or_default();
        let is_histogram = family.kind == FamilyKind::Histogram;
        write_head(&mut self.out, groups.family(), &family);
        if is_histogram {
            self.out.open(9);
            self.out.varint(2, 2);
        } else {
            self.out.open(11);
        }
        for group in groups.into_groups() {
            let is_written = if is_histogram {
                write_histogram(&mut self.out, group)
            } else {
                write_summary(&mut self.out, &group);
                true
            };
            if is_written {
                self.n_points = self.n_points.saturating_add(1);
            } else {
                self.skip(SkipReason::Histogram);
            }
        }
        self.out.close();
        self.out.close();
    }

    fn skip(&mut self, reason: SkipReason) {
        self.n_skipped = self.n_skipped.saturating_add(1);
        if self.skipped.len() < SKIPPED_MAX {
            self.skipped.push(Skipped {
                line: self.line,
                reason,
            });
        }
    }

    fn finish(mut self) -> Converted {
        self.write_groups();
        Converted {
            body: self.out.finish(),
            n_points: self.n_points,
            n_skipped: self.n_skipped,
            skipped: self.skipped,
        }
    }
}

/// Opens a `Metric` and writes what comes before its data.
fn write_head(out: &mut Writer, name: &str, family: &Family<'_>) {
    out.open(2);
    out.bytes(1, name.as_bytes());
    if !family.help.is_empty() {
        out.bytes(2, family.help.as_bytes());
    }
    if !family.unit.is_empty() {
        out.bytes(3, family.unit.as_bytes());
    }
}

/// A point of a histogram; false if its buckets contradict each other.
fn write_histogram(out: &mut Writer, group: Group<'_>) -> bool {
    let Some(buckets) = group.buckets() else {
        return false;
    };
    out.open(1);
    out.fixed64(3, group.time_unix_nano);
    out.fixed64(4, buckets.count);
    if let Some(sum) = group.sum {
        out.fixed64(5, sum.to_bits());
    }
    out.open(6);
    for count in &buckets.counts {
        out.raw_fixed64(*count);
    }
    out.close();
    out.open(7);
    for bound in &buckets.bounds {
        out.raw_fixed64(bound.to_bits());
    }
    out.close();
    for (key, value) in &group.labels {
        write_attribute(out, 9, key, value);
    }
    out.close();
    true
}

fn write_summary(out: &mut Writer, group: &Group<'_>) {
    out.open(1);
    out.fixed64(3, group.time_unix_nano);
    out.fixed64(4, group.count.unwrap_or_default());
    out.fixed64(5, group.sum.unwrap_or_default().to_bits());
    for (quantile, value) in &group.steps {
        out.open(6);
        out.fixed64(1, quantile.to_bits());
        out.fixed64(2, value.to_bits());
        out.close();
    }
    for (key, value) in &group.labels {
        write_attribute(out, 7, key, value);
    }
    out.close();
}

fn write_attribute(out: &mut Writer, field: u32, key: &str, value: &str) {
    out.open(field);
    out.bytes(1, key.as_bytes());
    out.open(2);
    out.bytes(1, value.as_bytes());
    out.close();
    out.close();
}

#[cfg(test)]
mod tests;

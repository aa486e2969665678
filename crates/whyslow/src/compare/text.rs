//! A comparison for people: the verdict first, what cannot be concluded last.

use std::collections::BTreeSet;

use correlate::compare::{Apart, Change, Interval, Latency, Measure, Slow, Standing, Trait};

use super::{Compared, lines::scale, sides};
use crate::show::table::{Align, Table};
use crate::show::text::{count, printable, seconds};

const VALUE_CHARS_MAX: usize = 80;

/// Lines of a list; programs get all.
const LINES_MAX: usize = 12;

/// Traits of slow requests that are named.
const TRAITS_MAX: usize = 6;

pub(super) fn render(compared: &Compared) -> String {
    let mut out = format!("{}\n\n", verdict(compared));
    head(compared, &mut out);
    over_all(compared, &mut out);
    of_cohorts(compared, &mut out);
    mix(compared, &mut out);
    let has_changed = compared.comparison.reported().next().is_some();
    if has_changed || compared.is_slow_asked {
        for apart in &compared.comparison.apart {
            slow_ones(compared, apart, &mut out);
        }
    }
    if !compared.comparison.open.is_empty() {
        out.push_str("\nCannot be concluded:\n");
        for open in &compared.comparison.open {
            out.push_str(&format!("  - {}\n", printable(open, 400)));
        }
    }
    out
}

fn verdict(compared: &Compared) -> String {
    let comparison = &compared.comparison;
    if comparison.cut.is_none() {
        return "Verdict: unknown. A side has no requests.".to_owned();
    }
    let reported: Vec<&Change> = comparison.reported().collect();
    let is_latency = |change: &&&Change| matches!(change.measure, Measure::Quantile { .. });
    let is_failure = |change: &&&Change| matches!(change.measure, Measure::Rate(_));
    let directions = |is_wanted: &dyn Fn(&&&Change) -> bool| {
        let of_kind = reported.iter().filter(|change| is_wanted(change));
        let (up, down): (Vec<&Change>, Vec<&Change>) = of_kind
            .copied()
            .partition(|change| change.difference.value > 0.0);
        (!up.is_empty(), !down.is_empty())
    };
    let mut words = Vec::new();
    words.extend(match directions(&is_latency) {
        (true, true) => Some("slower in part, faster in part"),
        (true, false) => Some("slower"),
        (false, true) => Some("faster"),
        (false, false) => None,
    });
    words.extend(match directions(&is_failure) {
        (true, true) => Some("some failures more, some less often"),
        (true, false) => Some("more failures"),
        (false, true) => Some("fewer failures"),
        (false, false) => None,
    });
    let confidence = comparison.confidence * 100.0;
    match (reported.first(), words.is_empty()) {
        (None, _) if comparison.n_hypotheses == 0 => {
            "Verdict: unknown. No measure has enough requests on both sides.".to_owned()
        }
        (None, _) => format!(
            "Verdict: no change that is more than chance and large enough to matter ({} measures together, {confidence} % \
             confidence).",
            count(comparison.n_hypotheses as u64)
        ),
        (Some(_), true) => {
            "Verdict: the traffic changed; latencies and failures of like requests did not, as far as can be told.".to_owned()
        }
        (Some(_), false) => {
            let is_felt = |change: &&&Change| match change.measure {
                Measure::Quantile { latency, .. } => latency.is_felt(),
                Measure::Rate(_) | Measure::Share { .. } | Measure::Load => false,
            };
            let felt = reported.iter().find(is_felt);
            let headline = felt.or_else(|| {
                let mut others = reported.iter();
                others.find(|change| is_latency(change) || is_failure(change))
            });
            let headline = headline.map_or_else(String::new, |change| line(compared, change));
            format!("Verdict: {}. {headline}", words.join(", "))
        }
    }
}

fn head(compared: &Compared, out: &mut String) {
    let comparison = &compared.comparison;
    let both = [&compared.sides.before, &compared.sides.after];
    for ((name, side), idx) in ["Before", "After "].iter().zip(both).zip([0, 1]) {
        let condition = side.condition.as_deref();
        let condition = condition.map_or_else(String::new, |condition| {
            format!(", {}", printable(condition, VALUE_CHARS_MAX))
        });
        out.push_str(&format!(
            "{name} {}{condition}: {} requests, of those read {:.1} % answered\n",
            sides::shown(side.span),
            count(compared.n_stored[idx]),
            comparison.n_ok[idx] as f64 / (comparison.n_requests[idx] as f64).max(1.0) * 100.0
        ));
    }
    if let Some(condition) = &compared.sides.condition {
        out.push_str(&format!(
            "Both: {}\n",
            printable(condition, VALUE_CHARS_MAX)
        ));
    }
    if let Some(cut) = comparison.cut {
        out.push_str(&format!(
            "{} of {} cohorts by {}; {} and {} blocks of {} count as independent\n",
            count(comparison.n_cohorts[0] as u64),
            count(comparison.n_cohorts[1] as u64),
            printable(&compared.by.join(", "), VALUE_CHARS_MAX),
            cut.n_blocks[0],
            cut.n_blocks[1],
            seconds(cut.block_s[0].max(cut.block_s[1]))
        ));
    }
}

fn over_all(compared: &Compared, out: &mut String) {
    let comparison = &compared.comparison;
    let is_shown = |change: &&Change| {
        change.cohort.is_empty()
            && matches!(change.measure, Measure::Quantile { .. } | Measure::Rate(_))
    };
    let mut changes: Vec<&Change> = comparison.changes.iter().filter(is_shown).collect();
    if changes.is_empty() {
        return;
    }
    changes.sort_by(|one, other| {
        place(one)
            .partial_cmp(&place(other))
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    let interval = format!("{} % CI", comparison.confidence * 100.0);
    let mut table = Table::new([
        ("measure", Align::Left),
        ("before", Align::Right),
        ("after", Align::Right),
        ("change", Align::Right),
        (interval.as_str(), Align::Right),
        ("by the mix", Align::Right),
        ("verdict", Align::Left),
    ]);
    for change in changes {
        let (moved, interval) = moved(change);
        let mix = change
            .overall
            .map(|(before, after)| after - before - change.difference.value);
        table.push(vec![
            measure(change),
            shown(change, change.before.value),
            shown(change, change.after.value),
            moved,
            interval,
            mix.map_or_else(String::new, seconds),
            match change.standing {
                Standing::Changed => "changed".to_owned(),
                Standing::Small => "small".to_owned(),
                Standing::Unclear => "no change known".to_owned(),
            },
        ]);
    }
    out.push_str("\nOver all requests, within cohorts (after as if the mix were that of before)\n");
    out.push_str(&table.to_string());
}

/// Latencies in the order of the route, then failures.
fn place(change: &Change) -> (usize, f64) {
    match change.measure {
        Measure::Quantile { latency, p } => (latency as usize, p),
        Measure::Rate(failure) => (Latency::ALL.len() + failure as usize, 0.0),
        Measure::Share { .. } | Measure::Load => (usize::MAX, 0.0),
    }
}

/// Of each cohort and latency, the quantile that moved most.
fn of_cohorts(compared: &Compared, out: &mut String) {
    let mut seen = BTreeSet::new();
    let of_cohort = compared.comparison.reported().filter(|change| {
        let what = match change.measure {
            Measure::Quantile { latency, .. } => latency.column(),
            Measure::Rate(failure) => failure.as_str(),
            Measure::Share { .. } | Measure::Load => "",
        };
        !change.cohort.is_empty() && seen.insert((change.cohort.clone(), what))
    });
    let lines: Vec<String> = of_cohort.map(|change| line(compared, change)).collect();
    list(out, "Changed in cohorts, the largest change first", &lines);
}

fn mix(compared: &Compared, out: &mut String) {
    let is_mix = |change: &&Change| matches!(change.measure, Measure::Share { .. } | Measure::Load);
    let reported = compared.comparison.reported().filter(is_mix);
    let lines: Vec<String> = reported.map(|change| line(compared, change)).collect();
    let title = format!(
        "Traffic: {:.1} % is in other cohorts than before",
        compared.comparison.mix_distance * 100.0
    );
    list(out, &title, &lines);
}

fn list(out: &mut String, title: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    out.push_str(&format!("\n{title}\n"));
    for line in lines.iter().take(LINES_MAX) {
        out.push_str(&format!("  {line}\n"));
    }
    if lines.len() > LINES_MAX {
        out.push_str(&format!(
            "  ... and {} more (`--format json` has all)\n",
            lines.len() - LINES_MAX
        ));
    }
}

fn slow_ones(compared: &Compared, apart: &Apart, out: &mut String) {
    let quantile = compared.slower_than * 100.0;
    let who = match (apart.slow, apart.limit) {
        (Slow::ForItsKind, _) => {
            format!(
                "Slow for their kind by {}, above p{quantile:.0} of their cohort before",
                apart.latency.column()
            )
        }
        (Slow::OfAll, limit) => format!(
            "Slow by {}, above p{quantile:.0} of all before ({})",
            apart.latency.column(),
            limit.map_or_else(|| "unknown".to_owned(), seconds)
        ),
    };
    let named: Vec<String> = apart
        .traits
        .iter()
        .filter(|found| found.sets_apart)
        .take(TRAITS_MAX)
        .map(one_trait)
        .collect();
    out.push_str(&format!(
        "\n{who}: {} of {} requests after\n",
        count(apart.n_slow as u64),
        count((apart.n_slow + apart.n_rest) as u64)
    ));
    if named.is_empty() {
        out.push_str("  nothing sets them apart for sure\n");
    }
    for line in named {
        out.push_str(&format!("  {line}\n"));
    }
    if apart.n_unjudged > 0 {
        out.push_str(&format!(
            "  {} more are of cohorts with too few requests before\n",
            count(apart.n_unjudged as u64)
        ));
    }
}

fn one_trait(found: &Trait) -> String {
    let value = |(name, value): (&str, Option<&str>)| {
        format!(
            "{name}={}",
            printable(value.unwrap_or("NULL"), VALUE_CHARS_MAX)
        )
    };
    let also: Vec<String> = found
        .also
        .iter()
        .map(|(name, other)| value((name, other.as_deref())))
        .collect();
    let also = if also.is_empty() {
        String::new()
    } else {
        format!("; the same requests: {}", also.join(", "))
    };
    format!(
        "{}: {:.0} % of the slow, {:.0} % of the others ({} and {} requests{also})",
        value((&found.attribute, found.value.as_deref())),
        found.share_of_slow.value * 100.0,
        found.share_of_rest.value * 100.0,
        count(found.n_slow as u64),
        count(found.n_rest as u64)
    )
}

/// A change on one line: `engine_ttft_s p99 of input_band=lt_2k: 410 ms -> 920 ms (+124 %, 95 % CI +88..+160), 412 vs 398 requests`.
fn line(compared: &Compared, change: &Change) -> String {
    let scale = scale(compared, &change.measure);
    let varying = varying(compared);
    let named = change
        .cohort
        .iter()
        .filter(|(name, _)| varying.contains(name.as_str()));
    let mut named: Vec<(String, Option<String>)> = named.cloned().collect();
    if named.is_empty() {
        named.clone_from(&change.cohort);
    }
    let of = match (&change.measure, change.cohort.is_empty()) {
        (Measure::Share { .. } | Measure::Load, _) => String::new(),
        (_, true) => " over all requests".to_owned(),
        (_, false) => format!(
            " of {}",
            printable(&cohort_name(&named), 3 * VALUE_CHARS_MAX)
        ),
    };
    let (moved, interval) = moved(change);
    format!(
        "{}{of}: {} -> {} ({moved}, {} % CI {interval}), {} vs {} requests",
        measure(change),
        shown(change, change.before.value * scale),
        shown(change, change.after.value * scale),
        compared.comparison.confidence * 100.0,
        count(change.before.n_requests as u64),
        count(change.after.n_requests as u64)
    )
}

/// Columns of which cohorts have several values: the others name nothing.
fn varying(compared: &Compared) -> BTreeSet<&str> {
    let pairs = || {
        compared
            .comparison
            .changes
            .iter()
            .flat_map(|change| &change.cohort)
    };
    let values: BTreeSet<(&str, Option<&str>)> = pairs()
        .map(|(name, value)| (name.as_str(), value.as_deref()))
        .collect();
    let is_varying = |name: &str| values.iter().filter(|(other, _)| *other == name).count() > 1;
    pairs()
        .map(|(name, _)| name.as_str())
        .filter(|name| is_varying(name))
        .collect()
}

/// `model=qwen, input_band=lt_2k`; `all` for all requests.
pub(super) fn cohort_name(cohort: &[(String, Option<String>)]) -> String {
    if cohort.is_empty() {
        return "all".to_owned();
    }
    let named = cohort
        .iter()
        .map(|(name, value)| format!("{name}={}", value.as_deref().unwrap_or("NULL")));
    named.collect::<Vec<_>>().join(", ")
}

fn measure(change: &Change) -> String {
    match &change.measure {
        Measure::Quantile { latency, p } => format!("{} p{:.0}", latency.column(), p * 100.0),
        Measure::Rate(failure) => format!("{} rate", failure.as_str()),
        Measure::Share { attribute, value } => format!(
            "share of {attribute}={}",
            printable(value.as_deref().unwrap_or("NULL"), VALUE_CHARS_MAX)
        ),
        Measure::Load => "requests per second".to_owned(),
    }
}

fn shown(change: &Change, value: f64) -> String {
    match change.measure {
        Measure::Quantile { .. } => seconds(value),
        Measure::Rate(_) | Measure::Share { .. } => format!("{:.2} %", value * 100.0),
        Measure::Load => format!("{value:.2}"),
    }
}

/// How far it moved and the interval of that: relative for what is positive, points for shares, else with its unit.
fn moved(change: &Change) -> (String, String) {
    let relative = |value: f64| format!("{:+.0}", (value - 1.0) * 100.0);
    let points = |value: f64| format!("{:+.1}", value * 100.0);
    let of = |interval: &Interval, say: &dyn Fn(f64) -> String| {
        (
            say(interval.value),
            format!("{}..{}", say(interval.low), say(interval.high)),
        )
    };
    match (&change.measure, &change.ratio) {
        (Measure::Rate(_) | Measure::Share { .. }, _) => {
            let (moved, interval) = of(&change.difference, &points);
            (format!("{moved} points"), interval)
        }
        (_, Some(ratio)) => {
            let (moved, interval) = of(ratio, &relative);
            (format!("{moved} %"), interval)
        }
        (_, None) => of(&change.difference, &|value| {
            let sign = if value < 0.0 { "" } else { "+" };
            format!("{sign}{}", seconds(value))
        }),
    }
}

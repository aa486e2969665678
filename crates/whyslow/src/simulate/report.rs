//! The counts as tables, as one JSON object, and as lines of CSV.

use std::fmt::Write as _;

use anyhow::Context as _;
use arrow::array::TimestampMicrosecondArray;
use sampler::partial::{Doubt, Why};
use serde_json::{Value, json};

use super::tally::{Change, Tally, Volume};
use crate::show::table::{Align, Table};
use crate::show::text;

/// A range that is shorter says little about a day.
const RATE_SECONDS_MIN: f64 = 3_600.0;

/// Longest shown name of a policy or model.
const NAME_CHARS_MAX: usize = 40;

/// The report for people.
pub(super) fn table(name: &str, tally: &Tally) -> String {
    let all = volume_of_all(tally);
    let range = match (tally.extent.first_micros, tally.extent.last_micros) {
        (Some(first), Some(last)) => format!(", begun from {} to {}", time(first), time(last)),
        _ => String::new(),
    };
    let mut out = format!(
        "The policies of {name} on {} ({}, {}){range}\n\n",
        text::counted(all.traces, "stored trace"),
        text::counted(all.spans, "span"),
        text::bytes(all.bytes),
    );
    if all.traces == 0 {
        out.push_str("There is nothing to decide: no stored trace began in this time.\n");
        return out;
    }
    out.push_str(&volumes(tally));
    out.push('\n');
    out.push_str(&by_policy(tally));
    out.push('\n');
    out.push_str(&by_model(tally));
    out.push('\n');
    out.push_str(&change("Kept before, not now", &tally.lost));
    out.push_str(&change("Not kept before, kept now", &tally.gained));
    out.push_str(&estimate(tally));
    if !tally.doubts.is_empty() {
        out.push_str("\nWhat the stored rows do not say:\n");
        out.push_str(&doubts(tally));
    }
    if tally.decided_early > 0 {
        let early = text::counted(tally.decided_early, "trace");
        push(
            &mut out,
            format_args!(
                "\n{early} had been decided early or for its size, and may have gone on: judged is what was there."
            ),
        );
    }
    if tally.has_budget {
        out.push_str(
            "\nThe `budget` is not replayed: what policies ask for is likely kept, as if it fitted.",
        );
    }
    if tally.kept_by_link > 0 {
        let linked = text::counted(tally.kept_by_link, "trace");
        push(
            &mut out,
            format_args!(
                "\n{linked} had been kept because they link to a kept trace: here only policies are asked."
            ),
        );
    }
    out
}

fn volume_of_all(tally: &Tally) -> Volume {
    let (kept, not_kept) = (tally.before.kept, tally.before.not_kept);
    Volume {
        traces: kept.traces + not_kept.traces,
        spans: kept.spans + not_kept.spans,
        bytes: kept.bytes + not_kept.bytes,
    }
}

fn volumes(tally: &Tally) -> String {
    let day = tally
        .observed_s()
        .filter(|seconds| *seconds >= RATE_SECONDS_MIN)
        .map(|seconds| 86_400.0 / seconds);
    let mut heads = vec![
        ("", Align::Left),
        ("traces", Align::Right),
        ("spans", Align::Right),
        ("size", Align::Right),
    ];
    if day.is_some() {
        heads.extend([("spans a day", Align::Right), ("size a day", Align::Right)]);
    }
    let mut table = Table::new(heads);
    let mut line = |name: &str, volume: Volume| {
        let mut cells = vec![
            name.to_owned(),
            text::count(volume.traces),
            text::count(volume.spans),
            text::bytes(volume.bytes),
        ];
        if let Some(day) = day {
            cells.push(text::count(scaled(volume.spans, day)));
            cells.push(text::bytes(scaled(volume.bytes, day)));
        }
        table.push(cells);
    };
    let now = &tally.now;
    line("kept before", tally.before.kept);
    line("kept now", now.kept());
    if now.kept_likely.traces > 0 {
        line("  for certain", now.kept_for_certain);
        line("  likely", now.kept_likely);
    }
    line("not kept now", now.not_kept());
    if now.not_kept_likely.traces > 0 {
        line("  for certain", now.not_kept_for_certain);
        line("  likely", now.not_kept_likely);
    }
    if now.dropped.traces > 0 {
        line("  of them dropped", now.dropped);
    }
    line("unknown", now.unknown);
    table.to_string()
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate for people; factor and count are not negative"
)]
fn scaled(count: u64, factor: f64) -> u64 {
    (count as f64 * factor).round() as u64
}

fn by_policy(tally: &Tally) -> String {
    let mut table = Table::new([
        ("policy", Align::Left),
        ("kept before", Align::Right),
        ("kept now", Align::Right),
        ("verdict likely", Align::Right),
        ("verdict unknown", Align::Right),
    ]);
    // In file order, then those that are no more.
    let gone = tally
        .by_policy
        .keys()
        .filter(|name| !tally.policies.contains(*name));
    for name in tally.policies.iter().chain(gone) {
        let Some(counts) = tally.by_policy.get(name) else {
            continue;
        };
        let is_there = tally.policies.contains(name);
        let now = |count: u64| {
            if is_there {
                text::count(count)
            } else {
                "-".to_owned()
            }
        };
        table.push(vec![
            text::printable(name, NAME_CHARS_MAX),
            text::count(counts.kept_before),
            now(counts.kept_now),
            now(counts.verdict_likely),
            now(counts.verdict_unknown),
        ]);
    }
    table.to_string()
}

fn by_model(tally: &Tally) -> String {
    let mut table = Table::new([
        ("model", Align::Left),
        ("traces", Align::Right),
        ("kept before", Align::Right),
        ("kept now", Align::Right),
        ("unknown", Align::Right),
    ]);
    for (model, counts) in &tally.by_model {
        let model = if model.is_empty() { "-" } else { model };
        table.push(vec![
            text::printable(model, NAME_CHARS_MAX),
            text::count(counts.traces),
            text::count(counts.kept_before),
            text::count(counts.kept_now),
            text::count(counts.unknown),
        ]);
    }
    table.to_string()
}

fn change(what: &str, change: &Change) -> String {
    let mut line = format!("{what}: {}", text::counted(change.traces, "trace"));
    if change.likely > 0 {
        push_str(
            &mut line,
            format_args!(", {} of them likely", text::count(change.likely)),
        );
    }
    if !change.examples.is_empty() {
        push_str(
            &mut line,
            format_args!(", such as {}", change.examples.join(" ")),
        );
    }
    line.push('\n');
    line
}

/// What the kept traces say of all: of use where some are unknown, and only as far as they stand for
/// all.
fn estimate(tally: &Tally) -> String {
    let estimate = &tally.estimate;
    if tally.now.unknown.traces == 0 {
        return String::new();
    }
    if estimate.without > 0 {
        return format!(
            "No estimate of the unknown ones: {} with an unknown weight (`adjusted_count`) or answer.\n",
            text::counted(estimate.without, "kept trace")
        );
    }
    format!(
        "The kept traces, weighted with their `adjusted_count`, stand for {:.0} of {}; of those {:.0} \
         would be kept.\n",
        estimate.traces,
        text::counted(volume_of_all(tally).traces, "trace"),
        estimate.kept
    )
}

fn doubts(tally: &Tally) -> String {
    let mut table = Table::new([
        ("policy", Align::Left),
        ("needs", Align::Left),
        ("but", Align::Left),
        ("traces unknown", Align::Right),
        ("likely", Align::Right),
    ]);
    for ((policy, doubt), (n_unknown, n_likely)) in &tally.doubts {
        let name = tally.policies.get(*policy).map_or("", String::as_str);
        table.push(vec![
            text::printable(name, NAME_CHARS_MAX),
            text::printable(&doubt.what, NAME_CHARS_MAX),
            because(doubt.why).to_owned(),
            text::count(*n_unknown),
            text::count(*n_likely),
        ]);
    }
    table.to_string()
}

/// Why something is not known, for people.
pub(crate) fn because(why: Why) -> &'static str {
    match why {
        Why::NotStored => "the spans are not stored",
        Why::Redacted => "it may have been removed before storing",
        Why::Cut => "the value was cut before storing",
        Why::Type => "the type of the value is not stored",
        Why::Claimed => "only services and engine requests tell it",
        Why::Budget => "how full it was depends on all traces before",
        Why::Rates => "they depend on all traces before",
        Why::Restated => "sampling may have changed it before storing",
    }
}

/// The report as one object.
pub(super) fn json(name: &str, tally: &Tally) -> anyhow::Result<String> {
    let doubts: Vec<Value> = tally
        .doubts
        .iter()
        .map(|((policy, Doubt { what, why }), (unknown, likely))| {
            json!({
                "policy": tally.policies.get(*policy),
                "needs": what,
                "but": because(*why),
                "traces_unknown": unknown,
                "traces_likely": likely,
            })
        })
        .collect();
    let report = json!({
        "policies_of": name.trim_matches('`'),
        "first_start": tally.extent.first_micros.map(time),
        "last_start": tally.extent.last_micros.map(time),
        "observed_s": tally.observed_s(),
        "before": tally.before,
        "now": tally.now,
        "by_policy": tally.by_policy,
        "by_model": tally.by_model,
        "kept_before_not_now": tally.lost,
        "not_kept_before_kept_now": tally.gained,
        "estimate": tally.estimate,
        "doubts": doubts,
        "decided_early": tally.decided_early,
        "kept_by_link": tally.kept_by_link,
    });
    let text = serde_json::to_string_pretty(&report).context("write the report as JSON")?;
    Ok(text + "\n")
}

/// The numbers of the report, one a line.
pub(super) fn csv(tally: &Tally) -> String {
    let mut out = "section,item,measure,value\n".to_owned();
    let mut line = |section: &str, item: &str, measure: &str, value: u64| {
        let item = if item.contains([',', '"', '\n', '\r']) {
            format!("\"{}\"", item.replace('"', "\"\""))
        } else {
            item.to_owned()
        };
        push(&mut out, format_args!("{section},{item},{measure},{value}"));
    };
    let now = &tally.now;
    for (section, item, volume) in [
        ("before", "kept", tally.before.kept),
        ("before", "not_kept", tally.before.not_kept),
        ("now", "kept_for_certain", now.kept_for_certain),
        ("now", "kept_likely", now.kept_likely),
        ("now", "not_kept_for_certain", now.not_kept_for_certain),
        ("now", "not_kept_likely", now.not_kept_likely),
        ("now", "dropped", now.dropped),
        ("now", "unknown", now.unknown),
    ] {
        line(section, item, "traces", volume.traces);
        line(section, item, "spans", volume.spans);
        line(section, item, "bytes", volume.bytes);
    }
    line("change", "kept_before_not_now", "traces", tally.lost.traces);
    line(
        "change",
        "not_kept_before_kept_now",
        "traces",
        tally.gained.traces,
    );
    for (name, counts) in &tally.by_policy {
        line("policy", name, "kept_before", counts.kept_before);
        line("policy", name, "kept_now", counts.kept_now);
        line("policy", name, "verdict_likely", counts.verdict_likely);
        line("policy", name, "verdict_unknown", counts.verdict_unknown);
    }
    for (name, counts) in &tally.by_model {
        line("model", name, "traces", counts.traces);
        line("model", name, "kept_before", counts.kept_before);
        line("model", name, "kept_now", counts.kept_now);
        line("model", name, "unknown", counts.unknown);
    }
    out
}

/// Microseconds since 1970 as ISO 8601 in UTC.
pub(crate) fn time(micros: i64) -> String {
    let times = TimestampMicrosecondArray::from(vec![micros]);
    let time = times.value_as_datetime(0);
    time.map_or_else(
        || micros.to_string(),
        |time| time.format("%Y-%m-%dT%H:%M:%SZ").to_string(),
    )
}

fn push(out: &mut String, line: std::fmt::Arguments<'_>) {
    push_str(out, line);
    out.push('\n');
}

fn push_str(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a `String` cannot fail.
    out.write_fmt(text).ok();
}

//! Text 0.0.4 of this program's own stages into families.
//!
//! Their names are plain and their values numbers; a line that is not so is left out. For pages of others there is
//! `otlp::prometheus`, which judges them.

use super::{Family, Kind, Series, Value};

pub(super) fn families(page: &str) -> Vec<Family> {
    let mut families: Vec<Family> = Vec::new();
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap_or((rest, ""));
            families.push(Family::new(name, Kind::Untyped, help));
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or((rest, ""));
            if families.last().is_none_or(|last| last.name != name) {
                families.push(Family::new(name, Kind::Untyped, ""));
            }
            if let Some(family) = families.last_mut() {
                family.kind = match kind {
                    "counter" => Kind::Counter,
                    "gauge" => Kind::Gauge,
                    _ => Kind::Untyped,
                };
            }
        } else if let Some((name, series)) = sample(line)
            && let Some(family) = families.iter_mut().rev().find(|family| family.name == name)
        {
            family.series.push(series);
        }
    }
    families.retain(|family| !family.series.is_empty());
    families
}

fn sample(line: &str) -> Option<(&str, Series)> {
    let end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at_checked(end)?;
    let (labels, value) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Vec::new(), rest),
    };
    let value = Value::Number(value.trim().parse().ok()?);
    Some((name, Series { labels, value }))
}

/// What stands in the braces, and what comes behind them.
fn labels(text: &str) -> Option<(Vec<(String, String)>, &str)> {
    let mut labels = Vec::new();
    let mut rest = text;
    loop {
        if let Some(behind) = rest.strip_prefix('}') {
            return Some((labels, behind));
        }
        let (name, quoted) = rest.split_once("=\"")?;
        let (value, behind) = unquoted(quoted)?;
        labels.push((name.to_owned(), value));
        rest = behind.strip_prefix(',').unwrap_or(behind);
    }
}

/// A value up to its quote, and what comes behind that.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((idx, c)) = chars.next() {
        match c {
            '"' => return Some((value, text.get(idx + 1..)?)),
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            c => value.push(c),
        }
    }
    None
}

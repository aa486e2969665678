//! The two sides as they are written on the command line: stretches of time, conditions, and what makes them disjoint.

use anyhow::bail;

use crate::moment::Moment;
use crate::simulate::time;
use crate::slow::parse_span;

/// A stretch of time, microseconds since 1970, the end excluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from: i64,
    pub(super) to: i64,
}

/// A stretch as written: either end is a time or a time ago.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    from: Moment,
    to: Moment,
}

/// One side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Side {
    pub(super) span: Span,
    pub(super) condition: Option<String>,
}

/// What the command line says of both sides.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct SidesArgs {
    /// When the requests began that are compared with: `2026-11-30T10:00..10:30`, `2h..1h` (ago).
    #[arg(long, value_name = "FROM..TO", value_parser = parse_range, requires = "after", conflicts_with = "since_deploy")]
    before: Option<Range>,
    /// When the requests began that are asked about: `2026-11-30T11:00..11:30`, `1h..now`.
    #[arg(long, value_name = "FROM..TO", value_parser = parse_range, requires = "before", conflicts_with = "since_deploy")]
    after: Option<Range>,
    /// Compare as long as `--window` before this time with as long after it.
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    since_deploy: Option<Instant>,
    /// How long before and after a deployment; after it at most until now.
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = parse_span)]
    window: std::time::Duration,
    /// Without times: how far back requests of both sides may have begun.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_span)]
    last: std::time::Duration,
    /// Condition of SQL on the requests before: `service_name = 'stable'`.
    #[arg(long, value_name = "SQL")]
    before_where: Option<String>,
    /// Condition of SQL on the requests after: `service_name = 'canary'`.
    #[arg(long, value_name = "SQL")]
    after_where: Option<String>,
    /// Condition of SQL on the requests of both sides: `model = 'qwen'`.
    #[arg(long = "where", value_name = "SQL")]
    condition: Option<String>,
}

/// A point in time, as clap hands it over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Instant(Moment);

/// Both sides and the condition on both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sides {
    pub(super) before: Side,
    pub(super) after: Side,
    pub(super) condition: Option<String>,
}

impl Sides {
    /// Are they stretches of time, with the same conditions, so that numbers of requests can be compared?
    pub(super) fn has_load(&self) -> bool {
        self.before.condition == self.after.condition && self.before.span != self.after.span
    }
}

impl SidesArgs {
    /// The sides, at this time.
    pub(super) fn sides(&self, now: i64) -> anyhow::Result<Sides> {
        let (before, after) = self.spans(now)?;
        let is_same_condition = self.before_where == self.after_where;
        if is_same_condition && before.from < after.to && after.from < before.to {
            bail!(
                "before ({}) and after ({}) overlap, so that a request would be on both sides: choose stretches apart, or tell \
                 the sides apart with `--before-where` and `--after-where`",
                shown(before),
                shown(after)
            );
        }
        let side = |span, condition: &Option<String>| Side {
            span,
            condition: condition.clone(),
        };
        Ok(Sides {
            before: side(before, &self.before_where),
            after: side(after, &self.after_where),
            condition: self.condition.clone(),
        })
    }

    fn spans(&self, now: i64) -> anyhow::Result<(Span, Span)> {
        let micros =
            |time: std::time::Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        let (before, after) = match (self.before, self.after, self.since_deploy) {
            (Some(before), Some(after), _) => (before.span(now), after.span(now)),
            (_, _, Some(Instant(deploy))) => {
                let (at, window) = (deploy.micros(now), micros(self.window));
                let to = at.saturating_add(window).min(now);
                if to <= at {
                    bail!(
                        "`--since-deploy` {} is not in the past: there is nothing after it yet",
                        time(at)
                    );
                }
                let before = Span {
                    from: at.saturating_sub(window),
                    to: at,
                };
                (before, Span { from: at, to })
            }
            _ if self.before_where.is_some() || self.after_where.is_some() => {
                let from = now.saturating_sub(micros(self.last));
                let span = Span { from, to: now };
                (span, span)
            }
            _ => bail!(
                "what is to be compared? Give `--since-deploy TIME`, or `--before FROM..TO --after FROM..TO`, or conditions with \
                 `--before-where SQL --after-where SQL`"
            ),
        };
        for (name, span) in [("before", before), ("after", after)] {
            if span.from >= span.to {
                bail!("`--{name}` ends before it begins: {}", shown(span));
            }
        }
        Ok((before, after))
    }
}

impl Range {
    fn span(self, now: i64) -> Span {
        Span {
            from: self.from.micros(now),
            to: self.to.micros(now),
        }
    }
}

/// A stretch for people.
pub(super) fn shown(span: Span) -> String {
    format!("{} .. {}", time(span.from), time(span.to))
}

fn parse_range(text: &str) -> Result<Range, String> {
    let wrong = || {
        format!(
            "`{text}` is not a stretch of time such as `2026-11-30T10:00..10:30`, `2h..1h` or `30m..now`"
        )
    };
    let (from, to) = text.split_once("..").ok_or_else(wrong)?;
    let from_moment = moment(from).ok_or_else(wrong)?;
    // A time of day is that of the same day.
    let day = from.split_at_checked(11).map(|(day, _)| day);
    let same_day = day
        .filter(|day| day.ends_with(['T', ' ']))
        .and_then(|day| moment(&format!("{day}{to}")));
    let to = moment(to).or(same_day).ok_or_else(wrong)?;
    Ok(Range {
        from: from_moment,
        to,
    })
}

fn parse_moment(text: &str) -> Result<Instant, String> {
    moment(text).map(Instant).ok_or_else(|| {
        "not a time such as `30m` (ago), `2026-11-30` or `2026-11-30T10:00`".to_owned()
    })
}

fn moment(text: &str) -> Option<Moment> {
    if text == "now" {
        return Some(Moment::Ago(0));
    }
    if let Some(ago) = Moment::ago(text) {
        return Some(ago);
    }
    // Only full dates: a lone time of day would be one of 1970, and a lone year of that year.
    let is_dated = text.len() >= 10 && text.as_bytes().get(4) == Some(&b'-');
    if !is_dated {
        return None;
    }
    // A time without seconds, and perhaps with a zone.
    let with_seconds = text.split_at_checked(16);
    let with_seconds = with_seconds.map(|(minute, zone)| format!("{minute}:00{zone}"));
    Moment::at(text).or_else(|| Moment::at(&with_seconds?))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::{SidesArgs, Span};

    const NOW: i64 = 1_796_040_000_000_000;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        sides: SidesArgs,
    }

    fn spans(args: &[&str]) -> Result<(Span, Span), String> {
        let line = Line::try_parse_from([&["compare"], args].concat())
            .map_err(|error| error.to_string())?;
        let sides = line.sides.sides(NOW).map_err(|error| error.to_string())?;
        Ok((sides.before.span, sides.after.span))
    }

    fn minutes(from: i64, to: i64) -> Span {
        let at = |minutes: i64| NOW + minutes * 60_000_000;
        Span {
            from: at(from),
            to: at(to),
        }
    }

    #[test]
    fn stretches_are_times_of_a_day_or_times_ago() {
        // It is 2026-11-30T12:00 then.
        for (args, expected) in [
            (
                ["--before", "2h..1h", "--after", "1h..now"],
                (minutes(-120, -60), minutes(-60, 0)),
            ),
            (
                [
                    "--before",
                    "2026-11-30T10:00..10:30",
                    "--after",
                    "2026-11-30T11:00:00..2026-11-30T11:30:00Z",
                ],
                (minutes(-120, -90), minutes(-60, -30)),
            ),
            (
                [
                    "--before",
                    "2026-11-30T10:00+01:00..2026-11-30T10:00",
                    "--after",
                    "2026-11-30T11:00..now",
                ],
                (minutes(-180, -120), minutes(-60, 0)),
            ),
            (
                ["--since-deploy", "20m", "--window", "1h"],
                (minutes(-80, -20), minutes(-20, 0)),
            ),
            (
                ["--since-deploy", "2026-11-30T11:00", "--window", "30m"],
                (minutes(-90, -60), minutes(-60, -30)),
            ),
            (
                ["--before-where", "a", "--last", "30m"],
                (minutes(-30, 0), minutes(-30, 0)),
            ),
        ] {
            assert_eq!(spans(&args), Ok(expected), "{args:?}");
        }
    }

    #[test]
    fn senseless_sides_are_refused_with_a_remedy() {
        for (args, part) in [
            (vec![], "what is to be compared?"),
            (vec!["--before", "2h..1h"], "--after"),
            (vec!["--before", "2h..1h", "--after", "90m..now"], "overlap"),
            (
                vec!["--before", "2h..1h", "--after", "now..1h"],
                "ends before it begins",
            ),
            (
                vec!["--before", "10:00..10:30", "--after", "1h..now"],
                "is not a stretch of time",
            ),
            (
                vec!["--before", "2h", "--after", "1h..now"],
                "is not a stretch of time",
            ),
            (vec!["--since-deploy", "2027-01-01"], "not in the past"),
            (vec!["--since-deploy", "noon"], "not a time"),
            (
                vec![
                    "--since-deploy",
                    "1h",
                    "--before",
                    "2h..1h",
                    "--after",
                    "1h..now",
                ],
                "cannot be used with",
            ),
            (vec!["--before-where", "a", "--after-where", "a"], "overlap"),
        ] {
            let error = spans(&args).unwrap_err();
            assert!(error.contains(part), "{args:?}: {error}");
        }
    }
}

//! One trace as an indented timeline with bars.
//!
//! Limits: [`LINES_MAX`] lines, indentation of [`INDENT_MAX`] levels, names of [`NAME_CHARS_MAX`]
//! characters. Any set of spans can be drawn: parents that are not there are named as missing,
//! spans that are each other's ancestors are marked as a loop, and each span is shown or counted
//! exactly once.
//!
//! Many like children of one parent (a streaming response leaves one `http send` span per chunk)
//! become one line with their count. Times are drawn as they were stored; skew between hosts shows
//! as a child outside its parent.

mod read;
mod tree;

use std::time::Duration;

use super::text;
use tree::{Line, What};

pub(crate) use read::{spans_of_batches, statement};

/// The most lines that are drawn; what does not fit is counted.
pub(crate) const LINES_MAX: usize = 200;
const INDENT_MAX: usize = 20;
const NAME_CHARS_MAX: usize = 60;
const BAR_CHARS_MIN: usize = 20;

/// A span as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Span {
    pub(crate) span_id: String,
    pub(crate) parent_span_id: Option<String>,
    pub(crate) service: String,
    pub(crate) name: String,
    pub(crate) start_unix_nano: i64,
    pub(crate) duration: Duration,
    /// The status message of a span with status ERROR; may be empty.
    pub(crate) error: Option<String>,
    /// Of an engine span.
    pub(crate) phases: Option<Phases>,
}

/// Where an engine spent its time; `None` where it is not known.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Phases {
    pub(crate) queue: Option<Duration>,
    pub(crate) prefill: Option<Duration>,
    pub(crate) decode: Option<Duration>,
}

/// Draws the spans of one trace in at most `width` characters a line, as far as names and a short
/// bar allow.
pub(crate) fn render(spans: &[Span], width: usize) -> String {
    let Some(axis) = Axis::over(spans) else {
        return "no spans\n".to_owned();
    };
    let mut lines = tree::lines(spans);
    let n_hidden: u64 = lines.iter().skip(LINES_MAX).map(Line::n_spans).sum();
    lines.truncate(LINES_MAX);

    let labels: Vec<_> = lines.iter().map(|line| label(line, spans)).collect();
    let services: Vec<_> = lines.iter().map(|line| service(line, spans)).collect();
    let label_chars = widest(&labels);
    let service_chars = widest(&services);
    // Two blanks between columns, ten characters for the duration, two brackets.
    let taken = service_chars + label_chars + 2 + 2 + 10 + 2 + 2;
    let bar_chars = width.saturating_sub(taken).max(BAR_CHARS_MIN);

    let mut out = headline(spans, &axis);
    for ((line, label), service) in lines.iter().zip(&labels).zip(&services) {
        let (bar, taken) = drawing(line, spans, &axis, bar_chars);
        let row = format!("{service:service_chars$}  {label:label_chars$}  {taken:>10}  {bar}");
        out.push_str(row.trim_end());
        out.push('\n');
        for note in notes(line, spans) {
            let indent = service_chars + 2 + indent(line.depth) + 2;
            push_line(&mut out, format_args!("{:indent$}{note}", ""));
        }
    }
    if n_hidden > 0 {
        let hidden = text::counted(n_hidden, "more span");
        push_line(&mut out, format_args!("... {hidden} not shown"));
    }
    if spans.iter().any(|span| span.phases.is_some()) {
        push_line(
            &mut out,
            format_args!("engine phases: q queue, p prefill, d decode"),
        );
    }
    out
}

/// From the first start to the last end.
struct Axis {
    start: i64,
    length: Duration,
}

impl Axis {
    fn over(spans: &[Span]) -> Option<Self> {
        let start = spans.iter().map(|span| span.start_unix_nano).min()?;
        let length = spans
            .iter()
            .map(|span| since(start, span) + span.duration)
            .max()?;
        Some(Self { start, length })
    }

    /// Which character of the bar a moment falls on.
    fn position(&self, moment: Duration, bar_chars: usize) -> usize {
        let nanos = self.length.as_nanos().max(1);
        let chars = u128::try_from(bar_chars).unwrap_or(0);
        usize::try_from(moment.as_nanos() * chars / nanos)
            .unwrap_or(bar_chars)
            .min(bar_chars)
    }
}

fn since(start_unix_nano: i64, span: &Span) -> Duration {
    let nanos = i128::from(span.start_unix_nano) - i128::from(start_unix_nano);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
}

fn headline(spans: &[Span], axis: &Axis) -> String {
    let mut services: Vec<_> = spans.iter().map(|span| span.service.as_str()).collect();
    services.sort_unstable();
    services.dedup();
    let n_errors = spans.iter().filter(|span| span.error.is_some()).count();
    let mut headline = format!(
        "{}, {}, {}",
        text::counted(as_count(spans.len()), "span"),
        text::counted(as_count(services.len()), "service"),
        text::duration(axis.length),
    );
    if n_errors > 0 {
        headline.push_str(", ");
        headline.push_str(&text::counted(as_count(n_errors), "error"));
    }
    headline.push('\n');
    headline
}

fn service(line: &Line, spans: &[Span]) -> String {
    match line.what {
        What::Span(span_idx)
        | What::Folded {
            first_idx: span_idx,
            ..
        } => text::printable(&spans[span_idx].service, 24),
        What::MissingParent(_) | What::Loop => String::new(),
    }
}

fn label(line: &Line, spans: &[Span]) -> String {
    let name = |span_idx: usize| text::printable(&spans[span_idx].name, NAME_CHARS_MAX);
    let label = match &line.what {
        What::Span(span_idx) => name(*span_idx),
        What::Folded {
            first_idx, n_spans, ..
        } => {
            format!("{} x {}", name(*first_idx), text::count(*n_spans))
        }
        What::MissingParent(span_id) => {
            format!("(missing parent {})", text::printable(span_id, 16))
        }
        What::Loop => "(spans that are each other's ancestors)".to_owned(),
    };
    format!("{:indent$}{label}", "", indent = indent(line.depth))
}

fn indent(depth: usize) -> usize {
    2 * depth.min(INDENT_MAX)
}

/// The bar, and the duration beside it.
fn drawing(line: &Line, spans: &[Span], axis: &Axis, bar_chars: usize) -> (String, String) {
    let (start, end) = match line.what {
        What::Span(span_idx) => {
            let start = since(axis.start, &spans[span_idx]);
            (start, start + spans[span_idx].duration)
        }
        What::Folded {
            first_idx,
            end_unix_nano,
            ..
        } => {
            let start = since(axis.start, &spans[first_idx]);
            let nanos = end_unix_nano - i128::from(axis.start);
            (
                start,
                Duration::from_nanos(u64::try_from(nanos).unwrap_or(0)),
            )
        }
        What::MissingParent(_) | What::Loop => return (String::new(), String::new()),
    };
    let first = axis.position(start, bar_chars).min(bar_chars - 1);
    let last = axis.position(end, bar_chars).max(first + 1);
    let mut bar = vec![b' '; bar_chars];
    let fill = if matches!(line.what, What::Folded { .. }) {
        b':'
    } else {
        b'='
    };
    bar[first..last].fill(fill);
    if let What::Span(span_idx) = line.what
        && let Some(phases) = spans[span_idx].phases
    {
        let mut moment = start;
        for (mark, phase) in [
            (b'q', phases.queue),
            (b'p', phases.prefill),
            (b'd', phases.decode),
        ] {
            let phase_start = axis.position(moment, bar_chars).clamp(first, last);
            moment = moment.saturating_add(phase.unwrap_or_default());
            let phase_end = axis.position(moment, bar_chars).clamp(first, last);
            bar[phase_start..phase_end].fill(mark);
        }
    }
    let bar = String::from_utf8_lossy(&bar).into_owned();
    (
        format!("[{bar}]"),
        text::duration(end.saturating_sub(start)),
    )
}

/// Lines below a span: what its bar cannot tell.
fn notes(line: &Line, spans: &[Span]) -> Vec<String> {
    let mut notes = Vec::new();
    match line.what {
        What::Span(span_idx) => {
            let span = &spans[span_idx];
            if let Some(message) = &span.error {
                let colon = if message.is_empty() { "" } else { ": " };
                notes.push(format!("ERROR{colon}{}", text::printable(message, 100)));
            }
            if let Some(phases) = span.phases {
                let shown = |name: &str, phase: Option<Duration>| {
                    format!(
                        "{name} {}",
                        phase.map_or_else(|| "not known".into(), text::duration)
                    )
                };
                notes.push(format!(
                    "{}, {}, {}",
                    shown("queue", phases.queue),
                    shown("prefill", phases.prefill),
                    shown("decode", phases.decode)
                ));
            }
        }
        What::Folded { n_errors, .. } if n_errors > 0 => {
            notes.push(format!("ERROR in {}", text::counted(n_errors, "span")));
        }
        What::Folded { .. } | What::MissingParent(_) | What::Loop => {}
    }
    notes
}

fn widest(texts: &[String]) -> usize {
    texts
        .iter()
        .map(|text| text.chars().count())
        .max()
        .unwrap_or(0)
}

fn push_line(out: &mut String, line: std::fmt::Arguments<'_>) {
    out.push_str(&line.to_string());
    out.push('\n');
}

fn as_count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;

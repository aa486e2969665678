//! One line of Prometheus text.

use std::{borrow::Cow, time::Duration};

use super::{Format, SkipReason};

/// What a line is.
pub(super) enum Line<'a> {
    /// Nothing, or a comment without meaning.
    Blank,
    Comment(Comment<'a>),
    Sample(Sample<'a>),
}

/// A comment that says something of a family: its name and the rest of the line.
#[derive(Clone, Copy)]
pub(super) enum Comment<'a> {
    Help(&'a str, &'a str),
    Type(&'a str, &'a str),
    Unit(&'a str, &'a str),
}

/// A sample but its labels.
pub(super) struct Sample<'a> {
    pub(super) name: Cow<'a, str>,
    pub(super) value: f64,
    /// `None` if the line has no timestamp.
    pub(super) time_unix_nano: Option<u64>,
}

/// Reads a line; of a sample, the labels go into `labels`.
pub(super) fn read<'a>(
    line: &'a str,
    format: Format,
    labels_max: usize,
    labels: &mut Vec<(Cow<'a, str>, Cow<'a, str>)>,
) -> Result<Line<'a>, SkipReason> {
    let mut cursor = Cursor { rest: line.trim() };
    if cursor.rest.is_empty() {
        return Ok(Line::Blank);
    }
    if cursor.eat('#') {
        return Ok(comment(cursor).map_or(Line::Blank, Line::Comment));
    }
    labels.clear();
    let name = match cursor.identifier() {
        Some(name) => {
            cursor.blanks();
            let named_inside = if cursor.eat('{') {
                read_labels(&mut cursor, labels_max, labels)?
            } else {
                None
            };
            if named_inside.is_some() {
                return Err(SkipReason::Labels);
            }
            Cow::Borrowed(name)
        }
        None if cursor.eat('{') => {
            read_labels(&mut cursor, labels_max, labels)?.ok_or(SkipReason::Name)?
        }
        None => return Err(SkipReason::Name),
    };
    let value = cursor.word().parse().map_err(|_| SkipReason::Value)?;
    let time_unix_nano = match cursor.word() {
        "" => None,
        word if word.starts_with('#') => None,
        word => {
            let time = time_unix_nano(word, format).ok_or(SkipReason::Timestamp)?;
            cursor.blanks();
            if !cursor.rest.is_empty() && !cursor.rest.starts_with('#') {
                return Err(SkipReason::Timestamp);
            }
            Some(time)
        }
    };
    Ok(Line::Sample(Sample {
        name,
        value,
        time_unix_nano,
    }))
}

fn comment(mut cursor: Cursor<'_>) -> Option<Comment<'_>> {
    let make = match cursor.word() {
        "HELP" => Comment::Help,
        "TYPE" => Comment::Type,
        "UNIT" => Comment::Unit,
        _ => return None,
    };
    let name = cursor.word();
    cursor.blanks();
    (!name.is_empty()).then(|| make(name, cursor.rest))
}

/// Labels behind the opening brace, with the metric's name if it is among them.
fn read_labels<'a>(
    cursor: &mut Cursor<'a>,
    labels_max: usize,
    labels: &mut Vec<(Cow<'a, str>, Cow<'a, str>)>,
) -> Result<Option<Cow<'a, str>>, SkipReason> {
    let mut metric = None;
    loop {
        cursor.blanks();
        if cursor.eat('}') {
            return Ok(metric);
        }
        let quoted = cursor.quoted();
        let is_quoted = quoted.is_some();
        let name = quoted
            .or_else(|| cursor.identifier().map(Cow::Borrowed))
            .ok_or(SkipReason::Labels)?;
        cursor.blanks();
        if cursor.eat('=') {
            cursor.blanks();
            let value = cursor.quoted().ok_or(SkipReason::Labels)?;
            if labels.len() >= labels_max {
                return Err(SkipReason::TooManyLabels);
            }
            labels.push((name, value));
        } else if is_quoted && metric.is_none() {
            metric = Some(name);
        } else {
            return Err(SkipReason::Labels);
        }
        cursor.blanks();
        if !cursor.eat(',') && !cursor.rest.starts_with('}') {
            return Err(SkipReason::Labels);
        }
    }
}

/// Nanoseconds since 1970; `None` before 1970, after 2554 and for what is no number.
fn time_unix_nano(word: &str, format: Format) -> Option<u64> {
    match format {
        Format::Text => {
            let millis: u64 = word.parse().ok()?;
            millis.checked_mul(1_000_000)
        }
        Format::OpenMetrics => {
            let since_epoch = Duration::try_from_secs_f64(word.parse().ok()?).ok()?;
            u64::try_from(since_epoch.as_nanos()).ok()
        }
    }
}

/// What is left of a line.
#[derive(Clone, Copy)]
struct Cursor<'a> {
    rest: &'a str,
}

impl<'a> Cursor<'a> {
    fn blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn eat(&mut self, wanted: char) -> bool {
        let rest = self.rest.strip_prefix(wanted);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn take(&mut self, n_bytes: usize) -> &'a str {
        let (taken, rest) = self
            .rest
            .split_at_checked(n_bytes)
            .unwrap_or((self.rest, ""));
        self.rest = rest;
        taken
    }

    /// Up to the next blank; empty at the end.
    fn word(&mut self) -> &'a str {
        self.blanks();
        let end = self.rest.find(char::is_whitespace);
        self.take(end.unwrap_or(self.rest.len()))
    }

    /// A name of a metric or label without quotes.
    fn identifier(&mut self) -> Option<&'a str> {
        let is_inside = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':');
        let n_bytes = self.rest.bytes().take_while(is_inside).count();
        let begins_well = self.rest.starts_with(|c: char| !c.is_ascii_digit());
        (n_bytes > 0 && begins_well).then(|| self.take(n_bytes))
    }

    /// A string in quotes; nothing is taken if there is none.
    fn quoted(&mut self) -> Option<Cow<'a, str>> {
        let inside = self.rest.strip_prefix('"')?;
        let mut is_escaped = false;
        let mut has_escapes = false;
        for (at, byte) in inside.bytes().enumerate() {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => {
                    is_escaped = true;
                    has_escapes = true;
                }
                b'"' => {
                    let (text, rest) = inside.split_at_checked(at)?;
                    self.rest = rest.strip_prefix('"')?;
                    return Some(if has_escapes {
                        Cow::Owned(unescape(text))
                    } else {
                        Cow::Borrowed(text)
                    });
                }
                _ => {}
            }
        }
        None
    }
}

/// Resolves `\\`, `\"` and `\n`; another backslash stands for itself, as in Prometheus.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => out.push('\n'),
            Some(escaped @ ('\\' | '"')) => out.push(escaped),
            Some(other) => out.extend(['\\', other]),
            None => out.push('\\'),
        }
    }
    out
}

//! The attributes of one owner: one entry per key, redacted and cut, ready to be written.

use std::borrow::Cow;

use otlp::attribute::{Attributes, Value};

use crate::{
    redact::{Action, Place, Redaction, cut, strip_url},
    row::AttributeCells,
};

/// Up to this many entries are compared pairwise, which is faster than sorting them.
const PAIRWISE_MAX: usize = 24;

/// One attribute.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    /// Cut to the limit like every text.
    pub(super) key: Cow<'a, str>,
    pub(super) value: Value<'a>,
    pub(super) action: Action,
    /// Its value is in a column of its own and not in the map.
    pub(super) is_column_only: bool,
}

/// What redaction did to a row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) redacted: u32,
    pub(super) truncated: u32,
}

impl Counts {
    pub(super) fn add(&mut self, other: Self) {
        self.redacted = self.redacted.saturating_add(other.redacted);
        self.truncated = self.truncated.saturating_add(other.truncated);
    }

    pub(super) fn note_cut(&mut self, is_cut: bool) {
        self.truncated = self.truncated.saturating_add(u32::from(is_cut));
    }
}

/// Buffers for text that is not in the span as it is stored.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    text: String,
    cut: String,
}

impl Scratch {
    /// The text as stored, and whether it was cut.
    pub(super) fn cut<'t>(&'t mut self, text: &'t str, bytes_max: usize) -> (&'t str, bool) {
        cut(text, bytes_max, &mut self.cut)
    }

    /// As [`Self::cut`], for text that `write` renders.
    pub(super) fn cut_written(
        &mut self,
        bytes_max: usize,
        write: impl FnOnce(&mut String),
    ) -> (&str, bool) {
        self.text.clear();
        write(&mut self.text);
        cut(&self.text, bytes_max, &mut self.cut)
    }
}

/// Reads attributes into `entries`: of repeated keys, the last.
pub(super) fn read<'a>(
    attributes: Attributes<'a>,
    redaction: &Redaction,
    mut action: impl FnMut(&str) -> Action,
    entries: &mut Vec<Entry<'a>>,
) -> otlp::Result<()> {
    entries.clear();
    for attribute in attributes {
        let (key, value) = attribute?;
        let action = action(key);
        let key = match cut(key, redaction.value_bytes_max(), &mut String::new()) {
            (_, false) => Cow::Borrowed(key),
            (cut, true) => Cow::Owned(cut.to_owned()),
        };
        entries.push(Entry {
            key,
            value,
            action,
            is_column_only: false,
        });
    }
    keep_last(entries);
    Ok(())
}

/// The allocation of a list of entries, for entries of another span.
pub(super) fn recycle<'b>(mut entries: Vec<Entry<'_>>) -> Vec<Entry<'b>> {
    entries.clear();
    entries.into_iter().map_while(|_| None).collect()
}

/// Writes what is kept; says how many bytes it takes.
pub(super) fn write(
    entries: &[Entry<'_>],
    bytes_max: usize,
    scratch: &mut Scratch,
    counts: &mut Counts,
    cells: &mut AttributeCells,
) -> usize {
    let mut n_bytes = 0;
    for entry in entries {
        match entry.action {
            Action::Drop => counts.redacted = counts.redacted.saturating_add(1),
            _ if entry.is_column_only => {}
            _ => {
                let value = render(entry, bytes_max, scratch, counts);
                n_bytes += cells.push(&entry.key, value);
            }
        }
    }
    n_bytes
}

/// The text of a value that is kept; `None` for no value.
pub(super) fn render<'t>(
    entry: &'t Entry<'_>,
    bytes_max: usize,
    scratch: &'t mut Scratch,
    counts: &mut Counts,
) -> Option<&'t str> {
    let is_key_cut = matches!(entry.key, Cow::Owned(_));
    let (text, is_cut) = match (&entry.value, entry.action) {
        (Value::Empty, _) => return None,
        (Value::Str(url), Action::StripUrl) => {
            let stripped = strip_url(url);
            let is_stripped = matches!(stripped, Cow::Owned(_));
            counts.redacted = counts.redacted.saturating_add(u32::from(is_stripped));
            scratch.cut_written(bytes_max, |out| out.push_str(&stripped))
        }
        (Value::Str(text), _) => scratch.cut(text, bytes_max),
        (value, _) => scratch.cut_written(bytes_max, |out| value.write_text(out)),
    };
    counts.note_cut(is_cut || is_key_cut);
    Some(text)
}

/// Adds what a map without columns of its own holds: for events and links.
pub(super) fn write_map<'a>(
    attributes: Attributes<'a>,
    redaction: &Redaction,
    place: Place,
    entries: &mut Vec<Entry<'a>>,
    scratch: &mut Scratch,
    counts: &mut Counts,
    cells: &mut AttributeCells,
) -> usize {
    // The bytes were read without error before the row was begun.
    match read(
        attributes,
        redaction,
        |key| redaction.action(place, key),
        entries,
    ) {
        Ok(()) => write(entries, redaction.value_bytes_max(), scratch, counts, cells),
        Err(_) => 0,
    }
}

fn keep_last(entries: &mut Vec<Entry<'_>>) {
    let n = entries.len();
    let mut is_repeated = vec![];
    if n <= PAIRWISE_MAX {
        for (i, entry) in entries.iter().enumerate() {
            if entries[i + 1..].iter().any(|later| later.key == entry.key) {
                is_repeated.resize(n, false);
                is_repeated[i] = true;
            }
        }
    } else {
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|a, b| entries[*a].key.cmp(&entries[*b].key));
        for pair in order.windows(2) {
            if entries[pair[0]].key == entries[pair[1]].key {
                is_repeated.resize(n, false);
                is_repeated[pair[0]] = true;
            }
        }
    }
    if !is_repeated.is_empty() {
        let mut is_repeated = is_repeated.into_iter();
        entries.retain(|_| !is_repeated.next().unwrap_or_default());
    }
}

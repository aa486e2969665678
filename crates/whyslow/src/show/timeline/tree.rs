//! Spans into the lines of a timeline: parents before children, like children folded.
//!
//! No recursion: a trace can be as deep as it has spans.

use std::collections::HashMap;

use super::Span;

/// From this many on, like children without children of their own are one line.
const FOLD_FROM: usize = 4;

/// One line of the timeline.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Line {
    pub(super) depth: usize,
    pub(super) what: What,
}

/// What a line shows; indexes are into the spans.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum What {
    Span(usize),
    Folded {
        first_idx: usize,
        n_spans: u64,
        n_errors: u64,
        end_unix_nano: i128,
    },
    /// The id that the spans below name as their parent; no span has it.
    MissingParent(String),
    /// The spans below would never be reached from a root.
    Loop,
}

impl Line {
    pub(super) fn n_spans(&self) -> u64 {
        match self.what {
            What::Span(_) => 1,
            What::Folded { n_spans, .. } => n_spans,
            What::MissingParent(_) | What::Loop => 0,
        }
    }
}

/// Every span once, in reading order.
pub(super) fn lines(spans: &[Span]) -> Vec<Line> {
    let mut by_start: Vec<usize> = (0..spans.len()).collect();
    by_start.sort_by(|a, b| order(&spans[*a]).cmp(&order(&spans[*b])));
    let family = Family::of(spans, &by_start);

    let mut tree = Tree {
        spans,
        family: &family,
        is_shown: vec![false; spans.len()],
        lines: Vec::new(),
    };
    tree.add_all(&family.roots, 0);
    for (parent_span_id, children) in &family.orphans {
        let what = What::MissingParent((*parent_span_id).to_owned());
        tree.lines.push(Line { depth: 0, what });
        tree.add_all(children, 1);
    }
    for span_idx in by_start {
        if !tree.is_shown[span_idx] {
            tree.lines.push(Line {
                depth: 0,
                what: What::Loop,
            });
            tree.add_all(&[span_idx], 1);
        }
    }
    tree.lines
}

/// By start; of equal starts the longest first, as it may be the parent.
fn order(span: &Span) -> (i64, std::cmp::Reverse<std::time::Duration>, &str) {
    (
        span.start_unix_nano,
        std::cmp::Reverse(span.duration),
        &span.span_id,
    )
}

/// Who belongs to whom.
struct Family<'a> {
    roots: Vec<usize>,
    children: Vec<Vec<usize>>,
    /// By missing parent, in order of the first orphan's start.
    orphans: Vec<(&'a str, Vec<usize>)>,
}

impl<'a> Family<'a> {
    fn of(spans: &'a [Span], by_start: &[usize]) -> Self {
        // Of spans with one id, the earliest takes the children.
        let mut idx_of_id: HashMap<&str, usize> = HashMap::new();
        for span_idx in by_start {
            idx_of_id
                .entry(spans[*span_idx].span_id.as_str())
                .or_insert(*span_idx);
        }
        let mut family = Self {
            roots: Vec::new(),
            children: vec![Vec::new(); spans.len()],
            orphans: Vec::new(),
        };
        let mut orphans_idx: HashMap<&str, usize> = HashMap::new();
        for span_idx in by_start {
            let Some(parent_span_id) = spans[*span_idx].parent_span_id.as_deref() else {
                family.roots.push(*span_idx);
                continue;
            };
            if let Some(parent_idx) = idx_of_id.get(parent_span_id) {
                family.children[*parent_idx].push(*span_idx);
                continue;
            }
            let n_missing = family.orphans.len();
            let orphans_idx = *orphans_idx.entry(parent_span_id).or_insert(n_missing);
            if orphans_idx == n_missing {
                family.orphans.push((parent_span_id, Vec::new()));
            }
            family.orphans[orphans_idx].1.push(*span_idx);
        }
        family
    }
}

struct Tree<'a> {
    spans: &'a [Span],
    family: &'a Family<'a>,
    is_shown: Vec<bool>,
    lines: Vec<Line>,
}

impl<'a> Tree<'a> {
    /// Adds siblings with all that is below them.
    fn add_all(&mut self, siblings: &[usize], depth: usize) {
        let mut waiting = self.siblings(siblings, depth);
        while let Some(line) = waiting.pop() {
            if let What::Span(span_idx) = line.what {
                if std::mem::replace(&mut self.is_shown[span_idx], true) {
                    continue;
                }
                let children = &self.family.children[span_idx];
                waiting.extend(self.siblings(children, line.depth + 1));
            }
            self.lines.push(line);
        }
    }

    /// Lines of siblings in reverse, with like ones folded into the place of the first.
    fn siblings(&mut self, siblings: &[usize], depth: usize) -> Vec<Line> {
        let mut n_alike: HashMap<(&str, &str), usize> = HashMap::new();
        for span_idx in siblings {
            if let Some(likeness) = self.likeness(*span_idx) {
                *n_alike.entry(likeness).or_default() += 1;
            }
        }
        let mut lines: Vec<Line> = Vec::new();
        let mut line_of: HashMap<(&str, &str), usize> = HashMap::new();
        for span_idx in siblings {
            let folds = |likeness: &(&str, &str)| n_alike[likeness] >= FOLD_FROM;
            let Some(likeness) = self.likeness(*span_idx).filter(folds) else {
                lines.push(Line {
                    depth,
                    what: What::Span(*span_idx),
                });
                continue;
            };
            self.is_shown[*span_idx] = true;
            let span = &self.spans[*span_idx];
            let end = i128::from(span.start_unix_nano)
                + i128::try_from(span.duration.as_nanos()).unwrap_or(i128::MAX / 2);
            let n_lines = lines.len();
            let line_idx = *line_of.entry(likeness).or_insert(n_lines);
            if line_idx == n_lines {
                let (first_idx, n_spans, n_errors) = (*span_idx, 0, 0);
                let what = What::Folded {
                    first_idx,
                    n_spans,
                    n_errors,
                    end_unix_nano: end,
                };
                lines.push(Line { depth, what });
            }
            if let What::Folded {
                n_spans,
                n_errors,
                end_unix_nano,
                ..
            } = &mut lines[line_idx].what
            {
                *n_spans += 1;
                *n_errors += u64::from(span.error.is_some());
                *end_unix_nano = end.max(*end_unix_nano);
            }
        }
        lines.reverse();
        lines
    }

    /// What a leaf has in common with those it may be folded with.
    fn likeness(&self, span_idx: usize) -> Option<(&'a str, &'a str)> {
        let span = &self.spans[span_idx];
        let is_leaf = self.family.children[span_idx].is_empty() && span.phases.is_none();
        is_leaf.then_some((span.service.as_str(), span.name.as_str()))
    }
}

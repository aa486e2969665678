//! Looking keys up: a table of whole keys, and patterns with `*`.

/// Values by whole key, bucketed by length: most keys that are looked up are absent, and their
/// length alone says so.
#[derive(Clone, Debug)]
pub(crate) struct KeyTable<V> {
    by_len: Vec<Vec<(Box<str>, V)>>,
}

impl<V> KeyTable<V> {
    /// The value of `key`.
    #[inline]
    pub(crate) fn find(&self, key: &str) -> Option<&V> {
        let bucket = self.by_len.get(key.len())?;
        bucket
            .iter()
            .find(|(known, _)| &**known == key)
            .map(|(_, value)| value)
    }

    /// Adds a key; of repeated keys, the first counts.
    pub(crate) fn insert(&mut self, key: &str, value: V) {
        if self.by_len.len() <= key.len() {
            self.by_len.resize_with(key.len() + 1, Vec::new);
        }
        self.by_len[key.len()].push((key.into(), value));
    }
}

impl<V> Default for KeyTable<V> {
    fn default() -> Self {
        Self { by_len: Vec::new() }
    }
}

impl<'a, V> FromIterator<(&'a str, V)> for KeyTable<V> {
    fn from_iter<I: IntoIterator<Item = (&'a str, V)>>(entries: I) -> Self {
        let mut table = Self::default();
        for (key, value) in entries {
            table.insert(key, value);
        }
        table
    }
}

/// A set of patterns in which `*` stands for any text.
#[derive(Clone, Debug, Default)]
pub(super) struct Patterns {
    whole: KeyTable<()>,
    /// Patterns with `*` by the first byte of the keys that they can match.
    by_first: Vec<Vec<Pattern>>,
    /// Patterns that begin with `*`.
    open: Vec<Pattern>,
}

#[derive(Clone, Debug)]
struct Pattern {
    /// Literal text before the first `*`.
    head: Box<str>,
    /// Literal texts between the `*`, in order.
    middle: Vec<Box<str>>,
    /// Literal text behind the last `*`.
    tail: Box<str>,
}

impl Patterns {
    pub(super) fn new<'a>(patterns: impl Iterator<Item = &'a str>) -> Self {
        Self::default().and(patterns)
    }

    /// These patterns and more.
    pub(super) fn and<'a>(mut self, patterns: impl Iterator<Item = &'a str>) -> Self {
        for text in patterns {
            match (Pattern::parse(text), text.as_bytes().first()) {
                (None, _) => self.whole.insert(text, ()),
                (Some(pattern), Some(b'*') | None) => self.open.push(pattern),
                (Some(pattern), Some(first)) => {
                    let first = usize::from(*first);
                    if self.by_first.len() <= first {
                        self.by_first.resize_with(first + 1, Vec::new);
                    }
                    self.by_first[first].push(pattern);
                }
            }
        }
        self
    }

    #[inline]
    pub(super) fn matches(&self, key: &str) -> bool {
        if self.whole.find(key).is_some() {
            return true;
        }
        let first = key.as_bytes().first().map(|first| usize::from(*first));
        let bucket = first.and_then(|first| self.by_first.get(first));
        bucket
            .into_iter()
            .flatten()
            .chain(&self.open)
            .any(|pattern| pattern.matches(key))
    }
}

impl Pattern {
    /// `None` if the text has no `*`.
    fn parse(text: &str) -> Option<Self> {
        let (head, rest) = text.split_once('*')?;
        let (middle, tail) = rest.rsplit_once('*').unwrap_or(("", rest));
        let middle = middle.split('*').filter(|literal| !literal.is_empty());
        Some(Self {
            head: head.into(),
            middle: middle.map(Into::into).collect(),
            tail: tail.into(),
        })
    }

    /// Takes the earliest place for each literal, which is enough: work stays linear in the key
    /// for each of them.
    fn matches(&self, key: &str) -> bool {
        let between = key
            .strip_prefix(&*self.head)
            .and_then(|rest| rest.strip_suffix(&*self.tail));
        let Some(mut rest) = between else {
            return false;
        };
        for literal in &self.middle {
            match rest.split_once(&**literal) {
                Some((_, behind)) => rest = behind,
                None => return false,
            }
        }
        true
    }
}

//! Looking up an entry of a W3C `tracestate`.
//!
//! Limits of the specification, which the Collector's parser enforces too: 32 entries, keys of
//! lower-case letters, digits and `_-*/` with at most one `@`, values of printable ASCII without `,`
//! and `=`, 256 characters each. A `tracestate` that breaks one of them has no entries at all.

/// Entries that a `tracestate` can have.
pub(crate) const ENTRIES_MAX: usize = 32;
/// Characters of a key, and of a value.
pub(crate) const CHARS_MAX: usize = 256;

/// The value of `key`; `None` if it is absent or the whole is malformed.
pub(crate) fn lookup<'a>(trace_state: &'a str, key: &str) -> Option<&'a str> {
    search(trace_state, key)?.value
}

/// What a well-formed `tracestate` says of one key.
pub(crate) struct Entry<'a> {
    pub(crate) value: Option<&'a str>,
    pub(crate) n_entries: usize,
}

/// `None` if the whole is malformed.
pub(crate) fn search<'a>(trace_state: &'a str, key: &str) -> Option<Entry<'a>> {
    let mut keys: [&str; ENTRIES_MAX] = [""; ENTRIES_MAX];
    let mut n_entries = 0;
    let mut found = None;
    for entry in trace_state.split(',') {
        let entry = entry.trim_matches([' ', '\t']);
        if entry.is_empty() {
            continue;
        }
        let (name, value) = entry.split_once('=')?;
        let name = name.trim_start_matches([' ', '\t']);
        if !is_key(name) || !is_value(value) || keys.get(..n_entries)?.contains(&name) {
            return None;
        }
        *keys.get_mut(n_entries)? = name;
        n_entries += 1;
        if name == key {
            found = Some(value);
        }
    }
    Some(Entry {
        value: found,
        n_entries,
    })
}

fn is_key(key: &str) -> bool {
    let is_first = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_rest = |byte: u8| is_first(byte) || matches!(byte, b'_' | b'-' | b'*' | b'/');
    let mut parts = key.split('@');
    let has_two_parts = key.bytes().filter(|byte| *byte == b'@').count() <= 1;
    key.len() <= CHARS_MAX
        && has_two_parts
        && parts.all(|part| part.bytes().next().is_some_and(is_first) && part.bytes().all(is_rest))
}

fn is_value(value: &str) -> bool {
    let is_char = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'=' && byte != b',';
    !value.is_empty() && value.len() <= CHARS_MAX && value.bytes().all(is_char)
}

#[cfg(test)]
mod tests {
    use super::lookup;

    #[test]
    fn an_entry_is_found_and_a_malformed_tracestate_has_none() {
        for (trace_state, want) in [
            ("k=v", Some("v")),
            ("a=1, k=v ,b=2", Some("v")),
            ("a=1,,k=v", Some("v")),
            ("ot=th:8;rv:0123456789abcd,k=a b", Some("a b")),
            ("tenant@sys=1,k=v", Some("v")),
            ("", None),
            ("kk=v", None),
            ("k", None),
            ("k=", None),
            ("k=v=w", None),
            ("K=v,k=v", None),
            ("!!bad", None),
            ("k=v,a@b@c=1", None),
            ("k=v,k=w", None),
            ("k=v\u{e9}", None),
        ] {
            assert_eq!(lookup(trace_state, "k"), want, "{trace_state}");
        }
        let entries = |n: usize| {
            let entries: Vec<String> = (0..n).map(|idx| format!("k{idx}=v")).collect();
            entries.join(",")
        };
        assert_eq!(lookup(&entries(32), "k31"), Some("v"));
        assert_eq!(lookup(&entries(33), "k31"), None);
        assert_eq!(lookup(&format!("k={}", "v".repeat(257)), "k"), None);
    }
}

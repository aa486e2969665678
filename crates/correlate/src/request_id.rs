//! The part of an engine's request id that other services know too.
//!
//! # Decided
//!
//! Engines wrap the caller's id (`X-Request-Id`) into one of their own. Undone is exactly what they
//! are known to do: the prefix of the route; with it, the index of a prompt in a list (`-0` for
//! completions and pooling routes, `_0` for batched chat), the index of a child in front (`0_`,
//! vLLM 0.11), and the eight random hex digits that vLLM appends inside behind a generated id.
//! Ids without a known prefix are left alone.
//!
//! Rejected: cutting a trailing `-N` from every id. `req-003` and `req-004` of a caller would become
//! one request, and a wrong link is worse than a missing one; time containment finds those.

/// Prefixes by route (vLLM), and what follows the caller's id for the prompts of one call.
const PREFIXES: [(&str, Option<char>); 13] = [
    ("chatcmpl-", Some('_')),
    ("cmpl-", Some('-')),
    ("embd-", Some('-')),
    ("score-", Some('-')),
    ("rerank-", Some('-')),
    ("classify-", Some('-')),
    ("pooling-", Some('-')),
    ("pool-", Some('-')),
    ("decision-", None),
    ("generative-scoring-", Some('-')),
    ("tokenize-", None),
    ("rt-", None),
    ("resp_", None),
];

/// Longest index of a prompt or child, in digits.
const INDEX_DIGITS_MAX: usize = 5;

/// The caller's part of a request id; the whole id if nothing is known to be added.
pub fn normalise(id: &str) -> &str {
    let unindexed = match id.split_once('_') {
        Some((index, rest)) if is_index(index) && split_prefix(rest).is_some() => rest,
        _ => id,
    };
    let Some((rest, separator)) = split_prefix(unindexed) else {
        return id;
    };
    let rest = match separator.and_then(|separator| rest.rsplit_once(separator)) {
        Some((inner, index)) if is_index(index) && !inner.is_empty() => inner,
        _ => rest,
    };
    match rest.rsplit_once('-') {
        Some((inner, random)) if is_hex(random, 8) && is_generated(inner) => inner,
        _ => rest,
    }
}

/// The operation that the prefix of a request id names.
pub(crate) fn operation(id: &str) -> Option<&'static str> {
    let id = match id.split_once('_') {
        Some((index, rest)) if is_index(index) => rest,
        _ => id,
    };
    let prefix = PREFIXES
        .iter()
        .find(|(prefix, _)| id.starts_with(prefix))?
        .0;
    match prefix {
        "chatcmpl-" | "resp_" => Some("chat"),
        "cmpl-" => Some("text_completion"),
        "embd-" => Some("embeddings"),
        "score-" | "generative-scoring-" => Some("score"),
        "rerank-" => Some("rerank"),
        "classify-" => Some("classify"),
        "pooling-" | "pool-" => Some("pooling"),
        _ => None,
    }
}

fn split_prefix(id: &str) -> Option<(&str, Option<char>)> {
    PREFIXES.iter().find_map(|(prefix, separator)| {
        let rest = id.strip_prefix(prefix).filter(|rest| !rest.is_empty())?;
        Some((rest, *separator))
    })
}

fn is_index(text: &str) -> bool {
    (1..=INDEX_DIGITS_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit())
}

/// An id that a program made: a UUID, or 16 or 32 hex digits.
fn is_generated(id: &str) -> bool {
    let groups = [8, 4, 4, 4, 12];
    let is_uuid = id.split('-').count() == groups.len()
        && id.split('-').zip(groups).all(|(group, n)| is_hex(group, n));
    is_uuid || is_hex(id, 16) || is_hex(id, 32)
}

fn is_hex(text: &str, n_digits: usize) -> bool {
    text.len() == n_digits && text.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::{normalise, operation};

    #[test]
    fn what_the_engine_adds_is_removed_and_nothing_else() {
        for (id, normalised) in [
            ("chatcmpl-8dc5f31cc560c7ac", "8dc5f31cc560c7ac"),
            ("chatcmpl-77aa", "77aa"),
            ("cmpl-dup-0", "dup"),
            ("cmpl-41", "41"),
            ("cmpl-a1b2-17", "a1b2"),
            ("chatcmpl-abc_3", "abc"),
            ("0_chatcmpl-abc", "abc"),
            ("embd-x-1", "x"),
            ("resp_6ba7b810", "6ba7b810"),
            ("chatcmpl-8dc5f31cc560c7ac-1a2b3c4d", "8dc5f31cc560c7ac"),
            (
                "chatcmpl-6ba7b810-9dad-11d1-80b4-00c04fd430c8-0badf00d",
                "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
            ),
            (
                "chatcmpl-6ba7b810-9dad-11d1-80b4-00c04fd430c8",
                "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
            ),
            ("chatcmpl-req-003", "req-003"),
            ("chatcmpl-shop-deadbeef", "shop-deadbeef"),
            ("req-003", "req-003"),
            ("0_abc", "0_abc"),
            ("cmpl-", "cmpl-"),
            ("cmpl--1", "-1"),
            ("", ""),
            ("chatcmpl-\u{e9}_1", "\u{e9}"),
        ] {
            assert_eq!(normalise(id), normalised, "{id}");
        }
    }

    #[test]
    fn the_prefix_names_the_operation() {
        assert_eq!(operation("chatcmpl-1"), Some("chat"));
        assert_eq!(operation("0_cmpl-1"), Some("text_completion"));
        assert_eq!(operation("embd-1"), Some("embeddings"));
        assert_eq!(operation("ok-1"), None);
    }
}

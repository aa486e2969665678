//! Tags as `logfmt` writes them: `key=value other="a value"`.

/// Pairs in one text.
const PAIRS_MAX: usize = 32;

/// A text is not logfmt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unreadable {
    #[error("at character {at}: expected `key=value` or `key=\"a value\"`, separated by blanks")]
    Pair { at: usize },
    #[error("more than {PAIRS_MAX} pairs")]
    TooMany,
}

/// The pairs of a text, in its order.
pub(super) fn parse(text: &str) -> Result<Vec<(String, String)>, Unreadable> {
    let mut pairs = Vec::new();
    let mut characters = text.chars().enumerate().peekable();
    loop {
        while characters.next_if(|(_, c)| c.is_whitespace()).is_some() {}
        let Some((start, _)) = characters.peek().copied() else {
            return Ok(pairs);
        };
        if pairs.len() == PAIRS_MAX {
            return Err(Unreadable::TooMany);
        }
        let wrong = Unreadable::Pair { at: start + 1 };
        let mut key = String::new();
        while let Some((_, c)) = characters.next_if(|(_, c)| !c.is_whitespace() && *c != '=') {
            key.push(c);
        }
        if key.is_empty() || key.contains('"') || characters.next_if(|(_, c)| *c == '=').is_none() {
            return Err(wrong);
        }
        let mut value = String::new();
        if characters.next_if(|(_, c)| *c == '"').is_some() {
            loop {
                match characters.next().ok_or(wrong)? {
                    (_, '"') => break,
                    (_, '\\') => value.push(escaped(characters.next().ok_or(wrong)?.1)),
                    (_, c) => value.push(c),
                }
            }
            if characters.peek().is_some_and(|(_, c)| !c.is_whitespace()) {
                return Err(wrong);
            }
        } else {
            while let Some((_, c)) = characters.next_if(|(_, c)| !c.is_whitespace()) {
                value.push(c);
            }
        }
        pairs.push((key, value));
    }
}

fn escaped(c: char) -> char {
    match c {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Unreadable, parse};

    #[test]
    fn pairs_are_read_in_order_and_quotes_hold_blanks() {
        let pairs = |text: &str| {
            let pairs = parse(text)?;
            let pairs = pairs.iter().map(|(key, value)| format!("{key}={value}"));
            Ok::<_, Unreadable>(pairs.collect::<Vec<_>>())
        };
        assert_eq!(
            pairs("service.name=rag-api  http.url=\"/a b?c=d\" e= f=\"\\\"g\\\\\" h=i=j"),
            Ok([
                "service.name=rag-api",
                "http.url=/a b?c=d",
                "e=",
                "f=\"g\\",
                "h=i=j"
            ]
            .map(str::to_owned)
            .into())
        );
        assert_eq!(pairs(" "), Ok(vec![]));
        for (text, at) in [
            ("a", 1),
            ("=b", 1),
            ("a=b c", 5),
            ("a=\"b", 1),
            ("a=\"b\"c", 1),
            ("\"a\"=b", 1),
        ] {
            assert_eq!(pairs(text), Err(Unreadable::Pair { at }), "{text}");
        }
        assert_eq!(pairs(&"a=b ".repeat(1_000)), Err(Unreadable::TooMany));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC*") {
            parse(&text).ok();
        }
    }
}

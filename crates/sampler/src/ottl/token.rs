//! Words, literals and symbols of a condition.

use crate::ottl::problem::Problem;

/// One token and where it begins.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    /// Byte offset in the condition.
    pub(super) at: usize,
}

/// What a token is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    /// Path segment, function, enum or keyword.
    Word(String),
    Int(i64),
    Double(f64),
    /// Unquoted.
    Text(String),
    /// `0x0102`.
    Bytes(Vec<u8>),
    Symbol(&'static str),
}

/// Longer ones first, so that `<=` is not read as `<`.
const SYMBOLS: [&str; 18] = [
    "==", "!=", "<=", ">=", "<", ">", "(", ")", "[", "]", "{", "}", ",", ".", "+", "-", "*", "/",
];

/// Splits a condition.
pub(super) fn split(condition: &str) -> Result<Vec<Token>, Problem> {
    let mut tokens = Vec::new();
    let mut rest = condition.trim_start();
    while let Some(first) = rest.chars().next() {
        let at = condition.len() - rest.len();
        let (kind, after) = if first == '"' {
            text(rest, at)?
        } else if first.is_ascii_digit() || starts_fraction(rest) {
            number(rest, at)?
        } else if first.is_ascii_alphabetic() || first == '_' {
            let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let (word, after) = split_while(rest, is_word);
            (Kind::Word(word.to_owned()), after)
        } else {
            symbol(rest, at)?
        };
        tokens.push(Token { kind, at });
        rest = after.trim_start();
    }
    Ok(tokens)
}

fn split_while(text: &str, is_part: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !is_part(c)).unwrap_or(text.len()))
}

fn starts_fraction(rest: &str) -> bool {
    let mut chars = rest.chars();
    chars.next() == Some('.') && chars.next().is_some_and(|c| c.is_ascii_digit())
}

fn symbol(rest: &str, at: usize) -> Result<(Kind, &str), Problem> {
    let known = SYMBOLS
        .into_iter()
        .find_map(|symbol| Some((symbol, rest.strip_prefix(symbol)?)));
    match known {
        Some((symbol, after)) => Ok((Kind::Symbol(symbol), after)),
        None => Err(Problem::Syntax {
            at,
            expected: "a word, a literal or an operator",
        }),
    }
}

/// Digits, with a fraction and an exponent for a double, or `0x` and pairs of hex digits.
fn number(rest: &str, at: usize) -> Result<(Kind, &str), Problem> {
    if let Some(digits) = rest.strip_prefix("0x") {
        let (digits, after) = split_while(digits, |c| c.is_ascii_hexdigit());
        return match hex(digits) {
            Some(bytes) => Ok((Kind::Bytes(bytes), after)),
            None => Err(Problem::Syntax {
                at,
                expected: "pairs of hex digits after `0x`",
            }),
        };
    }
    let (whole, mut after) = split_while(rest, |c| c.is_ascii_digit());
    let mut is_double = false;
    if starts_fraction(after) {
        is_double = true;
        after = after.strip_prefix('.').unwrap_or(after);
        after = split_while(after, |c| c.is_ascii_digit()).1;
        if let Some(exponent) = after.strip_prefix(['e', 'E']) {
            let unsigned = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            after = split_while(unsigned, |c| c.is_ascii_digit()).1;
        }
    }
    let (literal, after) = rest.split_at(rest.len() - after.len());
    let parsed = if is_double {
        literal.parse().ok().map(Kind::Double)
    } else {
        whole.parse().ok().map(Kind::Int)
    };
    match parsed {
        Some(kind) => Ok((kind, after)),
        None => Err(Problem::Syntax {
            at,
            expected: "a number that fits into 64 bits",
        }),
    }
}

/// The bytes that pairs of hex digits stand for; `None` without digits or with a single one.
fn hex(digits: &str) -> Option<Vec<u8>> {
    let (pairs, []) = digits.as_bytes().as_chunks::<2>() else {
        return None;
    };
    let digit = |byte: u8| u8::try_from(char::from(byte).to_digit(16)?).ok();
    let pair = |[high, low]: &[u8; 2]| Some(digit(*high)? << 4 | digit(*low)?);
    let bytes: Option<Vec<u8>> = pairs.iter().map(pair).collect();
    bytes.filter(|bytes| !bytes.is_empty())
}

/// A quoted text with Go's escapes.
fn text(rest: &str, at: usize) -> Result<(Kind, &str), Problem> {
    let unclosed = Problem::Syntax {
        at,
        expected: "a closing `\"` and in between only escapes such as `\\\"`, `\\\\`, `\\n`, `\\t`",
    };
    let mut out = String::new();
    let mut chars = rest.chars();
    chars.next();
    loop {
        match chars.next() {
            Some('"') => return Ok((Kind::Text(out), chars.as_str())),
            Some('\\') => match chars.next() {
                Some(c @ ('"' | '\\')) => out.push(c),
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some('r') => out.push('\r'),
                Some('u') => {
                    let digits: String = chars.by_ref().take(4).collect();
                    let code = u32::from_str_radix(&digits, 16).ok();
                    match code.and_then(char::from_u32).filter(|_| digits.len() == 4) {
                        Some(c) => out.push(c),
                        None => return Err(unclosed),
                    }
                }
                Some(_) | None => return Err(unclosed),
            },
            Some(c) => out.push(c),
            None => return Err(unclosed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, split};

    #[test]
    fn literals_words_and_symbols_are_told_apart() {
        let kinds = |condition: &str| {
            let tokens = split(condition).unwrap();
            tokens
                .into_iter()
                .map(|token| token.kind)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            kinds("attributes[\"a\\\"\\u00e9\"]>=1.5e3"),
            [
                Kind::Word("attributes".to_owned()),
                Kind::Symbol("["),
                Kind::Text("a\"\u{e9}".to_owned()),
                Kind::Symbol("]"),
                Kind::Symbol(">="),
                Kind::Double(1500.0),
            ]
        );
        assert_eq!(
            kinds(" 0x0aFF<007 .5"),
            [
                Kind::Bytes(vec![10, 255]),
                Kind::Symbol("<"),
                Kind::Int(7),
                Kind::Double(0.5),
            ]
        );
        for broken in [
            "\"open",
            "\"\\d\"",
            "\"\\u12\"",
            "a & b",
            "0x1",
            "99999999999999999999",
        ] {
            assert!(split(broken).is_err(), "{broken}");
        }
    }
}

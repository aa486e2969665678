//! Go's regular expressions in terms of the `regex` crate.
//!
//! Both are RE2-like and search unanchored in linear time. They differ in what would silently
//! select other traces, so a pattern is translated first:
//!
//! | in Go | here |
//! |---|---|
//! | `\d \w \s \b` and their negations are ASCII | the same, written out |
//! | `[`, `&&`, `~~`, `--` have no meaning inside a class | escaped |
//! | `{` that starts no repetition stands for itself (`/users/{id}`) | escaped |
//! | `\Q..\E` quotes | escaped, character by character |
//!
//! What only Go has beyond that (octal escapes, `\C`) is an error at load.

use std::iter::Peekable;
use std::str::Chars;

use regex::Regex;

/// Compiles a pattern in Go's syntax.
pub(crate) fn compile(pattern: &str) -> Result<Regex, Box<regex::Error>> {
    Regex::new(&translate(pattern)).map_err(Box::new)
}

fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\\' => escape(&mut rest, &mut out, false),
            '[' => class(&mut rest, &mut out),
            '{' if !starts_repetition(rest.clone()) => out.push_str("\\{"),
            _ => out.push(c),
        }
    }
    out
}

/// What follows a backslash.
fn escape(rest: &mut Peekable<Chars<'_>>, out: &mut String, in_class: bool) {
    match rest.next() {
        Some('d') => out.push_str("[0-9]"),
        Some('D') => out.push_str("[^0-9]"),
        Some('w') => out.push_str("[0-9A-Za-z_]"),
        Some('W') => out.push_str("[^0-9A-Za-z_]"),
        // Go's \s has no vertical tab.
        Some('s') => out.push_str("[\\t\\n\\f\\r ]"),
        Some('S') => out.push_str("[^\\t\\n\\f\\r ]"),
        Some('b') if !in_class => out.push_str("(?-u:\\b)"),
        Some('B') if !in_class => out.push_str("(?-u:\\B)"),
        Some('Q') if !in_class => quoted(rest, out),
        Some(other) => {
            out.push('\\');
            out.push(other);
        }
        // Left for the compiler to refuse.
        None => out.push('\\'),
    }
}

/// Between `\Q` and `\E` or the end.
fn quoted(rest: &mut Peekable<Chars<'_>>, out: &mut String) {
    while let Some(c) = rest.next() {
        if c == '\\' && rest.peek() == Some(&'E') {
            rest.next();
            return;
        }
        out.push_str(&regex::escape(c.encode_utf8(&mut [0; 4])));
    }
}

/// A bracketed class, after its `[`.
fn class(rest: &mut Peekable<Chars<'_>>, out: &mut String) {
    out.push('[');
    if rest.peek() == Some(&'^') {
        rest.next();
        out.push('^');
    }
    let mut is_first = true;
    let mut after_dash = false;
    while let Some(c) = rest.next() {
        let is_dash = c == '-';
        match c {
            // As the first member it stands for itself.
            ']' if !is_first => {
                out.push(']');
                return;
            }
            '[' if rest.peek() == Some(&':') => named_class(rest, out),
            '\\' => escape(rest, out, true),
            // A dash that begins, ends or follows a dash is a member and no range.
            '-' if is_first || after_dash || rest.peek() == Some(&']') => out.push_str("\\-"),
            ']' | '[' | '&' | '~' => {
                out.push('\\');
                out.push(c);
            }
            _ => out.push(c),
        }
        after_dash = is_dash && !after_dash;
        is_first = false;
    }
}

/// `[:alpha:]` inside a class, after its `[`; anything else after a `[` there is a plain `[`.
fn named_class(rest: &mut Peekable<Chars<'_>>, out: &mut String) {
    let mut ahead = rest.clone();
    ahead.next();
    let mut name = String::new();
    while let Some(c) = ahead.next_if(|c| c.is_ascii_alphabetic() || *c == '^') {
        name.push(c);
    }
    if !name.is_empty() && ahead.next() == Some(':') && ahead.next() == Some(']') {
        out.push_str("[:");
        out.push_str(&name);
        out.push_str(":]");
        *rest = ahead;
    } else {
        out.push_str("\\[");
    }
}

/// `{n}`, `{n,}` or `{n,m}`, after its `{`.
fn starts_repetition(mut rest: Peekable<Chars<'_>>) -> bool {
    let mut n_digits = 0;
    while rest.next_if(char::is_ascii_digit).is_some() {
        n_digits += 1;
    }
    if n_digits == 0 {
        return false;
    }
    if rest.next_if_eq(&',').is_some() {
        while rest.next_if(char::is_ascii_digit).is_some() {}
    }
    rest.next() == Some('}')
}

#[cfg(test)]
mod tests {
    use super::compile;

    /// Expectations are those of Go's `regexp.MatchString`.
    #[test]
    fn patterns_match_as_in_go() {
        for (pattern, text, want) in [
            ("v[0-9]+.HealthCheck$", "grpc.health.v1.HealthCheck", true),
            ("v[a-z]+.HealthCheck$", "grpc.health.v1.HealthCheck", false),
            ("val*", "xvax", true),
            ("", "anything", true),
            ("^.$", "\u{e9}", true),
            ("^\\w+$", "na\u{ef}ve", false),
            ("\\d", "\u{0663}", false),
            ("[\\d]", "\u{0663}", false),
            ("[^\\d]", "7", false),
            ("[\\D]", "7", false),
            ("\\s", "\u{b}", false),
            ("\\s", "a b", true),
            ("\\bx", "\u{e9}x", true),
            ("^\\B$", "", true),
            ("(?i)error", "an ERROR", true),
            ("[[]", "[", true),
            ("[]a]", "]", true),
            ("[^]a]", "]", false),
            ("[a&&b]", "&", true),
            ("[a&&b]", "a", true),
            ("[~~a]", "~", true),
            ("[+--]", ",", true),
            ("[+--]", "a", false),
            ("[a-]", "-", true),
            ("[-a]", "-", true),
            ("[[:alpha:]_]+$", "abc_", true),
            ("[[:^alpha:]]", "abc", false),
            ("/users/{id}", "/users/{id}/x", true),
            ("a{2}", "aa", true),
            ("^a{2,}$", "a", false),
            ("^a{,2}$", "a{,2}", true),
            ("\\Qa.b\\E+", "a.bbb", true),
            ("\\Qa.b", "axb", false),
            ("a\\.b", "axb", false),
            ("\\/health", "/health", true),
            ("(a|b)?$", "zzz", true),
            ("\\pL", "\u{e9}", true),
            ("(?s)a.b", "a\nb", true),
            ("a.b", "a\nb", false),
            ("^b$", "a\nb", false),
        ] {
            let regex = compile(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
            assert_eq!(regex.is_match(text), want, "{pattern} on {text}");
        }
    }

    #[test]
    fn a_broken_pattern_is_an_error() {
        for pattern in [
            "[",
            "/v1/(chat",
            "a)",
            "*",
            "[z-a]",
            "\\",
            "\\8",
            "a{1001}{1001}{99}",
        ] {
            assert!(compile(pattern).is_err(), "{pattern}");
        }
    }
}

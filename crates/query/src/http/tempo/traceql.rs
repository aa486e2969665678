//! The part of TraceQL that Grafana's search builder writes: one set of conditions on spans.
//!
//! ```text
//! query      = "{" [ any ] "}"
//! any        = all { "||" all }
//! all        = one { "&&" one }
//! one        = "(" any ")" | "true" | "false" | field operator value
//! field      = ("resource." | "span." | ".") key | intrinsic
//! operator   = "=" | "!=" | "<" | "<=" | ">" | ">=" | "=~" | "!~"
//! value      = text in "" or `` | number | time span | true | false | nil | status | kind
//! ```
//!
//! Intrinsics: `name`, `status`, `statusMessage`, `kind`, `duration` (also as `span:name` and so on), `span:id`,
//! `span:parentID`, `trace:id`, `traceDuration`, `rootName`, `rootServiceName` (also as `trace:duration`,
//! `trace:rootName`, `trace:rootService`), `instrumentation:name`, `instrumentation:version`, and
//! `nestedSetParent < 0` for spans without a parent. A key may have parts in quotes: `span."a key"`.
//!
//! Everything else of the language is refused with its place and its name: pipelines (`| count()`), several sets of
//! conditions (`{..} >> {..}`), arithmetic, fields on both sides, attributes of events, links, parents and scopes.
//!
//! No text makes it panic or recurse deeper than [`NESTING_MAX`].

mod error;
mod words;

use crate::find::condition::TESTS_MAX;
use crate::find::window::parse_duration;
use crate::find::{Condition, Field, Operator, Scope, Value};

pub(crate) use error::{Found, Unreadable, What};
use words::{Literal, Named, VALUE, field, literal, suited};

/// Longest query.
const BYTES_MAX: usize = 16 * 1024;

/// Levels of parentheses.
pub(super) const NESTING_MAX: usize = 16;

type Result<T> = std::result::Result<T, Unreadable>;

/// Reads a query. An empty one is `{}`: every span.
pub(crate) fn parse(text: &str) -> Result<Condition> {
    if text.len() > BYTES_MAX {
        let n_bytes = text.len();
        return Err(Unreadable::TooLong { n_bytes });
    }
    if text.trim().is_empty() {
        return Ok(Condition::All(Vec::new()));
    }
    let mut reader = Reader {
        characters: text.chars().collect(),
        at: 0,
        n_tests: 0,
    };
    reader.query()
}

/// Reads the name of a field alone, as it stands in an address: `resource.service.name`, `.foo`, `status`; a key
/// without a scope counts as `.key`.
pub(crate) fn parse_field(text: &str) -> Result<Field> {
    if text.len() > BYTES_MAX {
        let n_bytes = text.len();
        return Err(Unreadable::TooLong { n_bytes });
    }
    let word = text.trim().replace('"', "");
    match field(&word) {
        Ok(Named::Field(field)) => Ok(field),
        Ok(Named::NestedSetParent) => Ok(Field::ParentSpanId),
        Err(What::OtherIntrinsic) if !word.contains(':') => {
            Ok(Field::Attribute(Scope::Either, word))
        }
        Err(what) => Err(Unreadable::Unsupported { at: 1, what }),
    }
}

/// A place in the text.
struct Reader {
    characters: Vec<char>,
    at: usize,
    n_tests: usize,
}

impl Reader {
    fn query(&mut self) -> Result<Condition> {
        self.skip_blanks();
        if self.peek() != Some('{') {
            return Err(self.unsupported(What::NoBraces));
        }
        self.at += 1;
        self.skip_blanks();
        let condition = match self.peek() {
            Some('}') => Condition::All(Vec::new()),
            _ => self.any(0)?,
        };
        self.expect('}', "`}`, `&&` or `||`")?;
        self.skip_blanks();
        match self.peek() {
            None => Ok(condition),
            Some('|') if self.peek_after(1) != Some('|') => Err(self.unsupported(What::Pipeline)),
            Some('w') => Err(self.unsupported(What::Hints)),
            Some('|' | '&' | '>' | '<' | '~' | '!') => Err(self.unsupported(What::SeveralSets)),
            Some('+' | '-' | '*' | '/' | '%' | '^') => Err(self.unsupported(What::Arithmetic)),
            Some(_) => Err(self.unexpected("the end of the query")),
        }
    }

    fn any(&mut self, depth: usize) -> Result<Condition> {
        let mut parts = vec![self.all(depth)?];
        while self.take("||") {
            parts.push(self.all(depth)?);
        }
        Ok(one_or(parts, Condition::Any))
    }

    fn all(&mut self, depth: usize) -> Result<Condition> {
        let mut parts = vec![self.one(depth)?];
        while self.take("&&") {
            parts.push(self.one(depth)?);
        }
        Ok(one_or(parts, Condition::All))
    }

    fn one(&mut self, depth: usize) -> Result<Condition> {
        self.skip_blanks();
        match self.peek() {
            Some('(') if depth == NESTING_MAX => Err(Unreadable::TooDeep { at: self.at + 1 }),
            Some('(') => {
                self.at += 1;
                let inner = self.any(depth + 1)?;
                self.expect(')', "`)`, `&&` or `||`")?;
                Ok(inner)
            }
            Some('!') => Err(self.unsupported(What::Negation)),
            Some('"' | '`' | '0'..='9' | '-') => Err(self.unsupported(What::ValueFirst)),
            _ => self.test(),
        }
    }

    fn test(&mut self) -> Result<Condition> {
        let start = self.at;
        let word = self.word()?;
        if word.is_empty() {
            return Err(self.unexpected("a field such as `name`, `duration` or `span.key`"));
        }
        match word.as_str() {
            "true" => return Ok(Condition::All(Vec::new())),
            "false" => return Ok(Condition::Any(Vec::new())),
            _ => {}
        }
        let named = field(&word).map_err(|what| Unreadable::Unsupported {
            at: start + 1,
            what,
        })?;
        self.n_tests += 1;
        if self.n_tests > TESTS_MAX {
            return Err(Unreadable::TooMany { at: start + 1 });
        }
        let operator = self.operator()?;
        self.skip_blanks();
        let at = self.at;
        let value = self.value()?;
        match named {
            Named::Field(field) => {
                let value =
                    suited(&field, operator, value).map_err(|expected| self.not(at, expected))?;
                Ok(Condition::test(field, operator, value))
            }
            Named::NestedSetParent
                if operator == Operator::Less && value == Literal::Value(Value::Int(0)) =>
            {
                let field = Field::ParentSpanId;
                Ok(Condition::test(field, Operator::Equal, Value::Nothing))
            }
            Named::NestedSetParent => Err(Unreadable::Unsupported {
                at: start + 1,
                what: What::NestedSet,
            }),
        }
    }

    /// A field's name, or a word of a value. Parts in quotes may hold anything.
    fn word(&mut self) -> Result<String> {
        let mut word = String::new();
        while let Some(c) = self.peek() {
            if c == '"' {
                word.push_str(&self.quoted()?);
            } else if c.is_whitespace() || "{}()=~!<>&|^,`".contains(c) {
                break;
            } else {
                word.push(c);
                self.at += 1;
            }
        }
        Ok(word)
    }

    fn operator(&mut self) -> Result<Operator> {
        self.skip_blanks();
        // Of two that begin alike, the longer first.
        let operators = [
            ("=~", Operator::Matches),
            ("!~", Operator::NotMatches),
            ("!=", Operator::NotEqual),
            ("<=", Operator::LessOrEqual),
            (">=", Operator::GreaterOrEqual),
            ("=", Operator::Equal),
            ("<", Operator::Less),
            (">", Operator::Greater),
        ];
        for (text, operator) in operators {
            if self.take(text) {
                return Ok(operator);
            }
        }
        match self.peek() {
            Some('}' | ')' | '&' | '|') => Err(self.unsupported(What::BareField)),
            Some('+' | '-' | '*' | '/' | '%' | '^') => Err(self.unsupported(What::Arithmetic)),
            _ => Err(self.unexpected("an operator such as `=`, `!=`, `>` or `=~`")),
        }
    }

    fn value(&mut self) -> Result<Literal> {
        match self.peek() {
            Some('"') => Ok(Literal::Value(Value::Text(self.quoted()?))),
            Some('`') => Ok(Literal::Value(Value::Text(self.raw()?))),
            Some('0'..='9' | '-' | '.') => self.number(),
            _ => {
                let start = self.at;
                let word = self.word()?;
                match literal(&word) {
                    Some(literal) => Ok(literal),
                    None if word.is_empty() => Err(self.unexpected(VALUE)),
                    None if word.contains(['.', ':']) || field(&word).is_ok() => {
                        Err(Unreadable::Unsupported {
                            at: start + 1,
                            what: What::TwoFields,
                        })
                    }
                    None => Err(self.not(start, VALUE)),
                }
            }
        }
    }

    /// A number, or a time span.
    fn number(&mut self) -> Result<Literal> {
        let start = self.at;
        let word = self.word()?;
        let number = match word.parse::<i64>() {
            Ok(value) => Some(Literal::Value(Value::Int(value))),
            Err(_) => parse_duration(&word).map(Literal::Duration).or_else(|| {
                let value = word.parse::<f64>().ok().filter(|value| value.is_finite());
                Some(Literal::Value(Value::Float(value?)))
            }),
        };
        number.ok_or_else(|| self.not(start, "a number, or a time span such as 100ms or 1.5s"))
    }

    /// A text in quotes with the escapes of Go.
    fn quoted(&mut self) -> Result<String> {
        self.at += 1;
        let mut text = String::new();
        loop {
            match self.next() {
                None => return Err(self.unexpected("the closing `\"`")),
                Some('"') => return Ok(text),
                Some('\\') => text.push(self.escaped()?),
                Some(c) => text.push(c),
            }
        }
    }

    fn escaped(&mut self) -> Result<char> {
        let at = self.at;
        let wrong = |reader: &Self| reader.not(at, "an escape such as `\\\"`, `\\\\` or `\\n`");
        let n_digits = match self.next() {
            Some(c @ ('"' | '\\' | '\'')) => return Ok(c),
            Some('n') => return Ok('\n'),
            Some('r') => return Ok('\r'),
            Some('t') => return Ok('\t'),
            Some('a') => return Ok('\u{7}'),
            Some('b') => return Ok('\u{8}'),
            Some('f') => return Ok('\u{c}'),
            Some('v') => return Ok('\u{b}'),
            Some('x') => 2,
            Some('u') => 4,
            Some('U') => 8,
            _ => return Err(wrong(self)),
        };
        let mut code = 0;
        for _ in 0..n_digits {
            let digit = self.next().and_then(|c| c.to_digit(16));
            code = code * 16 + digit.ok_or_else(|| wrong(self))?;
        }
        char::from_u32(code).ok_or_else(|| wrong(self))
    }

    fn raw(&mut self) -> Result<String> {
        self.at += 1;
        let mut text = String::new();
        loop {
            match self.next() {
                None => return Err(self.unexpected("the closing backquote")),
                Some('`') => return Ok(text),
                Some(c) => text.push(c),
            }
        }
    }

    /// Goes on if this comes next.
    fn take(&mut self, text: &str) -> bool {
        self.skip_blanks();
        let rest = self.characters.get(self.at..).unwrap_or_default();
        let n_characters = text.chars().count();
        let is_next = rest.len() >= n_characters
            && rest.iter().copied().zip(text.chars()).all(|(a, b)| a == b);
        if is_next {
            self.at += n_characters;
        }
        is_next
    }

    fn expect(&mut self, character: char, expected: &'static str) -> Result<()> {
        self.skip_blanks();
        match self.peek() {
            Some(c) if c == character => {
                self.at += 1;
                Ok(())
            }
            Some('+' | '-' | '*' | '/' | '%' | '^') => Err(self.unsupported(What::Arithmetic)),
            _ => Err(self.unexpected(expected)),
        }
    }

    fn skip_blanks(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<char> {
        self.peek_after(0)
    }

    fn peek_after(&self, n_characters: usize) -> Option<char> {
        self.characters.get(self.at + n_characters).copied()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += 1;
        Some(next)
    }

    fn unsupported(&self, what: What) -> Unreadable {
        Unreadable::Unsupported {
            at: self.at + 1,
            what,
        }
    }

    fn unexpected(&self, expected: &'static str) -> Unreadable {
        self.not(self.at, expected)
    }

    fn not(&self, at: usize, expected: &'static str) -> Unreadable {
        let found = self.characters.get(at).copied();
        Unreadable::Unexpected {
            at: at + 1,
            expected,
            found: found.map_or(Found::End, Found::Character),
        }
    }
}

fn one_or(mut parts: Vec<Condition>, all: fn(Vec<Condition>) -> Condition) -> Condition {
    match (parts.pop(), parts.is_empty()) {
        (Some(only), true) => only,
        (last, _) => {
            parts.extend(last);
            all(parts)
        }
    }
}

#[cfg(test)]
mod tests;

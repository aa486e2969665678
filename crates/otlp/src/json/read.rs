//! Reads JSON text token by token (RFC 8259), without a tree and without recursion.

use std::borrow::Cow;

use crate::error::{Error, Result, offset_u32};

/// How deeply a value may nest that nobody reads.
const SKIP_DEPTH_MAX: usize = 256;

/// A place in JSON text.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    text: &'a str,
    at: usize,
}

/// A value that is neither object nor list.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar<'a> {
    Null,
    Bool(bool),
    /// The number's text, which follows JSON's grammar.
    Number(&'a str),
    String(Cow<'a, str>),
}

impl<'a> Reader<'a> {
    pub(super) fn new(json: &'a [u8]) -> Result<Self> {
        match simdutf8::compat::from_utf8(json) {
            Ok(text) => Ok(Self { text, at: 0 }),
            Err(error) => Err(Error::Utf8 {
                offset: offset_u32(error.valid_up_to()),
                field: 0,
            }),
        }
    }

    /// Offset of the next token.
    pub(super) fn offset(&mut self) -> usize {
        self.skip_space();
        self.at
    }

    /// First byte of the next token.
    pub(super) fn peek(&mut self) -> Option<u8> {
        self.skip_space();
        self.byte()
    }

    /// Takes the opening `{` or `[`.
    pub(super) fn open(&mut self, bracket: u8, expected: &'static str) -> Result<()> {
        if self.peek() == Some(bracket) {
            self.advance(1);
            Ok(())
        } else {
            Err(self.expected(expected))
        }
    }

    /// The next key of an open object with its colon; `None` after its end. `is_first` says whether
    /// no key was read yet.
    pub(super) fn next_key(&mut self, is_first: bool) -> Result<Option<Cow<'a, str>>> {
        if !self.next_member(b'}', is_first, "`,` or `}`")? {
            return Ok(None);
        }
        if self.peek() != Some(b'"') {
            return Err(self.expected("a key"));
        }
        let key = self.string()?;
        if self.peek() != Some(b':') {
            return Err(self.expected("`:`"));
        }
        self.advance(1);
        Ok(Some(key))
    }

    /// Is there another element in an open list? Takes the comma, or the end.
    pub(super) fn next_element(&mut self, is_first: bool) -> Result<bool> {
        self.next_member(b']', is_first, "`,` or `]`")
    }

    fn next_member(&mut self, end: u8, is_first: bool, expected: &'static str) -> Result<bool> {
        match self.peek() {
            Some(c) if c == end => {
                self.advance(1);
                Ok(false)
            }
            Some(b',') if !is_first => {
                self.advance(1);
                match self.peek() {
                    Some(c) if c == end => Err(self.expected("a value behind `,`")),
                    _ => Ok(true),
                }
            }
            Some(_) if is_first => Ok(true),
            _ => Err(self.expected(expected)),
        }
    }

    /// Takes a scalar.
    pub(super) fn scalar(&mut self) -> Result<Scalar<'a>> {
        match self.peek() {
            Some(b'"') => Ok(Scalar::String(self.string()?)),
            Some(b'-' | b'0'..=b'9') => Ok(Scalar::Number(self.number()?)),
            Some(b'n') => self.literal("null", Scalar::Null),
            Some(b't') => self.literal("true", Scalar::Bool(true)),
            Some(b'f') => self.literal("false", Scalar::Bool(false)),
            _ => Err(self.expected("a value")),
        }
    }

    /// Takes a value of any kind and forgets it.
    pub(super) fn skip(&mut self) -> Result<()> {
        // Whether each open level is an object; the outermost first.
        let mut is_object = [false; SKIP_DEPTH_MAX];
        let mut depth = 0_usize;
        loop {
            let mut is_first = false;
            match self.peek() {
                Some(bracket @ (b'{' | b'[')) => {
                    let too_deep = Error::Depth {
                        offset: offset_u32(self.at),
                        depth_max: offset_u32(SKIP_DEPTH_MAX),
                    };
                    *is_object.get_mut(depth).ok_or(too_deep)? = bracket == b'{';
                    depth = depth.saturating_add(1);
                    self.advance(1);
                    is_first = true;
                }
                _ => drop(self.scalar()?),
            }
            // Up to the next value: out of everything that ends here.
            loop {
                let Some(level) = depth.checked_sub(1) else {
                    return Ok(());
                };
                let has_more = if is_object.get(level) == Some(&true) {
                    self.next_key(is_first)?.is_some()
                } else {
                    self.next_element(is_first)?
                };
                if has_more {
                    break;
                }
                depth = level;
                is_first = false;
            }
        }
    }

    /// Nothing but white space may follow.
    pub(super) fn end(&mut self) -> Result<()> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.expected("the end")),
        }
    }

    fn literal(&mut self, word: &'static str, value: Scalar<'a>) -> Result<Scalar<'a>> {
        if self.rest().starts_with(word) {
            self.advance(word.len());
            Ok(value)
        } else {
            Err(self.expected(word))
        }
    }

    /// `-? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)?`
    fn number(&mut self) -> Result<&'a str> {
        let start = self.at;
        self.take_if(|c| c == b'-');
        if !self.take_if(|c| c == b'0') {
            self.digits()?;
        }
        if self.take_if(|c| c == b'.') {
            self.digits()?;
        }
        if self.take_if(|c| matches!(c, b'e' | b'E')) {
            self.take_if(|c| matches!(c, b'+' | b'-'));
            self.digits()?;
        }
        Ok(self.slice(start))
    }

    fn digits(&mut self) -> Result<()> {
        if !self.take_if(|c| c.is_ascii_digit()) {
            return Err(self.expected("a digit"));
        }
        while self.take_if(|c| c.is_ascii_digit()) {}
        Ok(())
    }

    /// A string; the next byte is its opening quote. Borrowed unless it has escapes.
    fn string(&mut self) -> Result<Cow<'a, str>> {
        self.advance(1);
        let start = self.at;
        self.advance(self.plain_len());
        let plain = self.slice(start);
        if self.take_if(|c| c == b'"') {
            return Ok(Cow::Borrowed(plain));
        }
        let mut text = plain.to_owned();
        loop {
            match self.byte() {
                Some(b'"') => {
                    self.advance(1);
                    return Ok(Cow::Owned(text));
                }
                Some(b'\\') => {
                    self.advance(1);
                    text.push(self.escape()?);
                }
                Some(_) => return Err(self.expected("no control character")),
                None => return Err(self.expected("`\"`")),
            }
            let start = self.at;
            self.advance(self.plain_len());
            text.push_str(self.slice(start));
        }
    }

    /// Bytes up to a quote, a backslash, a control character or the end.
    fn plain_len(&self) -> usize {
        let rest = self.rest().as_bytes();
        let is_special = |c: &u8| matches!(c, b'"' | b'\\' | 0..=0x1f);
        rest.iter().position(is_special).unwrap_or(rest.len())
    }

    /// What follows a backslash.
    fn escape(&mut self) -> Result<char> {
        let c = match self.byte() {
            Some(c @ (b'"' | b'\\' | b'/')) => char::from(c),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.advance(1);
                return self.unicode_escape();
            }
            _ => return Err(self.expected("an escape")),
        };
        self.advance(1);
        Ok(c)
    }

    /// What follows `\u`; half a surrogate pair becomes U+FFFD.
    fn unicode_escape(&mut self) -> Result<char> {
        let first = self.hex4()?;
        if !(0xd800..0xdc00).contains(&first) {
            return Ok(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        let before = self.at;
        if self.rest().starts_with("\\u") {
            self.advance(2);
            let second = self.hex4()?;
            if (0xdc00..0xe000).contains(&second) {
                let high = (first & 0x3ff) << 10;
                let c = (high | (second & 0x3ff)).saturating_add(0x1_0000);
                return Ok(char::from_u32(c).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = before;
        }
        Ok(char::REPLACEMENT_CHARACTER)
    }

    fn hex4(&mut self) -> Result<u32> {
        let mut value = 0_u32;
        for _ in 0..4 {
            let digit = self.byte().and_then(|c| char::from(c).to_digit(16));
            value = (value << 4) | digit.ok_or_else(|| self.expected("four hex digits"))?;
            self.advance(1);
        }
        Ok(value)
    }

    fn skip_space(&mut self) {
        while self.take_if(|c| matches!(c, b' ' | b'\t' | b'\n' | b'\r')) {}
    }

    fn take_if(&mut self, is_wanted: impl Fn(u8) -> bool) -> bool {
        let is_there = self.byte().is_some_and(is_wanted);
        if is_there {
            self.advance(1);
        }
        is_there
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Text from `start` to here; both lie beside ASCII characters.
    fn slice(&self, start: usize) -> &'a str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    fn advance(&mut self, n_bytes: usize) {
        self.at = self.at.saturating_add(n_bytes);
    }

    #[cold]
    fn expected(&self, expected: &'static str) -> Error {
        Error::JsonSyntax {
            offset: offset_u32(self.at),
            expected,
        }
    }
}

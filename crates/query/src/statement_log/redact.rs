//! Statements without the values in them.
//!
//! # Decided
//!
//! **By tokens, not by the syntax tree.** The tree keeps values in many places beside those that it calls values: an alias in
//! single quotes, the name of a file as a table, options of a statement, the length of a type, comments that are hints. A text
//! is made of tokens and of nothing else. Only words, and the signs that are listed here, are kept: what a later tokenizer
//! adds is taken for a value. The tree decides whether there is anything to print: a text that is not SQL may be anything,
//! a password pasted into the wrong window too, and has words.
//!
//! **Names are kept in queries alone.** In other statements, all of which are refused, a name may be a value
//! (`SET password = name`), so that nothing but keywords is left of them.
//!
//! | token | becomes |
//! |---|---|
//! | strings of any quotes and prefixes, numbers, and words that stick to one | `?` |
//! | `$1` | itself: it is a place, and no value |
//! | a name, with or without double quotes | itself |
//! | comments, line breaks, white space | one space |

use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer, Word};

/// What stands for a value.
const VALUE: &str = "?";

/// What stands for the rest of a long text.
const REST: &str = "..";

/// A text that was parsed in this dialect, of at most so many bytes and the mark of a cut.
pub(super) fn without_values(
    sql: &str,
    dialect: &dyn Dialect,
    is_query: bool,
    bytes_max: usize,
) -> String {
    let Ok(tokens) = Tokenizer::new(dialect, sql).tokenize() else {
        return String::new();
    };
    let mut out = String::new();
    let mut is_apart = false;
    let mut is_behind_value = false;
    for token in &tokens {
        if matches!(token, Token::Whitespace(_) | Token::EOF) {
            is_apart = true;
            continue;
        }
        if is_behind_value && !is_apart && matches!(token, Token::Word(_) | Token::Number(..)) {
            continue;
        }
        if is_apart && !out.is_empty() {
            out.push(' ');
        }
        is_apart = false;
        is_behind_value = !push(token, is_query, &mut out);
        if out.len() > bytes_max {
            break;
        }
    }
    shortened(&out, bytes_max)
}

/// The beginning of a text, with a mark where it is cut.
pub(super) fn shortened(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let begin = text.get(..text.floor_char_boundary(bytes_max));
    format!("{}{REST}", begin.unwrap_or_default())
}

/// `false`: it is a value.
fn push(token: &Token, is_query: bool, out: &mut String) -> bool {
    match token {
        Token::Word(word) if is_query || word.keyword != Keyword::NoKeyword => push_word(word, out),
        Token::Placeholder(name) if is_place(name) => out.push_str(name),
        sign if is_sign(sign) => out.push_str(&sign.to_string()),
        _ => {
            out.push_str(VALUE);
            return false;
        }
    }
    true
}

fn push_word(word: &Word, out: &mut String) {
    match word.quote_style {
        None => out.push_str(&word.value),
        Some(quote) => {
            let doubled = format!("{quote}{quote}");
            out.push(quote);
            out.push_str(&word.value.replace(quote, &doubled));
            out.push(if quote == '[' { ']' } else { quote });
        }
    }
}

/// `$1` and `?`.
fn is_place(name: &str) -> bool {
    let number = name.strip_prefix('$').unwrap_or_default();
    name == "?" || (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_sign(token: &Token) -> bool {
    use Token as T;
    matches!(
        token,
        T::Comma
            | T::LParen
            | T::RParen
            | T::LBracket
            | T::RBracket
            | T::LBrace
            | T::RBrace
            | T::Period
            | T::Colon
            | T::DoubleColon
            | T::SemiColon
            | T::Eq
            | T::DoubleEq
            | T::Neq
            | T::Lt
            | T::Gt
            | T::LtEq
            | T::GtEq
            | T::Spaceship
            | T::Plus
            | T::Minus
            | T::Mul
            | T::Div
            | T::Mod
            | T::StringConcat
            | T::Ampersand
            | T::Pipe
            | T::Caret
            | T::Sharp
            | T::Tilde
            | T::TildeAsterisk
            | T::ExclamationMarkTilde
            | T::ExclamationMarkTildeAsterisk
            | T::DoubleTilde
            | T::DoubleTildeAsterisk
            | T::ExclamationMarkDoubleTilde
            | T::ExclamationMarkDoubleTildeAsterisk
            | T::ShiftLeft
            | T::ShiftRight
            | T::Arrow
            | T::LongArrow
            | T::HashArrow
            | T::HashLongArrow
            | T::RArrow
            | T::AtArrow
            | T::ArrowAt
    )
}

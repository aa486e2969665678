//! From tokens to a tree, still without knowing what names mean.
//!
//! Weakest first: `or`, `and`, `not`, one comparison, `+ -`, `* /`. Every level of the tree, and
//! every parenthesis, counts against [`DEPTH_MAX`], because parsing and evaluating recurse.

use crate::ottl::problem::Problem;
use crate::ottl::token::{Kind, Token, split};

/// Nesting of a condition.
const DEPTH_MAX: u32 = 64;

/// Operator between two values that gives a truth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Operator between two values that gives a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
}

/// A literal.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Literal {
    Nil,
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(String),
    Bytes(Vec<u8>),
}

/// An index into a map or a list.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Key {
    Name(String),
    Position(usize),
}

/// What a condition says.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    Or(Vec<Self>),
    And(Vec<Self>),
    Not(Box<Self>),
    Compare(Box<Self>, Comparison, Box<Self>),
    Calculate(Box<Self>, Arithmetic, Box<Self>),
    Literal(Literal),
    /// Dotted name and the indexes behind it.
    Path(String, Vec<Key>),
    /// A word in capitals.
    Enum(String),
    Call(String, Vec<Self>),
}

/// Reads a condition.
pub(super) fn parse(condition: &str) -> Result<Node, Problem> {
    let mut parser = Parser {
        tokens: split(condition)?,
        next: 0,
        end: condition.len(),
        depth: 0,
    };
    let node = parser.alternatives()?;
    match parser.peek() {
        None => Ok(node),
        Some(_) => Err(parser.expected("an operator or the end")),
    }
}

struct Parser {
    tokens: Vec<Token>,
    next: usize,
    end: usize,
    depth: u32,
}

impl Parser {
    fn peek(&self) -> Option<&Kind> {
        self.tokens.get(self.next).map(|token| &token.kind)
    }

    fn expected(&self, expected: &'static str) -> Problem {
        let at = self
            .tokens
            .get(self.next)
            .map_or(self.end, |token| token.at);
        Problem::Syntax { at, expected }
    }

    /// Goes on if the next token is this symbol or keyword.
    fn accept(&mut self, text: &str) -> bool {
        let is_next = match self.peek() {
            Some(Kind::Symbol(symbol)) => *symbol == text,
            Some(Kind::Word(word)) => word == text,
            Some(Kind::Int(_) | Kind::Double(_) | Kind::Text(_) | Kind::Bytes(_)) | None => false,
        };
        self.next += usize::from(is_next);
        is_next
    }

    fn require(&mut self, text: &str, expected: &'static str) -> Result<(), Problem> {
        if self.accept(text) {
            Ok(())
        } else {
            Err(self.expected(expected))
        }
    }

    fn alternatives(&mut self) -> Result<Node, Problem> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Problem::TooDeep { limit: DEPTH_MAX });
        }
        let mut nodes = vec![self.conjunction()?];
        while self.accept("or") {
            nodes.push(self.conjunction()?);
        }
        self.depth -= 1;
        Ok(sole(nodes).unwrap_or_else(Node::Or))
    }

    fn conjunction(&mut self) -> Result<Node, Problem> {
        let mut nodes = vec![self.negation()?];
        while self.accept("and") {
            nodes.push(self.negation()?);
        }
        Ok(sole(nodes).unwrap_or_else(Node::And))
    }

    fn negation(&mut self) -> Result<Node, Problem> {
        if !self.accept("not") {
            return self.comparison();
        }
        Ok(Node::Not(Box::new(self.comparison()?)))
    }

    fn comparison(&mut self) -> Result<Node, Problem> {
        let left = self.sum()?;
        let known = [
            ("==", Comparison::Equal),
            ("!=", Comparison::NotEqual),
            ("<=", Comparison::LessOrEqual),
            (">=", Comparison::GreaterOrEqual),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ];
        let operator = known.into_iter().find(|(symbol, _)| self.accept(symbol));
        let Some((_, operator)) = operator else {
            return Ok(left);
        };
        let right = self.sum()?;
        Ok(Node::Compare(Box::new(left), operator, Box::new(right)))
    }

    fn sum(&mut self) -> Result<Node, Problem> {
        let mut node = self.product()?;
        let mut n_operators = 0;
        loop {
            let operator = if self.accept("+") {
                Arithmetic::Add
            } else if self.accept("-") {
                Arithmetic::Subtract
            } else {
                return Ok(node);
            };
            n_operators += 1;
            self.check_length(n_operators)?;
            node = Node::Calculate(Box::new(node), operator, Box::new(self.product()?));
        }
    }

    fn product(&mut self) -> Result<Node, Problem> {
        let mut node = self.primary()?;
        let mut n_operators = 0;
        loop {
            let operator = if self.accept("*") {
                Arithmetic::Multiply
            } else if self.accept("/") {
                Arithmetic::Divide
            } else {
                return Ok(node);
            };
            n_operators += 1;
            self.check_length(n_operators)?;
            node = Node::Calculate(Box::new(node), operator, Box::new(self.primary()?));
        }
    }

    /// A chain of operators is as deep as it is long.
    fn check_length(&self, n_operators: u32) -> Result<(), Problem> {
        if self.depth.saturating_add(n_operators) > DEPTH_MAX {
            return Err(Problem::TooDeep { limit: DEPTH_MAX });
        }
        Ok(())
    }

    fn primary(&mut self) -> Result<Node, Problem> {
        if self.accept("(") {
            let node = self.alternatives()?;
            self.require(")", "`)`")?;
            return Ok(node);
        }
        if self.accept("-") {
            return self.negative();
        }
        let Some(kind) = self.peek().cloned() else {
            return Err(self.expected("a value"));
        };
        let literal = match kind {
            Kind::Word(word) => return self.name(word),
            Kind::Symbol(_) => return Err(self.expected("a value")),
            Kind::Int(int) => Literal::Int(int),
            Kind::Double(double) => Literal::Double(double),
            Kind::Text(text) => Literal::Text(text),
            Kind::Bytes(bytes) => Literal::Bytes(bytes),
        };
        self.next += 1;
        Ok(Node::Literal(literal))
    }

    fn negative(&mut self) -> Result<Node, Problem> {
        let literal = match self.peek() {
            Some(Kind::Int(int)) => Literal::Int(-int),
            Some(Kind::Double(double)) => Literal::Double(-double),
            Some(Kind::Word(_) | Kind::Text(_) | Kind::Bytes(_) | Kind::Symbol(_)) | None => {
                return Err(self.expected("a number after `-`"));
            }
        };
        self.next += 1;
        Ok(Node::Literal(literal))
    }

    /// A keyword, a call, an enum or a path.
    fn name(&mut self, word: String) -> Result<Node, Problem> {
        let keyword = match word.as_str() {
            "nil" => Some(Literal::Nil),
            "true" => Some(Literal::Bool(true)),
            "false" => Some(Literal::Bool(false)),
            "and" | "or" | "not" => return Err(self.expected("a value")),
            _ => None,
        };
        self.next += 1;
        if let Some(literal) = keyword {
            return Ok(Node::Literal(literal));
        }
        if self.accept("(") {
            let arguments = self.arguments()?;
            return Ok(Node::Call(word, arguments));
        }
        if word.starts_with(|c: char| c.is_ascii_uppercase()) {
            return Ok(Node::Enum(word));
        }
        let mut path = word;
        while self.accept(".") {
            let Some(Kind::Word(segment)) = self.peek().cloned() else {
                return Err(self.expected("a name after `.`"));
            };
            self.next += 1;
            path.push('.');
            path.push_str(&segment);
        }
        let keys = self.keys()?;
        Ok(Node::Path(path, keys))
    }

    fn keys(&mut self) -> Result<Vec<Key>, Problem> {
        let mut keys = Vec::new();
        while self.accept("[") {
            let key = match self.peek() {
                Some(Kind::Text(name)) => Key::Name(name.clone()),
                Some(Kind::Int(position)) => {
                    Key::Position(usize::try_from(*position).unwrap_or(usize::MAX))
                }
                Some(Kind::Word(_) | Kind::Double(_) | Kind::Bytes(_) | Kind::Symbol(_)) | None => {
                    return Err(self.expected("a quoted key or a position"));
                }
            };
            self.next += 1;
            self.require("]", "`]`")?;
            keys.push(key);
        }
        Ok(keys)
    }

    fn arguments(&mut self) -> Result<Vec<Node>, Problem> {
        let mut arguments = Vec::new();
        if self.accept(")") {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.alternatives()?);
            if !self.accept(",") {
                break;
            }
        }
        self.require(")", "`,` or `)`")?;
        Ok(arguments)
    }
}

/// The only one, or all of them again.
fn sole(mut nodes: Vec<Node>) -> Result<Node, Vec<Node>> {
    match nodes.pop() {
        Some(node) if nodes.is_empty() => Ok(node),
        Some(node) => {
            nodes.push(node);
            Err(nodes)
        }
        None => Err(nodes),
    }
}

#[cfg(test)]
mod tests {
    use super::{Node, parse};
    use crate::ottl::problem::Problem;

    #[test]
    fn operators_bind_as_documented() {
        for (left, right) in [
            (
                "a == 1 or b == 2 and not c == 3",
                "(a == 1) or ((b == 2) and (not (c == 3)))",
            ),
            ("a + 2 * b > c - 1 - 1", "(a + (2 * b)) > ((c - 1) - 1)"),
            ("((a)) == ((1))", "a == 1"),
        ] {
            assert_eq!(parse(left).unwrap(), parse(right).unwrap(), "{left}");
        }
        assert!(
            matches!(parse("A(b, C(1))"), Ok(Node::Call(name, arguments))
            if name == "A" && arguments.len() == 2)
        );
    }

    #[test]
    fn what_is_no_condition_says_where() {
        for (condition, want) in [
            ("", 0),
            ("a ==", 4),
            ("a == 1 b", 7),
            ("(a == 1", 7),
            ("a[1.5] == 1", 2),
            ("a. == 1", 3),
            ("F(1", 3),
            ("not not a", 4),
            ("a == - b", 7),
        ] {
            match parse(condition) {
                Err(Problem::Syntax { at, .. }) => assert_eq!(at, want, "{condition}"),
                other => panic!("{condition}: {other:?}"),
            }
        }
    }

    #[test]
    fn deep_nesting_is_refused_and_shallow_is_not() {
        let nested = |depth: usize| format!("{}a == 1{}", "(".repeat(depth), ")".repeat(depth));
        assert!(parse(&nested(60)).is_ok());
        assert!(matches!(
            parse(&nested(100_000)),
            Err(Problem::TooDeep { .. })
        ));
        let chain = |length: usize| format!("a == 1{}", " + 1".repeat(length));
        assert!(parse(&chain(60)).is_ok());
        assert!(matches!(
            parse(&chain(100_000)),
            Err(Problem::TooDeep { .. })
        ));
    }
}

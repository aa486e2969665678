//! Conditions on a span, and their SQL.
//!
//! # What an attribute is compared with
//!
//! A key with a column of its own is looked up in that column, which also holds what was sent under another spelling
//! of the key or with another type; any other key is looked up in the map. A map holds text, so `42` and `"42"` are
//! the same there, and a comparison with a number holds for texts that are numbers.
//!
//! A span without the attribute meets no condition on it, also not that it differs; only [`Value::Nothing`] asks for
//! its absence.
//!
//! Attributes of events, links and scopes are not looked at; `exception.type` and `exception.message` are, because
//! they have columns.

use datafusion::common::ScalarValue;
use tables::{ColumnType, Origin, spans};

use super::Draft;
use super::window::{SLACK, Window};

/// Comparisons in one condition. Each is a few operators of the statement, which may have some thousand.
pub(crate) const TESTS_MAX: usize = 64;

/// A condition on one span.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Condition {
    /// Each of them holds; none is always true.
    All(Vec<Self>),
    /// One of them holds; none is never true.
    Any(Vec<Self>),
    Test(Test),
}

/// A comparison.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Test {
    pub(crate) field: Field,
    pub(crate) operator: Operator,
    pub(crate) value: Value,
}

/// What is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Field {
    Name,
    /// `UNSET`, `OK` or `ERROR`.
    Status,
    StatusMessage,
    /// `SERVER` and so on.
    Kind,
    /// Nanoseconds.
    Duration,
    TraceId,
    SpanId,
    ParentSpanId,
    ScopeName,
    ScopeVersion,
    /// Of the whole trace, as its row in `traces` says. Nanoseconds.
    TraceDuration,
    RootName,
    RootServiceName,
    Attribute(Scope, String),
}

/// Whose attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Span,
    Resource,
    /// The span's, or else the resource's.
    Either,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    /// The regular expression matches the whole text.
    Matches,
    NotMatches,
    /// The text holds the other one, in whatever case.
    Contains,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Text(String),
    Int(i64),
    Float(f64),
    Bool(bool),
    /// No value at all.
    Nothing,
}

impl Condition {
    pub(crate) fn test(field: Field, operator: Operator, value: Value) -> Self {
        Self::Test(Test {
            field,
            operator,
            value,
        })
    }

    /// A boolean expression on a row of `spans`. Conditions on the whole trace look at traces around `window`.
    pub(crate) fn sql(&self, window: Window, draft: &mut Draft) -> String {
        let mut join = |parts: &[Self], word: &str, none: &str| match parts {
            [] => none.to_owned(),
            parts => {
                let parts = parts.iter().map(|part| part.sql(window, draft));
                format!("({})", parts.collect::<Vec<_>>().join(word))
            }
        };
        match self {
            Self::All(parts) => join(parts, " AND ", "TRUE"),
            Self::Any(parts) => join(parts, " OR ", "FALSE"),
            Self::Test(test) => test.sql(window, draft),
        }
    }

    /// Every field that is compared, each once.
    pub(crate) fn fields(&self) -> Vec<&Field> {
        let mut fields = Vec::new();
        self.add_fields(&mut fields);
        fields
    }

    fn add_fields<'a>(&'a self, fields: &mut Vec<&'a Field>) {
        match self {
            Self::All(parts) | Self::Any(parts) => {
                for part in parts {
                    part.add_fields(fields);
                }
            }
            Self::Test(test) if !fields.contains(&&test.field) => fields.push(&test.field),
            Self::Test(_) => {}
        }
    }
}

/// What an expression has for values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Number,
    /// A list of texts.
    Texts,
}

impl Test {
    fn sql(&self, window: Window, draft: &mut Draft) -> String {
        let of_trace = match self.field {
            Field::TraceDuration => Some(("duration_ns", Kind::Number)),
            Field::RootName => Some(("root_name", Kind::Text)),
            Field::RootServiceName => Some(("root_service_name", Kind::Text)),
            _ => None,
        };
        if let Some((column, kind)) = of_trace {
            let around = window.widened(SLACK).sql("start_time", draft);
            let holds = self.compared(column, kind, draft);
            return format!("trace_id IN (SELECT trace_id FROM traces WHERE {around} AND {holds})");
        }
        let (expression, kind) = self.field.expression(draft);
        self.compared(&expression, kind, draft)
    }

    fn compared(&self, expression: &str, kind: Kind, draft: &mut Draft) -> String {
        let is_nothing = match self.operator {
            Operator::Equal => "IS NULL",
            _ => "IS NOT NULL",
        };
        match (&self.value, kind) {
            (Value::Nothing, _) => format!("{expression} {is_nothing}"),
            (Value::Bool(value), Kind::Text) => {
                let value = draft.bind(value.to_string());
                self.ordered(expression, &value)
            }
            (Value::Bool(_), Kind::Number | Kind::Texts) => "FALSE".to_owned(),
            (Value::Text(text), Kind::Text) => self.text(expression, text, draft),
            (Value::Text(text), Kind::Texts) => self.texts(expression, text, draft),
            (Value::Text(text), Kind::Number) => self.number_as_text(expression, text, draft),
            (Value::Int(_) | Value::Float(_), Kind::Texts) => "FALSE".to_owned(),
            (Value::Int(value), Kind::Number) => {
                let value = draft.bind(*value);
                self.ordered(expression, &value)
            }
            (Value::Float(value), Kind::Number) => {
                let value = draft.bind(*value);
                self.ordered(expression, &value)
            }
            (Value::Int(value), Kind::Text) => {
                let value = draft.bind(*value as f64);
                self.ordered(&format!("TRY_CAST({expression} AS DOUBLE)"), &value)
            }
            (Value::Float(value), Kind::Text) => {
                let value = draft.bind(*value);
                self.ordered(&format!("TRY_CAST({expression} AS DOUBLE)"), &value)
            }
        }
    }

    fn ordered(&self, expression: &str, value: &str) -> String {
        let operator = match self.operator {
            Operator::Equal => "=",
            Operator::NotEqual => "<>",
            Operator::Less => "<",
            Operator::LessOrEqual => "<=",
            Operator::Greater => ">",
            Operator::GreaterOrEqual => ">=",
            // Of texts only.
            Operator::Matches | Operator::NotMatches | Operator::Contains => return "FALSE".into(),
        };
        format!("{expression} {operator} {value}")
    }

    fn text(&self, expression: &str, text: &str, draft: &mut Draft) -> String {
        match self.operator {
            Operator::Matches => format!("{expression} ~ {}", draft.bind(whole(text))),
            Operator::NotMatches => format!("{expression} !~ {}", draft.bind(whole(text))),
            Operator::Contains => {
                let text = draft.bind(text.to_lowercase());
                format!("strpos(lower({expression}), {text}) > 0")
            }
            _ => {
                let value = draft.bind(text);
                self.ordered(expression, &value)
            }
        }
    }

    /// Of a list one element is enough to be equal; to differ, all must.
    fn texts(&self, expression: &str, text: &str, draft: &mut Draft) -> String {
        match self.operator {
            Operator::Equal => format!("array_has({expression}, {})", draft.bind(text)),
            Operator::NotEqual => format!("NOT array_has({expression}, {})", draft.bind(text)),
            _ => self.text(&format!("array_to_string({expression}, ',')"), text, draft),
        }
    }

    /// A client that knows no types sends `"200"` for the number 200.
    fn number_as_text(&self, expression: &str, text: &str, draft: &mut Draft) -> String {
        let is_of_texts = matches!(
            self.operator,
            Operator::Matches | Operator::NotMatches | Operator::Contains
        );
        if is_of_texts {
            let expression = format!("CAST({expression} AS VARCHAR)");
            return self.text(&expression, text, draft);
        }
        let value: ScalarValue = match (text.parse::<i64>(), text.parse::<f64>()) {
            (Ok(value), _) => value.into(),
            (Err(_), Ok(value)) => value.into(),
            (Err(_), Err(_)) => return "FALSE".to_owned(),
        };
        let value = draft.bind(value);
        self.ordered(expression, &value)
    }
}

/// The expression for a whole text.
fn whole(pattern: &str) -> String {
    format!("^(?:{pattern})$")
}

impl Field {
    /// Its text, as SQL on a row of `spans`; NULL for what only a row of `traces` tells.
    pub(crate) fn text_sql(&self, draft: &mut Draft) -> String {
        let (expression, kind) = self.expression(draft);
        kind.text(expression)
    }

    fn expression(&self, draft: &mut Draft) -> (String, Kind) {
        let column = |name: &str, kind| (name.to_owned(), kind);
        match self {
            Self::Name => column("name", Kind::Text),
            Self::Status => column("status_code", Kind::Text),
            Self::StatusMessage => column("status_message", Kind::Text),
            Self::Kind => column("kind", Kind::Text),
            Self::Duration => column("duration_ns", Kind::Number),
            Self::TraceId => column("trace_id", Kind::Text),
            Self::SpanId => column("span_id", Kind::Text),
            Self::ParentSpanId => column("parent_span_id", Kind::Text),
            Self::ScopeName => column("scope_name", Kind::Text),
            Self::ScopeVersion => column("scope_version", Kind::Text),
            Self::TraceDuration | Self::RootName | Self::RootServiceName => {
                column("CAST(NULL AS VARCHAR)", Kind::Text)
            }
            Self::Attribute(Scope::Either, key) => {
                let mut text = |scope| {
                    let (expression, kind) = attribute(scope, key, draft);
                    kind.text(expression)
                };
                let (span, resource) = (text(Scope::Span), text(Scope::Resource));
                (format!("COALESCE({span}, {resource})"), Kind::Text)
            }
            Self::Attribute(scope, key) => attribute(*scope, key, draft),
        }
    }
}

impl Kind {
    fn text(self, expression: String) -> String {
        match self {
            Self::Text => expression,
            Self::Number => format!("CAST({expression} AS VARCHAR)"),
            Self::Texts => format!("array_to_string({expression}, ',')"),
        }
    }
}

/// The column of a key, or its place in the map.
fn attribute(scope: Scope, key: &str, draft: &mut Draft) -> (String, Kind) {
    let is_resource = scope == Scope::Resource;
    if let Some(column) = promoted(is_resource).find(|column| column.source == key) {
        let kind = match column.data_type {
            ColumnType::Int | ColumnType::Float => Kind::Number,
            ColumnType::TextList => Kind::Texts,
            _ => Kind::Text,
        };
        return (column.name.to_owned(), kind);
    }
    let map = match is_resource {
        true => "resource_attributes",
        false => "attributes",
    };
    let key = draft.bind(key);
    (format!("{map}[{key}]"), Kind::Text)
}

/// Columns that hold attributes of the resource, or of the span.
pub(crate) fn promoted(is_resource: bool) -> impl Iterator<Item = &'static tables::Column> {
    spans::SPEC
        .columns
        .iter()
        .filter(move |column| match column.origin {
            Origin::Span { .. } => !is_resource,
            Origin::Resource { .. } => is_resource,
            Origin::Row => false,
        })
}

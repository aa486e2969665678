//! From a tree of names to what is evaluated: fields, functions, enums, in their context.

use otlp::attribute::Value;

use crate::duration;
use crate::go_regex;
use crate::nearest::nearest;
use crate::ottl::evaluate::{Check, Field, Function, Operand};
use crate::ottl::problem::Problem;
use crate::ottl::syntax::{Key, Literal, Node};
use crate::partial::Part;

/// Distinct attribute keys of spans, and of events, in all conditions: their values stand on the
/// stack while a span is looked at.
pub(super) const KEYS_MAX: usize = 32;

/// Conditions on a resource alone: one bit each in what is kept of a resource.
pub(super) const RESOURCE_CHECKS_MAX: usize = 64;

/// Where a condition stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Context {
    Span,
    SpanEvent,
}

/// What all conditions share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// By slot.
    pub(super) span_keys: Vec<Box<str>>,
    pub(super) event_keys: Vec<Box<str>>,
    pub(super) resource_checks: Vec<Check>,
    /// What the conditions of the policy at hand look at.
    pub(super) reads: Vec<Part>,
}

/// Fields by name, in the order in which a suggestion prefers them.
const SPAN_FIELDS: [(&str, Field); 20] = [
    ("name", Field::Name),
    ("kind", Field::Kind),
    ("kind.string", Field::KindText),
    ("status.code", Field::StatusCode),
    ("status.message", Field::StatusMessage),
    ("start_time", Field::StartTime),
    ("end_time", Field::EndTime),
    ("start_time_unix_nano", Field::StartTimeUnixNano),
    ("end_time_unix_nano", Field::EndTimeUnixNano),
    ("trace_id", Field::TraceId),
    ("trace_id.string", Field::TraceIdText),
    ("span_id", Field::SpanId),
    ("span_id.string", Field::SpanIdText),
    ("parent_span_id", Field::ParentSpanId),
    ("parent_span_id.string", Field::ParentSpanIdText),
    ("trace_state", Field::TraceState),
    ("flags", Field::Flags),
    ("dropped_attributes_count", Field::DroppedAttributesCount),
    ("dropped_events_count", Field::DroppedEventsCount),
    ("dropped_links_count", Field::DroppedLinksCount),
];

const EVENT_FIELDS: [(&str, Field); 4] = [
    ("name", Field::EventName),
    ("time", Field::EventTime),
    ("time_unix_nano", Field::EventTimeUnixNano),
    (
        "dropped_attributes_count",
        Field::EventDroppedAttributesCount,
    ),
];

const ENUMS: [(&str, i64); 9] = [
    ("STATUS_CODE_UNSET", 0),
    ("STATUS_CODE_OK", 1),
    ("STATUS_CODE_ERROR", 2),
    ("SPAN_KIND_UNSPECIFIED", 0),
    ("SPAN_KIND_INTERNAL", 1),
    ("SPAN_KIND_SERVER", 2),
    ("SPAN_KIND_CLIENT", 3),
    ("SPAN_KIND_PRODUCER", 4),
    ("SPAN_KIND_CONSUMER", 5),
];

/// Functions with the number of arguments that they take.
const FUNCTIONS: [(&str, usize); 27] = [
    ("IsMatch", 2),
    ("IsRootSpan", 0),
    ("HasPrefix", 2),
    ("HasSuffix", 2),
    ("Len", 1),
    ("Int", 1),
    ("Double", 1),
    ("String", 1),
    ("IsString", 1),
    ("IsInt", 1),
    ("IsDouble", 1),
    ("IsBool", 1),
    ("IsMap", 1),
    ("IsList", 1),
    ("Duration", 1),
    ("Hours", 1),
    ("Minutes", 1),
    ("Seconds", 1),
    ("Milliseconds", 1),
    ("Microseconds", 1),
    ("Nanoseconds", 1),
    ("Unix", 1),
    ("UnixMilli", 1),
    ("UnixMicro", 1),
    ("UnixNano", 1),
    ("TraceID", 1),
    ("SpanID", 1),
];

/// Turns the tree of one condition into what is evaluated.
pub(super) struct Resolver<'a> {
    pub(super) context: Context,
    pub(super) shared: &'a mut Shared,
    /// Whether a leaf so far reads the resource, and anything else.
    reads_resource: bool,
    reads_span: bool,
}

impl<'a> Resolver<'a> {
    pub(super) fn new(context: Context, shared: &'a mut Shared) -> Self {
        Self {
            context,
            shared,
            reads_resource: false,
            reads_span: false,
        }
    }

    /// What is true or false.
    pub(super) fn check(&mut self, node: Node) -> Result<Check, Problem> {
        let check = match node {
            Node::Or(nodes) => return self.checks(nodes).map(Check::Or),
            Node::And(nodes) => return self.checks(nodes).map(Check::And),
            Node::Not(node) => return Ok(Check::Not(Box::new(self.check(*node)?))),
            Node::Compare(left, operator, right) => {
                self.begin_leaf();
                Check::Compare(self.operand(*left)?, operator, self.operand(*right)?)
            }
            Node::Literal(Literal::Bool(is_true)) => {
                return Ok(Check::Truth(Operand::Bool(is_true)));
            }
            Node::Call(name, arguments) => {
                self.begin_leaf();
                Check::Truth(self.call(&name, arguments)?)
            }
            Node::Calculate(..) | Node::Literal(_) | Node::Path(..) | Node::Enum(_) => {
                return Err(Problem::NotBoolean);
            }
        };
        self.end_leaf(check)
    }

    fn checks(&mut self, nodes: Vec<Node>) -> Result<Vec<Check>, Problem> {
        nodes.into_iter().map(|node| self.check(node)).collect()
    }

    fn begin_leaf(&mut self) {
        self.reads_resource = false;
        self.reads_span = false;
    }

    /// Moves a leaf that reads only the resource to where it is evaluated once.
    fn end_leaf(&mut self, check: Check) -> Result<Check, Problem> {
        match (self.reads_resource, self.reads_span) {
            (false, _) => Ok(check),
            (true, true) => Err(Problem::ResourceAndSpan),
            (true, false) => {
                let number = self.shared.resource_checks.len();
                if number == RESOURCE_CHECKS_MAX {
                    return Err(Problem::TooMany {
                        what: "conditions on resources",
                        limit: RESOURCE_CHECKS_MAX,
                    });
                }
                self.shared.resource_checks.push(check);
                Ok(Check::OfResource(u32::try_from(number).unwrap_or(0)))
            }
        }
    }

    fn operand(&mut self, node: Node) -> Result<Operand, Problem> {
        Ok(match node {
            Node::Literal(literal) => match literal {
                Literal::Nil => Operand::Nil,
                Literal::Bool(is_true) => Operand::Bool(is_true),
                Literal::Int(int) => Operand::Int(int),
                Literal::Double(double) => Operand::Double(double),
                Literal::Text(text) => Operand::Text(text.into()),
                Literal::Bytes(bytes) => Operand::Bytes(bytes.into()),
            },
            Node::Enum(name) => match ENUMS.into_iter().find(|(known, _)| *known == name) {
                Some((_, number)) => Operand::Int(number),
                None => {
                    let nearest = nearest(&name, ENUMS.map(|(known, _)| known));
                    return Err(Problem::Enum { name, nearest });
                }
            },
            Node::Path(path, keys) => return self.path(path, keys),
            Node::Call(name, arguments) => return self.call(&name, arguments),
            Node::Calculate(left, operator, right) => Operand::Calculate(
                Box::new(self.operand(*left)?),
                operator,
                Box::new(self.operand(*right)?),
            ),
            Node::Or(_) | Node::And(_) | Node::Not(_) | Node::Compare(..) => {
                return Err(Problem::NotBoolean);
            }
        })
    }

    fn path(&mut self, path: String, keys: Vec<Key>) -> Result<Operand, Problem> {
        if path == "resource.attributes" {
            self.reads_resource = true;
            let (key, keys) = attribute_key(path, keys)?;
            self.shared.reads.push(Part::ResourceAttribute(key.clone()));
            return Ok(Operand::ResourceAttribute(key, keys));
        }
        self.reads_span = true;
        let (is_event, field) = match (path.strip_prefix("span."), path.strip_prefix("spanevent."))
        {
            (Some(field), _) => (false, field),
            (_, Some(field)) if self.context == Context::SpanEvent => (true, field),
            _ => (self.context == Context::SpanEvent, path.as_str()),
        };
        if field == "attributes" {
            let (key, keys) = attribute_key(path, keys)?;
            self.shared.reads.push(if is_event {
                Part::EventAttribute(key.clone())
            } else {
                Part::SpanAttribute(key.clone())
            });
            return Ok(if is_event {
                Operand::EventAttribute(slot(&mut self.shared.event_keys, key)?, keys)
            } else {
                Operand::SpanAttribute(slot(&mut self.shared.span_keys, key)?, keys)
            });
        }
        if !is_event
            && field == "trace_state"
            && let [Key::Name(key)] = keys.as_slice()
        {
            self.shared.reads.push(Part::TraceState);
            return Ok(Operand::TraceState(key.as_str().into()));
        }
        let fields: &[(&'static str, Field)] = if is_event {
            &EVENT_FIELDS
        } else {
            &SPAN_FIELDS
        };
        match fields.iter().find(|(known, _)| *known == field) {
            Some((_, field)) if keys.is_empty() => {
                self.shared.reads.extend(part(*field));
                Ok(Operand::Field(*field))
            }
            Some(_) => Err(Problem::Index { path }),
            None => {
                let known = fields.iter().map(|(known, _)| *known);
                let nearest = nearest(field, known.chain(["attributes", "resource.attributes"]));
                Err(Problem::Path { path, nearest })
            }
        }
    }

    fn call(&mut self, name: &str, arguments: Vec<Node>) -> Result<Operand, Problem> {
        let known = FUNCTIONS.into_iter().find(|(known, _)| *known == name);
        let Some((name, n_arguments)) = known else {
            return Err(Problem::Function {
                name: name.to_owned(),
                nearest: nearest(name, FUNCTIONS.map(|(known, _)| known)),
            });
        };
        let wrong_number = Problem::Arguments {
            name,
            takes: match n_arguments {
                0 => "no argument",
                1 => "one argument",
                _ => "two arguments",
            },
        };
        if arguments.len() != n_arguments {
            return Err(wrong_number);
        }
        let mut arguments = arguments.into_iter();
        let Some(first) = arguments.next() else {
            return Ok(self.is_root_span());
        };
        if let "Duration" | "TraceID" | "SpanID" = name {
            return constant(name, first);
        }
        let first = self.operand(first)?;
        let function = function(name, arguments.next())?;
        Ok(Operand::Call(function, Box::new(first)))
    }

    /// A span is a root if the text of its parent's id is empty.
    fn is_root_span(&mut self) -> Operand {
        self.reads_span = true;
        let parent = Operand::Field(Field::ParentSpanIdText);
        Operand::Call(Function::HasNoText, Box::new(parent))
    }
}

/// The function with its second argument, which is a literal.
fn function(name: &'static str, second: Option<Node>) -> Result<Function, Problem> {
    const NANOS_PER_SECOND: u64 = 1_000_000_000;
    let second = match second {
        None => None,
        Some(Node::Literal(Literal::Text(text))) => Some(text),
        Some(_) => {
            let takes = "a quoted text as its second argument";
            return Err(Problem::Arguments { name, takes });
        }
    };
    Ok(match (name, second) {
        ("IsMatch", Some(pattern)) => match go_regex::compile(&pattern) {
            Ok(regex) => Function::IsMatch(regex),
            Err(error) => {
                let reason = error.to_string();
                return Err(Problem::Pattern { pattern, reason });
            }
        },
        ("HasPrefix", Some(prefix)) => Function::HasPrefix(prefix.into()),
        ("HasSuffix", Some(suffix)) => Function::HasSuffix(suffix.into()),
        ("Len", _) => Function::Length,
        ("Int", _) => Function::ToInt,
        ("Double", _) => Function::ToDouble,
        ("String", _) => Function::ToText,
        ("IsString", _) => Function::IsText,
        ("IsInt", _) => Function::IsInt,
        ("IsDouble", _) => Function::IsDouble,
        ("IsBool", _) => Function::IsBool,
        ("IsMap", _) => Function::IsMap,
        ("IsList", _) => Function::IsList,
        ("Hours", _) => Function::Units(3600e9),
        ("Minutes", _) => Function::Units(60e9),
        ("Seconds", _) => Function::Units(1e9),
        ("Milliseconds", _) => Function::WholeUnits(1_000_000),
        ("Microseconds", _) => Function::WholeUnits(1_000),
        ("Nanoseconds", _) => Function::WholeUnits(1),
        ("Unix", _) => Function::UnixUnits(NANOS_PER_SECOND),
        ("UnixMilli", _) => Function::UnixUnits(1_000_000),
        ("UnixMicro", _) => Function::UnixUnits(1_000),
        ("UnixNano", _) => Function::UnixUnits(1),
        _ => {
            let nearest = None;
            return Err(Problem::Function {
                name: name.to_owned(),
                nearest,
            });
        }
    })
}

/// A function of a literal: its value is known at once.
fn constant(name: &'static str, argument: Node) -> Result<Operand, Problem> {
    let wrong = |takes| Problem::Arguments { name, takes };
    match (name, argument) {
        ("Duration", Node::Literal(Literal::Text(text))) => {
            let unsigned = text.strip_prefix('-');
            let parsed = duration::parse(unsigned.unwrap_or(&text)).ok();
            let nanos = parsed.and_then(|duration| i64::try_from(duration.as_nanos()).ok());
            let nanos = nanos.ok_or_else(|| wrong("a quoted duration such as `\"1m30s\"`"))?;
            Ok(Operand::Duration(match unsigned {
                Some(_) => -nanos,
                None => nanos,
            }))
        }
        ("Duration", _) => Err(wrong("a quoted duration such as `\"1m30s\"`")),
        ("TraceID", Node::Literal(Literal::Bytes(bytes))) if bytes.len() == 16 => {
            Ok(Operand::Bytes(bytes.into()))
        }
        ("TraceID", _) => Err(wrong("32 hex digits after `0x`")),
        (_, Node::Literal(Literal::Bytes(bytes))) if bytes.len() == 8 => {
            Ok(Operand::Bytes(bytes.into()))
        }
        _ => Err(wrong("16 hex digits after `0x`")),
    }
}

/// The part that a field is of, where storage may shorten or lose it.
fn part(field: Field) -> Option<Part> {
    match field {
        Field::Name => Some(Part::Name),
        Field::StatusMessage => Some(Part::StatusMessage),
        Field::TraceState => Some(Part::TraceState),
        Field::EventName => Some(Part::EventName),
        Field::TraceId
        | Field::TraceIdText
        | Field::SpanId
        | Field::SpanIdText
        | Field::ParentSpanId
        | Field::ParentSpanIdText
        | Field::Flags
        | Field::Kind
        | Field::KindText
        | Field::StartTime
        | Field::EndTime
        | Field::StartTimeUnixNano
        | Field::EndTimeUnixNano
        | Field::StatusCode
        | Field::DroppedAttributesCount
        | Field::DroppedEventsCount
        | Field::DroppedLinksCount
        | Field::EventTime
        | Field::EventTimeUnixNano
        | Field::EventDroppedAttributesCount => None,
    }
}

/// The key of an attribute, and the indexes into its value.
fn attribute_key(path: String, mut keys: Vec<Key>) -> Result<(Box<str>, Vec<Key>), Problem> {
    if keys.is_empty() {
        return Err(Problem::Index { path });
    }
    match keys.remove(0) {
        Key::Name(key) => Ok((key.into(), keys)),
        Key::Position(_) => Err(Problem::Index { path }),
    }
}

fn slot(keys: &mut Vec<Box<str>>, key: Box<str>) -> Result<usize, Problem> {
    if let Some(slot) = keys.iter().position(|known| *known == key) {
        return Ok(slot);
    }
    if keys.len() == KEYS_MAX {
        return Err(Problem::TooMany {
            what: "distinct attribute keys",
            limit: KEYS_MAX,
        });
    }
    keys.push(key);
    Ok(keys.len() - 1)
}

/// Slots without values.
pub(super) const NO_VALUES: [Value<'static>; KEYS_MAX] = [Value::Empty; KEYS_MAX];

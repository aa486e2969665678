//! Spans and resources as protobuf bytes, written by hand: the few fields that matter here.

/// An attribute value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// `string_value`.
    Str(String),
    /// `bool_value`.
    Bool(bool),
    /// `int_value`.
    Int(i64),
    /// `double_value`.
    Double(f64),
}

/// Attributes in wire order.
pub(crate) type Attributes = Vec<(String, Value)>;

/// Name and attributes of an event.
pub(crate) type Event = (String, Attributes);

/// A span and the resource it comes under.
#[derive(Debug, Clone, Default)]
pub(crate) struct Span {
    /// Number of the trace, in the last bytes of its id.
    pub(crate) trace: u64,
    /// Whole trace id, where the number is not enough.
    pub(crate) trace_id: Option<[u8; 16]>,
    /// Not 0.
    pub(crate) span_id: u64,
    /// 0 for a root.
    pub(crate) parent: u64,
    /// Name.
    pub(crate) name: String,
    /// Start.
    pub(crate) start_unix_nano: u64,
    /// End.
    pub(crate) end_unix_nano: u64,
    /// 0 unset, 1 ok, 2 error.
    pub(crate) status: u8,
    /// W3C `tracestate`.
    pub(crate) trace_state: String,
    /// W3C flags.
    pub(crate) flags: u32,
    /// Events.
    pub(crate) events: Vec<Event>,
    /// Numbers of the traces that it links to.
    pub(crate) links: Vec<u64>,
    /// Of the span.
    pub(crate) attributes: Attributes,
    /// Of the resource.
    pub(crate) resource: Attributes,
}

/// The id of the trace with this number.
fn trace_id(number: u64) -> [u8; 16] {
    let mut id = [0x7c; 16];
    id[8..].copy_from_slice(&number.to_be_bytes());
    id
}

impl Span {
    /// The 16 bytes of the trace id.
    pub(crate) fn trace_id(&self) -> [u8; 16] {
        self.trace_id.unwrap_or_else(|| trace_id(self.trace))
    }

    /// A `Span` message.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_bytes(&mut out, 1, &self.trace_id());
        put_bytes(&mut out, 2, &self.span_id.to_be_bytes());
        if !self.trace_state.is_empty() {
            put_bytes(&mut out, 3, self.trace_state.as_bytes());
        }
        if self.parent != 0 {
            put_bytes(&mut out, 4, &self.parent.to_be_bytes());
        }
        put_bytes(&mut out, 5, self.name.as_bytes());
        put_varint_field(&mut out, 6, 2);
        put_fixed64(&mut out, 7, self.start_unix_nano);
        put_fixed64(&mut out, 8, self.end_unix_nano);
        put_attributes(&mut out, 9, &self.attributes);
        for (name, attributes) in &self.events {
            let mut event = Vec::new();
            put_fixed64(&mut event, 1, self.start_unix_nano);
            put_bytes(&mut event, 2, name.as_bytes());
            put_attributes(&mut event, 3, attributes);
            put_bytes(&mut out, 11, &event);
        }
        for trace in &self.links {
            let mut link = Vec::new();
            put_bytes(&mut link, 1, &trace_id(*trace));
            put_bytes(&mut link, 2, &[1; 8]);
            put_bytes(&mut out, 13, &link);
        }
        if self.status != 0 {
            let mut status = Vec::new();
            put_varint_field(&mut status, 3, u64::from(self.status));
            put_bytes(&mut out, 15, &status);
        }
        if self.flags != 0 {
            put_varint(&mut out, 16 << 3 | 5);
            out.extend_from_slice(&self.flags.to_le_bytes());
        }
        out
    }

    /// A `Resource` message.
    pub(crate) fn encode_resource(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_attributes(&mut out, 1, &self.resource);
        out
    }
}

fn put_attributes(out: &mut Vec<u8>, field: u64, attributes: &[(String, Value)]) {
    for (key, value) in attributes {
        let mut any = Vec::new();
        match value {
            Value::Str(text) => put_bytes(&mut any, 1, text.as_bytes()),
            Value::Bool(is_true) => put_varint_field(&mut any, 2, u64::from(*is_true)),
            Value::Int(int) => put_varint_field(&mut any, 3, int.cast_unsigned()),
            Value::Double(double) => put_fixed64(&mut any, 4, double.to_bits()),
        }
        let mut pair = Vec::new();
        put_bytes(&mut pair, 1, key.as_bytes());
        put_bytes(&mut pair, 2, &any);
        put_bytes(out, field, &pair);
    }
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_varint_field(out: &mut Vec<u8>, field: u64, value: u64) {
    put_varint(out, field << 3);
    put_varint(out, value);
}

fn put_fixed64(out: &mut Vec<u8>, field: u64, value: u64) {
    put_varint(out, field << 3 | 1);
    out.extend_from_slice(&value.to_le_bytes());
}

fn put_bytes(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    put_varint(out, field << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

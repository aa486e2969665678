//! JSON text to protobuf bytes, by the tables of [`crate::schema`].

use crate::{
    attribute::text::whole,
    base64,
    encode::Writer,
    error::{Error, Result, offset_u32},
    export::Signal,
    ids::hex_byte,
    json::read::{Reader, Scalar},
    schema::{self, Field, Kind, Label, Message, Names},
};

pub(super) fn transcode(signal: Signal, json: &[u8], depth_max: u32) -> Result<Vec<u8>> {
    let mut pass = Pass {
        json: Reader::new(json)?,
        out: Writer::default(),
        depth_max,
    };
    pass.message(schema::request(signal), 0)?;
    pass.json.end()?;
    Ok(pass.out.finish())
}

struct Pass<'a> {
    json: Reader<'a>,
    out: Writer,
    depth_max: u32,
}

impl Pass<'_> {
    /// An object as the fields of a message inside of `depth` values.
    fn message(&mut self, message: &Message, depth: u32) -> Result<()> {
        self.json.open(b'{', "an object")?;
        let mut is_first = true;
        while let Some(key) = self.json.next_key(is_first)? {
            is_first = false;
            match message.named(&key) {
                None => self.json.skip()?,
                Some(field) if self.json.peek() == Some(b'n') => self.absent(field)?,
                Some(field) => match (field.label, field.kind) {
                    (Label::Repeated, _) => self.list(field, depth)?,
                    (_, Kind::Message(inner)) => self.nested(field, inner, depth)?,
                    (_, Kind::Id(n_bytes)) => self.id(field, n_bytes)?,
                    _ => self.scalar(field, Form::Field)?,
                },
            }
        }
        Ok(())
    }

    fn absent(&mut self, field: &'static Field) -> Result<()> {
        let offset = self.json.offset();
        match self.json.scalar()? {
            Scalar::Null => Ok(()),
            _ => Err(unfit(field, offset)),
        }
    }

    fn list(&mut self, field: &'static Field, depth: u32) -> Result<()> {
        if self.json.peek() != Some(b'[') {
            return Err(unfit(field, self.json.offset()));
        }
        self.json.open(b'[', "a list")?;
        let is_packed = !matches!(field.kind, Kind::Message(_) | Kind::String);
        let mut is_first = true;
        while self.json.next_element(is_first)? {
            match field.kind {
                Kind::Message(inner) => self.nested(field, inner, depth)?,
                Kind::String => self.scalar(field, Form::Field)?,
                _ => {
                    if is_first {
                        self.out.open(field.number);
                    }
                    self.scalar(field, Form::Packed)?;
                }
            }
            is_first = false;
        }
        if is_packed && !is_first {
            self.out.close();
        }
        Ok(())
    }

    fn nested(&mut self, field: &'static Field, inner: &Message, depth: u32) -> Result<()> {
        let offset = self.json.offset();
        if self.json.peek() != Some(b'{') {
            return Err(unfit(field, offset));
        }
        let is_value = std::ptr::eq(inner, &raw const schema::ANY_VALUE);
        let depth = depth.saturating_add(u32::from(is_value));
        if depth > self.depth_max {
            let offset = offset_u32(offset);
            return Err(Error::Depth {
                offset,
                depth_max: self.depth_max,
            });
        }
        self.out.open(field.number);
        self.message(inner, depth)?;
        self.out.close();
        Ok(())
    }

    /// An id, or bytes that cannot be taken for one, or nothing.
    fn id(&mut self, field: &Field, n_bytes: usize) -> Result<()> {
        if matches!(self.json.peek(), Some(b'{' | b'[')) {
            return self.json.skip();
        }
        let offset = self.json.offset();
        if let Scalar::String(text) = self.json.scalar()? {
            if is_base64_id(text.as_bytes(), n_bytes) {
                return Err(unfit(field, offset));
            }
            if let Some(id) = hex_bytes(text.as_bytes())
                && !id.is_empty()
            {
                self.out.bytes(field.number, &id);
            }
        }
        Ok(())
    }

    fn scalar(&mut self, field: &'static Field, form: Form) -> Result<()> {
        let offset = self.json.offset();
        if matches!(self.json.peek(), Some(b'{' | b'[')) {
            return Err(unfit(field, offset));
        }
        let value = self.json.scalar()?;
        let is_kept = |is_zero: bool| !(is_zero && field.label == Label::Plain);
        let unfit = || unfit(field, offset);
        match field.kind {
            Kind::String => {
                let Scalar::String(text) = value else {
                    return Err(unfit());
                };
                if is_kept(text.is_empty()) {
                    self.out.bytes(field.number, text.as_bytes());
                }
            }
            Kind::Bytes => {
                let Scalar::String(text) = value else {
                    return Err(unfit());
                };
                let bytes = base64::decode(text.as_bytes()).ok_or_else(unfit)?;
                self.out.bytes(field.number, &bytes);
            }
            kind => {
                let bits = number_bits(kind, &value).ok_or_else(unfit)?;
                if form == Form::Packed || is_kept(bits == 0) {
                    self.number(field, bits, form);
                }
            }
        }
        Ok(())
    }

    fn number(&mut self, field: &Field, bits: u64, form: Form) {
        match (field.kind.wire_type(), form) {
            (1, Form::Field) => self.out.fixed64(field.number, bits),
            (1, Form::Packed) => self.out.raw_fixed64(bits),
            (5, _) => self.out.fixed32(field.number, crate::wire::low_half(bits)),
            (_, Form::Field) => self.out.varint(field.number, bits),
            (_, Form::Packed) => self.out.raw_varint(bits),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// With its key.
    Field,
    /// One of a packed list.
    Packed,
}

#[cold]
fn unfit(field: &Field, offset: usize) -> Error {
    Error::JsonValue {
        offset: offset_u32(offset),
        field: field.name,
    }
}

/// The number's bits as they go on the wire; `None` if the type cannot have the value.
fn number_bits(kind: Kind, value: &Scalar<'_>) -> Option<u64> {
    match kind {
        Kind::Bool => match value {
            Scalar::Bool(value) => Some(u64::from(*value)),
            _ => None,
        },
        Kind::Double => double(value).map(f64::to_bits),
        Kind::Uint64 | Kind::Fixed64 => unsigned(value),
        Kind::Uint32 | Kind::Fixed32 => u32::try_from(unsigned(value)?).ok().map(u64::from),
        Kind::Int64 | Kind::Sfixed64 => signed(value).map(i64::cast_unsigned),
        Kind::Int32 => int32(value).map(|number| i64::from(number).cast_unsigned()),
        Kind::Sint32 => {
            let number = int32(value)?;
            Some(u64::from(((number << 1) ^ (number >> 31)).cast_unsigned()))
        }
        Kind::Enum(names) => {
            let number = match value {
                Scalar::String(text) => names.number(text).or_else(|| int32(value))?,
                _ => int32(value)?,
            };
            Some(i64::from(number).cast_unsigned())
        }
        Kind::String | Kind::Bytes | Kind::Id(_) | Kind::Message(_) => None,
    }
}

fn int32(value: &Scalar<'_>) -> Option<i32> {
    i32::try_from(signed(value)?).ok()
}

fn signed(value: &Scalar<'_>) -> Option<i64> {
    let text = numeric(value)?;
    text.parse().ok().or_else(|| whole(text.parse().ok()?))
}

fn unsigned(value: &Scalar<'_>) -> Option<u64> {
    let text = numeric(value)?;
    let from_double = || {
        let double: f64 = text.parse().ok()?;
        // Past the range of i64, halving is exact: doubles there are even.
        let half = || u64::try_from(whole(double / 2.0)?).ok()?.checked_mul(2);
        whole(double).map_or_else(half, |number| u64::try_from(number).ok())
    };
    text.parse().ok().or_else(from_double)
}

fn double(value: &Scalar<'_>) -> Option<f64> {
    if let Scalar::String(text) = value {
        match text.as_ref() {
            "NaN" => return Some(f64::NAN),
            "Infinity" => return Some(f64::INFINITY),
            "-Infinity" => return Some(f64::NEG_INFINITY),
            _ => {}
        }
    }
    let number: f64 = numeric(value)?.parse().ok()?;
    number.is_finite().then_some(number)
}

/// Text of a number, given as such or as a string.
fn numeric<'s>(value: &'s Scalar<'_>) -> Option<&'s str> {
    match value {
        Scalar::Number(text) => Some(text),
        Scalar::String(text) => {
            // Rust reads more than JSON calls a number: `+1`, `inf`, `.5`.
            let mut reader = Reader::new(text.as_bytes()).ok()?;
            let is_bare = text.trim().len() == text.len();
            let is_number = matches!(reader.scalar(), Ok(Scalar::Number(_)));
            (is_bare && is_number && reader.end().is_ok()).then_some(text.as_ref())
        }
        Scalar::Null | Scalar::Bool(_) => None,
    }
}

/// Is it padded base64 of an id of `n_bytes`? Then whoever wrote the request writes all its ids so, as protobuf's own JSON
/// has them and OTLP's has not.
fn is_base64_id(text: &[u8], n_bytes: usize) -> bool {
    text.ends_with(b"=") && base64::decode(text).is_some_and(|id| id.len() == n_bytes)
}

fn hex_bytes(text: &[u8]) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs
        .iter()
        .map(|[high, low]| hex_byte(*high, *low))
        .collect()
}

impl Message {
    /// The field with this JSON name, in lowerCamelCase or `snake_case`.
    fn named(&self, key: &str) -> Option<&'static Field> {
        self.fields
            .iter()
            .find(|field| field.name == key || is_snake_case_of(key, field.name))
    }
}

/// Is `key` the `snake_case` form of `name`, which is in lowerCamelCase?
fn is_snake_case_of(key: &str, name: &str) -> bool {
    let mut rest = key.bytes();
    for c in name.bytes() {
        let is_same = if c.is_ascii_uppercase() {
            rest.next() == Some(b'_') && rest.next() == Some(c.to_ascii_lowercase())
        } else {
            rest.next() == Some(c)
        };
        if !is_same {
            return false;
        }
    }
    rest.next().is_none()
}

impl Names {
    /// The number of a name, with or without prefix, in any case.
    fn number(&self, text: &str) -> Option<i32> {
        let head = text
            .get(..self.prefix.len())
            .filter(|h| h.eq_ignore_ascii_case(self.prefix));
        let name = head.map_or(Some(text), |head| text.get(head.len()..))?;
        let number = self
            .names
            .iter()
            .position(|known| known.eq_ignore_ascii_case(name))?;
        i32::try_from(number).ok()
    }
}

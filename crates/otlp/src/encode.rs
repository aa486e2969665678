//! Writes protobuf without knowing beforehand how long nested messages become.
//!
//! Bytes are appended once; the lengths of nested messages are kept beside them and put in between
//! in one last copy. Writing a message is linear in its size at any nesting.

/// A message under construction.
#[derive(Debug, Default)]
pub struct Writer {
    /// Everything but the lengths of nested messages.
    bytes: Vec<u8>,
    /// Where lengths belong, ascending.
    lengths: Vec<Length>,
    open: Vec<Open>,
    /// What the lengths of closed messages take once they are written.
    n_length_bytes: usize,
}

#[derive(Clone, Copy, Debug)]
struct Length {
    position: usize,
    n_bytes: usize,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    length_idx: usize,
    n_length_bytes_before: usize,
}

impl Writer {
    /// Begins a nested message, or a packed field.
    pub fn open(&mut self, field: u32) {
        self.key(field, 2);
        let length_idx = self.lengths.len();
        self.open.push(Open {
            length_idx,
            n_length_bytes_before: self.n_length_bytes,
        });
        self.lengths.push(Length {
            position: self.bytes.len(),
            n_bytes: 0,
        });
    }

    /// Ends the message that was opened last.
    pub fn close(&mut self) {
        let Some(open) = self.open.pop() else {
            debug_assert!(false, "closed more often than opened");
            return;
        };
        if let Some(length) = self.lengths.get_mut(open.length_idx) {
            let within = self
                .n_length_bytes
                .saturating_sub(open.n_length_bytes_before);
            length.n_bytes = self
                .bytes
                .len()
                .saturating_sub(length.position)
                .saturating_add(within);
            let of_length = varint(length.n_bytes).1;
            self.n_length_bytes = self.n_length_bytes.saturating_add(of_length);
        }
    }

    /// Bytes that [`Self::finish`] gives if everything is closed now.
    pub(crate) const fn len(&self) -> usize {
        self.bytes.len().saturating_add(self.n_length_bytes)
    }

    /// The message.
    pub fn finish(mut self) -> Vec<u8> {
        while !self.open.is_empty() {
            self.close();
        }
        if self.lengths.is_empty() {
            return self.bytes;
        }
        let mut out = Vec::with_capacity(self.len());
        let mut copied = 0;
        for length in &self.lengths {
            out.extend_from_slice(self.bytes.get(copied..length.position).unwrap_or_default());
            copied = length.position;
            push_varint(length.n_bytes, &mut out);
        }
        out.extend_from_slice(self.bytes.get(copied..).unwrap_or_default());
        out
    }

    /// A string, bytes, or an encoded message.
    pub fn bytes(&mut self, field: u32, content: &[u8]) {
        self.key(field, 2);
        push_varint(content.len(), &mut self.bytes);
        self.bytes.extend_from_slice(content);
    }

    /// Fields that are encoded.
    pub(crate) fn raw(&mut self, fields: &[u8]) {
        self.bytes.extend_from_slice(fields);
    }

    /// An integer, boolean or enum.
    pub fn varint(&mut self, field: u32, value: u64) {
        self.key(field, 0);
        self.raw_varint(value);
    }

    /// Eight bytes.
    pub fn fixed64(&mut self, field: u32, value: u64) {
        self.key(field, 1);
        self.raw_fixed64(value);
    }

    /// Four bytes.
    pub fn fixed32(&mut self, field: u32, value: u32) {
        self.key(field, 5);
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// One number of a packed field.
    pub fn raw_varint(&mut self, value: u64) {
        let (digits, n_bytes) = varint_u64(value);
        self.bytes.extend(digits.iter().take(n_bytes));
    }

    /// One number of a packed field.
    pub fn raw_fixed64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    fn key(&mut self, field: u32, wire_type: u8) {
        self.raw_varint(u64::from(field).wrapping_shl(3) | u64::from(wire_type));
    }
}

fn push_varint(value: usize, out: &mut Vec<u8>) {
    let (digits, n_bytes) = varint(value);
    out.extend(digits.iter().take(n_bytes));
}

fn varint(value: usize) -> ([u8; 10], usize) {
    varint_u64(u64::try_from(value).unwrap_or(u64::MAX))
}

/// The varint and how many bytes of it are used.
fn varint_u64(value: u64) -> ([u8; 10], usize) {
    let mut digits = [0; 10];
    let mut rest = value;
    let mut n_bytes = 0_usize;
    for digit in &mut digits {
        let [low, ..] = rest.to_le_bytes();
        n_bytes = n_bytes.saturating_add(1);
        rest >>= 7;
        if rest == 0 {
            *digit = low & 0x7f;
            break;
        }
        *digit = low | 0x80;
    }
    (digits, n_bytes)
}

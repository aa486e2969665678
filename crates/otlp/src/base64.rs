//! Base64 as protobuf's JSON uses it: written with the standard alphabet and padding, read with
//! either alphabet, padding optional.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Appends `bytes` to `out`.
pub fn encode(bytes: &[u8], out: &mut String) {
    let mut push = |bits: u32, shift: u32| {
        let digit = usize::try_from((bits >> shift) & 0x3f)
            .ok()
            .and_then(|i| ALPHABET.get(i));
        out.extend(digit.map(|digit| char::from(*digit)));
    };
    let (triples, rest) = bytes.as_chunks::<3>();
    for &[a, b, c] in triples {
        let bits = u32::from_be_bytes([0, a, b, c]);
        for shift in [18, 12, 6, 0] {
            push(bits, shift);
        }
    }
    match *rest {
        [a] => {
            let bits = u32::from_be_bytes([0, a, 0, 0]);
            push(bits, 18);
            push(bits, 12);
            out.push_str("==");
        }
        [a, b] => {
            let bits = u32::from_be_bytes([0, a, b, 0]);
            push(bits, 18);
            push(bits, 12);
            push(bits, 6);
            out.push('=');
        }
        _ => {}
    }
}

/// The bytes that `text` stands for; `None` if it is not base64.
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let digits = match text {
        [digits @ .., b'=', b'='] | [digits @ .., b'='] if text.len().is_multiple_of(4) => digits,
        digits => digits,
    };
    let mut out = Vec::with_capacity(digits.len());
    let mut chunks = digits.chunks(4);
    for chunk in &mut chunks {
        let mut bits = 0_u32;
        for i in 0..4 {
            let digit = chunk.get(i).map_or(Some(0), |c| digit(*c))?;
            bits = (bits << 6) | digit;
        }
        let [_, decoded @ ..] = bits.to_be_bytes();
        let n_bytes = match chunk.len() {
            4 => 3,
            3 => 2,
            2 => 1,
            _ => return None,
        };
        out.extend_from_slice(decoded.get(..n_bytes)?);
    }
    Some(out)
}

fn digit(c: u8) -> Option<u32> {
    let first = |base: u8, value: u8| u32::from(c.wrapping_sub(base).wrapping_add(value));
    match c {
        b'A'..=b'Z' => Some(first(b'A', 0)),
        b'a'..=b'z' => Some(first(b'a', 26)),
        b'0'..=b'9' => Some(first(b'0', 52)),
        b'+' | b'-' => Some(62),
        b'/' | b'_' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_comes_back_with_and_without_padding() {
        let bytes: Vec<u8> = (0..=255).collect();
        for n_bytes in 0..bytes.len() {
            let mut text = String::new();
            encode(&bytes[..n_bytes], &mut text);
            assert_eq!(
                decode(text.as_bytes()).as_deref(),
                Some(&bytes[..n_bytes]),
                "{text}"
            );
            let url = text
                .trim_end_matches('=')
                .replace('+', "-")
                .replace('/', "_");
            assert_eq!(
                decode(url.as_bytes()).as_deref(),
                Some(&bytes[..n_bytes]),
                "{url}"
            );
        }
    }

    #[test]
    fn text_that_is_not_base64_is_refused() {
        for text in ["A", "AAAAA", "AA=A", "====", "=", "AA AA", "\u{e9}AA"] {
            assert_eq!(decode(text.as_bytes()), None, "{text}");
        }
    }
}

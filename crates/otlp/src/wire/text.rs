//! Is it UTF-8? Most strings of telemetry are short and plain, and each is asked about once.

/// Strings up to here are checked by the standard library, which is the faster for them.
const SHORT_BYTES_MAX: usize = 64;

/// `bytes` as text, if they are UTF-8.
#[inline]
pub(crate) fn text(bytes: &[u8]) -> Option<&str> {
    if bytes.len() <= SHORT_BYTES_MAX {
        std::str::from_utf8(bytes).ok()
    } else {
        simdutf8::basic::from_utf8(bytes).ok()
    }
}

/// Are `bytes` UTF-8?
#[inline(always)]
pub(crate) fn is_text(bytes: &[u8]) -> bool {
    if bytes.len() <= SHORT_BYTES_MAX {
        is_short_text(bytes)
    } else {
        is_long_text(bytes)
    }
}

#[inline(always)]
fn is_short_text(bytes: &[u8]) -> bool {
    let (words, tail) = bytes.as_chunks::<8>();
    let mut seen = words
        .iter()
        .fold(0, |seen, word| seen | u64::from_le_bytes(*word));
    // The last eight bytes overlap the words before them: cheaper than a loop over the tail.
    match bytes.last_chunk::<8>() {
        Some(last) => seen |= u64::from_le_bytes(*last),
        None => seen |= u64::from(tail.iter().fold(0, |seen, byte| seen | byte)),
    }
    seen & 0x8080_8080_8080_8080 == 0 || is_long_text(bytes)
}

#[inline(never)]
fn is_long_text(bytes: &[u8]) -> bool {
    simdutf8::basic::from_utf8(bytes).is_ok()
}

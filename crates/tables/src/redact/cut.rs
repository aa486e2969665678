//! Shortening text at a character boundary.

/// The text if it has at most `bytes_max` bytes; else its beginning and a mark that says how long
/// it was, together at most `bytes_max` bytes, written to `scratch`. The flag says whether it was
/// cut. Below the length of the mark there is no mark.
pub(crate) fn cut<'a>(text: &'a str, bytes_max: usize, scratch: &'a mut String) -> (&'a str, bool) {
    if text.len() <= bytes_max {
        return (text, false);
    }
    scratch.clear();
    scratch.push_str(&format!("...[cut from {} bytes]", text.len()));
    if scratch.len() > bytes_max {
        scratch.clear();
    }
    let kept = text.floor_char_boundary(bytes_max - scratch.len());
    scratch.insert_str(0, text.get(..kept).unwrap_or_default());
    (scratch.as_str(), true)
}

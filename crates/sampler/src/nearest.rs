//! The known word nearest to a mistyped one.

/// Of `known`, the word with the smallest edit distance to `found`, if it is near enough to be
/// meant: at most a third of its letters (and at least two) differ.
pub(crate) fn nearest<'a>(
    found: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    known
        .into_iter()
        .map(|word| (distance(found, word), word))
        .filter(|(distance, word)| *distance <= (word.len() / 3).max(2))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

/// Levenshtein distance in bytes; the words here are short ASCII keys.
fn distance(left: &str, right: &str) -> usize {
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (line, left_byte) in left.bytes().enumerate() {
        let mut diagonal = line;
        row[0] = line + 1;
        for (column, right_byte) in right.bytes().enumerate() {
            let replaced = diagonal + usize::from(left_byte != right_byte);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_typo_finds_its_word_and_an_unrelated_word_finds_nothing() {
        let known = ["latency", "numeric_attribute", "string_attribute"];
        for (found, want) in [
            ("latencey", Some("latency")),
            ("Latency", Some("latency")),
            ("string_atribute", Some("string_attribute")),
            ("kubernetes", None),
            ("", None),
        ] {
            assert_eq!(nearest(found, known), want, "{found}");
        }
    }
}

//! What somebody may have meant who wrote something else.

/// The one of `known` that is nearest to `word`, if it is near enough to be meant.
pub(super) fn nearest(word: &str, known: impl IntoIterator<Item = String>) -> Option<String> {
    let word = word.to_lowercase();
    let ranked = known.into_iter().map(|it| (distance(&word, &it.to_lowercase()), it));
    let (distance, nearest) = ranked.min()?;
    // A third of the letters may be wrong, and of a short word two.
    let bearable = (nearest.chars().count() / 3).max(2);
    // Nothing is left of a word in which every letter is another.
    (distance <= bearable && distance < nearest.chars().count()).then_some(nearest)
}

/// How many letters have to be put in, taken out, changed or swapped with the next.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    // Rows of the table of distances between beginnings: the one before the last, and the last.
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    let mut previous = None;
    for (number, char) in from.chars().enumerate() {
        let mut row = vec![number.saturating_add(1)];
        for (column, wanted) in to.iter().enumerate() {
            let at = |row: &[usize], column: usize| row.get(column).copied().unwrap_or(usize::MAX);
            let changed = at(&last, column).saturating_add(usize::from(char != *wanted));
            let taken_out = at(&last, column.saturating_add(1)).saturating_add(1);
            let put_in = at(&row, column).saturating_add(1);
            let is_swapped = column.checked_sub(1).is_some_and(|left| {
                previous == Some(*wanted) && to.get(left).is_some_and(|left| *left == char)
            });
            let swapped = match is_swapped {
                true => at(&before, column.saturating_sub(1)).saturating_add(1),
                false => usize::MAX,
            };
            row.push(changed.min(taken_out).min(put_in).min(swapped));
        }
        before = std::mem::replace(&mut last, row);
        previous = Some(char);
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_keyboard_are_near_and_other_words_are_not() {
        let known = || ["memory", "listen", "redis", "root_key"].map(str::to_owned);
        for (word, meant) in [
            ("memroy", Some("memory")),
            ("Memory", Some("memory")),
            ("lisen", Some("listen")),
            ("listens", Some("listen")),
            ("rediss", Some("redis")),
            ("rootkey", Some("root_key")),
            ("threads", None),
            ("xy", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known()).as_deref(), meant, "{word}");
        }
    }

    #[test]
    fn a_swap_is_one_slip() {
        for (from, to, expected) in
            [("ab", "ba", 1), ("abc", "abc", 0), ("", "abc", 3), ("abc", "", 3), ("ca", "abc", 3)]
        {
            assert_eq!(distance(from, to), expected, "{from} {to}");
        }
    }
}

//! Times and texts as people read them.

pub(crate) use tidegate_trial::visible;

/// A time to wait, rounded up: whoever comes back then is not too early.
pub(super) fn in_words(ms: u64) -> String {
    let (unit_ms, unit) = match ms {
        0..1_000 => (1, "ms"),
        1_000..120_000 => (1_000, "s"),
        120_000..7_200_000 => (60_000, "min"),
        7_200_000..172_800_000 => (3_600_000, "h"),
        _ => (86_400_000, "days"),
    };
    format!("{} {unit}", ms.div_ceil(unit_ms))
}

/// A length of time, exactly, as the command line takes it.
pub(crate) fn exactly(ms: u64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    let whole = units.iter().find(|(unit_ms, _)| ms > 0 && ms.is_multiple_of(*unit_ms));
    let (unit_ms, unit) = whole.copied().unwrap_or((1, "ms"));
    format!("{}{unit}", ms / unit_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_rounded_up() {
        for (ms, words) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_000, "1 s"),
            (1_001, "2 s"),
            (119_999, "120 s"),
            (120_000, "2 min"),
            (120_001, "3 min"),
            (7_200_000, "2 h"),
            (172_800_001, "3 days"),
        ] {
            assert_eq!(in_words(ms), words);
        }
        in_words(u64::MAX);
    }

    #[test]
    fn lengths_are_exact() {
        for (ms, text) in [
            (0, "0ms"),
            (1_500, "1500ms"),
            (60_000, "1m"),
            (90_000, "90s"),
            (3_600_000, "1h"),
            (2_592_000_000, "30d"),
        ] {
            assert_eq!(exactly(ms), text);
        }
    }

    #[test]
    fn a_terminal_obeys_nothing_that_others_wrote() {
        let said = visible("a\u{1b}[2Jb\nc\u{202e}d\u{9b}é\u{200b}").to_string();
        assert_eq!(said, "a\\u{1b}[2Jb\\u{a}c\\u{202e}d\\u{9b}é\\u{200b}");
    }
}

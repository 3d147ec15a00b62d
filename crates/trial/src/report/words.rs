//! Numbers and times as people read them. No floats: what is rounded is rounded once.

use crate::share::share_of;

/// Keeps a number and its unit on one line.
const JOINT: char = '\u{a0}';

const SECOND_MS: u64 = 1_000;
const MINUTE_MS: u64 = 60 * SECOND_MS;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const DAY_MS: u64 = 24 * HOUR_MS;

/// `1234567` is `1,234,567`.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len().saturating_add(digits.len() / 3));
    for (index, digit) in digits.chars().enumerate() {
        let after = digits.len().saturating_sub(index);
        if index > 0 && after.is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count and what is counted: `1 call`, `2 calls`.
pub(super) fn counted(number: u64, one: &str, many: &str) -> String {
    let word = if number == 1 { one } else { many };
    format!("{}{JOINT}{word}", count(number))
}

/// A part of a whole in percent. What is not nothing is never `0 %`, and what is not all is never
/// `100 %`.
pub(super) fn share(part: u64, whole: u64) -> String {
    if part == 0 || whole == 0 {
        return format!("0{JOINT}%");
    }
    if part >= whole {
        return format!("100{JOINT}%");
    }
    match share_of(part, whole, 10_000) {
        0 => format!("under 0.01{JOINT}%"),
        hundredths @ 1..100 => format!("0.{hundredths:02}{JOINT}%"),
        _ => {
            let tenths = share_of(part, whole, 1_000);
            format!("{}.{}{JOINT}%", tenths / 10, tenths % 10)
        }
    }
}

/// Thousandths as percent: `1125` is `112.5 %`.
pub(super) fn permille(number: u64) -> String {
    match number % 10 {
        0 => format!("{}{JOINT}%", count(number / 10)),
        tenth => format!("{}.{tenth}{JOINT}%", count(number / 10)),
    }
}

/// A length that somebody chose: `1 minute`, `90 seconds`.
pub(super) fn length(ms: u64) -> String {
    let units = [(DAY_MS, "day"), (HOUR_MS, "hour"), (MINUTE_MS, "minute"), (SECOND_MS, "second")];
    let whole = units.iter().find(|(unit, _)| ms > 0 && ms.is_multiple_of(*unit));
    let (unit, name) = whole.copied().unwrap_or((1, "millisecond"));
    counted(ms / unit, name, &format!("{name}s"))
}

/// How long something took, to its two largest units: `23 h 59 min`.
pub(super) fn span(ms: u64) -> String {
    let units = [(DAY_MS, "d"), (HOUR_MS, "h"), (MINUTE_MS, "min"), (SECOND_MS, "s")];
    let mut parts = Vec::new();
    let mut rest = ms;
    for (unit, name) in units {
        let number = rest / unit;
        rest %= unit;
        if parts.len() < 2 && (number > 0 || !parts.is_empty()) {
            parts.push((number, name));
        }
    }
    let shown: Vec<String> = parts
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, name)| format!("{number}{JOINT}{name}"))
        .collect();
    if shown.is_empty() { format!("{rest}{JOINT}ms") } else { shown.join(" ") }
}

/// Microseconds: `850 µs`, `1.2 ms`.
pub(super) fn micros(us: u64) -> String {
    match us {
        0..1_000 => format!("{us}{JOINT}µs"),
        1_000..1_000_000 => format!("{}.{}{JOINT}ms", us / 1_000, us % 1_000 / 100),
        _ => format!("{}.{}{JOINT}s", count(us / 1_000_000), us % 1_000_000 / 100_000),
    }
}

/// A moment, always in UTC: `2026-11-16 04:02:28 UTC`.
pub(super) fn moment(unix_ms: u64) -> String {
    format!("{}{JOINT}UTC", clock(unix_ms))
}

/// The same where it has been said that times are in UTC.
pub(super) fn clock(unix_ms: u64) -> String {
    let (year, month, day) = date(unix_ms / DAY_MS);
    let (hour, minute) = (unix_ms / HOUR_MS % 24, unix_ms / MINUTE_MS % 60);
    let second = unix_ms / SECOND_MS % 60;
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// The date of a day since 1970, by counting years that begin in March: the day that some years
/// have more is then their last.
fn date(days: u64) -> (u64, u64, u64) {
    const DAYS_400_YEARS: u64 = 146_097;
    // From the first of March of the year 0 to the first day of 1970.
    let days = days.saturating_add(719_468);
    let (era, of_era) = (days / DAYS_400_YEARS, days % DAYS_400_YEARS);
    let leap = (of_era / 1_460).saturating_sub(of_era / 36_524).saturating_add(of_era / 146_096);
    let years = of_era.saturating_sub(leap) / 365;
    let before = 365 * years + years / 4 - years / 100;
    let of_year = of_era.saturating_sub(before);
    let march = (5 * of_year + 2) / 153;
    let day = of_year.saturating_sub((153 * march + 2) / 5).saturating_add(1);
    let month = if march < 10 { march + 3 } else { march - 9 };
    let year = era.saturating_mul(400).saturating_add(years).saturating_add(u64::from(month <= 2));
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without the joints, which nobody sees.
    fn plain(text: &str) -> String {
        text.replace(JOINT, " ")
    }

    #[test]
    fn counts_have_thousands() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_000), "1,000");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!(plain(&counted(1, "call", "calls")), "1 call");
    }

    #[test]
    fn a_share_never_says_nothing_or_all_when_it_is_not() {
        let of = |part, whole| plain(&share(part, whole));
        assert_eq!(of(0, 10), "0 %");
        assert_eq!(of(0, 0), "0 %");
        assert_eq!(of(10, 10), "100 %");
        assert_eq!(of(1, 1_000_000), "under 0.01 %");
        assert_eq!(of(1, 1_000), "0.10 %");
        assert_eq!(of(12, 1_000), "1.2 %");
        assert_eq!(of(1, 3), "33.3 %");
        assert_eq!(of(2, 3), "66.7 %");
        assert_eq!(of(24_645, 100_000), "24.6 %");
        assert_eq!(of(999_999, 1_000_000), "99.9 %");
        assert_eq!(of(u64::MAX - 1, u64::MAX), "99.9 %");
    }

    #[test]
    fn thousandths_and_lengths_are_exact() {
        assert_eq!(plain(&permille(1_125)), "112.5 %");
        assert_eq!(plain(&permille(1_000)), "100 %");
        assert_eq!(plain(&length(60_000)), "1 minute");
        assert_eq!(plain(&length(90_000)), "90 seconds");
        assert_eq!(plain(&length(1_500)), "1,500 milliseconds");
        assert_eq!(plain(&length(172_800_000)), "2 days");
    }

    #[test]
    fn spans_have_two_units() {
        assert_eq!(plain(&span(86_399_000)), "23 h 59 min");
        assert_eq!(plain(&span(86_400_000)), "1 d");
        assert_eq!(plain(&span(90_061_000)), "1 d 1 h");
        assert_eq!(plain(&span(61_000)), "1 min 1 s");
        assert_eq!(plain(&span(12)), "12 ms");
        assert_eq!(plain(&micros(850)), "850 µs");
        assert_eq!(plain(&micros(20_250)), "20.2 ms");
        assert_eq!(plain(&micros(1_500_000)), "1.5 s");
    }

    #[test]
    fn moments_are_those_of_the_calendar() {
        assert_eq!(plain(&moment(0)), "1970-01-01 00:00:00 UTC");
        assert_eq!(plain(&moment(951_782_399_000)), "2000-02-28 23:59:59 UTC");
        assert_eq!(plain(&moment(951_782_400_000)), "2000-02-29 00:00:00 UTC");
        assert_eq!(plain(&moment(1_709_251_199_999)), "2024-02-29 23:59:59 UTC");
        assert_eq!(plain(&moment(4_107_542_400_000)), "2100-03-01 00:00:00 UTC");
    }
}

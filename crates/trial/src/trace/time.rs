//! Times as logs write them, to milliseconds since the Unix epoch.

/// Digits of fractions that count: milliseconds.
const FRACTION_DIGITS: usize = 3;
/// The latest time that is one: the end of the year 9999.
const UNIX_MS_MAX: i64 = 253_402_300_799_999;
/// The earliest time that a number is taken for: the year 2000. What is less is a duration.
const GUESSED_UNIX_MS_MIN: u64 = 946_684_800_000;
/// From here on a number is no longer seconds: a log of the year 5138 has to say it otherwise.
const SECONDS_MAX: f64 = 1e11;
/// From here on it is no longer milliseconds.
const MILLIS_MAX: f64 = 1e14;
/// From here on it is no longer microseconds, but nanoseconds.
const MICROS_MAX: f64 = 1e17;

/// What is accepted, for errors.
pub(super) const EXPECTED: &str = "\
    RFC 3339 (2026-10-10T13:55:36Z), 10/Oct/2026:13:55:36 +0000, or a number since 1970 in \
    seconds, milliseconds, microseconds or nanoseconds";

/// A time in any of the ways that are known.
pub(super) fn parse(text: &str) -> Option<u64> {
    let text = text.trim().trim_start_matches('[').trim_end_matches(']');
    let bytes = text.as_bytes();
    match (bytes.get(2), bytes.get(4)) {
        (Some(b'/'), _) => common(text),
        (_, Some(b'-')) => iso(text),
        _ => epoch(text),
    }
}

/// A time that nobody named as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guess {
    /// It is written as a time.
    Text(u64),
    /// It is a number that could be one.
    Number(u64),
}

/// A time where one may be: what is called `time` is often how long it took.
pub(super) fn guess(text: &str) -> Option<Guess> {
    let at_unix_ms = parse(text)?;
    if text.contains(':') {
        return Some(Guess::Text(at_unix_ms));
    }
    (at_unix_ms >= GUESSED_UNIX_MS_MIN).then_some(Guess::Number(at_unix_ms))
}

/// `10/Oct/2026:13:55:36 +0000`, as web servers write it.
pub(super) fn common(text: &str) -> Option<u64> {
    let mut rest = Rest(text);
    let day = rest.number(2)?;
    rest.one_of("/")?;
    let (name, after) = rest.0.split_at_checked(3)?;
    let month = MONTHS.iter().position(|month| month.eq_ignore_ascii_case(name))?;
    rest = Rest(after);
    rest.one_of("/")?;
    let year = rest.number(4)?;
    rest.one_of(":")?;
    let date = days(year, i64::try_from(month).ok()?.checked_add(1)?, day)?;
    rest.clock(date)
}

/// RFC 3339, also with a space for the `T`, and without a zone: UTC then.
fn iso(text: &str) -> Option<u64> {
    let mut rest = Rest(text);
    let year = rest.number(4)?;
    rest.one_of("-")?;
    let month = rest.number(2)?;
    rest.one_of("-")?;
    let day = rest.number(2)?;
    rest.one_of("Tt ")?;
    rest.clock(days(year, month, day)?)
}

/// A number since 1970. Its size says its unit.
fn epoch(text: &str) -> Option<u64> {
    if !text.starts_with(|char: char| char.is_ascii_digit()) {
        return None;
    }
    let size: f64 = text.parse().ok()?;
    // Whole numbers stay exact: a double has no room for nanoseconds.
    let whole: Option<u64> = text.parse().ok();
    let unix_ms = match size {
        _ if size < SECONDS_MAX => match whole {
            Some(seconds) => seconds.checked_mul(1_000)?,
            None => rounded(size * 1_000.0)?,
        },
        _ if size < MILLIS_MAX => whole.or_else(|| rounded(size))?,
        _ if size < MICROS_MAX => {
            whole.map_or_else(|| rounded(size / 1e3), |it| Some(it / 1_000))?
        }
        _ => whole.map_or_else(|| rounded(size / 1e6), |it| Some(it / 1_000_000))?,
    };
    i64::try_from(unix_ms).ok().filter(|ms| *ms <= UNIX_MS_MAX).map(|_| unix_ms)
}

/// A number of milliseconds that was a fraction of seconds.
fn rounded(ms: f64) -> Option<u64> {
    let ms = ms.round();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "within the bounds that are checked here"
    )]
    (0.0..MILLIS_MAX).contains(&ms).then_some(ms as u64)
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Days since 1970 of a date that there is.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let longest = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=longest).contains(&day) {
        return None;
    }
    // Years that begin in March, so that the odd day is the last one.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

/// What is left to read.
struct Rest<'a>(&'a str);

impl Rest<'_> {
    fn number(&mut self, digits: usize) -> Option<i64> {
        let (number, rest) = self.0.split_at_checked(digits)?;
        self.0 = rest;
        number.bytes().try_fold(0_i64, |sum, byte| {
            byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0'))
        })
    }

    fn one_of(&mut self, chars: &str) -> Option<char> {
        let found = self.0.chars().next().filter(|char| chars.contains(*char))?;
        self.0 = self.0.get(found.len_utf8()..)?;
        Some(found)
    }

    /// `13:55:36`, maybe a fraction, maybe a zone; on that day.
    fn clock(mut self, days: i64) -> Option<u64> {
        let hour = self.number(2)?;
        self.one_of(":")?;
        let minute = self.number(2)?;
        self.one_of(":")?;
        // A leap second counts as the one after it.
        let second = self.number(2)?;
        if hour > 23 || minute > 59 || second > 60 {
            return None;
        }
        let mut ms = 0;
        if self.one_of(".,").is_some() {
            let end = self.0.find(|char: char| !char.is_ascii_digit()).unwrap_or(self.0.len());
            let digits = self.0.get(..end).filter(|digits| !digits.is_empty())?;
            self.0 = self.0.get(end..)?;
            let digit = |at| digits.as_bytes().get(at).map_or(0, |byte| i64::from(byte - b'0'));
            ms = (0..FRACTION_DIGITS).fold(0, |sum, at| sum * 10 + digit(at));
        }
        let _ = self.one_of(" ");
        let offset = self.zone()?;
        let seconds = days * 86_400 + hour * 3_600 + minute * 60 + second - offset;
        let unix_ms = seconds * 1_000 + ms;
        u64::try_from(unix_ms).ok().filter(|_| unix_ms <= UNIX_MS_MAX)
    }

    /// Seconds east of Greenwich.
    fn zone(&mut self) -> Option<i64> {
        if self.0.is_empty() || self.one_of("Zz").is_some() {
            return self.0.is_empty().then_some(0);
        }
        let sign = if self.one_of("+-")? == '-' { -1 } else { 1 };
        let hours = self.number(2)?;
        let _ = self.one_of(":");
        let minutes = if self.0.is_empty() { 0 } else { self.number(2)? };
        let plausible = hours < 24 && minutes < 60 && self.0.is_empty();
        plausible.then_some(sign * (hours * 3_600 + minutes * 60))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_write_a_time_is_read() {
        for (text, unix_ms) in [
            ("10/Oct/2000:13:55:36 -0700", 971_211_336_000),
            ("29/Feb/2024:00:00:00 +0000", 1_709_164_800_000),
            ("2024-02-29T00:00:00Z", 1_709_164_800_000),
            ("2024-02-29t01:30:00.5+01:30", 1_709_164_800_500),
            ("2024-02-29 00:00:00,123456", 1_709_164_800_123),
            ("2024-02-28T19:00:00-05", 1_709_164_800_000),
            ("[2024-02-29T00:00:00Z]", 1_709_164_800_000),
            ("1709164800", 1_709_164_800_000),
            ("1709164800.25", 1_709_164_800_250),
            ("1709164800250", 1_709_164_800_250),
            ("1709164800250999", 1_709_164_800_250),
            ("1709164800250999888", 1_709_164_800_250),
            ("1.7091648e9", 1_709_164_800_000),
            ("0", 0),
        ] {
            assert_eq!(parse(text), Some(unix_ms), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in [
            "",
            "-",
            "now",
            "2024-13-01T00:00:00Z",
            "2023-02-29T00:00:00Z",
            "10/Okt/2000:13:55:36",
            "2024-02-29T24:00:00Z",
            "2024-02-29T00:00:00+99:00",
            "2024-02-29",
            "-5",
            "1e300",
            "2024-02-29T00:00:00Zjunk",
            "1900-01-01T00:00:00Z",
            "10/Oct/é000:13:55:36 -0700",
            "NaN",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}

//! Times of day, in the zone that is the same everywhere.

use std::fmt;

/// A time to the second, such as `2026-02-28T23:59:59Z`, from milliseconds since the Unix epoch.
pub(crate) struct Utc(pub(crate) u64);

/// The same to the millisecond, as RFC 3339 has it.
pub(crate) struct UtcMillis(pub(crate) u64);

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        second(self.0, f)?;
        f.write_str("Z")
    }
}

impl fmt::Display for UtcMillis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        second(self.0, f)?;
        write!(f, ".{:03}Z", self.0 % 1_000)
    }
}

fn second(ms: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (days, seconds) = (ms / 86_400_000, ms / 1_000 % 86_400);
    // Years that begin in March, so that the odd day is the last one; 400 of them are 146,097
    // days. The first one began 719,468 days before 1970.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = era * 400 + year + next;
    let (hour, minute) = (seconds / 3_600, seconds / 60 % 60);
    write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}", seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (ms, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399_999, "2000-02-28T23:59:59Z"),
            (951_782_400_000, "2000-02-29T00:00:00Z"),
            (951_868_800_000, "2000-03-01T00:00:00Z"),
            (1_709_164_800_000, "2024-02-29T00:00:00Z"),
            (1_767_225_599_000, "2025-12-31T23:59:59Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(Utc(ms).to_string(), expected);
        }
        assert!(Utc(u64::MAX).to_string().ends_with('Z'), "the largest is a time too");
        assert_eq!(UtcMillis(951_782_399_042).to_string(), "2000-02-28T23:59:59.042Z");
    }
}

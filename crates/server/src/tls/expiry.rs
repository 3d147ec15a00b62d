//! When a certificate ends, read from its bytes.
//!
//! A certificate begins with nested values of a tag, a length and a content (DER). The time is the
//! second of the two in the `validity`, which is the fifth value of the inner certificate, or the
//! fourth in a certificate so old that it has no version.
//! Refuses: whatever is not as expected, by saying nothing. It is for a metric, and who is served
//! is not decided by it.

/// Tags of a sequence, of the version, and of the two ways to write a time.
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// When it ends, in seconds since 1970.
pub(super) fn not_after_unix_s(certificate: &[u8]) -> Option<u64> {
    let (outer, _) = expect(SEQUENCE, certificate)?;
    let (mut inner, _) = expect(SEQUENCE, outer)?;
    if let (VERSION, _, rest) = value(inner)? {
        inner = rest;
    }
    // The serial number, the algorithm of the signature, and who signed.
    for _ in 0..3 {
        (_, _, inner) = value(inner)?;
    }
    let (validity, _) = expect(SEQUENCE, inner)?;
    let (_, _, not_after) = value(validity)?;
    let (tag, text, _) = value(not_after)?;
    time(tag, std::str::from_utf8(text).ok()?)
}

/// The tag and the content of the first value, and what follows it.
fn value(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = bytes.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (len, rest) = match first {
        0..=0x7f => (usize::from(*first), rest),
        // So many bytes of length follow; with more than four it would be no certificate.
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            let digit = |len: usize, byte: &u8| len << 8 | usize::from(*byte);
            (digits.iter().fold(0, digit), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(len)?;
    Some((*tag, content, rest))
}

fn expect(tag: u8, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (found, content, rest) = value(bytes)?;
    (found == tag).then_some((content, rest))
}

/// A time such as `261118120000Z` or `20501118120000Z`.
fn time(tag: u8, text: &str) -> Option<u64> {
    let (year, rest) = match tag {
        UTC_TIME => {
            let (year, rest) = number(text, 2)?;
            // By the rule of RFC 5280: there are no certificates of before 1950.
            (if year < 50 { year.checked_add(2_000)? } else { year.checked_add(1_900)? }, rest)
        }
        GENERALIZED_TIME => number(text, 4)?,
        _ => return None,
    };
    let (month, rest) = number(rest, 2)?;
    let (day, rest) = number(rest, 2)?;
    let (hour, rest) = number(rest, 2)?;
    let (minute, rest) = number(rest, 2)?;
    let (second, rest) = number(rest, 2)?;
    let in_range = (1..=12).contains(&month) && (1..=31).contains(&day) && rest == "Z";
    let days = in_range.then(|| days_since_1970(year, month, day)).flatten()?;
    days.checked_mul(86_400)?.checked_add(hour * 3_600 + minute * 60 + second)
}

fn number(text: &str, digits: usize) -> Option<(u64, &str)> {
    let (number, rest) = text.split_at_checked(digits)?;
    let are_digits = number.bytes().all(|byte| byte.is_ascii_digit());
    are_digits.then(|| number.parse().ok()).flatten().map(|number| (number, rest))
}

/// Days of the Gregorian calendar. Years begin in March here, so that the day that some of them
/// have more is the last.
fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    let (year, month) = match month {
        1 | 2 => (year.checked_sub(1)?, month + 9),
        _ => (year, month - 3),
    };
    let leap_days = year / 4 - year / 100 + year / 400;
    // Months from March on have 31, 30, 31, 30, 31 days, twice, and so on.
    let in_year = (153 * month + 2) / 5 + day - 1;
    // The first of March of the year 0 was so many days before 1970.
    (year * 365 + leap_days + in_year).checked_sub(719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_they_are_written() {
        for (tag, text, expected) in [
            (UTC_TIME, "700101000000Z", Some(0)),
            (UTC_TIME, "000229235959Z", Some(951_868_799)),
            (UTC_TIME, "261116004200Z", Some(1_794_789_720)),
            (UTC_TIME, "491231235959Z", Some(2_524_607_999)),
            (GENERALIZED_TIME, "20500101000000Z", Some(2_524_608_000)),
            (GENERALIZED_TIME, "99991231235959Z", Some(253_402_300_799)),
            (UTC_TIME, "261316004200Z", None),
            (UTC_TIME, "26111600420Z", None),
            (UTC_TIME, "261116004200", None),
            (UTC_TIME, "2611160042+0Z", None),
            (UTC_TIME, "", None),
            (SEQUENCE, "261116004200Z", None),
        ] {
            assert_eq!(time(tag, text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_certificate_says_nothing() {
        for bytes in [&b""[..], b"0", &[0x30, 0x82], &[0x30, 0x80, 0, 0], &[0x30, 0x02, 0x30, 0]] {
            assert_eq!(not_after_unix_s(bytes), None, "{bytes:?}");
        }
    }
}

//! Lengths of time, as they are written in a topology: down to microseconds.

/// Units, the longest first, and how many microseconds they have.
const UNITS: [(&str, u64); 6] = [
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("m", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("us", 1),
];

/// Most digits after the point: a millionth of a second has no parts here.
const DECIMALS_MAX: usize = 6;

/// `0.2ms`, `30s`, `5m` in microseconds.
pub(super) fn span_us(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}`: write a length of time such as 0.2ms, 30s, 5m or 1h");
    let end = text.find(|char: char| !char.is_ascii_digit() && char != '.').ok_or_else(wrong)?;
    let (number, unit) = text.split_at_checked(end).ok_or_else(wrong)?;
    let (_, unit_us) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    if part.is_empty() || part.len() > DECIMALS_MAX {
        return Err(wrong());
    }
    let whole: u64 = whole.parse().map_err(|_| wrong())?;
    let places = u32::try_from(part.len()).map_err(|_| wrong())?;
    let part: u64 = part.parse().map_err(|_| wrong())?;
    let parts_us = u128::from(part) * u128::from(*unit_us) / u128::from(10_u64.pow(places));
    let parts_us = u64::try_from(parts_us).map_err(|_| wrong())?;
    whole.checked_mul(*unit_us).and_then(|us| us.checked_add(parts_us)).ok_or_else(wrong)
}

/// `0.2ms..3ms`, or one length for both ends.
pub(super) fn range_us(text: &str) -> Result<(u64, u64), String> {
    let (low, high) = text.split_once("..").unwrap_or((text, text));
    let (low, high) = (span_us(low.trim())?, span_us(high.trim())?);
    match low <= high {
        true => Ok((low, high)),
        false => Err(format!("`{text}`: write the shorter one first")),
    }
}

/// The same the other way: in the longest unit in which it is whole, but for milliseconds.
pub(super) fn told(us: u64) -> String {
    let whole =
        UNITS.iter().find(|(name, unit)| us >= *unit && us.is_multiple_of(*unit) && *name != "us");
    match whole {
        Some((name, unit)) => format!("{} {name}", us / unit),
        None if us == 0 => "0 s".to_owned(),
        None => {
            let part = format!("{:03}", us % 1_000);
            let text = format!("{}.{}", us / 1_000, part.trim_end_matches('0'));
            format!("{} ms", text.trim_end_matches('.'))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_and_told() {
        for (text, us, back) in [
            ("0.2ms", 200, "0.2 ms"),
            ("3ms", 3_000, "3 ms"),
            ("1500ms", 1_500_000, "1500 ms"),
            ("1.5s", 1_500_000, "1500 ms"),
            ("90s", 90_000_000, "90 s"),
            ("5m", 300_000_000, "5 m"),
            ("1h", 3_600_000_000, "1 h"),
            ("2d", 172_800_000_000, "2 d"),
            ("0s", 0, "0 s"),
            ("20us", 20, "0.02 ms"),
        ] {
            assert_eq!(span_us(text), Ok(us), "{text}");
            assert_eq!(told(us), back);
        }
    }

    #[test]
    fn what_is_no_length_says_what_one_looks_like() {
        for text in ["", "5", "s", "1.s", ".5s", "1.2.3s", "-1s", "5 m", "5min", "1.1234567s"] {
            assert!(span_us(text).is_err_and(|why| why.contains("0.2ms")), "{text}");
        }
        assert!(span_us("99999999999999999d").is_err());
        assert_eq!(range_us("1ms..2ms"), Ok((1_000, 2_000)));
        assert_eq!(range_us("1ms .. 2ms"), Ok((1_000, 2_000)));
        assert_eq!(range_us("1ms"), Ok((1_000, 1_000)));
        assert!(range_us("2ms..1ms").is_err() && range_us("1ms..").is_err());
    }
}

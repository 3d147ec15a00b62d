//! Made-up traces as logs, for who wants to see what a log looks like that can be read.

use std::io::{self, Write};

use super::call::Made;
use super::{GenerateOptions, Generator};

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAY_MS: u64 = 86_400_000;

/// How a log is written. [`write_log`] has an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// As nginx and Apache do, to the second, and without regions.
    #[default]
    Combined,
    /// An object on each line, with all fields, to the millisecond.
    Json,
}

/// Writes a made-up trace as a log, and says how many lines it has.
///
/// ```
/// use tidegate_trial::{GenerateOptions, LogFormat, write_log};
///
/// let options = GenerateOptions { requests: 2, ..GenerateOptions::default() };
/// let mut log = Vec::new();
/// assert_eq!(write_log(&options, LogFormat::Combined, &mut log)?, 2);
/// let log = String::from_utf8_lossy(&log);
/// assert!(log.contains("[15/Nov/2023:00:") && log.contains("HTTP/1.1\" 200"), "{log}");
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// When `out` does not take it.
pub fn write_log(
    options: &GenerateOptions,
    format: LogFormat,
    out: &mut dyn Write,
) -> io::Result<u64> {
    let (mut generator, mut lines) = (Generator::new(options), 0);
    while let Some(made) = generator.next() {
        match format {
            LogFormat::Combined => combined(made, out)?,
            LogFormat::Json => json(made, out)?,
        }
        lines += 1;
    }
    out.flush()?;
    Ok(lines)
}

fn combined(made: &Made, out: &mut dyn Write) -> io::Result<()> {
    let get = |name| made.named(name).unwrap_or("-");
    let [year, month, day, hour, minute, second, _] = civil(made.at_unix_ms);
    let named = usize::try_from(month).ok().and_then(|month| MONTHS.get(month.checked_sub(1)?));
    let month = named.copied().unwrap_or("-");
    // Nobody knows how much was sent, but the format has a place for it.
    let bytes = 200 + made.at_unix_ms % 5_000;
    write!(out, "{} - {} ", get("ip"), get("user"))?;
    write!(out, "[{day:02}/{month}/{year}:{hour:02}:{minute:02}:{second:02} +0000] ")?;
    write!(out, "\"{} {} HTTP/1.1\" ", get("method"), get("path"))?;
    writeln!(out, "{} {bytes} \"-\" \"{}\"", get("status"), get("agent"))
}

fn json(made: &Made, out: &mut dyn Write) -> io::Result<()> {
    let [year, month, day, hour, minute, second, ms] = civil(made.at_unix_ms);
    write!(out, "{{\"time\":\"{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
    write!(out, ".{ms:03}Z\"")?;
    for name in super::FIELDS {
        match made.named(name) {
            // A status is a number; and nothing that is made up here has to be escaped.
            Some(value) if name == "status" => write!(out, ",\"{name}\":{value}")?,
            Some(value) => write!(out, ",\"{name}\":\"{value}\"")?,
            None => {}
        }
    }
    writeln!(out, "}}")
}

/// Year, month, day, hour, minute, second and millisecond, in UTC. Years begin in March here, so
/// that the leap day is the last one; the days of four centuries are always as many.
fn civil(unix_ms: u64) -> [u64; 7] {
    let (days, of_day) = (unix_ms / DAY_MS + 719_468, unix_ms % DAY_MS);
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute) = (of_day / 3_600_000, of_day / 60_000 % 60);
    [year, month, day, hour, minute, of_day / 1_000 % 60, of_day % 1_000]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_on_a_calendar() {
        for (unix_ms, expected) in [
            (0, [1970, 1, 1, 0, 0, 0, 0]),
            (951_782_399_042, [2000, 2, 28, 23, 59, 59, 42]),
            (951_782_400_000, [2000, 2, 29, 0, 0, 0, 0]),
            (1_700_006_400_000, [2023, 11, 15, 0, 0, 0, 0]),
            (4_107_542_399_999, [2100, 2, 28, 23, 59, 59, 999]),
            (4_107_542_400_000, [2100, 3, 1, 0, 0, 0, 0]),
        ] {
            assert_eq!(civil(unix_ms), expected);
        }
    }
}

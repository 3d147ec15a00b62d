//! The text that Prometheus reads, version 0.0.4.

use std::fmt::Write;

use super::histogram::Spread;
use super::{Family, Kind, Series, Value};

/// What it is sent as.
pub(crate) const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Writes every metric: what it means, what it is, and its series.
pub(super) fn render(families: &[Family]) -> String {
    let mut text = String::new();
    for family in families {
        // Writing into memory does not fail.
        let _ = family.write(&mut text);
    }
    text
}

impl Family {
    fn write(&self, out: &mut String) -> std::fmt::Result {
        let Self { name, help, .. } = self;
        writeln!(out, "# HELP {name} {help}")?;
        writeln!(out, "# TYPE {name} {}", self.kind.name())?;
        for series in &self.series {
            match &series.value {
                Value::Spread(spread) => series.write_spread(name, spread, out)?,
                value => {
                    series.write_name(out, name, None)?;
                    value.write(out)?;
                }
            }
        }
        Ok(())
    }
}

impl Value {
    fn write(&self, out: &mut String) -> std::fmt::Result {
        match self {
            Self::Whole(value) => writeln!(out, " {value}"),
            Self::Millis(ms) => writeln!(out, " {}.{:03}", ms / 1_000, ms % 1_000),
            Self::Micros(us) => {
                let (sign, us) = (if *us < 0 { "-" } else { "" }, us.unsigned_abs());
                writeln!(out, " {sign}{}.{:06}", us / 1_000_000, us % 1_000_000)
            }
            // It is several lines.
            Self::Spread(_) => Ok(()),
        }
    }
}

impl Series {
    /// The labels are ours, and have nothing in them that would have to be escaped; a test looks.
    fn write_name(&self, out: &mut String, name: &str, le: Option<&str>) -> std::fmt::Result {
        out.push_str(name);
        let own = self.workspace.as_deref().map(|id| ("workspace", id));
        let labels = own.into_iter().chain(self.labels.iter().copied());
        let mut begin = '{';
        for (name, value) in labels.chain(le.map(|le| ("le", le))) {
            write!(out, "{begin}{name}=\"{value}\"")?;
            begin = ',';
        }
        if begin == ',' {
            out.push('}');
        }
        Ok(())
    }

    /// Each bucket holds those below it, too.
    fn write_spread(&self, name: &str, spread: &Spread, out: &mut String) -> std::fmt::Result {
        let (bucket, mut sum) = (format!("{name}_bucket"), 0);
        let above = ("+Inf", spread.above);
        for (bound, count) in spread.buckets.iter().copied().chain([above]) {
            sum += count;
            self.write_name(out, &bucket, Some(bound))?;
            writeln!(out, " {sum}")?;
        }
        self.write_name(out, &format!("{name}_sum"), None)?;
        Value::Micros(i64::try_from(spread.sum_us).unwrap_or(i64::MAX)).write(out)?;
        self.write_name(out, &format!("{name}_count"), None)?;
        writeln!(out, " {sum}")
    }
}

impl Kind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

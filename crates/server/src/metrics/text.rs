//! The text that Prometheus reads, version 0.0.4.

use std::fmt::Write;

use super::{Family, Kind, Labels, Value};

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
            out.push_str(name);
            write_labels(series.labels, out)?;
            match series.value {
                Value::Whole(value) => writeln!(out, " {value}")?,
                Value::Millis(ms) => writeln!(out, " {}.{:03}", ms / 1_000, ms % 1_000)?,
            }
        }
        Ok(())
    }
}

impl Kind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
        }
    }
}

/// They are ours, and have nothing in them that would have to be escaped; a test looks.
fn write_labels(labels: Labels, out: &mut String) -> std::fmt::Result {
    for (index, (name, value)) in labels.iter().enumerate() {
        write!(out, "{}{name}=\"{value}\"", if index == 0 { '{' } else { ',' })?;
    }
    if !labels.is_empty() {
        out.push('}');
    }
    Ok(())
}

//! Lines: an event as one line of JSON, or for people.
//!
//! Promises: one line, whatever is in the fields. What would move a cursor, end a line or hide
//! something is spelled out, in both forms.

use std::fmt::{self, Write};

use super::Form;
use super::event::Event;
use super::text::Value;
use crate::utc::UtcMillis;

/// An event, when it was said, and how many like it were left out before.
#[derive(Clone, Debug)]
pub(super) struct Said {
    pub(super) event: Event,
    pub(super) unix_ms: u64,
    pub(super) suppressed: u64,
}

impl Said {
    /// Adds its line.
    pub(super) fn write(&self, form: Form, line: &mut String) {
        // A `String` refuses nothing.
        let _ = match form {
            Form::Json => self.json(line),
            Form::Pretty => self.pretty(line),
        };
        line.push('\n');
    }

    fn fields(&self) -> impl Iterator<Item = (&'static str, Value<'_>)> {
        let suppressed = (self.suppressed > 0).then_some(Value::Whole(self.suppressed));
        let fields = self.event.values().into_iter();
        fields.chain(suppressed.map(|value| ("suppressed", value)))
    }

    fn json(&self, out: &mut String) -> fmt::Result {
        let kind = self.event.kind();
        write!(out, "{{\"time\":\"{}\",\"level\":", UtcMillis(self.unix_ms))?;
        quoted(kind.level.as_str(), out)?;
        out.push_str(",\"event\":");
        quoted(kind.name, out)?;
        out.push_str(",\"message\":");
        quoted(kind.message, out)?;
        for (name, value) in self.fields() {
            if matches!(value, Value::Absent) {
                continue;
            }
            out.push(',');
            quoted(name, out)?;
            out.push(':');
            json(value, out)?;
        }
        out.push('}');
        Ok(())
    }

    fn pretty(&self, out: &mut String) -> fmt::Result {
        let kind = self.event.kind();
        let (time, level) = (UtcMillis(self.unix_ms), kind.level.as_str());
        write!(out, "{time} {level} {}: {}", kind.name, kind.message)?;
        for (name, value) in self.fields() {
            match value {
                Value::Absent => continue,
                _ => write!(out, " {name}=")?,
            }
            match value {
                Value::Text(text) if is_bare(text) => out.push_str(text),
                Value::Address(address) => write!(out, "{address}")?,
                other => json(other, out)?,
            }
        }
        Ok(())
    }
}

/// Text that needs no quotes between spaces.
fn is_bare(text: &str) -> bool {
    let bare = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:".contains(&byte);
    !text.is_empty() && text.bytes().all(bare)
}

fn json(value: Value<'_>, out: &mut String) -> fmt::Result {
    match value {
        Value::Absent => write!(out, "null"),
        Value::Whole(number) => write!(out, "{number}"),
        Value::Flag(flag) => write!(out, "{flag}"),
        Value::Text(text) => quoted(text, out),
        Value::Address(address) => write!(out, "\"{address}\""),
    }
}

/// Text as JSON has it. Beyond what JSON asks for, everything that is not to be seen is escaped.
fn quoted(text: &str, out: &mut String) -> fmt::Result {
    out.push('"');
    for char in text.chars() {
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            // What `escape_debug` leaves alone can be seen; it puts a backslash before a quote.
            '\'' => out.push('\''),
            seen if char.escape_debug().len() == 1 => out.push(seen),
            hidden => {
                for unit in hidden.encode_utf16(&mut [0; 2]) {
                    write!(out, "\\u{unit:04x}")?;
                }
            }
        }
    }
    out.push('"');
    Ok(())
}

//! The file: TOML, section by section, each value with its place.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::Setting;
use super::knobs::{self, Kind, Knob};
use super::mistake::{Mistake, Place, Spot};
use super::near::nearest;

/// Largest file that is read: hundreds of times what there is to say. More is another file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// What is in a file, if it is one that can be read.
pub(super) fn content(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX.saturating_add(1)).read_to_end(&mut bytes)?;
    match u64::try_from(bytes.len()) {
        Ok(len) if len <= FILE_BYTES_MAX => Ok(bytes),
        _ => Err(io::Error::other("it has more than 1 MiB")),
    }
}

/// The same as text.
pub(super) fn text(path: &Path) -> io::Result<String> {
    String::from_utf8(content(path)?).map_err(|_| io::Error::other("it is not UTF-8"))
}

/// What a file sets, and what is wrong with it.
pub(super) fn read(path: &Path, text: &str) -> (Vec<Setting>, Vec<Mistake>) {
    let (table, errors) = DeTable::parse_recoverable(text);
    let (is_broken, settings, mistakes) = (!errors.is_empty(), Vec::new(), Vec::new());
    let mut reader = Reader { path, text, is_broken, settings, mistakes };
    for error in errors {
        let said = error.message().trim_end_matches('.');
        reader.mistake(error.span().unwrap_or_default(), format!("not TOML: {said}"));
    }
    // What was made of a line that cannot be read is not to be complained of a second time.
    let broken: Vec<usize> = reader.mistakes.iter().map(|mistake| mistake.rank().1).collect();
    for (name, value) in table.get_ref() {
        reader.section(name.get_ref(), name.span(), value.get_ref());
    }
    let Reader { settings, mut mistakes, .. } = reader;
    let mut told = 0_usize;
    mistakes.retain(|mistake| {
        told = told.saturating_add(1);
        told <= broken.len() || !broken.contains(&mistake.rank().1)
    });
    mistakes.sort_by_key(Mistake::rank);
    (settings, mistakes)
}

struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
    /// It is no TOML. What looks like a name in it may be a part of a secret.
    is_broken: bool,
    settings: Vec<Setting>,
    mistakes: Vec<Mistake>,
}

impl Reader<'_> {
    fn place(&self, bytes: Range<usize>) -> Place {
        Place::File(Spot::of(self.path, self.text, bytes))
    }

    fn mistake(&mut self, bytes: Range<usize>, text: impl Into<String>) {
        let place = self.place(bytes);
        self.mistakes.push(Mistake::new(place, text));
    }

    /// Whether a name that is not known may be repeated.
    fn may_name(&self, name: &str, known: impl IntoIterator<Item = String>) -> bool {
        !self.is_broken || nearest(name, known).is_some()
    }

    fn section(&mut self, name: &str, bytes: Range<usize>, value: &DeValue<'_>) {
        let sections = knobs::sections();
        if !sections.contains(&name) {
            let text = match self.may_name(name, sections.iter().map(|it| (*it).to_owned())) {
                true => unknown_section(name, matches!(value, DeValue::Table(_))),
                false => "there is no such section".to_owned(),
            };
            return self.mistake(bytes, text);
        }
        let DeValue::Table(keys) = value else {
            return self.mistake(bytes, format!("`{name}` is a section: write [{name}]"));
        };
        let mut seen: Vec<&Knob> = Vec::new();
        for (key, value) in keys {
            let Some((knob, in_file)) = knobs::find(name, key.get_ref()) else {
                let text = match self.may_name(key.get_ref(), knobs::keys(name)) {
                    true => unknown_key(name, key.get_ref()),
                    false => format!("there is no such key in [{name}]"),
                };
                self.mistake(key.span(), text);
                continue;
            };
            if seen.iter().any(|it| it.id == knob.id) {
                let twice = format!("`{}` is said twice, here as `{}`", knob.key, key.get_ref());
                self.mistake(key.span(), twice);
                continue;
            }
            seen.push(knob);
            let kind = if in_file { Kind::Text } else { knob.kind };
            match written(kind, value.get_ref()) {
                Err(why) => self.mistake(value.span(), why),
                Ok(text) => {
                    let place = self.place(value.span());
                    match Setting::new(knob, text, in_file, place) {
                        Ok(setting) => self.settings.push(setting),
                        Err(mistake) => self.mistakes.push(mistake),
                    }
                }
            }
        }
    }
}

/// The words that a flag would get.
fn written(kind: Kind, value: &DeValue<'_>) -> Result<String, String> {
    match (kind, value) {
        (Kind::Text | Kind::Number, DeValue::String(text)) => Ok(text.to_string()),
        (Kind::Number, DeValue::Integer(number)) => {
            let digits = number.as_str().replace('_', "");
            let whole = i128::from_str_radix(&digits, number.radix());
            Ok(whole.map_or(digits, |whole| whole.to_string()))
        }
        (Kind::Flag, DeValue::Boolean(is)) => Ok(is.to_string()),
        (kind, other) => {
            let expected = match kind {
                Kind::Text => "a string in quotes",
                Kind::Number => "a whole number, or a string in quotes",
                Kind::Flag => "true or false",
            };
            Err(format!("expected {expected}, not {}", named(other)))
        }
    }
}

const fn named(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

fn unknown_section(name: &str, is_table: bool) -> String {
    let sections = knobs::sections();
    // Who forgot the line above it.
    let homes = sections.iter().filter(|section| knobs::find(section, name).is_some());
    let homes: Vec<String> = homes.map(|section| format!("[{section}]")).collect();
    if !is_table && !homes.is_empty() {
        return format!("`{name}` has to stand below {}", homes.join(" or "));
    }
    let listed = sections.iter().map(|section| format!("[{section}]")).collect::<Vec<_>>();
    match nearest(name, sections.iter().map(|section| (*section).to_owned())) {
        Some(meant) => format!("there is no section [{name}]: did you mean [{meant}]?"),
        None => format!("there is no section [{name}]; there are {}", listed.join(", ")),
    }
}

pub(super) fn unknown_key(section: &str, key: &str) -> String {
    let begin = format!("there is no key `{key}` in [{section}]");
    let elsewhere = knobs::sections().into_iter().find(|it| knobs::find(it, key).is_some());
    if let Some(elsewhere) = elsewhere {
        return format!("{begin}: it is one of [{elsewhere}]");
    }
    match nearest(key, knobs::keys(section)) {
        Some(meant) => format!("{begin}: did you mean `{meant}`?"),
        None => format!("{begin}; there are {}", knobs::keys(section).join(", ")),
    }
}

//! Variables that overlay the file: `TIDEGATE__SECTION__KEY`.

use std::ffi::OsString;

use super::Setting;
use super::file::unknown_key;
use super::knobs::{self, PREFIX};
use super::mistake::{Mistake, Place};
use super::near::nearest;

/// Those of an environment, in order.
pub(super) fn variables(
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Vec<(String, OsString)> {
    let named = environment.into_iter().filter_map(|(name, value)| {
        let name = name.into_string().ok().filter(|name| name.starts_with(PREFIX))?;
        Some((name, value))
    });
    let mut variables: Vec<_> = named.collect();
    variables.sort();
    variables
}

/// What they set, and what is wrong with them.
pub(super) fn read(variables: &[(String, OsString)]) -> (Vec<Setting>, Vec<Mistake>) {
    let (mut settings, mut mistakes) = (Vec::<Setting>::new(), Vec::new());
    for (name, value) in variables {
        let place = Place::Variable(name.clone());
        let Some((knob, in_file)) = find(name) else {
            mistakes.push(Mistake::new(place, unknown(name)));
            continue;
        };
        if settings.iter().any(|it| it.knob.id == knob.id) {
            let twice = format!("`{}` is said twice: {} too", knob.key, knob.variable());
            mistakes.push(Mistake::new(place, twice));
            continue;
        }
        let Some(value) = value.to_str() else {
            mistakes.push(Mistake::new(place, "is not UTF-8"));
            continue;
        };
        match Setting::new(knob, value.to_owned(), in_file, place) {
            Ok(setting) => settings.push(setting),
            Err(mistake) => mistakes.push(mistake),
        }
    }
    (settings, mistakes)
}

fn parts(name: &str) -> Option<(String, String)> {
    let (section, key) = name.strip_prefix(PREFIX)?.split_once("__")?;
    Some((section.to_lowercase(), key.to_lowercase()))
}

fn find(name: &str) -> Option<(&'static knobs::Knob, bool)> {
    let (section, key) = parts(name)?;
    // Names of variables have no two spellings.
    (name == name.to_uppercase()).then(|| knobs::find(&section, &key)).flatten()
}

fn unknown(name: &str) -> String {
    let sections = knobs::sections();
    let Some((section, key)) = parts(name) else {
        return format!("expected {PREFIX}SECTION__KEY, such as {PREFIX}SERVER__LISTEN");
    };
    let meant = nearest(&section, sections.iter().map(|section| (*section).to_owned()));
    let meant = meant.and_then(|section| Some((nearest(&key, knobs::keys(&section))?, section)));
    match meant {
        Some((key, section)) => {
            let (section, key) = (section.to_uppercase(), key.to_uppercase());
            format!("there is no such variable: did you mean {PREFIX}{section}__{key}?")
        }
        None if sections.contains(&section.as_str()) => unknown_key(&section, &key),
        None => format!("there is no section [{section}]; there are {}", sections.join(", ")),
    }
}

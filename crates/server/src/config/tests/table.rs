//! The table of knobs, held against the flags, the example file and the page.

use super::knobs::{self, FILE, Kind, Reload};
use super::*;

const EXAMPLE: &str = include_str!("../../../../../packaging/tidegate.toml");
const PAGE: &str = include_str!("../../../../../docs/configuration.md");

#[test]
fn every_flag_of_serve_has_a_key() {
    let command = serve_command();
    for arg in command.get_arguments().filter(|arg| arg.get_id() != CONFIG) {
        let id = arg.get_id().as_str();
        let named = KNOBS.iter().filter(|knob| knob.id == id).count();
        assert_eq!(named, 1, "--{id} has no row in KNOBS, or several");
    }
    for knob in KNOBS {
        let arg = command.get_arguments().find(|arg| arg.get_id() == knob.id);
        let arg = arg.unwrap_or_else(|| panic!("there is no flag {}", knob.id));
        let is_switch = matches!(arg.get_action(), ArgAction::SetTrue);
        assert_eq!(knob.kind == Kind::Flag, is_switch, "{}", knob.id);
        // What clap keeps out of its help is kept out of everything.
        assert_eq!(knob.secret, arg.is_hide_env_values_set(), "{}", knob.id);
        assert!(!knob.key.contains("__") && !knob.key.ends_with(FILE), "{}", knob.key);
    }
}

#[test]
fn keys_and_sections_have_one_home_each() {
    let sections = knobs::sections();
    let mut unique = sections.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), sections.len(), "a section is in two places: {sections:?}");
    let mut all: Vec<String> = KNOBS.iter().map(Knob::variable).collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), KNOBS.len());
}

/// The example with the keys that `choose` takes uncommented.
fn example(choose: impl Fn(&str) -> bool) -> String {
    let line = |line: &str| match line.strip_prefix('#') {
        Some(key) if key.starts_with(|char: char| char.is_ascii_lowercase()) => {
            let name = key.split(' ').next().unwrap_or_default();
            if choose(name) { key.to_owned() } else { String::new() }
        }
        _ => line.to_owned(),
    };
    EXAMPLE.lines().map(line).collect::<Vec<_>>().join("\n")
}

fn values(text: &str) -> Vec<Option<String>> {
    let home = Home::new("example");
    let path = home.write("t.toml", text);
    let matches = serve_command().try_get_matches_from([""; 0]).unwrap();
    let source = Source::new(&matches, []).with_path(&path);
    let (settings, mistakes) = source.settings();
    assert_eq!(mistakes, []);
    let loaded = source.put_together(&serve_command(), &settings).unwrap();
    loaded.values.into_iter().map(|value| value.text).collect()
}

#[test]
fn the_example_file_has_every_key_with_its_default() {
    let command = serve_command();
    let has_default = |key: &str| {
        let knobs: Vec<&Knob> = KNOBS.iter().filter(|knob| knob.key == key).collect();
        let arg = |id: &str| command.get_arguments().find(|arg| arg.get_id() == id).unwrap();
        let is_given = |id| {
            let arg = arg(id);
            !arg.get_default_values().is_empty() || matches!(arg.get_action(), ArgAction::SetTrue)
        };
        !knobs.is_empty() && knobs.iter().all(|knob| is_given(knob.id))
    };
    assert_eq!(values(&example(|_| false)), values(""), "as it is, it says nothing");
    assert_eq!(values(&example(has_default)), values(""), "what it shows is not the default");
    // Everything at once, but for the files that are not there.
    let everything = values(&example(|key| !key.ends_with(FILE)));
    assert!(everything.iter().all(Option::is_some), "{everything:?}");
    for knob in KNOBS {
        let (_, section) = EXAMPLE.split_once(&format!("\n[{}]\n", knob.section)).unwrap();
        let section = section.split("\n[").next().unwrap();
        let at = section.find(&format!("\n#{} = ", knob.key));
        let at = at.unwrap_or_else(|| panic!("{} is not in the example", knob.key));
        // The paragraph above says whether a server takes it while it runs.
        let said = section[..at].rsplit("\n\n").next().unwrap();
        let is_live = said.contains("[live");
        assert_eq!(is_live, knob.reload != Reload::Restart, "{}: {said}", knob.key);
        let file = section.contains(&format!("\n#{}{FILE} = ", knob.key));
        assert_eq!(file, knob.secret, "{}", knob.key);
    }
}

/// The row of a knob on the page, up to its meaning.
fn row(knob: &Knob) -> String {
    let command = serve_command();
    let arg = command.get_arguments().find(|arg| arg.get_id() == knob.id).unwrap();
    let long = arg.get_long().unwrap();
    let variable = arg.get_env().map(|name| format!(", `{}`", name.to_str().unwrap()));
    let default = match arg.get_default_values().first() {
        Some(default) => format!("`{}`", default.to_str().unwrap()),
        None if knob.kind == Kind::Flag => "`false`".to_owned(),
        None => String::new(),
    };
    let reload = match knob.reload {
        Reload::Live => "live",
        Reload::WhileSet => "live while set",
        Reload::Restart => "restart",
    };
    let variable = variable.unwrap_or_default();
    let overlay = knob.variable();
    format!("| `{}` | `--{long}`{variable} | `{overlay}` | {default} | {reload} |", knob.key)
}

#[test]
fn the_page_has_a_row_for_every_key() {
    let listed: Vec<&str> = PAGE.lines().filter(|line| line.starts_with("| `")).collect();
    let rows: Vec<String> = KNOBS.iter().map(row).collect();
    let is_listed =
        rows.len() == listed.len() && rows.iter().zip(&listed).all(|(row, it)| it.starts_with(row));
    assert!(is_listed, "docs/configuration.md should have these rows:\n{}", rows.join("\n"));
}

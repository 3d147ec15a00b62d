//! The arrows between crates: a crate exists because one can name what it must not depend on.

use super::Finding;

/// What a crate may depend on among ours.
const ARROWS: [(&str, &[&str]); 9] = [
    ("limiter", &[]),
    ("convergence", &["limiter"]),
    ("stores", &["limiter", "convergence"]),
    ("tidegate", &["limiter", "convergence", "stores"]),
    ("server", &["limiter", "convergence", "stores", "tidegate", "trial"]),
    ("sim", &["limiter", "convergence"]),
    // It reads no clock and opens no file: whoever starts it does.
    ("trial", &["limiter", "convergence", "sim"]),
    // It judges from outside only.
    ("chaos", &["lab"]),
    ("lab", &[]),
];
/// What only tests may depend on; the arrows do not concern them there.
const TESTS_ONLY: &str = "lab";
/// The limiter decides; it does not wait, store, serialise or draw lots.
const LIMITER_NEVER: [&str; 6] = ["tokio", "serde", "rand", "redis", "sqlx", "hyper"];
/// More than this and the limiter is no longer small.
const LIMITER_MAX: usize = 5;
/// Crates of others that only one of ours may name outside its tests.
const ALONE: [(&str, &str); 3] = [("redis", "stores"), ("sqlx", "stores"), ("hyper", "server")];

/// Which table of a manifest names a dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Table {
    Normal,
    Target,
    Build,
    Dev,
}

/// One dependency: the index of its line, its table and its name.
type Dependency = (usize, Table, String);

/// Each crate depends only on what it may.
pub(super) fn arrows(path: &str, text: &str) -> Vec<Finding> {
    let name = path.strip_prefix("crates/").and_then(|rest| rest.strip_suffix("/Cargo.toml"));
    let Some(name) = name.filter(|name| !name.contains('/')) else { return Vec::new() };
    let Some((_, allowed)) = ARROWS.iter().find(|(crate_name, _)| *crate_name == name) else {
        let message = "a new crate: say in xtask/src/tidy/dependencies.rs what it may depend on";
        return vec![Finding::at(path, 0, message)];
    };
    let dependencies = dependencies(text);
    let mut found = Vec::new();
    for (index, table, dependency) in &dependencies {
        if let Some(message) = judge(name, allowed, *table, dependency) {
            found.push(Finding::at(path, *index, message));
        }
    }
    let count = dependencies.iter().filter(|(_, table, _)| *table == Table::Normal).count();
    if name == "limiter" && count > LIMITER_MAX {
        let message = format!("{count} dependencies, at most {LIMITER_MAX}");
        found.push(Finding::at(path, 0, message));
    }
    found
}

/// What is wrong with one dependency, if anything.
fn judge(name: &str, allowed: &[&str], table: Table, dependency: &str) -> Option<String> {
    let known = |(crate_name, _): &&(&str, &[&str])| package(crate_name) == dependency;
    if let Some((ours, _)) = ARROWS.iter().find(known) {
        let fine = allowed.contains(ours) || (*ours == TESTS_ONLY && table == Table::Dev);
        return (!fine).then(|| format!("`{name}` must not depend on `{ours}`"));
    }
    if table == Table::Dev {
        return None;
    }
    if name == "limiter" && LIMITER_NEVER.contains(&dependency) {
        return Some(format!("`limiter` must not depend on `{dependency}`"));
    }
    let (_, owner) = ALONE.iter().find(|(theirs, _)| *theirs == dependency)?;
    (*owner != name).then(|| format!("only `{owner}` may depend on `{dependency}`"))
}

/// The package of a directory in `crates/`.
fn package(name: &str) -> String {
    if name == "tidegate" { name.to_owned() } else { format!("tidegate-{name}") }
}

/// The dependencies a manifest names, renamed ones by their real name.
fn dependencies(text: &str) -> Vec<Dependency> {
    let mut found: Vec<Dependency> = Vec::new();
    let mut open: Option<Table> = None;
    let mut one: bool = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(header) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            (open, one) = (table(header), false);
            let (parent, last) = header.rsplit_once('.').unwrap_or(("", header));
            if open.is_none()
                && let Some(kind) = table(parent)
            {
                // `[dependencies.name]`: the lines below describe this one.
                found.push((index, kind, last.trim_matches('"').to_owned()));
                (open, one) = (Some(kind), true);
            }
            continue;
        }
        let Some(kind) = open else { continue };
        let Some((key, value)) = line.split_once('=').filter(|_| !line.starts_with('#')) else {
            continue;
        };
        let key = key.trim();
        if one {
            if let Some(last) = found.last_mut().filter(|_| key == "package") {
                last.2 = value.trim().trim_matches('"').to_owned();
            }
        } else if key.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            let name = key.split('.').next().unwrap_or(key);
            found.push((index, kind, renamed(value).unwrap_or(name).to_owned()));
        }
    }
    found
}

/// The real name in `name = { package = "real" }`.
fn renamed(value: &str) -> Option<&str> {
    let (_, rest) = value.split_once("package = \"")?;
    rest.split('"').next()
}

/// The table that a header opens.
fn table(header: &str) -> Option<Table> {
    let last = header.rsplit('.').next().unwrap_or(header);
    match last {
        "dependencies" if header.starts_with("target.") => Some(Table::Target),
        "dependencies" => Some(Table::Normal),
        "build-dependencies" => Some(Table::Build),
        "dev-dependencies" => Some(Table::Dev),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(name: &str, text: &str) -> usize {
        arrows(&format!("crates/{name}/Cargo.toml"), text).len()
    }

    #[test]
    fn arrows_that_point_up_are_found() {
        assert_eq!(count("convergence", "[dependencies]\ntidegate-limiter.workspace = true\n"), 0);
        assert_eq!(count("limiter", "[dependencies]\ntidegate-stores.workspace = true\n"), 1);
        assert_eq!(count("limiter", "[dev-dependencies]\ntidegate = { path = \"x\" }\n"), 1);
        assert_eq!(count("server", "[dependencies.tidegate-sim]\nworkspace = true\n"), 1);
        assert_eq!(count("elsewhere", ""), 1);
        assert_eq!(count("stores", "[dev-dependencies]\ntidegate-lab.workspace = true\n"), 0);
        assert_eq!(count("stores", "[dependencies]\ntidegate-lab.workspace = true\n"), 1);
    }

    #[test]
    fn the_limiter_stays_small_and_pure() {
        assert_eq!(count("limiter", "[dependencies]\ntokio = \"1\"\n"), 1);
        assert_eq!(count("limiter", "[dependencies]\na = { package = \"rand\" }\n"), 1);
        assert_eq!(count("limiter", "[target.'cfg(unix)'.dependencies]\nserde = \"1\"\n"), 1);
        assert_eq!(count("limiter", "[dev-dependencies]\nserde = \"1\"\n"), 0);
        let six = "[dependencies]\na=\"1\"\nb=\"1\"\nc=\"1\"\nd=\"1\"\ne=\"1\"\nf=\"1\"\n";
        assert_eq!(count("limiter", six), 1);
        assert_eq!(count("tidegate", six), 0);
    }

    #[test]
    fn stores_and_servers_are_named_in_one_place() {
        assert_eq!(count("convergence", "[dependencies]\nredis = \"1\"\n"), 1);
        assert_eq!(count("stores", "[dependencies]\nredis = \"1\"\n"), 0);
        assert_eq!(count("tidegate", "[dependencies]\nhyper = \"1\"\n"), 1);
        assert_eq!(count("tidegate", "[dev-dependencies]\nhyper = \"1\"\n"), 0);
    }

    #[test]
    fn lists_over_several_lines_are_not_names() {
        let text = "[dependencies]\na = { features = [\n  \"x=y\",\n] }\n[features]\nb = []\n";
        assert_eq!(dependencies(text).len(), 1);
    }
}

mod files;
mod table;

use super::show::{Checked, checked};
use super::*;
use crate::cli::{CheckConfigArgs, Output};

/// A directory of its own that goes with the test.
pub(super) struct Home(PathBuf);

impl Home {
    pub(super) fn new(name: &str) -> Self {
        let name = format!("tidegate-config-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(super) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// What is wrong, without the names of directories.
    pub(super) fn said(&self, mistakes: &Mistakes) -> String {
        mistakes.to_string().replace(&format!("{}/", self.0.display()), "")
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What `check-config` finds. The test's own environment says nothing about any of this.
pub(super) fn find(
    path: Option<&Path>,
    variables: &[(&str, &str)],
    flags: &[&str],
) -> Result<Checked, Mistakes> {
    let args = CheckConfigArgs {
        path: path.map(Path::to_owned),
        against: None,
        output: Output::Text,
        flags: flags.iter().map(OsString::from).collect(),
    };
    checked(&args, variables.iter().map(|(name, value)| (name.into(), value.into())))
}

/// One line of what it says, by its key.
pub(super) fn line(checked: &Checked, section: &str, key: &str) -> Vec<String> {
    let text = checked.text();
    let (_, section) = text.split_once(&format!("[{section}]\n")).unwrap();
    let mut lines = section.lines().map(|line| line.split_whitespace().map(str::to_owned));
    let line = lines.find_map(|mut words| (words.next()? == key).then(|| words.collect()));
    line.unwrap()
}

#[test]
fn the_nearest_word_decides() {
    let home = Home::new("nearest");
    let path = home.write("t.toml", "[server]\nmemory = \"2MiB\"\nretire_for = \"2s\"\n");
    let overlay = [("TIDEGATE__SERVER__MEMORY", "3MiB"), ("OTHER__SERVER__MEMORY", "?")];
    let memory = |variables: &[(&str, &str)], flags: &[&str]| {
        line(&find(Some(&path), variables, flags).unwrap(), "server", "memory").join(" ")
    };
    assert_eq!(memory(&overlay, &["--memory", "4MiB"]), "4MiB --memory");
    assert_eq!(memory(&overlay, &[]), "3MiB TIDEGATE__SERVER__MEMORY");
    assert_eq!(memory(&[], &[]), "2MiB line 2");
    let without = find(None, &[], &[]).unwrap();
    assert_eq!(line(&without, "server", "memory"), ["256MiB", "default"]);
    assert_eq!(line(&without, "server", "tls_cert"), ["(not", "set)"]);
}

#[test]
fn switches_numbers_and_texts_are_written_as_such() {
    let home = Home::new("kinds");
    let text = "server = { plain_http = true, connections_max = 0x10, memory = 2_097_152 }\n\
                admin.exposed = false\nregion.consistency = 'fast'\n[server.x]\n";
    let text = text.replace("[server.x]\n", "");
    let path = home.write("t.toml", &text);
    let found = find(Some(&path), &[("TIDEGATE__ADMIN__EXPOSED", "true")], &[]).unwrap();
    for (section, key, value) in [
        ("server", "plain_http", "true"),
        ("server", "connections_max", "16"),
        ("server", "memory", "2097152"),
        ("admin", "exposed", "true"),
        ("region", "consistency", "fast"),
    ] {
        assert_eq!(line(&found, section, key)[0], value, "{key}");
    }
    let off = find(Some(&path), &[("TIDEGATE__SERVER__PLAIN_HTTP", "false")], &[]).unwrap();
    assert_eq!(line(&off, "server", "plain_http")[0], "false", "a switch can be set back");
}

#[test]
fn a_secret_is_read_from_a_file_and_never_shown() {
    let home = Home::new("secret");
    let secret = home.write("key", "s3cret\n");
    let text = format!("[server]\nroot_key_file = {:?}\n", secret.to_str().unwrap());
    let path = home.write("t.toml", &text);
    let found = find(Some(&path), &[("TIDEGATE__REGION__REDIS", "redis://:s3cret@r")], &[]);
    let found = found.unwrap();
    assert_eq!(line(&found, "server", "root_key"), ["(set)", "line", "2"]);
    assert_eq!(line(&found, "region", "redis"), ["(set)", "TIDEGATE__REGION__REDIS"]);
    assert!(!(found.text() + &found.json()).contains("s3cret"));
    let matches = serve_command().try_get_matches_from([""; 0]).unwrap();
    let args = Source::new(&matches, []).with_path(&path).args().unwrap();
    assert_eq!(args.root_key.as_deref(), Some("s3cret"), "without the end of the line");

    let overlay = [("TIDEGATE__SERVER__ROOT_KEY_FILE", "/not/there")];
    let why = find(None, &overlay, &[]).err().unwrap().to_string();
    assert!(why.starts_with("TIDEGATE__SERVER__ROOT_KEY_FILE: cannot read /not/there: "), "{why}");
}

#[test]
fn differences_say_what_needs_a_restart_and_no_secret() {
    let home = Home::new("against");
    let old = home.write("old.toml", "[region]\nredis = \"redis://:one@r\"\n");
    let text = "[server]\nmemory = \"1GiB\"\n[region]\nredis = \"redis://:two@r\"\n\
                consistency = \"fast\"\n";
    let new = home.write("new.toml", text);
    let args = |against: &Path, output| CheckConfigArgs {
        path: Some(new.clone()),
        against: Some(against.to_owned()),
        output,
        flags: Vec::new(),
    };
    let found = checked(&args(&old, Output::Text), []).unwrap();
    let said = found.text();
    let (_, said) = said.split_once("Different from ").unwrap();
    let (_, said) = said.split_once(":\n").unwrap();
    assert_eq!(
        said,
        "  server.memory: 256MiB -> 1GiB (needs a restart)\n  region.redis: another one (needs a \
         restart)\n  region.consistency: bounded -> fast"
    );
    let json: serde_json::Value = serde_json::from_str(&found.json()).unwrap();
    assert_eq!(json["changes"][2]["key"], "consistency");
    assert_eq!(json["changes"][2]["restart"], false);
    assert_eq!(json["values"][0]["origin"], "default");
    let same = checked(&args(&new, Output::Text), []).unwrap().text();
    assert!(same.contains("\nNothing is different from "), "{same}");
}

#[test]
fn what_programs_read_of_mistakes_names_the_place() {
    let home = Home::new("json");
    let path = home.write("t.toml", "[server]\n  memory = 1\n");
    let mistakes = find(Some(&path), &[("TIDEGATE__SERVER__LISTNE", "x")], &[]).err().unwrap();
    let json: serde_json::Value = serde_json::from_str(&mistakes.json()).unwrap();
    assert_eq!(json["valid"], false);
    let [first, second] = json["mistakes"].as_array().unwrap().as_slice() else { panic!("{json}") };
    assert_eq!((&first["line"], &first["column"]), (&2.into(), &12.into()));
    assert_eq!(first["message"], "must be at least 1MiB");
    assert_eq!(second["variable"], "TIDEGATE__SERVER__LISTNE");
    assert!(second.get("line").is_none() && first.get("variable").is_none());
}

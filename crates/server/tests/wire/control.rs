//! The commands that look after workspaces, keys, namespaces and the audit: the real binary, on
//! both kinds of database.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};
use tidegate_lab::MariaDbServer;
use tidegate_server::ids::digest;
use tidegate_stores::control::{Change, ControlStore};
use tidegate_stores::{MysqlConfig, MysqlStore, SqliteStore};
use tokio::runtime::{Builder, Runtime};

use crate::support::{LIMIT, Server, ask, tidegate};

/// A directory of our own, deleted when dropped.
struct Dir(PathBuf);

impl Dir {
    fn new() -> Self {
        static TAKEN: AtomicU32 = AtomicU32::new(0);
        let turn = TAKEN.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir();
        let dir = dir.join(format!("tidegate-control-{}-{turn}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    fn database(&self) -> PathBuf {
        self.0.join("data/tidegate.db")
    }

    /// The binary with this place for its data.
    fn tidegate(&self, args: &[&str]) -> Command {
        let mut command = tidegate(args);
        command.env("TIDEGATE_DATA", self.0.join("data"));
        command
    }

    /// What is said by a call that ends with `code`.
    fn run(&self, args: &[&str], code: i32) -> String {
        let (ended_with, said) = Server::run_to_end(&mut self.tidegate(args));
        assert_eq!(ended_with, Some(code), "{args:?}: {said}");
        said
    }

    /// What is said in JSON by a call that succeeds.
    fn json(&self, args: &[&str]) -> Value {
        let said = self.run(&[args, &["--output", "json"]].concat(), 0);
        serde_json::from_str(&said).unwrap()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Both kinds of database, with tables.
fn each(test: impl Fn(&Dir, &str, &dyn ControlStore, &Runtime)) {
    let (dir, runtime) = (Dir::new(), runtime());
    let path = dir.0.join("own.db");
    let url = format!("sqlite:{}", path.display());
    dir.run(&["migrate", "--database", &url], 0);
    test(&dir, &url, &SqliteStore::open(&path), &runtime);
    let server = MariaDbServer::start().unwrap();
    dir.run(&["migrate", "--database", &server.url()], 0);
    let store = MysqlStore::new(MysqlConfig::parse(&server.url()).unwrap()).unwrap();
    test(&dir, &server.url(), &store, &runtime);
    assert!(!dir.database().exists(), "nothing is made where nobody asked for it");
}

/// Every file below.
fn bytes_below(dir: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        bytes.extend(if path.is_dir() {
            bytes_below(&path)
        } else {
            std::fs::read(&path).unwrap()
        });
    }
    bytes
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[test]
fn a_key_is_made_out_of_the_box_and_only_its_digest_is_kept() {
    let dir = Dir::new();
    let said = dir.run(&["key", "create", "--name", "backend"], 0);
    let key = said.lines().last().unwrap();
    let tail = key.strip_prefix("tidegate_").unwrap();
    assert!(tail.len() == 43 && tail.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{said}");
    assert!(said.contains("backend") && said.contains("not shown again"), "{said}");
    let kept = bytes_below(&dir.0);
    assert!(contains(&kept, &digest(key.as_bytes())), "its digest is there");
    assert!(!contains(&kept, tail.as_bytes()), "the key is nowhere");
    let listed = dir.json(&["key", "list"]);
    assert_eq!(listed[0]["name"], "backend");
    assert_eq!(listed[0]["workspaceId"], "ws_default");
    let permissions = listed[0]["permissions"].as_array().unwrap();
    assert_eq!(permissions.len(), 6, "{permissions:?}");
    assert!(!listed.to_string().contains(tail));
    assert!(!dir.run(&["audit"], 0).contains(tail));
    let mode = std::fs::metadata(dir.0.join("data")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn data_is_kept_where_programs_of_this_user_keep_theirs() {
    let dir = Dir::new();
    // No other place is said.
    let tidegate = |args: &[&str]| {
        let mut command = tidegate(args);
        command.env_remove("TIDEGATE_DATA");
        command
    };
    let mut command = tidegate(&["key", "create"]);
    command.env_remove("XDG_DATA_HOME").env("HOME", &dir.0);
    assert_eq!(Server::run_to_end(&mut command).0, Some(0));
    assert!(dir.0.join(".local/share/tidegate/tidegate.db").exists());
    let mut command = tidegate(&["migrate"]);
    command.env("XDG_DATA_HOME", dir.0.join("xdg")).env("HOME", &dir.0);
    let (code, said) = Server::run_to_end(&mut command);
    assert!(code == Some(0) && said.contains("now of version 3"), "{said}");
    assert!(dir.0.join("xdg/tidegate/tidegate.db").exists());
    let mut command = tidegate(&["key", "create"]);
    let (code, said) = Server::run_to_end(command.env_remove("XDG_DATA_HOME").env_remove("HOME"));
    assert!(code == Some(2) && said.contains("TIDEGATE_DATA"), "{said}");
    std::fs::write(dir.0.join("data"), "in the way").unwrap();
    assert!(dir.run(&["key", "create"], 1).contains("data directory"));
}

#[test]
fn a_key_is_disabled_enabled_and_revoked() {
    each(|dir, url, store, runtime| {
        let key = |args: &[&str]| dir.json(&[&["key"], args, &["--database", url]].concat());
        let only = "ratelimit.*.limit";
        let made = key(&["create", "--permission", only, "--expires-in", "30d"]);
        let id = made["id"].as_str().unwrap();
        assert!(id.starts_with("key_") && id.len() == 13, "{id}");
        let (created, expires) = (&made["createdAt"], &made["expiresAt"]);
        let life = expires.as_u64().unwrap() - created.as_u64().unwrap();
        assert_eq!((life, &made["permissions"]), (30 * 86_400_000, &json!([only])));
        let secret = made["key"].as_str().unwrap();
        let kept = runtime.block_on(store.changes(0)).unwrap().keys;
        assert_eq!(kept[0].digest, digest(secret.as_bytes()));
        assert_eq!(key(&["disable", id])["enabled"], false);
        assert_eq!(key(&["enable", id])["enabled"], true);
        assert!(key(&["revoke", id])["revokedAt"].is_u64());
        assert!(key(&["revoke", id])["revokedAt"].is_u64(), "again is no error");
        assert!(key(&["list"])[0].get("key").is_none());
        let said = dir.run(&["key", "list", "--database", url], 0);
        assert!(said.contains(id) && said.contains("revoked 20"), "{said}");
        let said = dir.run(&["key", "enable", id, "--database", url], 2);
        assert!(said.contains("there is no key"), "what was revoked stays so: {said}");
        let said = dir.run(&["key", "revoke", secret, "--database", url], 2);
        assert!(!said.contains(&secret[9..]) && said.contains("key_"), "{said}");
    });
}

#[test]
fn workspaces_are_made_listed_and_changed() {
    each(|dir, url, _, _| {
        let workspace =
            |args: &[&str]| dir.json(&[&["workspace"], args, &["--database", url]].concat());
        let made = workspace(&["create", "acme"]);
        assert_eq!((&made["name"], &made["enabled"]), (&json!("acme"), &json!(true)));
        let id = made["id"].as_str().unwrap();
        assert!(id.starts_with("ws_") && id.len() == 12, "{id}");
        let said = dir.run(&["workspace", "create", "acme", "--database", url], 1);
        assert!(said.contains("another workspace"), "{said}");
        assert_eq!(workspace(&["create", "default"])["id"], "ws_default");
        let set = workspace(&["set", "acme", "--requests-per-minute", "0", "--enabled", "false"]);
        assert_eq!((&set["requestsPerMinute"], &set["enabled"]), (&json!(0), &json!(false)));
        let set = workspace(&["set", id, "--requests-per-minute", "unlimited"]);
        assert_eq!((&set["requestsPerMinute"], &set["enabled"]), (&Value::Null, &json!(false)));
        let names: Vec<_> = workspace(&["list"]).as_array().unwrap().clone();
        let names: Vec<_> = names.iter().map(|row| row["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["acme", "default"]);
        let key = dir.json(&["key", "create", "--workspace", "acme", "--database", url]);
        assert_eq!(key["workspaceId"], id);
        let of = |name: &str| dir.json(&["key", "list", "--workspace", name, "--database", url]);
        assert_eq!(of("acme").as_array().unwrap().len(), 1);
        assert_eq!(of("default"), json!([]));
        for args in [["key", "create"], ["key", "list"], ["namespace", "list"]] {
            let said = [&args[..], &["--workspace", "nobody", "--database", url]].concat();
            assert!(dir.run(&said, 2).contains("there is no workspace \"nobody\""));
        }
        let set = ["workspace", "set", "nobody", "--enabled", "true", "--database", url];
        assert!(dir.run(&set, 2).contains("there is no workspace \"nobody\""));
    });
}

#[test]
fn namespaces_are_listed_and_told_what_to_do() {
    each(|dir, url, store, runtime| {
        dir.run(&["workspace", "create", "default", "--database", url], 0);
        // One has the id of another for its name, and one would clear the screen.
        let names = [("rlns_a", "email"), ("rlns_b", "rlns_a"), ("rlns_c", "\u{1b}[2J")];
        let names = names.map(|(id, name)| (id.to_owned(), name.to_owned())).to_vec();
        let add = Change::AddNamespaces { workspace: "ws_default".to_owned(), names };
        runtime.block_on(store.apply(&add, "key_1", 7)).unwrap();
        let namespace =
            |args: &[&str]| dir.json(&[&["namespace"], args, &["--database", url]].concat());
        assert_eq!(namespace(&["list"]).as_array().unwrap().len(), 3);
        let set = namespace(&["set", "email", "--mode", "shadow"]);
        assert_eq!((&set["id"], &set["mode"]), (&json!("rlns_a"), &json!("shadow")));
        assert_eq!(namespace(&["set", "rlns_a", "--mode", "off"])["name"], "email", "an id wins");
        let set = namespace(&["set", "email", "--consistency", "bounded"]);
        assert_eq!((&set["mode"], &set["consistency"]), (&json!("off"), &json!("bounded")));
        let both = ["set", "email", "--mode", "enforce", "--consistency", "default"];
        let set = namespace(&both);
        assert_eq!((&set["mode"], &set["consistency"]), (&json!("enforce"), &json!("default")));
        namespace(&["set", "email", "--mode", "off", "--consistency", "fast"]);
        dir.run(&["namespace", "set", "email", "--database", url], 2);
        assert!(namespace(&["delete", "email"])["deletedAt"].is_u64());
        let said = dir.run(&["namespace", "set", "email", "--mode", "off", "--database", url], 2);
        assert!(said.contains("there is no such namespace"), "{said}");
        assert!(namespace(&["restore", "email"])["deletedAt"].is_null());
        let said = dir.run(&["namespace", "list", "--database", url], 0);
        assert!(said.contains("off  ") && said.contains("fast"), "{said}");
        assert!(said.contains("default") && said.contains("\\u{1b}[2J"), "{said}");
        assert!(!said.contains('\u{1b}'));
        let said = dir.run(&["namespace", "delete", "sms", "--database", url], 2);
        assert!(said.contains("there is no namespace \"sms\""), "{said}");
        let said = dir.run(&["namespace", "set", "email", "--mode", "on", "--database", url], 2);
        assert!(said.contains("enforce, shadow, off"), "{said}");
    });
}

#[test]
fn the_default_workspace_is_there_before_anybody_has_made_it() {
    each(|dir, url, _, _| {
        let json = |args: &[&str]| dir.json(&[args, &["--database", url]].concat());
        for list in [
            &["namespace", "list"][..],
            &["namespace", "list", "--workspace", "ws_default"],
            &["key", "list", "--workspace", "default"],
            &["audit", "--workspace", "default"],
            &["workspace", "list"],
        ] {
            assert_eq!(json(list), json!([]), "{list:?}: to look makes nothing");
        }
        let gone = ["namespace", "delete", "email", "--database", url];
        assert!(dir.run(&gone, 2).contains("there is no namespace \"email\""));
        let set = json(&["workspace", "set", "default", "--requests-per-minute", "60"]);
        assert_eq!(
            (&set["id"], &set["requestsPerMinute"]),
            (&json!("ws_default"), &json!(60)),
            "to change it makes it"
        );
        assert_eq!(json(&["workspace", "list"]).as_array().unwrap().len(), 1);
    });
}

#[test]
fn settings_live_where_regions_meet_unless_a_database_is_named() {
    let dir = Dir::new();
    let [globe, other] = ["globe.db", "other.db"].map(|name| {
        let url = format!("sqlite:{}", dir.0.join(name).display());
        dir.run(&["migrate", "--database", &url], 0);
        url
    });
    let in_environment = |args: &[&str]| {
        let mut command = dir.tidegate(&[args, &["--output", "json"]].concat());
        let (code, said) = Server::run_to_end(command.env("TIDEGATE_GLOBE", &globe));
        assert_eq!(code, Some(0), "{args:?}: {said}");
        serde_json::from_str::<Value>(&said).unwrap()
    };
    let id = in_environment(&["key", "create"])["id"].clone();
    in_environment(&["workspace", "create", "acme"]);
    assert_eq!(in_environment(&["key", "list"])[0]["id"], id);
    assert_eq!(in_environment(&["audit"]).as_array().unwrap().len(), 3);
    assert_eq!(in_environment(&["namespace", "list"]), json!([]));
    for args in [["key", "list"], ["workspace", "list"]] {
        let globe = dir.json(&[&args[..], &["--globe", &globe]].concat());
        assert!(!globe.as_array().unwrap().is_empty(), "{args:?}");
        let other = in_environment(&[&args[..], &["--database", &other]].concat());
        assert_eq!(other, json!([]), "{args:?}: the database that was named");
    }
    assert!(!dir.database().exists(), "nothing is written where no server looks");
    let said = dir.run(&["key", "list", "--globe", "postgres://u:hush@db/x"], 2);
    assert!(said.contains("TIDEGATE_GLOBE") && !said.contains("hush"), "{said}");
    let missing = format!("sqlite:{}", dir.0.join("missing.db").display());
    assert!(dir.run(&["key", "create", "--globe", &missing], 2).contains("tidegate migrate"));
}

#[test]
fn a_server_of_a_region_knows_the_keys_that_were_made_for_it() {
    let dir = Dir::new();
    let globe = format!("sqlite:{}", dir.0.join("globe.db").display());
    dir.run(&["migrate", "--globe", &globe], 0);
    let serve = ["serve", "--listen", "127.0.0.1:0", "--globe", &globe, "--region", "eu"];
    let mut command = dir.tidegate(&serve);
    let key = dir.json(&["key", "create", "--globe", &globe])["key"].clone();
    let key = key.as_str().unwrap();
    let server = Server::start_with(command.env_remove("TIDEGATE_ROOT_KEY"), key);
    assert_eq!(server.client().post(LIMIT, &ask("a", 1, 1)).data()["success"], true);
}

#[test]
fn the_audit_says_who_did_what_newest_first() {
    each(|dir, url, _, _| {
        let id = dir.json(&["key", "create", "--database", url])["id"].clone();
        let id = id.as_str().unwrap();
        dir.run(&["key", "revoke", id, "--database", url], 0);
        dir.run(&["workspace", "create", "acme", "--database", url], 0);
        let audit = |args: &[&str]| dir.json(&[&["audit", "--database", url], args].concat());
        let events = |rows: &Value| -> Vec<String> {
            let rows = rows.as_array().unwrap().iter();
            rows.map(|row| row["event"].as_str().unwrap().to_owned()).collect()
        };
        let all = audit(&[]);
        let expected = ["workspace.create", "key.revoke", "key.create", "workspace.create"];
        assert_eq!(events(&all), expected);
        assert!(all[1]["detail"].as_str().unwrap().contains(id));
        assert_eq!(
            (&all[1]["actor"], &all[1]["workspaceId"]),
            (&json!("cli"), &json!("ws_default"))
        );
        assert_eq!(events(&audit(&["--last", "1"])), ["workspace.create"]);
        assert_eq!(events(&audit(&["--workspace", "default", "--last", "2"])), expected[1..3]);
        let said = dir.run(&["audit", "--database", url], 0);
        assert!(said.contains("key.revoke") && said.contains("Z  "), "{said}");
    });
}

#[test]
fn many_who_make_keys_at_once_all_get_one() {
    each(|dir, url, store, runtime| {
        let create = || dir.json(&["key", "create", "--database", url]);
        let mut made: Vec<String> = std::thread::scope(|scope| {
            let makers: Vec<_> = (0..6).map(|_| scope.spawn(create)).collect();
            let made = makers.into_iter().map(|maker| maker.join().unwrap());
            made.map(|key| key["id"].as_str().unwrap().to_owned()).collect()
        });
        made.sort_unstable();
        let all = runtime.block_on(store.changes(0)).unwrap();
        let mut kept: Vec<String> = all.keys.into_iter().map(|row| row.id).collect();
        kept.sort_unstable();
        assert_eq!((kept, all.workspaces.len(), all.revision), (made, 1, 7));
    });
}

#[test]
fn what_is_said_wrongly_is_refused_with_what_to_do() {
    let dir = Dir::new();
    for (args, expected) in [
        (&["key", "create", "--permission", "ratelimit.*.limits"][..], "set_override"),
        (&["key", "create", "--expires-in", "soon"], "30d"),
        (&["key", "revoke"], "<ID>"),
        (&["workspace", "set", "acme"], "--requests-per-minute"),
        (&["key", "list", "--database", "postgres://u:hush@db/x"], "mysql:// or sqlite:"),
        (&["migrate", "--database", "postgres://u:hush@db/x"], "TIDEGATE_DATABASE"),
        (&["key", "list"], "tidegate migrate"),
        (&["audit", "--output", "xml"], "json"),
    ] {
        let said = dir.run(args, 2);
        assert!(said.contains(expected), "{args:?}: {said}");
        assert!(!said.contains("hush"), "{args:?}: {said}");
    }
    assert!(!dir.database().exists());
    for (args, expected) in [
        (["key", "--help"], "tidegate key create --name backend"),
        (["namespace", "--help"], "--mode shadow"),
        (["workspace", "--help"], "--requests-per-minute 6000"),
        (["audit", "--help"], "Newest first"),
        (["key", "--help"], "Exit codes: "),
        (["migrate", "--help"], "`tidegate serve` makes that one by itself"),
    ] {
        let said = dir.run(&args, 0);
        assert!(said.contains(expected), "{args:?}: {said}");
    }
}

#[test]
fn a_database_that_is_not_ready_or_away_is_said() {
    let dir = Dir::new();
    let mut server = MariaDbServer::start().unwrap();
    let url = server.url();
    for args in [["key", "create"], ["key", "list"], ["workspace", "list"]] {
        let said = dir.run(&[&args[..], &["--database", &url]].concat(), 2);
        assert!(said.contains("run `tidegate migrate`"), "{said}");
    }
    server.kill_9();
    let said = dir.run(&["key", "create", "--database", &url], 1);
    assert!(said.starts_with("error: mysql database `tidegate` at 127.0.0.1:"), "{said}");
}

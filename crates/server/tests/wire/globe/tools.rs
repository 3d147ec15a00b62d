//! The commands that look after a shared store, on both kinds.

use serde_json::{Value, json};
use tidegate::{Clock, GlobalStore, SystemClock, mysql, sqlite};
use tidegate_convergence::{Batch, GlobalCall, RegionNumber};
use tidegate_lab::MariaDbServer;
use tidegate_stores::control::{Change, ControlStore};
use tokio::runtime::{Builder, Runtime};

use super::fleet::{File, join, run, until_left};
use crate::support::{LIMIT, ask};

/// Both kinds of store, without tables, and where their connections live.
fn each(name: &str, test: impl Fn(&str, &dyn GlobalStore, &Runtime)) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let file = File::new(name);
    let path = file.url().split_off("sqlite:".len());
    test(&file.url(), &sqlite::SqliteStore::open(path.as_ref()), &runtime);
    let database = MariaDbServer::start().unwrap();
    test(&database.url(), &mysql::store(&database.url()).unwrap(), &runtime);
}

/// The one JSON value that is said by a command that ends with `code`.
pub(super) fn said_json(args: &[&str], code: i32) -> Value {
    let said = run(&[args, &["--output", "json"]].concat(), code);
    assert_eq!(said.lines().count(), 1, "{said}");
    serde_json::from_str(&said).unwrap()
}

/// Writes a row that is of no use from then on.
async fn write(store: &dyn GlobalStore, expires_ms: u64) {
    let region = RegionNumber(1);
    let (nonce, written_ms, payload) = (expires_ms, 0, Vec::new());
    let row = Batch { region, repeats: false, nonce, written_ms, expires_ms, payload };
    store.call(&GlobalCall::Publish(row)).await.unwrap();
}

#[test]
fn tables_are_made_once() {
    each("migrate", |url, _, _| {
        let first = run(&["migrate", "--globe", url], 0);
        assert!(first.contains("the tables are now of version 3"), "{first}");
        let again = run(&["migrate", "--globe", url], 0);
        assert!(again.contains("version 3 already"), "{again}");
    });
}

#[test]
fn programs_are_told_which_tables_were_made() {
    let (one, two) = (File::new("migrate-one"), File::new("migrate-two"));
    let path = one.url().split_off("sqlite:".len());
    let made = said_json(&["migrate", "--globe", &one.url()], 0);
    let database = format!("sqlite file {path}");
    assert_eq!(
        made,
        json!([{
            "database": database, "version": 3, "changed": true,
            "additions": ["tidegate_namespaces.outage"],
        }])
    );
    let both = ["migrate", "--globe", &one.url(), "--database", &two.url()];
    let made = said_json(&both, 0);
    let changed = made.as_array().unwrap().iter().map(|one| &one["changed"]);
    assert!(changed.eq(&[json!(false), json!(true)]), "{made}");
}

/// CL1.
#[test]
fn what_expired_is_deleted_and_what_lives_is_kept() {
    each("gc", |url, store, runtime| {
        let early = run(&["gc", "--globe", url], 2);
        assert!(early.contains("tidegate migrate"), "{early}");
        run(&["migrate", "--globe", url], 0);
        let now_ms = SystemClock::new().now().unix_ms();
        for age_ms in 1..=6 {
            runtime.block_on(write(store, now_ms - 3_600_000 - age_ms));
        }
        for rest_ms in 1..=2 {
            runtime.block_on(write(store, now_ms + 3_600_000 + rest_ms));
        }
        let gc = |more: &[&str], code| run(&[&["gc", "--globe", url], more].concat(), code);
        let some = gc(&["--batch", "2", "--max-batches", "2"], 3);
        assert!(
            some.contains("rows deleted: 4 of the feed") && some.contains("more is left"),
            "{some}"
        );
        let json = said_json(&["gc", "--globe", url, "--batch", "1", "--max-batches", "1"], 3);
        let json = &json["feed"];
        let counts = (&json["rowsDeleted"], &json["steps"], &json["more"]);
        assert_eq!(counts, (&json!(1), &json!(1), &json!(true)));
        let rest = gc(&[], 0);
        assert!(rest.contains("rows deleted: 1") && rest.contains("nothing that exp"), "{rest}");
        let none = gc(&[], 0);
        assert!(none.contains("rows deleted: 0"), "{none}: the two that live are kept");
        let json = said_json(&["gc", "--globe", url], 0);
        let counts = (&json["feed"]["rowsDeleted"], &json["feed"]["more"]);
        assert_eq!((counts, json.get("audit")), ((&json!(0), &json!(false)), None));
    });
}

#[test]
fn the_audit_is_kept_until_somebody_says_how_long() {
    each("gc-audit", |url, _, runtime| {
        run(&["migrate", "--globe", url], 0);
        let add = |name: &str| Change::AddWorkspace { id: name.to_owned(), name: name.to_owned() };
        let now_ms = SystemClock::new().now().unix_ms();
        for (name, days) in [("a", 200), ("b", 100), ("c", 91), ("d", 89), ("e", 0)] {
            let control = control(url);
            let time_ms = now_ms - days * 86_400_000;
            runtime.block_on(control.apply(&add(name), "cli", time_ms)).unwrap();
        }
        let kept = || said_json(&["audit", "--globe", url], 0).as_array().unwrap().len();
        run(&["gc", "--globe", url], 0);
        assert_eq!(kept(), 5, "nobody said how long");
        let old = ["gc", "--globe", url, "--audit-older-than", "90d"];
        let some = run(&[&old[..], &["--batch", "1", "--max-batches", "2"]].concat(), 3);
        assert!(some.contains("rows deleted: 2 of the audit") && some.contains("more is left"));
        let rest = said_json(&["gc", "--database", url, "--audit-older-than", "90d"], 0);
        assert_eq!((&rest["audit"]["rowsDeleted"], rest.get("feed")), (&json!(1), None));
        assert_eq!(kept(), 2);
        let said = run(&old, 0);
        assert!(said.contains("nothing that expired is left"), "{said}");
        assert!(said.contains("nothing that is older is left"), "{said}");
        assert_eq!(
            said_json(&["workspace", "list", "--globe", url], 0).as_array().unwrap().len(),
            5
        );
    });
    let none = run(&["gc"], 2);
    assert!(none.contains("--globe") && none.contains("--audit-older-than"), "{none}");
    assert!(run(&["gc", "--audit-older-than", "0d"], 2).contains("more than nothing"));
    let missing = run(&["gc", "--audit-older-than", "90d"], 2);
    assert!(missing.contains("tidegate migrate"), "{missing}: nothing is made to be emptied");
}

/// The control plane in a store.
fn control(url: &str) -> Box<dyn ControlStore> {
    match url.strip_prefix("sqlite:") {
        Some(path) => Box::new(sqlite::SqliteStore::open(path.as_ref())),
        None => Box::new(mysql::store(url).unwrap()),
    }
}

#[test]
fn a_database_that_does_not_answer_is_said() {
    let mut database = MariaDbServer::start().unwrap();
    database.kill_9();
    for command in ["migrate", "gc"] {
        let said = run(&[command, "--globe", &database.url()], 1);
        assert!(said.starts_with("error: mysql database `tidegate` at 127.0.0.1:"), "{said}");
    }
}

#[test]
fn what_each_region_published_is_shown() {
    let file = File::new("show");
    let url = file.url();
    run(&["migrate", "--globe", &url], 0);
    let none = run(&["globe", "regions", "--globe", &url], 0);
    assert!(none.contains("no region was ever there"), "{none}");
    assert_eq!(said_json(&["globe", "regions", "--globe", &url], 0), json!([]));
    let (eu, us) = (join(&url, "eu", None), join(&url, "us", None));
    eu.client().post(LIMIT, &ask("a", 10, 6));
    us.client().post(LIMIT, &ask("a", 10, 1));
    until_left(&eu, "a", 10, 3);
    until_left(&us, "a", 10, 3);

    let shown = |identifier: &str, window: &str| {
        let what = ["--namespace", "test", "--identifier", identifier, "--window", window];
        run(&[&["globe", "show", "--globe", &url], &what[..]].concat(), 0)
    };
    let said = shown("a", "30d");
    let words: Vec<&str> = said.split_whitespace().collect();
    let has = |expected: [&str; 2]| words.windows(2).any(|two| two == expected);
    assert!(has(["eu", "6"]) && has(["us", "1"]), "{said}");
    assert!(said.starts_with("current window") && said.contains("7 published"), "{said}");
    assert!(shown("other", "30d").contains("0 published"));
    assert!(shown("a", "30s").contains("not shared"));
    let regions = run(&["globe", "regions", "--globe", &url], 0);
    assert!(regions.contains("eu") && regions.contains("s ago"), "{regions}");

    let regions = said_json(&["globe", "regions", "--globe", &url], 0);
    assert_eq!((&regions[0]["name"], &regions[1]["name"]), (&json!("eu"), &json!("us")));
    assert!(regions[0]["seenMsAgo"].is_u64(), "{regions}");
    let what = ["globe", "show", "--globe", &url, "--namespace", "test", "--identifier", "a"];
    let shown = said_json(&[&what[..], &["--window", "30d"]].concat(), 0);
    let current = &shown["current"];
    assert_eq!((&shown["shared"], &current["published"]), (&json!(true), &json!(7)), "{shown}");
    let found: Vec<(&Value, &Value)> = ["eu", "us"]
        .iter()
        .filter_map(|name| current["regions"].as_array()?.iter().find(|one| one["name"] == **name))
        .map(|one| (&one["name"], &one["count"]))
        .collect();
    assert_eq!(found, [(&json!("eu"), &json!(6)), (&json!("us"), &json!(1))], "{shown}");
    assert_eq!(shown["previous"]["endsAt"], current["startsAt"], "{shown}");
    let short = said_json(&[&what[..], &["--window", "30s"]].concat(), 0);
    assert_eq!(short, json!({"shared": false}));
}

//! The commands that look after a shared store, on both kinds.

use tidegate::{Clock, GlobalStore, SystemClock, mysql, sqlite};
use tidegate_convergence::{Batch, GlobalCall, RegionNumber};
use tidegate_lab::MariaDbServer;
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
        assert!(first.contains("the tables are now of version 1"), "{first}");
        let again = run(&["migrate", "--globe", url], 0);
        assert!(again.contains("version 1 already"), "{again}");
    });
}

/// CL1.
#[test]
fn what_expired_is_deleted_and_what_lives_is_kept() {
    each("gc", |url, store, runtime| {
        let early = run(&["gc", "--globe", url], 2);
        assert!(early.contains("tidegate migrate"), "{early}");
        run(&["migrate", "--globe", url], 0);
        let now_ms = SystemClock::new().now().unix_ms();
        for age_ms in 1..=5 {
            runtime.block_on(write(store, now_ms - 3_600_000 - age_ms));
        }
        for rest_ms in 1..=2 {
            runtime.block_on(write(store, now_ms + 3_600_000 + rest_ms));
        }
        let gc = |more: &[&str], code| run(&[&["gc", "--globe", url], more].concat(), code);
        let some = gc(&["--batch", "2", "--max-batches", "2"], 3);
        assert!(some.contains("rows deleted: 4") && some.contains("more is left"), "{some}");
        let rest = gc(&[], 0);
        assert!(rest.contains("rows deleted: 1") && rest.contains("nothing that exp"), "{rest}");
        let none = gc(&[], 0);
        assert!(none.contains("rows deleted: 0"), "{none}: the two that live are kept");
    });
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
}

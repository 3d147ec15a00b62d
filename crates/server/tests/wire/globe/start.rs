//! What is refused at the start, and what is not.

use tidegate_lab::MariaDbServer;

use super::fleet::{File, PATIENCE, join, migrate, run, until_left};
use crate::support::{KEY, LIMIT, Server, ask, eventually, tidegate};

#[test]
fn a_region_needs_a_name() {
    let file = File::new("name");
    let said = run(&["serve", "--globe", &file.url()], 2);
    assert!(said.contains("TIDEGATE_REGION") && said.contains("--region"), "{said}");
    for bad in ["", "eu central", "\u{e9}u", &"x".repeat(49)] {
        let said = run(&["serve", "--globe", &file.url(), "--region", bad], 2);
        assert!(said.contains("1 to 48 visible ASCII characters"), "{said}");
    }
}

#[test]
fn a_bad_address_is_refused_without_repeating_it() {
    for bad in ["", "s3cret", "mysql://s3cret", "postgres://u:s3cret@db/x", "sqlite:"] {
        for command in [
            &["serve", "--region", "eu", "--globe", bad][..],
            &["migrate", "--globe", bad],
            &["gc", "--globe", bad],
            &["globe", "regions", "--globe", bad],
        ] {
            let said = run(command, 2);
            assert!(said.contains("TIDEGATE_GLOBE") && !said.contains("s3cret"), "{said}");
        }
    }
}

#[test]
fn missing_or_newer_tables_are_refused() {
    let file = File::new("tables");
    let said = run(&["serve", "--globe", &file.url(), "--region", "eu"], 2);
    assert!(said.contains("`tidegate migrate`"), "{said}");

    let database = MariaDbServer::start().unwrap();
    let said = run(&["serve", "--globe", &database.url(), "--region", "eu"], 2);
    assert!(said.contains("run `tidegate migrate`"), "{said}");
    let said = run(&["serve", "--listen", "127.0.0.1:0", "--database", &database.url()], 2);
    assert!(said.contains("run `tidegate migrate`"), "{said}");
    assert!(!said.contains("TIDEGATE_ROOT_KEY"), "it is given, and does not help: {said}");
    migrate(&database.url());
    database.query("INSERT INTO tidegate_schema VALUES (999, 0)").unwrap();
    let said = run(&["serve", "--globe", &database.url(), "--region", "eu"], 2);
    assert!(said.contains("999") && said.contains("upgrade"), "{said}");
}

#[test]
fn a_name_that_is_in_use_is_refused() {
    let file = File::new("clash");
    migrate(&file.url());
    let first = join(&file.url(), "eu", None);
    let args = ["serve", "--listen", "127.0.0.1:0", "--globe", &file.url(), "--region", "eu"];
    let said = run(&args, 1);
    assert!(said.contains("`eu` is in use by another region, number "), "{said}");
    assert!(said.contains("30 s") && said.contains("--redis"), "{said}");
    assert_eq!(first.client().post(LIMIT, &ask("a", 1, 1)).data()["success"], true);
    // A name that was given back is free at once.
    let mut first = first;
    first.signal("TERM");
    assert_eq!(first.wait_for_end().code(), Some(0));
    join(&file.url(), "eu", None);
}

#[test]
fn a_lone_region_that_is_killed_before_its_first_request_keeps_its_name() {
    let file = File::new("killed-early");
    migrate(&file.url());
    let data = file.path().join("data");
    let start = || {
        let url = file.url();
        let args = ["serve", "--listen", "127.0.0.1:0", "--globe", &url, "--region", "eu"];
        Server::start_with(tidegate(&args).env("TIDEGATE_DATA", &data), KEY)
    };
    for _ in 0..2 {
        let mut server = start();
        server.signal("KILL");
        server.wait_for_end();
    }
    let after = start();
    assert_eq!(after.client().post(LIMIT, &ask("a", 1, 1)).data()["success"], true);
}

#[test]
fn a_database_that_is_away_fails_nothing() {
    let mut database = MariaDbServer::start().unwrap();
    migrate(&database.url());
    database.kill_9();
    let server = join(&database.url(), "eu", None);
    let mut client = server.client();
    for remaining in [1, 0, 0] {
        let reply = client.post(LIMIT, &ask("a", 2, 1));
        assert_eq!(reply.data()["remaining"], remaining);
        assert_eq!(reply.data()["degraded"], true, "whether it has overrides is not known");
    }
    server.wait_for_warning("place=\"mysql database");
    database.restart().unwrap();
    let answers = || server.warned().into_iter().find(|line| line.contains("answers now"));
    eventually(PATIENCE, answers);
    let other = join(&database.url(), "us", None);
    until_left(&other, "a", 2, 0);
}

#[test]
fn a_wrong_password_is_a_warning_that_does_not_show_it() {
    let database = MariaDbServer::start().unwrap();
    let url = format!("mysql://root:s3cret@127.0.0.1:{}/tidegate", database.port());
    let server = join(&url, "eu", None);
    assert_eq!(server.client().post(LIMIT, &ask("a", 1, 1)).data()["success"], true);
    server.wait_for_warning(" warn ");
    let all = [server.said(), server.warned()].concat().join("\n");
    assert!(!all.contains("s3cret"), "{all}");
}

#[test]
fn address_and_name_may_come_from_the_environment() {
    let file = File::new("environment");
    migrate(&file.url());
    let mut command = tidegate(&["serve", "--listen", "127.0.0.1:0"]);
    command.env("TIDEGATE_GLOBE", file.url()).env("TIDEGATE_REGION", "eu");
    let said = Server::start_with(&mut command, KEY).said().join("\n");
    assert!(said.contains("region    eu, this process alone"), "{said}");
}

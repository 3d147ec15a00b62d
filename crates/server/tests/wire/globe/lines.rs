//! The lines of the contract on regions (GL), end to end. (GL1 and CL1 are beside this file; rows
//! have no key of their own here, so GL2 has nothing to say, and GL3 is a test of the stores.)
//!
//! That something is not told is seen by what is told after it: who publishes for a region takes
//! everything that waits there at once.

use serde_json::{Value, json};

use super::fleet::{Fleet, PATIENCE, join, left, spend, until_left};
use super::tools::said_json;
use crate::support::{MULTI_LIMIT, Server, WINDOW_MS, ask, eventually};

/// What the regions have published of a subject.
fn published(fleet: &Fleet, identifier: &str) -> Vec<(String, u64)> {
    let url = fleet.database.url();
    let what = ["--namespace", "test", "--identifier", identifier, "--window", "30d"];
    let said = said_json(&[&["globe", "show", "--globe", &url], &what[..]].concat(), 0);
    let one = |one: &Value| Some((one["name"].as_str()?.to_owned(), one["count"].as_u64()?));
    let regions = said["current"]["regions"].as_array().unwrap();
    let mut regions: Vec<(String, u64)> = regions.iter().filter_map(one).collect();
    regions.sort();
    regions
}

/// The same, for comparing.
fn all(expected: &[(&str, u64)]) -> Vec<(String, u64)> {
    expected.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

/// Rows with news in the feed.
fn rows(fleet: &Fleet) -> u64 {
    let sql = "SELECT COUNT(*) FROM tidegate_feed WHERE repeats = 0";
    fleet.database.query(sql).unwrap()[0][0].parse().unwrap()
}

/// Lets a region tell another something: whatever it had to tell before, it has told then.
fn mark(teller: &Server, hearer: &Server, name: &str) {
    assert_eq!(spend(teller, name, 10, 1).data()["success"], true);
    until_left(hearer, name, 10, 9);
}

/// Waits until a process knows that so much of a subject is published, by its own region and by the
/// other, and says what it knows besides. It is not asked to decide anything.
fn until_heard(server: &Server, identifier: &str, (own, other): (u64, Option<u64>)) -> Value {
    let body = json!({"namespace": "test", "identifier": identifier, "duration": WINDOW_MS});
    eventually(PATIENCE, || {
        let reply = server.client().post("/v2/tidegate.inspect", &body);
        let said = (reply.status == 200).then(|| reply.data().clone())?;
        let current = &said["regions"]["current"];
        let others = current["others"].as_object()?.values().next().and_then(Value::as_u64);
        (current["own"] == own && others == other).then_some(said)
    })
}

/// GL5, GL6, GL8, GL13 and GL14.
#[test]
fn a_region_tells_what_matters_and_nothing_else() {
    let fleet = Fleet::start();
    let [eu, other, us, _] = &fleet.processes;
    spend(eu, "quiet", 1_000, 24);
    assert_eq!(spend(eu, "large", 10, 11).data()["success"], false);
    let batch = json!([ask("part", 10, 6), ask("rest", 1, 2)]);
    assert_eq!(eu.client().post(MULTI_LIMIT, &batch).data()["passed"], false);
    until_left(other, "quiet", 1_000, 976);
    mark(eu, us, "first");
    for (name, limit) in [("quiet", 1_000), ("large", 10), ("part", 10), ("rest", 1)] {
        assert_eq!(published(&fleet, name), [], "{name}: nobody has to know");
        assert_eq!(left(us, name, limit), limit, "{name}: it costs nothing elsewhere");
    }
    let before = rows(&fleet);
    mark(eu, us, "second");
    assert_eq!(rows(&fleet), before + 1, "what was told is not told again");

    spend(eu, "quiet", 1_000, 1);
    until_left(us, "quiet", 1_000, 975);
    assert_eq!(published(&fleet, "quiet"), all(&[("eu", 25)]), "a fortieth of the limit");
}

/// GL8: what its Redis has not recorded a region does not tell.
#[test]
fn what_is_not_recorded_is_not_told() {
    let fleet = Fleet::start();
    let [eu, _, us, _] = &fleet.processes;
    mark(eu, us, "first");
    fleet.redis[0].pause().unwrap();
    assert_eq!(spend(eu, "a", 10, 6).data()["success"], true, "it is decided all the same");
    mark(us, eu, "second");
    assert_eq!((published(&fleet, "a"), left(us, "a", 10)), (all(&[]), 10));
    fleet.redis[0].resume().unwrap();
    until_left(us, "a", 10, 4);
    assert_eq!(published(&fleet, "a"), all(&[("eu", 6)]));
}

/// GL9. What a region only heard of it does not tell; alone, it tells each doubling; and when
/// another one comes it tells what it had kept to itself.
#[test]
fn company_makes_a_region_speak() {
    let fleet = Fleet::start();
    let [eu, _, us, other] = &fleet.processes;
    spend(us, "a", 1_000, 200);
    until_left(eu, "a", 1_000, 800);
    spend(us, "a", 1_000, 100);
    until_left(other, "a", 1_000, 700);
    mark(us, eu, "first");
    mark(eu, us, "second");
    assert_eq!(published(&fleet, "a"), all(&[("us", 200)]));
    assert_eq!(spend(eu, "a", 1_000, 600).data()["success"], true);
    until_left(us, "a", 1_000, 100);
    until_left(eu, "a", 1_000, 100);
    assert_eq!(published(&fleet, "a"), all(&[("eu", 600), ("us", 300)]));
}

/// GL10, GL11 and GL15.
#[test]
fn what_a_region_told_comes_back_to_it_as_its_own() {
    let mut fleet = Fleet::start();
    let [eu, other, _, us] = &fleet.processes;
    assert_eq!(spend(eu, "a", 10, 6).data()["success"], true);
    let said = until_heard(us, "a", (0, Some(6)));
    assert_eq!(said["node"]["current"]["mine"], 0, "nobody has asked for it here");
    assert_eq!(spend(us, "a", 10, 5).data()["success"], false, "6 + 5 > 10, at the first request");
    for process in [eu, other] {
        until_heard(process, "a", (6, None));
    }
    assert_eq!(left(eu, "a", 10), 4, "it is not counted once more");

    // The one that served it and the store of the region forget it: the feed does not.
    fleet.processes[0].signal("KILL");
    fleet.processes[0].wait_for_end();
    fleet.redis[0].command(&["FLUSHALL"]).unwrap();
    let agreed = || fleet.redis[0].command(&["KEYS", "*region"]).unwrap().items().len();
    eventually(PATIENCE, || (agreed() == 1).then_some(()));
    let new = join(&fleet.database.url(), "eu", Some(&fleet.redis[0].url()));
    until_heard(&new, "a", (6, None));
    assert_eq!(spend(&new, "a", 10, 5).data()["success"], false, "6 + 5 > 10");
    assert_eq!(spend(&new, "a", 10, 4).data()["success"], true);
}

//! Servers that share a database of keys and overrides.

use tidegate_lab::MariaDbServer;
use tokio::time::Instant;

use super::*;
use crate::support::{DEADLINE, LIMIT, ask, eventually};

/// How long it takes until `seen` is true. It is printed, not judged: what is promised is two
/// seconds, and a machine that is busy may take longer to do anything at all.
fn timed(what: &str, mut seen: impl FnMut() -> bool) {
    let start = Instant::now();
    eventually(DEADLINE, || seen().then_some(()));
    println!("{what}: seen after {} ms", start.elapsed().as_millis());
}

/// Changes on one of two servers are seen on the other.
fn changes_are_seen(place: &Place) {
    let (here, there) = (place.serve(), place.serve());
    let (mut here, mut there) = (here.client(), there.client());
    assert_eq!(applied(&mut here, "ann"), 10);
    let id = here.post(SET_OVERRIDE, &setting("ann", 77)).data()["overrideId"].clone();
    assert_eq!(applied(&mut here, "ann"), 77, "at once where it was taken");
    timed("an override", || applied(&mut there, "ann") == 77);
    // The operations on overrides look first.
    assert_eq!(there.post(GET_OVERRIDE, &target("ann")).data()["overrideId"], id);
    assert_eq!(there.post(DELETE_OVERRIDE, &target("ann")).status, 200);
    assert_eq!(here.post(GET_OVERRIDE, &target("ann")).status, 404);
    timed("that it is gone", || applied(&mut here, "ann") == 10);

    let mode = |mode: &str| drop(place.run(&["namespace", "set", "test", "--mode", mode], 0));
    mode("off");
    let mut is = |mode: &str| {
        let reply = there.post(LIMIT, &ask("ann", 10, 0));
        reply.data().get("mode").map_or("enforce", |mode| mode.as_str().unwrap()) == mode
    };
    timed("a namespace that is off", || is("off"));
    mode("shadow");
    timed("a namespace in shadow", || is("shadow"));
    mode("enforce");
    timed("a namespace that enforces", || is("enforce"));
    place.run(&["namespace", "delete", "test"], 0);
    let mut status = || there.post(LIMIT, &ask("ann", 10, 0)).status;
    timed("a namespace that is gone", || status() == 410);
    place.run(&["namespace", "restore", "test"], 0);
    timed("a namespace that is back", || status() == 200);
}

#[test]
fn a_change_acts_on_every_process_that_shares_a_file() {
    changes_are_seen(&Place::file());
}

#[test]
fn a_change_acts_on_every_process_that_shares_a_database() {
    let server = MariaDbServer::start().unwrap();
    changes_are_seen(&Place::new(server.url()));
}

#[test]
fn a_key_acts_everywhere_until_it_is_revoked() {
    let place = Place::file();
    let (here, there) = (place.serve(), place.serve());
    let (key, id) = place.key(&["--name", "short-lived"]);
    for server in [&here, &there] {
        let mut client = Client::connect(server.address, &key);
        timed("a new key", || client.post(LIMIT, &ask("a", 10, 0)).status == 200);
    }
    place.run(&["key", "disable", &id], 0);
    let mut client = Client::connect(here.address, &key);
    timed("a disabled key", || client.post(LIMIT, &ask("a", 10, 0)).status == 403);
    place.run(&["key", "revoke", &id], 0);
    for server in [&here, &there] {
        let mut client = Client::connect(server.address, &key);
        timed("a revoked key", || client.post(LIMIT, &ask("a", 10, 0)).status == 401);
    }
}

#[test]
fn a_namespace_that_many_name_at_once_is_made_once() {
    let server = MariaDbServer::start().unwrap();
    let place = Place::new(server.url());
    let servers = [place.serve(), place.serve()];
    std::thread::scope(|scope| {
        for number in 0..8 {
            let mut client = servers[number % 2].client();
            scope.spawn(move || {
                for name in ["a", "b", "c"] {
                    let body = json!({"namespace": name, "identifier": "i", "limit": 100,
                                      "duration": WINDOW_MS});
                    assert_eq!(client.post(LIMIT, &body).status, 200);
                }
            });
        }
    });
    let listed = place.json(&["namespace", "list"]);
    let mut names: Vec<_> = listed.as_array().unwrap().iter().map(|row| &row["name"]).collect();
    names.sort_by_key(|name| name.to_string());
    assert_eq!(names, ["a", "b", "c"]);
    let events = place.json(&["audit", "--last", "100"]).to_string();
    assert_eq!(events.matches("ratelimitNamespace.create").count(), 3, "{events}");
}

#[test]
fn a_database_that_is_away_changes_nothing_that_is_known() {
    let mut server = MariaDbServer::start().unwrap();
    let place = Place::new(server.url());
    let running = place.serve();
    let mut client = running.client();
    assert_eq!(applied(&mut client, "ann"), 10);
    assert_eq!(client.post(SET_OVERRIDE, &setting("ann", 77)).status, 200);
    server.kill_9();
    running.wait_for_warning("stay as they are known here");

    assert_eq!(applied(&mut client, "ann"), 77);
    assert_eq!(client.post(SET_OVERRIDE, &setting("ann", 78)).status, 500);
    let new = json!({"namespace": "new", "identifier": "i", "limit": 2, "duration": WINDOW_MS});
    for left in [1, 0] {
        let data = client.post(LIMIT, &new).data().clone();
        assert_eq!((&data["remaining"], &data["degraded"]), (&json!(left), &json!(true)));
    }
    assert_eq!(client.post(LIMIT, &new).data()["success"], false, "it is limited all the same");
    // One that starts now knows nothing but the key it was given, and serves.
    let second = place.serve();
    let data = second.client().post(LIMIT, &ask("ann", 10, 1)).data().clone();
    assert_eq!((&data["limit"], &data["degraded"]), (&json!(10), &json!(true)));

    server.restart().unwrap();
    second.wait_for_warning("settings_back");
    let mut late = second.client();
    timed("what was set before", || applied(&mut late, "ann") == 77);
    timed("the new namespace", || client.post(LIMIT, &new).data().get("degraded").is_none());
    assert_eq!(client.post(LIMIT, &new).data()["success"], false, "nothing was forgotten");
}

#[test]
fn without_a_key_nobody_could_call() {
    let database = MariaDbServer::start().unwrap();
    let place = Place::new(database.url());
    let serve = ["serve", "--listen", "127.0.0.1:0"];
    let mut command = place.command(&serve);
    let (code, said) = Server::run_to_end(command.env_remove("TIDEGATE_ROOT_KEY"));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("tidegate key create"), "{said}");
    let (key, _) = place.key(&[]);
    let mut command = place.command(&serve);
    let server = Server::start_with(command.env_remove("TIDEGATE_ROOT_KEY"), &key);
    assert_eq!(server.client().post(LIMIT, &ask("a", 1, 1)).status, 200);
}

//! Counts that outlive a process.

use std::path::Path;
use std::time::SystemTime;

use super::*;
use crate::globe::File;
use crate::support::{DEADLINE, KEY, LIMIT, MULTI_LIMIT, ask, data_dir, eventually, tidegate};

fn serve(data: &Path) -> Server {
    let mut command = tidegate(&["serve", "--listen", "127.0.0.1:0"]);
    Server::start_with(command.env("TIDEGATE_DATA", data), KEY)
}

fn end(mut server: Server) {
    server.signal("TERM");
    assert_eq!(server.wait_for_end().code(), Some(0));
}

#[test]
fn a_restart_keeps_counts() {
    let data = data_dir();
    let first = serve(&data);
    assert_eq!(first.client().post(LIMIT, &ask("ann", 5, 3)).data()["remaining"], 2);
    assert_eq!(first.client().post(LIMIT, &ask("bob", 5, 5)).data()["remaining"], 0);
    end(first);
    let second = serve(&data);
    let mut client = second.client();
    assert_eq!(client.post(LIMIT, &ask("bob", 5, 1)).data()["success"], false);
    let both = json!([ask("ann", 5, 1), ask("bob", 5, 1)]);
    assert_eq!(client.post(MULTI_LIMIT, &both).data()["passed"], false);
    assert_eq!(client.post(LIMIT, &ask("ann", 5, 1)).data()["remaining"], 1);
    end(second);
    let third = serve(&data);
    assert_eq!(third.client().post(LIMIT, &ask("ann", 5, 1)).data()["remaining"], 0);
    assert_eq!(third.client().post(LIMIT, &ask("bob", 5, 1)).data()["success"], false);
}

#[test]
fn a_process_that_is_killed_loses_a_few_seconds_only() {
    let kept = File::new("killed");
    let data = kept.path();
    let file = data.join("counts.bin");
    let written = || std::fs::metadata(&file).ok().and_then(|file| file.modified().ok());
    let server = serve(data);
    assert_eq!(server.client().post(LIMIT, &ask("ann", 5, 3)).data()["remaining"], 2);
    let first: SystemTime = eventually(DEADLINE, written);
    assert_eq!(server.client().post(LIMIT, &ask("ann", 5, 1)).data()["remaining"], 1);
    eventually(DEADLINE, || written().filter(|second| *second > first));
    server.signal("KILL");
    drop(server);
    let after = serve(data);
    assert_eq!(after.client().post(LIMIT, &ask("ann", 5, 0)).data()["remaining"], 1);
}

/// The new process is started before the old one has ended, as supervisors do that replace one.
#[test]
fn a_process_that_starts_while_another_ends_waits_for_its_counts() {
    let data = data_dir();
    // It takes a while to end.
    let mut command = tidegate(&["serve", "--listen", "127.0.0.1:0", "--retire-for", "2s"]);
    let mut old = Server::start_with(command.env("TIDEGATE_DATA", &data), KEY);
    assert_eq!(old.client().post(LIMIT, &ask("ann", 5, 3)).data()["remaining"], 2);
    old.signal("TERM");
    let new = serve(&data);
    new.wait_for_warning("counts_awaited: ");
    assert_eq!(new.client().post(LIMIT, &ask("ann", 5, 0)).data()["remaining"], 2);
    assert_eq!(old.wait_for_end().code(), Some(0));
}

#[test]
fn two_processes_do_not_share_a_file_of_counts() {
    let data = data_dir();
    let (first, second) = (serve(&data), serve(&data));
    second.wait_for_warning("another process has them");
    assert_eq!(second.client().post(LIMIT, &ask("ann", 5, 3)).data()["remaining"], 2);
    assert_eq!(first.client().post(LIMIT, &ask("ann", 5, 1)).data()["remaining"], 4);
}

//! What is spent in one region is missing in the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::fleet::{File, Fleet, PATIENCE, join, left, migrate, spend, until_left};
use crate::support::{Client, LIMIT, Server, WINDOW_MS, ask, eventually};

/// The RFC's example.
#[test]
fn two_regions_of_two_processes_share_one_limit() {
    let fleet = Fleet::start();
    let [eu, _, us, _] = &fleet.processes;
    assert_eq!(spend(eu, "a", 10, 6).data()["success"], true);
    until_left(us, "a", 10, 4);
    let one = spend(us, "a", 10, 1);
    assert_eq!((&one.data()["success"], &one.data()["remaining"]), (&json!(true), &json!(3)));
    assert_eq!(spend(us, "a", 10, 4).data()["success"], false, "7 + 4 > 10");
    for process in &fleet.processes {
        until_left(process, "a", 10, 3);
    }
    let said = fleet.processes[0].said().join("\n");
    assert!(said.contains("region    eu, redis at 127.0.0.1:"), "{said}");
    assert!(said.contains("globe     mysql database `tidegate` at 127.0.0.1:"), "{said}");
}

/// A caller that spends here and there until it is stopped.
struct Load {
    stop: Arc<AtomicBool>,
    caller: JoinHandle<(Vec<u64>, Vec<Duration>)>,
}

const KEYS: usize = 50;

impl Load {
    fn start(mut client: Client, first: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let caller = std::thread::spawn(move || {
            let (mut admitted, mut times, mut turn) = (vec![0; KEYS], Vec::new(), first);
            while !stopped.load(Ordering::Relaxed) {
                let key = turn % KEYS;
                let start = Instant::now();
                let reply = client.post(LIMIT, &ask(&format!("key-{key}"), 40, 1));
                times.push(start.elapsed());
                assert_eq!(reply.status, 200);
                admitted[key] += u64::from(reply.data()["success"] == true);
                turn += 7;
                std::thread::yield_now();
            }
            (admitted, times)
        });
        Self { stop, caller }
    }

    fn stop(self) -> (Vec<u64>, Vec<Duration>) {
        self.stop.store(true, Ordering::Relaxed);
        self.caller.join().unwrap()
    }
}

/// Of a limit of 40 everything is worth telling, so both regions know all of it in the end.
#[test]
fn a_database_that_dies_fails_no_request_and_all_is_told_later() {
    let mut fleet = Fleet::start();
    spend(&fleet.processes[0], "a", 10, 1);
    until_left(&fleet.processes[2], "a", 10, 9);

    let clients = fleet.processes.iter().map(Server::client);
    let loads: Vec<Load> = clients.enumerate().map(|(at, one)| Load::start(one, at)).collect();
    fleet.database.kill_9();
    assert_eq!(spend(&fleet.processes[0], "b", 10, 3).data()["success"], true);
    assert_eq!(spend(&fleet.processes[2], "b", 10, 4).data()["success"], true);
    // Seen by those who look at the log; the load goes on meanwhile.
    fleet.processes[0].wait_for_warning("place=\"mysql database");
    fleet.database.restart().unwrap();
    let back = Instant::now();
    until_left(&fleet.processes[0], "b", 10, 3);
    until_left(&fleet.processes[2], "b", 10, 3);
    println!("both regions knew {:?} after the database was back", back.elapsed());

    // While there is room a region may keep a share of it to itself: so until there is none.
    for key in 0..KEYS {
        until_left(&fleet.processes[0], &format!("key-{key}"), 40, 0);
    }
    let (mut admitted, mut times) = (vec![0; KEYS], Vec::new());
    for load in loads {
        let (of_one, took) = load.stop();
        admitted.iter_mut().zip(of_one).for_each(|(sum, one)| *sum += one);
        times.extend(took);
    }
    times.sort_unstable();
    let (p99, last) = (times[times.len() * 99 / 100], times[times.len() - 1]);
    println!("{} requests, p99 {p99:?}, slowest {last:?}", times.len());
    assert!(p99 < Duration::from_millis(250), "{p99:?}: ten times what a region may take");
    for (key, admitted) in admitted.into_iter().enumerate() {
        for at in [0, 2] {
            let (name, process) = (format!("key-{key}"), &fleet.processes[at]);
            let expected = 40_u64.saturating_sub(admitted);
            eventually(PATIENCE, || (left(process, &name, 40) == expected).then_some(()));
        }
    }
}

/// Names that databases confuse, or choke on.
#[test]
fn hostile_identifiers_stay_apart_and_block_nobody() {
    let fleet = Fleet::start();
    let [eu, _, us, other] = &fleet.processes;
    let long = ["x".repeat(512), "\u{1F30A}".repeat(512), format!("{}y", "x".repeat(511))];
    let mut names: Vec<&str> = long.iter().map(String::as_str).collect();
    names.extend(["trail", "trail ", "trail  ", " trail", "case", "CASE", "Case"]);
    names.extend(["\u{e9}", "e\u{301}", "e", "\u{1F600}", "\u{1F601}", "\u{df}", "ss", "SS"]);
    names.extend([
        "a\nb",
        "a\r\nb",
        "a\tb",
        "a\u{0}b",
        "a\u{0}",
        "a",
        "\u{202e}abc",
        "\u{feff}abc",
    ]);
    names.extend(["'", "\"", "`", "\\", "\\'", "%", "_", "';DROP TABLE tidegate_feed;--", "{}"]);
    let mut spent = Vec::new();
    for (number, name) in (3..).zip(&names) {
        let reply = spend(eu, name, 100, number);
        match reply.status {
            200 => {
                assert_eq!(reply.data()["remaining"], 100 - number, "{name:?} is another's");
                spent.push((*name, number));
            }
            // What HTTP refuses reaches nobody.
            status => println!("{name:?} is refused with {status}"),
        }
    }
    assert!(spent.len() >= names.len() - 2, "{} of {}", spent.len(), names.len());
    spend(eu, "last", 10, 7);
    for (name, cost) in &spent {
        until_left(us, name, 100, 100 - cost);
    }
    until_left(other, "last", 10, 3);
    let rows = fleet.database.query("SELECT COUNT(*) > 0 FROM tidegate_feed").unwrap();
    assert_eq!(rows, [["1"]]);
}

/// A file, and no Redis: every process is a region.
#[test]
fn two_processes_share_a_file() {
    let file = File::new("share");
    migrate(&file.url());
    let (mut eu, us) = (join(&file.url(), "eu", None), join(&file.url(), "us", None));
    assert_eq!(spend(&eu, "a", 10, 6).data()["success"], true);
    until_left(&us, "a", 10, 4);
    assert_eq!(spend(&us, "a", 10, 1).data()["remaining"], 3);
    assert_eq!(spend(&us, "a", 10, 4).data()["success"], false);
    until_left(&eu, "a", 10, 3);

    // 5 of 1,000 are nothing to speak of, until the process ends and nobody else could.
    assert_eq!(spend(&eu, "b", 1_000, 5).data()["success"], true);
    eu.signal("TERM");
    assert_eq!(eu.wait_for_end().code(), Some(0));
    eu.wait_for_line("other regions were told");
    until_left(&us, "b", 1_000, 995);

    let again = join(&file.url(), "eu", None);
    until_left(&again, "b", 1_000, 995);
    until_left(&again, "a", 10, 3);
}

#[test]
fn what_each_region_used_is_seen_from_any() {
    let file = File::new("inspect");
    migrate(&file.url());
    let (eu, us) = (join(&file.url(), "eu", None), join(&file.url(), "us", None));
    spend(&eu, "a", 10, 8);
    let inspect = || {
        let body = json!({"namespace": "test", "identifier": "a", "duration": WINDOW_MS});
        // The namespace comes to be by being named, in one region; the other learns of it.
        let reply = us.client().post("/v2/tidegate.inspect", &body);
        (reply.status == 200).then(|| reply.data().clone())
    };
    let heard = |said: &serde_json::Value| {
        let others = said["regions"]["current"]["others"].as_object();
        others.is_some_and(|others| others.values().any(|count| *count == 8))
    };
    let said = eventually(PATIENCE, || inspect().filter(heard));
    assert_eq!(said["regions"]["current"]["own"], 0);
    assert_eq!(said["regions"]["current"]["unpublished"], 0);
    assert_eq!(said["node"]["current"]["mine"], 0);
}

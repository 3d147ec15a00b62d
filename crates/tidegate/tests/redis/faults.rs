//! What breaks on the server's side.

use std::time::Duration;

use tidegate_lab::RedisServer;

use crate::support::{Load, fleet, last, p99, recorded_in, until, used};

/// Never reached.
const LARGE: u64 = 1_000_000;
/// What an answer may take: the deadline of 20 ms and 5 more.
const ANSWER_WITHIN: Duration = Duration::from_millis(25);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_processes_agree() {
    let server = RedisServer::start().unwrap();
    let fleet = fleet(&server.url(), 3);
    let load = Load::start(&fleet, 1, LARGE);
    last(2_000).await;
    let (admitted, times) = load.stop().await;
    let took = until("Redis holds what was admitted", || recorded_in(&server) == admitted).await;
    println!("{admitted} admitted, recorded {took:?} later, p99 {:?}", p99(&times));
    for limiter in &fleet {
        let unreplayed = || limiter.region_counts().unwrap().unreplayed_cost;
        until("the answer has come too", || unreplayed() == 0).await;
        let calls = limiter.region_counts().unwrap().calls;
        println!("{calls} calls for {} answers", times.len() / 3);
        // Fresh for five seconds at most: then it asks.
        let mut seen = 0;
        for _ in 0..100 {
            seen = used(limiter, "0", LARGE).await;
            if seen == admitted {
                break;
            }
            last(200).await;
        }
        assert_eq!(seen, admitted, "every view is the truth");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_is_shared() {
    let server = RedisServer::start().unwrap();
    let fleet = fleet(&server.url(), 3);
    let load = Load::start(&fleet, 1, 1_000);
    last(2_000).await;
    let (admitted, _) = load.stop().await;
    println!("{admitted} of 1,000 admitted by three processes at full speed");
    assert!((1_000..=3_000).contains(&admitted), "{admitted}");
    until("Redis holds what was admitted", || recorded_in(&server) == admitted).await;
}

/// FLUSHALL every second: whole again some 1.5 s after the last one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flushes_are_healed() {
    let server = RedisServer::start().unwrap();
    let fleet = fleet(&server.url(), 3);
    let load = Load::start(&fleet, 50, LARGE);
    for _ in 0..4 {
        last(1_000).await;
        server.command(&["FLUSHALL"]).unwrap();
    }
    let (admitted, _) = load.stop().await;
    let took = until("Redis is whole again", || recorded_in(&server) == admitted).await;
    println!("whole {took:?} after the last flush");
    let losses: u64 = fleet.iter().map(|one| one.region_counts().unwrap().losses).sum();
    assert!((3..=12).contains(&losses), "{losses}: one loss for each flush and process at most");
}

/// Runs load while the server is broken and mended, and checks that nobody noticed much.
async fn survive(server: &mut RedisServer, name: &str, fault: impl AsyncFnOnce(&mut RedisServer)) {
    let fleet = fleet(&server.url(), 3);
    let load = Load::start(&fleet, 50, LARGE);
    last(500).await;
    fault(server).await;
    last(500).await;
    let (admitted, times) = load.stop().await;
    let took = until("Redis holds what was admitted", || recorded_in(server) == admitted).await;
    let (median, p99) = (times[times.len() / 2], p99(&times));
    println!("{name}: whole after {took:?}; p50 {median:?}, p99 {p99:?}, worst {:?}", times.last());
    assert!(p99 < ANSWER_WITHIN * 10);
    for limiter in &fleet {
        let unreplayed = || limiter.region_counts().unwrap().unreplayed_cost;
        until("the answer has come too", || unreplayed() == 0).await;
        let counts = limiter.region_counts().unwrap();
        assert!(limiter.subjects() == 50 && counts.dirty <= 50, "{counts:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_client_delays_nobody() {
    let mut server = RedisServer::start().unwrap();
    survive(&mut server, "CLIENT PAUSE", async |server| {
        server.command(&["CLIENT", "PAUSE", "2000", "ALL"]).unwrap();
        last(2_000).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_server_delays_nobody() {
    let mut server = RedisServer::start().unwrap();
    survive(&mut server, "SIGSTOP", async |server| {
        server.pause().unwrap();
        last(3_000).await;
        server.resume().unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_is_filled_again() {
    let mut server = RedisServer::start().unwrap();
    survive(&mut server, "kill -9 and restart", async |server| {
        server.kill_9();
        last(2_000).await;
        server.restart().unwrap();
    })
    .await;
}

/// A store that evicts loses single cells: what the living know of them comes back with the next
/// word about them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_evicted_cell_comes_back() {
    let server = RedisServer::start().unwrap();
    let fleet = fleet(&server.url(), 2);
    let load = Load::start(&fleet, 1, LARGE);
    until("something is recorded", || recorded_in(&server) > 0).await;
    let keys = server.command(&["KEYS", "tg:*"]).unwrap();
    let names = keys.items().iter().map(tidegate_lab::Value::text);
    for cell in names.filter(|key| !key.ends_with("token")) {
        server.command(&["DEL", &cell]).unwrap();
    }
    last(3_000).await;
    let (admitted, _) = load.stop().await;
    until("Redis holds what was admitted", || recorded_in(&server) == admitted).await;
    let lost: u64 = fleet.iter().map(|one| one.region_counts().unwrap().cells_lost).sum();
    assert!(lost >= 1);
}

//! What breaks on the way.

use std::time::Duration;

use tidegate_lab::{Proxy, RedisServer};

use crate::support::{Load, fleet, last, p99, recorded_in, until};

const LARGE: u64 = 1_000_000;

/// a connection that is cut after the server has executed, requests that arrive twice and
/// late: nothing is counted twice, nothing is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_network_counts_nothing_twice() {
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::start(server.port()).unwrap();
    let fleet = fleet(&proxy.url(), 3);
    let load = Load::start(&fleet, 20, LARGE);
    for round in 0..8 {
        match round % 4 {
            0 => proxy.cut_after(40),
            1 => proxy.duplicate(),
            2 => proxy.delay(Duration::from_millis(30)),
            _ => proxy.delay(Duration::ZERO),
        }
        last(400).await;
    }
    proxy.delay(Duration::ZERO);
    let (admitted, times) = load.stop().await;
    let took = until("Redis holds what was admitted", || recorded_in(&server) == admitted).await;
    println!(
        "{} cut, {} doubled; whole after {took:?}, p99 {:?}",
        proxy.cuts(),
        proxy.dropped(),
        p99(&times)
    );
    assert!(proxy.cuts() > 0 && proxy.dropped() > 0, "something happened");
    last(500).await;
    assert_eq!(recorded_in(&server), admitted, "and stays so");
}

/// A network that swallows everything looks like a silent server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_black_hole_delays_nobody() {
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::start(server.port()).unwrap();
    let fleet = fleet(&proxy.url(), 2);
    let load = Load::start(&fleet, 20, LARGE);
    last(300).await;
    proxy.blackhole(true);
    last(2_000).await;
    proxy.blackhole(false);
    let (admitted, times) = load.stop().await;
    println!("p99 {:?}, worst {:?}", p99(&times), times.last());
    assert!(p99(&times) < Duration::from_millis(250));
    until("Redis holds what was admitted", || recorded_in(&server) == admitted).await;
}

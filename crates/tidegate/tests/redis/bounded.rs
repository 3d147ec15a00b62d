//! Limits that hold in a burst, on Redis in all its shapes and on a bad network.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{Answer, Batch, Consistency, Limiter};
use tidegate_lab::{Proxy, RedisCluster, RedisServer, Sentinel};
use tokio::task::JoinSet;

use crate::support::{
    Load, fleet, last, p99, patient_fleet, recorded, recorded_in, request, until,
};

/// Small: every admission is asked for. With this many keys none is used up.
const ASKED: (usize, u64) = (2_000, 20);

/// So many requests at once at every limiter.
async fn burst(fleet: &[Arc<Limiter>], name: &'static str, limit: u64, each: u64) -> Vec<Answer> {
    let mut callers = JoinSet::new();
    for limiter in fleet {
        for _ in 0..each {
            let limiter = Arc::clone(limiter);
            let request = request(name, limit, 1).with_consistency(Consistency::Bounded);
            callers.spawn(async move { limiter.check(&request).await });
        }
    }
    callers.join_all().await
}

/// Four limits at once at all processes: at most one and an eighth is admitted.
async fn holds(fleet: &[Arc<Limiter>], shape: &str) -> u64 {
    let mut all = 0;
    for (name, limit) in [("ten", 10), ("hundred", 100), ("thousand", 1_000)] {
        let each = 4 * limit / fleet.len() as u64 + 1;
        let answers = burst(fleet, name, limit, each).await;
        let admitted = answers.iter().filter(|answer| answer.admitted()).count() as u64;
        println!("{shape}: {admitted} of {limit}");
        assert!((limit..=limit + limit / 8).contains(&admitted), "{admitted}");
        assert!(!answers.iter().any(Answer::degraded));
        all += admitted;
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_holds_on_one_server() {
    let server = RedisServer::start().unwrap();
    let fleet = patient_fleet(&server.url(), 5);
    let admitted = holds(&fleet, "one server").await;
    until("Redis holds what was admitted", || recorded_in(&server) == admitted).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_holds_in_a_cluster() {
    let cluster = RedisCluster::start(3).unwrap();
    let fleet =
        patient_fleet(&format!("redis://{}/?cluster=true", cluster.addresses().join(",")), 5);
    let admitted = holds(&fleet, "cluster").await;
    until("Redis holds what was admitted", || recorded(cluster.nodes()) == admitted).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_holds_with_sentinel() {
    let sentinel = Sentinel::start().unwrap();
    let nodes = sentinel.addresses().join(",");
    let fleet = patient_fleet(&format!("redis://{nodes}/?sentinel={}", Sentinel::MASTER), 5);
    let admitted = holds(&fleet, "sentinel").await;
    let port = sentinel.master_port().unwrap();
    let master = sentinel.servers().iter().find(|server| server.port() == port).unwrap();
    until("Redis holds what was admitted", || recorded_in(master) == admitted).await;
}

/// Batches over one large and one small limit, at several processes at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_are_all_or_nothing() {
    let server = RedisServer::start().unwrap();
    let fleet = patient_fleet(&server.url(), 3);
    let mut callers = JoinSet::new();
    for at in 0..150 {
        let limiter = Arc::clone(&fleet[at % 3]);
        callers.spawn(async move {
            let of = |name, limit| request(name, limit, 1).with_consistency(Consistency::Bounded);
            let both = [of("small", 20), of("large", 40)];
            limiter.check_all(&Batch::new(&both).unwrap()).await
        });
    }
    let answers = callers.join_all().await;
    let admitted = answers.iter().filter(|answer| answer.admitted()).count() as u64;
    assert_eq!(admitted, 20);
    let mut items = answers.iter().flat_map(|answer| answer.items());
    assert!(items.all(|item| !item.degraded()));
    until("both limits hold the same", || recorded_in(&server) == 2 * admitted).await;
}

/// Connections that are cut after the server has executed, asks that arrive twice and late: nothing
/// is counted twice, nothing is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_network_grants_nothing_twice() {
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::start(server.port()).unwrap();
    let fleet = fleet(&proxy.url(), 3);
    let load = Load::start_with(&fleet, ASKED, Consistency::Bounded);
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
    let counts = fleet.iter().filter_map(|limiter| limiter.region_counts());
    let (asked, unheard) = counts.fold((0, 0), |(asked, unheard), counts| {
        assert_eq!(counts.identity_clashes, 0);
        (asked + counts.asked_for, unheard + counts.asks_unheard)
    });
    println!(
        "{} cut, {} doubled; {unheard} of {asked} unheard of; whole after {took:?}, p99 {:?}",
        proxy.cuts(),
        proxy.dropped(),
        p99(&times)
    );
    assert!(proxy.cuts() > 0 && proxy.dropped() > 0 && unheard > 0 && unheard < asked);
    last(500).await;
    assert_eq!(recorded_in(&server), admitted, "and stays so");
}

/// A server that stands still, is flushed and goes on: everybody is answered in time, and asks
/// again afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_is_survived() {
    let server = RedisServer::start().unwrap();
    let fleet = fleet(&server.url(), 3);
    let load = Load::start_with(&fleet, ASKED, Consistency::Bounded);
    last(500).await;
    server.pause().unwrap();
    last(700).await;
    server.resume().unwrap();
    last(300).await;
    server.command(&["FLUSHALL"]).unwrap();
    last(500).await;
    let granted = |fleet: &[Arc<Limiter>]| -> u64 {
        fleet.iter().map(|limiter| limiter.counts().admitted_granted).sum()
    };
    let before = granted(&fleet);
    until("they ask again", || granted(&fleet) > before).await;
    let (admitted, times) = load.stop().await;
    println!("p99 {:?}, worst {:?}", p99(&times), times.last());
    until("Redis holds what was admitted", || recorded_in(&server) == admitted).await;
}

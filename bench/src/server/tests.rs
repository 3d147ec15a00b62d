//! What the bench itself must not get wrong: it counts no reply that is none, forgets no time, and
//! waits for nobody for ever.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::contestants::{Place, Running, Who};
use super::load::{Loop, Offer};
use super::targets::{self, Measured};
use super::wire::Protocol;
use super::{Case, Contest, Kind, Scene};
use crate::figures::{Figures, quantile};
use crate::region::time;

/// Long enough for many requests.
const A_MOMENT: Loop = Loop::Closed(Duration::from_millis(100));

/// Answers every request with this status and body.
async fn stub(status: &str, body: &str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let reply = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let reply = reply.clone();
            tokio::spawn(async move {
                let mut buffer = [0; 4_096];
                while stream.read(&mut buffer).await.is_ok_and(|read| read > 0) {
                    if stream.write_all(reply.as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// Whether a server with this status and body is measured in this case.
async fn is_measured(who: Who, case: Case, (status, body): (&str, &str)) -> bool {
    let address = stub(status, body).await;
    let running = Running::at(who, (address, address));
    let scene = Scene::new(Path::new("/none"), None, true);
    let contest = Contest::new(case, &running, &scene).unwrap();
    contest.load(A_MOMENT).await.is_ok()
}

#[tokio::test]
async fn only_who_denies_is_measured_as_denied() {
    let ours = Who::Ours(Place::Memory);
    let denied = ("200 OK", r#"{"data":{"success":false}}"#);
    let admitted = ("200 OK", r#"{"data":{"success":true}}"#);
    assert!(is_measured(ours, Case::Denied, denied).await);
    assert!(!is_measured(ours, Case::Denied, admitted).await);
    assert!(is_measured(Who::Throttlecrab, Case::Denied, ("429 No", "")).await);
    let broken = ("500 Oops", r#"{"allowed":false}"#);
    assert!(!is_measured(Who::Throttlecrab, Case::Denied, broken).await);
    assert!(!is_measured(Who::Front, Case::Denied, ("200 OK", "{}")).await);
}

#[tokio::test]
async fn only_who_admits_is_measured_as_limit() {
    let ours = Who::Ours(Place::Memory);
    let denied = ("200 OK", r#"{"data":{"success":false}}"#);
    let admitted = ("200 OK", r#"{"data":{"success":true}}"#);
    assert!(is_measured(ours, Case::Limit, admitted).await);
    assert!(!is_measured(ours, Case::Limit, denied).await);
    assert!(!is_measured(ours, Case::MultiLimit, ("200 OK", "[]")).await);
}

#[tokio::test]
async fn a_server_that_never_answers_does_not_hang_the_bench() {
    // Takes connections, and says nothing.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let running = Running::at(Who::Trivial, (address, address));
    let patience = Duration::from_millis(100);
    let offer = running.offer(Kind::Limit, Protocol::Http1, 1).unwrap();
    let offer = Offer { patience, ..offer };
    for how in [Loop::Count(1), A_MOMENT, Loop::Open(100.0, patience)] {
        let ended = tokio::time::timeout(Duration::from_secs(60), offer.run(how)).await;
        assert!(ended.unwrap().is_err(), "{how:?} is measured");
    }
}

#[tokio::test]
async fn a_later_run_goes_on_where_the_last_one_ended() {
    let address = stub("200 OK", "").await;
    let running = Running::at(Who::Trivial, (address, address));
    let offer = running.offer(Kind::Limit, Protocol::Http1, 100).unwrap();
    for run in 1..=3 {
        Offer { connections: 2, ..offer.clone() }.run(Loop::Count(5)).await.unwrap();
        assert_eq!(offer.script.taken(), run * 10);
    }
}

#[tokio::test]
async fn a_pause_of_the_load_is_seen_in_its_latencies() {
    let address = stub("200 OK", "").await;
    let running = Running::at(Who::Trivial, (address, address));
    let offer = running.offer(Kind::Limit, Protocol::Http1, 100).unwrap();
    tokio::spawn(async {
        let mut again = tokio::time::interval(Duration::from_millis(300));
        for _ in 0..3 {
            again.tick().await;
            block(Duration::from_millis(100));
        }
    });
    // A fifth of all is due in three pauses, and half of these wait for more than half of one.
    let taken = offer.run(Loop::Open(640.0, Duration::from_millis(1_500))).await.unwrap();
    let sorted: Vec<f64> = taken.latencies_us.iter().map(|us| f64::from(*us)).collect();
    assert_eq!(sorted.len(), 960);
    let p95 = quantile(&sorted, 0.95);
    assert!(p95 > 40_000.0, "the load had no core for 300 of 1,500 ms, and p95 is {p95} us");
}

/// Nothing is sent for so long, as when the server's threads have the cores.
fn block(lasting: Duration) {
    let end = time::now() + lasting;
    while time::now() < end {
        std::hint::spin_loop();
    }
}

/// Somebody of whom so much was measured.
fn measured(who: Who, case: Case, (per_second, cpu_us): (f64, f64)) -> Measured {
    let (per_second, own_us, stores_us) = (vec![per_second], vec![cpu_us], vec![0.0]);
    let latencies_us = vec![[per_second[0].min(100.0); 3]];
    Measured { case, per_second, own_us, stores_us, latencies_us, ..Measured::new(who) }
}

fn all_targets(measured: &[Measured]) -> Vec<(String, String, bool)> {
    let mut figures = Figures::wide("server");
    targets::add(measured, &mut figures);
    figures.targets()
}

#[test]
fn a_target_is_not_met_by_who_was_not_measured() {
    let who = [
        Who::Ours(Place::Memory),
        Who::Ours(Place::Redis),
        Who::Ours(Place::Globe),
        Who::Trivial,
        Who::Front,
    ];
    let cases = [Case::Limit, Case::MultiLimit];
    let all = cases.iter().flat_map(|case| who.map(|who| measured(who, *case, (0.0, 0.0))));
    let targets = all_targets(&all.collect::<Vec<_>>());
    assert!(targets.len() > 10);
    assert!(targets.iter().all(|(_, _, met)| !met), "{targets:?}");
}

#[test]
fn every_place_of_ours_has_a_target_of_latency() {
    let places = [Place::Memory, Place::Redis, Place::Globe].map(Who::Ours);
    let who = places.into_iter().chain([Who::Trivial]);
    let all: Vec<Measured> = who.map(|who| measured(who, Case::Limit, (9e4, 10.0))).collect();
    let targets = all_targets(&all);
    let of_latency = targets.iter().filter(|(target, _, met)| *met && target.starts_with("p99 "));
    assert_eq!(of_latency.count(), 3, "{targets:?}");
}

#[test]
fn who_is_not_faster_than_the_load_is_not_behind_ours() {
    let ours = measured(Who::Ours(Place::Memory), Case::Limit, (100_000.0, 9.5));
    let of = |rival: (f64, f64)| {
        let rival = measured(Who::Front, Case::Limit, rival);
        let targets = all_targets(&[ours.clone(), rival]);
        targets.into_iter().find(|(target, ..)| target.starts_with("requests/s")).unwrap()
    };
    assert!(of((90_000.0, 11.0)).2, "it used a whole core");
    let (_, said, met) = of((90_000.0, 2.0));
    assert!(!met && said.contains("load-bound: redis-lua-front"), "{said}");
}

#[test]
fn who_is_not_there_is_not_behind_ours() {
    let ours = measured(Who::Ours(Place::Memory), Case::Limit, (100_000.0, 9.5));
    let targets = all_targets(&[ours]);
    for rival in ["redis-lua-front", "throttlecrab"] {
        let of: Vec<_> = targets.iter().filter(|(target, ..)| target.contains(rival)).collect();
        assert_eq!(of.len(), 2, "{targets:?}");
        assert!(of.iter().all(|(_, said, met)| said == "not measured" && !met), "{targets:?}");
    }
}

#[test]
fn latencies_are_compared_within_rounds() {
    let with = |who: Who, p99_us: [f64; 3]| {
        let latencies_us = p99_us.map(|us| [1.0, us, us]).to_vec();
        Measured { latencies_us, ..measured(who, Case::Limit, (9e4, 10.0)) }
    };
    // The medians are 3 to 1, and in two of three rounds both took as long.
    let all =
        [with(Who::Trivial, [1.0, 4.0, 1.0]), with(Who::Ours(Place::Memory), [3.0, 4.0, 1.0])];
    let targets = all_targets(&all);
    let (_, said, met) = targets.iter().find(|(target, ..)| target.starts_with("p99 ")).unwrap();
    assert!(*met && said == "1.00x (1.00 to 3.00)", "{said}");
}

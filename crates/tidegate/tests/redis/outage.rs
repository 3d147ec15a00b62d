//! Requests that are denied while a real Redis cannot be asked.

use tidegate::{Answer, Consistency, Denial, Limiter, Outage, Request};
use tidegate_lab::RedisServer;

use crate::support::{last, limiter, recorded_in, request, until};

const LIMIT: u64 = 10;

fn denying(name: &str, consistency: Consistency) -> Request<'_> {
    request(name, LIMIT, 1).with_consistency(consistency).with_outage(Outage::Deny)
}

/// Asks, each time for another subject, until Redis is heard: what was admitted.
async fn heard(limiter: &Limiter, name: &str, consistency: Consistency) -> u64 {
    for n in 0..1_000 {
        let name = format!("{name}-{n}");
        let answer = limiter.check(&denying(&name, consistency)).await;
        if answer.admitted() {
            assert!(!answer.degraded(), "{answer:?}");
            return 1;
        }
        assert_eq!(answer.denial(), Some(Denial::Outage));
        last(20).await;
    }
    panic!("Redis is not heard");
}

/// Denied, and why, and until when.
fn is_outage(answer: &Answer) {
    assert_eq!((answer.denial(), answer.degraded()), (Some(Denial::Outage), true), "{answer:?}");
    let retry_ms = answer.retry_after_ms().unwrap();
    assert!((50..=1_000).contains(&retry_ms), "{retry_ms}");
}

/// While Redis is broken nothing is admitted that it should be asked about; before and after, all
/// is as ever, and Redis holds what was admitted and what was sent to it in vain, once.
async fn nothing_is_admitted(fault: impl Fn(&mut RedisServer), mend: impl Fn(&mut RedisServer)) {
    for consistency in [Consistency::Fast, Consistency::Bounded] {
        let mut server = RedisServer::start().unwrap();
        let limiter = limiter(&server.url());
        let mut admitted = heard(&limiter, "before", consistency).await;
        fault(&mut server);
        for n in 0..20 {
            let name = n.to_string();
            let one = denying(&name, consistency);
            is_outage(&limiter.check(&one).await);
            is_outage(&limiter.check(&one).await);
        }
        let local = request("local", LIMIT, 1).with_consistency(consistency);
        let answer = limiter.check(&local).await;
        assert!(answer.admitted() && answer.degraded(), "{answer:?}");
        admitted += 1;
        let counts = limiter.counts();
        assert!(counts.denied_outage >= 40, "{counts:?}");
        mend(&mut server);
        admitted += heard(&limiter, "after", consistency).await;
        let unreplayed = || limiter.region_counts().unwrap().unreplayed_cost;
        // What was admitted a moment ago may not be on its way yet.
        let all = || unreplayed() == 0 && recorded_in(&server) >= admitted;
        until("everything is recorded", all).await;
        let charged = recorded_in(&server) - admitted;
        println!("{consistency:?}: {admitted} admitted, {charged} charged in vain");
        let unheard = limiter.region_counts().unwrap().asks_unheard;
        assert!(charged <= unheard && unheard < 20, "{charged} of {unheard}");
        if consistency == Consistency::Fast {
            assert_eq!(charged, 0, "what is only read charges nobody");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_admitted_while_redis_is_paused() {
    let pause = |server: &mut RedisServer| {
        drop(server.command(&["CLIENT", "PAUSE", "6000", "ALL"]).unwrap());
    };
    nothing_is_admitted(pause, |_| {}).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_admitted_while_redis_is_stopped() {
    nothing_is_admitted(|server| server.pause().unwrap(), |server| server.resume().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_admitted_while_redis_is_dead() {
    nothing_is_admitted(RedisServer::kill_9, |server| server.restart().unwrap()).await;
}

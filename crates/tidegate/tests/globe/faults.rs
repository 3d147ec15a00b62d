//! A global store that is away, slow or broken changes no answer.

use std::sync::atomic::Ordering;

use tidegate::{Answer, Limiter};
use tidegate_convergence::MemoryGlobe;
use tokio::time::Instant;

use crate::support::{CONVERGED_MS, Globe, counts, left, pass, request, request_in, spend};

/// What is said of some requests, but for the age.
async fn story(limiter: &Limiter) -> Vec<(bool, u64, u64, bool, Option<u64>)> {
    let mut said = Vec::new();
    for (name, limit, cost) in [
        ("i", 10, 6),
        ("i", 10, 5),
        ("i", 10, 4),
        ("i", 10, 1),
        ("j", 1_000, 30),
        ("k", 5, 6),
        ("k", 5, 0),
        ("i", 20, 5),
    ] {
        let start = Instant::now();
        let answer: Answer = limiter.check(&request(name, limit, cost)).await;
        assert_eq!(start.elapsed().as_millis(), 0, "nobody waits");
        let retry_ms = answer.retry_after_ms();
        said.push((
            answer.admitted(),
            answer.remaining(),
            answer.limit(),
            answer.degraded(),
            retry_ms,
        ));
        pass(300).await;
    }
    said
}

#[tokio::test(start_paused = true)]
async fn an_absent_global_store_changes_nothing_but_the_age() {
    let globe = Globe::new();
    globe.silent.store(true, Ordering::SeqCst);
    let (with, without) = (globe.region("a"), globe.at_home(&globe.store()));
    // Both begin at the same moment: a denial says when to come back.
    let (said, expected) = tokio::join!(story(&with), story(&without));
    assert_eq!(said, expected);
    let ages = [&with, &without].map(|limiter| limiter.check_now(&request("i", 10, 0)).age_ms());
    assert!(ages[0] >= 2_400 && ages[1] < ages[0], "{ages:?}");
    assert_eq!(counts(&with).registered, 0);
}

#[tokio::test(start_paused = true)]
async fn what_was_spent_meanwhile_is_told_when_it_is_back() {
    let globe = Globe::new();
    let (a, b) = (globe.region("a"), globe.region("b"));
    pass(CONVERGED_MS).await;
    globe.silent.store(true, Ordering::SeqCst);
    spend(&a, 10, 3).await;
    spend(&b, 10, 4).await;
    pass(120_000).await;
    assert_eq!((left(&a, 10).await, left(&b, 10).await, globe.rows()), (7, 6, 0));
    assert!(counts(&a).publish_errors > 0 && counts(&a).age_ms > 100_000);
    globe.silent.store(false, Ordering::SeqCst);
    // Whatever is under way ends by its time-out, and the breaker opens after 5 s.
    pass(10_000 + CONVERGED_MS).await;
    assert_eq!((left(&a, 10).await, left(&b, 10).await), (3, 3));
    assert!(counts(&a).age_ms < 2_000, "{:?}", counts(&a));
}

/// R-49 once more: a store that panics is one that does not answer.
#[tokio::test(start_paused = true)]
async fn a_global_store_that_panics_is_asked_again() {
    let globe = Globe::new();
    let (a, b) = (globe.region("a"), globe.region("b"));
    globe.panics.store(true, Ordering::SeqCst);
    spend(&a, 10, 3).await;
    pass(30_000).await;
    assert_eq!(globe.rows(), 0);
    globe.panics.store(false, Ordering::SeqCst);
    pass(10_000 + CONVERGED_MS).await;
    assert_eq!((globe.published("a"), left(&b, 10).await), (3, 7));
}

/// A store that comes back empty is filled again by those who remember.
#[tokio::test(start_paused = true)]
async fn a_feed_that_was_lost_is_written_again() {
    let globe = Globe::new();
    let (a, b) = (globe.region("a"), globe.region("b"));
    spend(&a, 10, 3).await;
    spend(&b, 10, 4).await;
    pass(CONVERGED_MS).await;
    globe.memory.with(|memory| *memory = MemoryGlobe::default());
    pass(30_000).await;
    let c = globe.region("c");
    pass(CONVERGED_MS).await;
    let views = [left(&a, 10).await, left(&b, 10).await, left(&c, 10).await];
    assert_eq!(views, [3, 3, 3], "{:?}", counts(&a));
}

/// Memory of a process on its own is given back.
#[tokio::test(start_paused = true)]
async fn what_has_expired_is_forgotten() {
    let limiter = Globe::new().process("a", None);
    assert!(limiter.check(&request_in(60_000, "i", 10, 3)).await.admitted());
    pass(CONVERGED_MS).await;
    assert_eq!(counts(&limiter).values, 1);
    pass(180_000).await;
    assert_eq!(counts(&limiter).values, 0);
}

/// A limiter that outlives its runtime decides on what it knows.
#[test]
fn a_runtime_that_is_gone_delays_nobody() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let (globe, a) = first.block_on(async {
        let globe = Globe::new();
        let a = globe.region("a");
        spend(&a, 10, 1).await;
        (globe, a)
    });
    drop(first);
    runtime().block_on(async {
        for _ in 0..9 {
            assert!(a.check(&request("i", 10, 1)).await.admitted());
        }
        assert!(!a.check(&request("i", 10, 1)).await.admitted());
    });
    drop((a, globe));
}

//! What is published, when, and what the others make of it.

use std::sync::atomic::Ordering;

use tidegate::Batch;
use tidegate_limiter::{COST_MAX, LIMIT_MAX};

use crate::support::{CONVERGED_MS, Globe, counts, left, pass, request, request_in, spend};

/// GL1, the RFC's example.
#[tokio::test(start_paused = true)]
async fn what_one_region_spends_the_other_does_not_have() {
    let globe = Globe::new();
    let (a, b) = (globe.region("a"), globe.region("b"));
    spend(&a, 10, 6).await;
    pass(CONVERGED_MS).await;
    assert_eq!(globe.published("a"), 6);

    let answer = b.check(&request("i", 10, 1)).await;
    assert!(answer.admitted());
    assert_eq!(answer.remaining(), 3, "7 of 10 are used");
    assert!(!b.check(&request("i", 10, 4)).await.admitted(), "that would be 11");
    pass(CONVERGED_MS).await;
    assert_eq!(
        (globe.published("a"), globe.published("b")),
        (6, 1),
        "each says what it used itself"
    );
    assert_eq!((left(&a, 10).await, left(&b, 10).await), (3, 3));
}

/// What the largest totals come to is more than a cell can hold: it is held at the most.
#[tokio::test(start_paused = true)]
async fn the_largest_totals_add_up() {
    let globe = Globe::new();
    let regions = ["a", "b", "c"];
    let all = regions.map(|name| globe.region(name));
    let most = request("i", LIMIT_MAX, COST_MAX);
    for region in &all {
        for _ in 0..LIMIT_MAX / COST_MAX {
            assert!(region.check(&most).await.admitted());
        }
    }
    pass(CONVERGED_MS).await;
    assert_eq!(regions.map(|name| globe.published(name)), [LIMIT_MAX; 3]);
    for region in &all {
        assert_eq!(left(region, LIMIT_MAX).await, 0);
        assert!(!region.check(&request("i", LIMIT_MAX, 1)).await.admitted());
    }
}

/// GL5 and GL6. The RFC's floor is a fraction of the limit; ours is limit / 40 with ten regions,
/// and then each doubling as long as nobody else is there.
#[tokio::test(start_paused = true)]
async fn a_region_speaks_once_it_matters() {
    let globe = Globe::new();
    let a = globe.region("a");
    spend(&a, 1_000, 24).await;
    pass(60_000).await;
    assert_eq!(globe.rows(), 0, "24 of 1,000 concern nobody");
    spend(&a, 1_000, 1).await;
    pass(CONVERGED_MS).await;
    assert_eq!((globe.rows(), globe.published("a")), (1, 25));
    spend(&a, 1_000, 24).await;
    pass(60_000).await;
    assert_eq!(globe.rows(), 1, "49 are not yet twice as much");
    spend(&a, 1_000, 1).await;
    pass(CONVERGED_MS).await;
    assert_eq!((globe.rows(), globe.published("a")), (2, 50));
}

/// GL8: what is reserved is not spent, and what the region has not recorded is not published.
#[tokio::test(start_paused = true)]
async fn only_what_is_recorded_is_published() {
    let globe = Globe::new();
    let store = globe.store();
    let a = globe.process("a", Some(&store));
    let batch = [request("i", 10, 6), request("j", 1, 2)];
    assert!(!a.check_all(&Batch::new(&batch).unwrap()).await.admitted());
    pass(CONVERGED_MS).await;
    assert_eq!(globe.rows(), 0, "a batch that was denied spent nothing");

    store.silent.store(true, Ordering::SeqCst);
    spend(&a, 10, 6).await;
    pass(60_000).await;
    assert_eq!(globe.rows(), 0, "the region has not recorded it");
    store.silent.store(false, Ordering::SeqCst);
    pass(CONVERGED_MS).await;
    assert_eq!(globe.published("a"), 6);
}

/// GL9: that another region came makes a region say what it could keep to itself while it was
/// alone, without a request of its own.
#[tokio::test(start_paused = true)]
async fn company_makes_a_region_speak() {
    let globe = Globe::new();
    let (a, b) = (globe.region("a"), globe.region("b"));
    spend(&b, 1_000, 200).await;
    pass(CONVERGED_MS).await;
    spend(&b, 1_000, 100).await;
    pass(60_000).await;
    let before = (globe.published("a"), globe.published("b"));
    assert_eq!(before, (0, 200), "alone it speaks again at 400; a has nothing to say");
    spend(&a, 1_000, 600).await;
    pass(CONVERGED_MS).await;
    assert_eq!(globe.published("b"), 300, "room for 100: the 100 it hides are more than 25");
    assert_eq!((left(&a, 1_000).await, left(&b, 1_000).await), (100, 100));
}

/// GL10: what comes back of the own region is the region's, and is not counted once more.
#[tokio::test(start_paused = true)]
async fn the_own_region_is_not_counted_twice() {
    let globe = Globe::new();
    let store = globe.store();
    let (a, a2) = (globe.process("a", Some(&store)), globe.process("a", Some(&store)));
    spend(&a, 10, 6).await;
    pass(CONVERGED_MS).await;
    for limiter in [&a, &a2] {
        assert!(counts(limiter).applied > 0, "it has come back");
        assert_eq!(left(limiter, 10).await, 4);
    }
    let leaders = counts(&a).leads + counts(&a2).leads;
    assert_eq!((leaders, globe.rows()), (1, 1), "one of them speaks for both");
}

/// GL11: a region whose own store forgot hears from the feed what it had spent.
#[tokio::test(start_paused = true)]
async fn a_region_that_forgot_is_reminded() {
    let globe = Globe::new();
    let store = globe.store();
    let a = globe.process("a", Some(&store));
    spend(&a, 10, 6).await;
    pass(CONVERGED_MS).await;
    drop(a);
    store.memory.with(|region| region.flush(tidegate_convergence::Shard(0)));
    // Nobody says any more that the name is in use: the new identity gets it after 30 s.
    pass(31_000).await;
    let a2 = globe.process("a", Some(&store));
    pass(CONVERGED_MS).await;
    let counts = counts(&a2);
    // What it was before counts as another region's.
    assert_eq!((counts.registered, counts.applied, counts.cells_created), (1, 1, 1));
    assert!(!a2.check(&request("i", 10, 5)).await.admitted(), "6 + 5 > 10");
    assert_eq!(left(&a2, 10).await, 4);
    assert!(a2.check(&request("i", 10, 4)).await.admitted());
}

/// GL13.
#[tokio::test(start_paused = true)]
async fn nothing_new_is_nothing_to_write() {
    let globe = Globe::new();
    let (a, b) = (globe.region("a"), globe.region("b"));
    spend(&a, 10, 3).await;
    spend(&b, 10, 3).await;
    pass(CONVERGED_MS).await;
    let rows = globe.rows();
    pass(3_600_000).await;
    assert_eq!(globe.rows(), rows);
    assert_eq!(left(&a, 10).await, 4);
    let [a, b] = [counts(&a), counts(&b)];
    assert_eq!((a.pending, b.pending, a.reposted + b.reposted), (0, 0, 0));
}

/// GL14, and the first failure of a blocklist: one request that is too large blocks nobody.
#[tokio::test(start_paused = true)]
async fn an_oversized_request_costs_nothing_elsewhere() {
    let globe = Globe::new();
    let (a, b) = (globe.region("a"), globe.region("b"));
    assert!(!a.check(&request("i", 10, 11)).await.admitted());
    pass(60_000).await;
    assert_eq!((globe.rows(), left(&b, 10).await), (0, 10));
    spend(&b, 10, 10).await;
}

/// The second failure of a blocklist: a denial that the last window caused says nothing of this
/// one.
#[tokio::test(start_paused = true)]
async fn a_denial_by_the_last_window_costs_nothing_in_this_one() {
    const WINDOW_MS: u64 = 60_000;
    let globe = Globe::new();
    let (a, b) = (globe.region("a"), globe.region("b"));
    pass(50_000).await;
    assert!(a.check(&request_in(WINDOW_MS, "i", 10, 10)).await.admitted());
    pass(10_500).await;
    let full = request_in(WINDOW_MS, "i", 10, 5);
    assert!(!a.check(&full).await.admitted(), "nearly all of the last window still counts");
    assert!(!b.check(&full).await.admitted(), "for everybody");
    pass(CONVERGED_MS).await;
    let sequences: Vec<u64> = globe.counters().iter().map(|(_, c)| c.sequence).collect();
    assert!(sequences.iter().all(|sequence| *sequence == sequences[0]), "{sequences:?}");
    // Half of the window later half of it is free, here and there alike.
    pass(24_000).await;
    let answers = [&a, &b].map(|limiter| limiter.check_now(&full));
    assert!(answers[0].admitted() && answers[1].admitted());
}

/// GL15.
#[tokio::test(start_paused = true)]
async fn a_region_without_traffic_knows_before_the_first_request() {
    let globe = Globe::new();
    let (a, b) = (globe.region("a"), globe.region("b"));
    spend(&a, 10, 6).await;
    pass(CONVERGED_MS).await;
    let counts = counts(&b);
    assert_eq!((counts.cells_created, counts.values, counts.posted), (1, 1, 0));
    let answer = b.check(&request("i", 10, 5)).await;
    assert!(!answer.admitted(), "the first request of this region");
    assert_eq!(left(&b, 10).await, 4);
}

#[tokio::test(start_paused = true)]
async fn short_windows_stay_in_their_region() {
    let globe = Globe::new();
    let (a, b) = (globe.region("a"), globe.region("b"));
    for window_ms in [1_000, 30_000, 59_999] {
        assert!(a.check(&request_in(window_ms, "i", 10, 10)).await.admitted());
    }
    assert!(a.check(&request_in(60_000, "j", 10, 10)).await.admitted());
    pass(CONVERGED_MS).await;
    let windows: Vec<u64> = globe.counters().iter().map(|(_, c)| c.window_ms).collect();
    assert_eq!(windows, [60_000]);
    assert!(!b.check(&request_in(60_000, "j", 10, 1)).await.admitted());
}

/// The bound: what a region hides is less than its share of a quarter of the limit.
#[tokio::test(start_paused = true)]
async fn ten_regions_hide_at_most_a_quarter() {
    let globe = Globe::new();
    let names: Vec<String> = (0..10).map(|number| format!("r{number}")).collect();
    let regions: Vec<_> = names.iter().map(|name| globe.region(name)).collect();
    pass(CONVERGED_MS).await;
    let mut admitted = 0;
    // A slow client that asks each region in turn, for as long as anyone lets it.
    for turn in 0..1_500 {
        let answer = regions[turn % 10].check(&request("i", 1_000, 1)).await;
        admitted += u64::from(answer.admitted());
        pass(500).await;
    }
    println!("10 regions admitted {admitted} of 1,000");
    assert!((1_000..=1_300).contains(&admitted), "{admitted}");
}

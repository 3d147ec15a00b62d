//! A region of one process that ends and starts again with what it had saved.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{Limiter, Saved};

use crate::support::{CONVERGED_MS, Globe, counts, left, pass, request, spend};

const PATIENCE: Duration = Duration::from_secs(20);

fn save(limiter: &Limiter) -> Saved {
    let mut bytes = Vec::new();
    limiter.save(&mut bytes).unwrap();
    Saved::read(bytes.as_slice(), None).unwrap()
}

fn restore(globe: &Arc<Globe>, name: &str, saved: Saved) -> Limiter {
    globe.builder(name).restore(saved).build().unwrap()
}

/// What is published under which number, by region.
fn numbers(globe: &Globe) -> Vec<u32> {
    let mut numbers: Vec<u32> = globe.counters().iter().map(|(number, _)| *number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

#[tokio::test(start_paused = true)]
async fn what_was_restored_and_published_counts_once() {
    let globe = Globe::new();
    let (a, b) = (globe.process("a", None), globe.process("b", None));
    // Both are on the cell, so that neither keeps half of it to itself.
    spend(&b, 1_000, 100).await;
    spend(&a, 1_000, 300).await;
    pass(CONVERGED_MS).await;
    let drained = a.drain(PATIENCE).await;
    assert_eq!((drained.unpublished, globe.published("a")), (0, 300));
    let saved = save(&a);
    drop(a);

    let a = restore(&globe, "a", saved);
    let first = a.check_now(&request("i", 1_000, 0)).remaining();
    assert_eq!(first, 700, "before anything is imported");
    pass(CONVERGED_MS).await;
    assert_eq!((counts(&a).registered, counts(&a).name_clashes), (1, 0));
    assert_eq!((left(&a, 1_000).await, left(&b, 1_000).await), (600, 600), "and after");

    spend(&a, 1_000, 200).await;
    pass(CONVERGED_MS).await;
    assert_eq!((left(&a, 1_000).await, left(&b, 1_000).await), (400, 400));
    assert_eq!((globe.published("a"), numbers(&globe).len()), (500, 2), "it is the same region");

    spend(&b, 1_000, 150).await;
    pass(CONVERGED_MS).await;
    assert_eq!((left(&a, 1_000).await, left(&b, 1_000).await), (250, 250));
}

/// It is killed: what it published after the last save comes back from the feed, and its name is
/// its own at once.
#[tokio::test(start_paused = true)]
async fn what_was_published_after_the_last_save_counts_too() {
    let globe = Globe::new();
    let (a, b) = (globe.process("a", None), globe.process("b", None));
    spend(&b, 1_000, 100).await;
    spend(&a, 1_000, 100).await;
    pass(CONVERGED_MS).await;
    let saved = save(&a);
    spend(&a, 1_000, 250).await;
    pass(CONVERGED_MS).await;
    assert_eq!(globe.published("a"), 350);
    drop(a);

    let a = restore(&globe, "a", saved);
    pass(CONVERGED_MS).await;
    assert_eq!((counts(&a).registered, counts(&a).name_clashes), (1, 0), "it waits for nobody");
    assert_eq!((left(&a, 1_000).await, left(&b, 1_000).await), (550, 550));
    spend(&a, 1_000, 300).await;
    pass(CONVERGED_MS).await;
    assert_eq!((left(&a, 1_000).await, left(&b, 1_000).await), (250, 250));
}

/// It is killed before it published anything: what it had saved is published when it is used again.
#[tokio::test(start_paused = true)]
async fn what_was_saved_and_not_published_is_told() {
    let globe = Globe::new();
    let a = globe.process("a", None);
    spend(&a, 1_000, 20).await;
    pass(CONVERGED_MS).await;
    assert_eq!(globe.rows(), 0, "nothing of it matters yet");
    let saved = save(&a);
    drop(a);

    let (a, b) = (restore(&globe, "a", saved), globe.process("b", None));
    spend(&a, 1_000, 20).await;
    pass(CONVERGED_MS).await;
    assert_eq!(
        (globe.published("a"), left(&a, 1_000).await, left(&b, 1_000).await),
        (40, 960, 960)
    );
}

/// A life without other regions in between: who it was is not forgotten.
#[tokio::test(start_paused = true)]
async fn a_life_at_home_keeps_the_identity() {
    let globe = Globe::new();
    let a = globe.process("a", None);
    spend(&a, 1_000, 300).await;
    let drained = a.drain(PATIENCE).await;
    assert_eq!(drained.unpublished, 0);
    let clock = globe.clock();
    let at_home = Limiter::builder().clock(clock).restore(save(&a)).build().unwrap();
    drop(a);
    assert!(at_home.check_now(&request("i", 1_000, 100)).admitted());

    let a = restore(&globe, "a", save(&at_home));
    pass(CONVERGED_MS).await;
    assert_eq!(left(&a, 1_000).await, 600);
    assert_eq!(numbers(&globe).len(), 1);
}

/// With a regional store the store remembers, and nothing is saved or restored.
#[tokio::test(start_paused = true)]
async fn with_a_regional_store_nothing_is_saved() {
    let globe = Globe::new();
    let alone = globe.process("a", None);
    spend(&alone, 10, 4).await;
    assert!(alone.is_saved_here());
    let saved = save(&alone);
    drop(alone);
    let store = globe.store();
    let regional =
        globe.builder("b").restore(saved).region_tuned(store, tidegate::Tuning::default());
    let limiter = regional.build().unwrap();
    assert_eq!(left(&limiter, 10).await, 10);
    spend(&limiter, 10, 1).await;
    assert!(!limiter.is_saved_here());
    assert_eq!(save(&limiter).subjects(), 0);
}

/// This node, its region and each region, side by side.
#[tokio::test(start_paused = true)]
async fn an_operator_sees_node_region_and_regions() {
    let globe = Globe::new();
    let store = globe.store();
    let one = globe.process("a", Some(&store));
    let two = globe.process("a", Some(&store));
    let b = globe.region("b");
    spend(&one, 100, 30).await;
    spend(&two, 100, 20).await;
    spend(&b, 100, 10).await;
    pass(CONVERGED_MS).await;
    let ask = request("i", 100, 0);
    let subject = ask.subject();
    let _ = one.check(&ask).await;

    let seen = one.inspect(subject);
    let cell = seen.here.current;
    assert_eq!((cell.mine, cell.acked, cell.peers, cell.foreign), (30, 30, 20, 10));
    assert_eq!((seen.here.dirty, cell.unreplayed(), cell.confirmed), (false, 0, 50));
    let published = seen.globe.unwrap();
    assert_eq!(published.current.own, 50);
    assert_eq!(published.current.others.iter().map(|(_, count)| *count).collect::<Vec<_>>(), [10]);
    assert!(published.number.is_some() && published.age_ms < CONVERGED_MS);

    let before = store.memory.with(|region| format!("{region:?}"));
    let region = one.ask_region(subject).await.unwrap().unwrap();
    assert_eq!((region.current.sum, region.current.recorded), (50, 30));
    assert_eq!((region.current.components, region.previous.sum), (2, 0));
    let stranger = request("stranger", 1, 0);
    let region = one.ask_region(stranger.subject()).await.unwrap().unwrap();
    assert_eq!((region.current.sum, region.current.components), (0, 0));
    let after = store.memory.with(|region| format!("{region:?}"));
    assert_eq!(before, after, "asking records nothing");

    let alone = globe.process("c", None);
    assert_eq!(alone.ask_region(subject).await, Ok(None));
    store.silent.store(true, std::sync::atomic::Ordering::SeqCst);
    assert!(
        one.ask_region(subject).await.is_err(),
        "a silent store is waited for, but not for ever"
    );
}

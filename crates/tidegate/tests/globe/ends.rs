//! How a process leaves, and whose name it has.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tidegate::Limiter;

use crate::support::{CONVERGED_MS, Globe, counts, left, pass, request, spend};

const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test(start_paused = true)]
async fn a_process_on_its_own_tells_everything_and_gives_its_name_back() {
    let globe = Globe::new();
    let (a, b) = (globe.process("a", None), globe.process("b", None));
    for number in 0..300 {
        let name = number.to_string();
        assert!(a.check(&request(&name, 1_000, 1)).await.admitted());
    }
    spend(&a, 1_000, 7).await;
    pass(60_000).await;
    assert_eq!(globe.rows(), 0, "nothing of it matters yet");
    let drained = a.drain(PATIENCE).await;
    assert_eq!((drained.unreplayed_cost, drained.unpublished), (0, 0));
    assert_eq!(globe.published("a"), 307);
    pass(CONVERGED_MS).await;
    assert_eq!(left(&b, 1_000).await, 993);

    let again = globe.process("a", None);
    pass(CONVERGED_MS).await;
    assert_eq!((counts(&again).registered, counts(&again).name_clashes), (1, 0));
    assert_eq!(left(&again, 1_000).await, 993, "it remembers what it was");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_leaves_hands_over() {
    let globe = Globe::new();
    let store = globe.store();
    let processes = [globe.process("a", Some(&store)), globe.process("a", Some(&store))];
    let b = globe.region("b");
    pass(CONVERGED_MS).await;
    let leads = |limiter: &&Limiter| counts(limiter).leads == 1;
    let leader = processes.iter().find(leads).unwrap();
    let follower = processes.iter().find(|limiter| !leads(limiter)).unwrap();
    spend(leader, 10, 3).await;
    let drained = leader.drain(PATIENCE).await;
    assert_eq!((drained.unreplayed_cost, drained.unpublished), (0, 0));
    assert_eq!(globe.published("a"), 3, "what it found due is published before it goes");
    spend(follower, 10, 3).await;
    pass(CONVERGED_MS).await;
    assert_eq!(counts(follower).leads, 1);
    assert_eq!((globe.published("a"), left(&b, 10).await), (6, 4));
}

#[tokio::test(start_paused = true)]
async fn a_drain_says_what_it_could_not_tell() {
    let globe = Globe::new();
    let a = globe.process("a", None);
    pass(CONVERGED_MS).await;
    globe.silent.store(true, Ordering::SeqCst);
    for number in 0..5 {
        let name = number.to_string();
        assert!(a.check(&request(&name, 10, 1)).await.admitted());
    }
    let start = tokio::time::Instant::now();
    let drained = a.drain(Duration::from_secs(2)).await;
    assert!(start.elapsed() <= Duration::from_millis(2_001), "{:?}", start.elapsed());
    assert_eq!((drained.unreplayed_cost, drained.unpublished), (0, 5));
    let again = a.drain(Duration::from_secs(2)).await;
    assert_eq!(again.unpublished, 0, "nothing is left to be tried");
    assert!(a.check(&request("i", 10, 1)).await.admitted(), "it still answers");
}

/// Two regions that were given one name: the first has it.
#[tokio::test(start_paused = true)]
async fn of_two_regions_with_one_name_the_second_says_nothing() {
    let globe = Globe::new();
    let first = globe.region("a");
    pass(CONVERGED_MS).await;
    let second = globe.region("a");
    pass(CONVERGED_MS).await;
    assert_eq!((counts(&first).registered, counts(&second).registered), (1, 0));
    assert!(counts(&second).name_clashes > 0 && counts(&second).published == 0);
    spend(&second, 10, 9).await;
    pass(120_000).await;
    assert_eq!((globe.rows(), counts(&second).registered), (0, 0), "it says nothing");
    assert_eq!(left(&first, 10).await, 10);
    spend(&first, 10, 2).await;
    pass(CONVERGED_MS).await;
    assert_eq!(left(&second, 10).await, 1, "and hears nothing, but answers");

    drop(first);
    pass(60_000).await;
    assert_eq!(counts(&second).registered, 1, "the name was not used for 30 s");
    assert_eq!(globe.published("a"), 9);
}

//! Bounds: in all, for each workspace, and whose replies go first.

use super::*;

/// Room for so many calls with an empty reply; one workspace may have half of it under way.
fn bounded(calls: usize) -> Idempotency {
    let bytes_max = calls * CALL_BYTES;
    let workspace_bytes_max = bytes_max / 2;
    alone().0.bounds(Bounds { bytes_max, workspace_bytes_max, ..Bounds::default() })
}

async fn put(idempotency: &Idempotency, workspace: &str, name: &str, reply: usize) {
    let call = Call { workspace, key: key(name), ..call("k") };
    let claim = first(idempotency, &call).await;
    claim.settle(&Bytes::from(vec![b'x'; reply])).await;
}

async fn has(idempotency: &Idempotency, workspace: &str, name: &str) -> bool {
    let call = Call { workspace, key: key(name), ..call("k") };
    matches!(idempotency.begin(&call).await, Begun::Again(_))
}

#[tokio::test(start_paused = true)]
async fn a_loud_workspace_pushes_out_its_own_oldest() {
    let idempotency = bounded(8);
    put(&idempotency, "quiet", "k", 0).await;
    for number in 0..100 {
        put(&idempotency, "loud", &number.to_string(), 0).await;
        assert!(idempotency.counts().bytes <= 8 * CALL_BYTES);
    }
    let counts = idempotency.counts();
    assert_eq!((counts.calls, counts.pushed_out), (8, 93), "seven of its own and the quiet one's");
    assert!(has(&idempotency, "quiet", "k").await);
    assert!(has(&idempotency, "loud", "93").await && has(&idempotency, "loud", "99").await);
    assert!(!has(&idempotency, "loud", "92").await);
}

#[tokio::test(start_paused = true)]
async fn who_is_alone_has_all_until_another_comes() {
    let idempotency = bounded(8);
    for number in 0..8 {
        put(&idempotency, "loud", &number.to_string(), 0).await;
    }
    assert_eq!(idempotency.counts().pushed_out, 0);
    for number in 0..4 {
        put(&idempotency, "other", &number.to_string(), 0).await;
    }
    for (workspace, first) in [("loud", 4), ("other", 0)] {
        for number in first..first + 4 {
            assert!(has(&idempotency, workspace, &number.to_string()).await, "{workspace}");
        }
    }
    assert_eq!(idempotency.counts().pushed_out, 4);
}

/// A burst, a pause, and a call: it does not have to clean up after all of them, and is not told
/// what is over.
#[tokio::test(start_paused = true)]
async fn a_call_after_a_burst_forgets_a_few_replies_and_gives_none_that_is_over() {
    let (idempotency, clock) = alone();
    for number in 0..1_000 {
        put(&idempotency, "w", &number.to_string(), 0).await;
    }
    clock.advance(Duration::from_millis(Bounds::default().reply_life_ms));
    put(&idempotency, "w", "999", 7).await;
    let left = idempotency.counts().calls;
    assert!((850..950).contains(&left), "{left}");
    assert!(has(&idempotency, "w", "999").await, "the new one");
    // Whatever is asked, all that is over goes in the end.
    for number in (500..520).rev() {
        assert!(!has(&idempotency, "w", &number.to_string()).await, "{number}");
    }
    for _ in 0..4 {
        idempotency.sweep();
    }
    let counts = idempotency.counts();
    assert_eq!((counts.calls, counts.bytes), (1, CALL_BYTES + 7));
    assert_eq!(counts.pushed_out, 0);
}

#[tokio::test(start_paused = true)]
async fn when_all_is_full_whoever_has_most_gives() {
    let idempotency = bounded(8);
    for number in 0..4 {
        put(&idempotency, "a", &number.to_string(), 0).await;
        put(&idempotency, "b", &number.to_string(), 0).await;
    }
    put(&idempotency, "c", "0", 0).await;
    put(&idempotency, "c", "1", 0).await;
    let counts = idempotency.counts();
    assert_eq!((counts.calls, counts.pushed_out), (8, 2));
    for (workspace, names) in
        [("a", ["1", "2", "3"]), ("b", ["1", "2", "3"]), ("c", ["0", "1", "1"])]
    {
        for name in names {
            assert!(has(&idempotency, workspace, name).await, "{workspace} {name}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_reply_counts_as_what_it_is() {
    let idempotency = bounded(10);
    for number in 0..5 {
        put(&idempotency, "w", &number.to_string(), 0).await;
    }
    put(&idempotency, "w", "long", 5 * CALL_BYTES).await;
    let counts = idempotency.counts();
    assert_eq!((counts.calls, counts.pushed_out), (5, 1));
    assert_eq!(counts.bytes, 10 * CALL_BYTES);
    put(&idempotency, "w", "longer-than-all", 30 * CALL_BYTES).await;
    assert_eq!(idempotency.counts().calls, 0, "it is not kept, and neither is what made room");
}

#[tokio::test(start_paused = true)]
async fn claims_under_way_are_not_pushed_out_and_bounded_too() {
    let idempotency = bounded(8);
    let mut claims = vec![];
    for name in ["1", "2", "3", "4"] {
        claims.push(first(&idempotency, &call(name)).await);
    }
    assert_eq!(refused(&idempotency, &call("5")).await, Refusal::InProgress);
    assert_eq!(idempotency.counts().bytes, 4 * CALL_BYTES);
    put(&idempotency, "other", "k", 0).await;
    claims.pop();
    claims.push(first(&idempotency, &call("5")).await);
    for claim in claims {
        claim.settle(&Bytes::new()).await;
    }
    for name in ["1", "2", "3", "5"] {
        assert!(has(&idempotency, "w", name).await);
    }
}

/// What can happen to a memory.
#[derive(Clone, Debug)]
enum Step {
    Begin(u8, u8),
    Settle(usize, usize),
    Drop(usize),
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..3_u8, 0..6_u8).prop_map(|(workspace, name)| Step::Begin(workspace, name)),
        3 => (0..4_usize, 0..2_000_usize).prop_map(|(claim, reply)| Step::Settle(claim, reply)),
        1 => (0..4_usize).prop_map(Step::Drop),
        1 => (0..400_000_u64).prop_map(Step::Pass),
    ];
    proptest::collection::vec(step, 0..120)
}

proptest! {
    #[test]
    fn whatever_happens_the_books_are_right(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let (bytes_max, workspace_bytes_max) = (10 * CALL_BYTES, 6 * CALL_BYTES);
            let bounds = Bounds { bytes_max, workspace_bytes_max, ..Bounds::default() };
            let (idempotency, clock) = alone();
            let idempotency = idempotency.bounds(bounds);
            let mut claims: Vec<Claim> = vec![];
            for step in steps {
                match step {
                    Step::Begin(workspace, name) => {
                        let (workspace, name) = (workspace.to_string(), name.to_string());
                        let key = key(&name);
                        let call = Call { workspace: &workspace, key, ..call("k") };
                        if let Begun::First(claim) = idempotency.begin(&call).await {
                            claims.push(claim);
                        }
                    }
                    Step::Settle(at, reply) if at < claims.len() => {
                        let reply = Bytes::from(vec![0; reply]);
                        claims.swap_remove(at).settle(&reply).await;
                    }
                    Step::Drop(at) if at < claims.len() => drop(claims.swap_remove(at)),
                    Step::Pass(ms) => clock.advance(Duration::from_millis(ms)),
                    _ => {}
                }
                assert!(idempotency.counts().bytes <= bytes_max);
            }
            drop(claims);
            clock.advance(Duration::from_millis(bounds.reply_life_ms));
            drop(first(&idempotency, &call("last")).await);
            let counts = idempotency.counts();
            assert_eq!((counts.calls, counts.bytes), (0, 0));
        });
    }
}

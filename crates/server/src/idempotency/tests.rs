use std::collections::BTreeMap;
use std::task::Poll;

use proptest::prelude::*;
use tidegate::ManualClock;
use tidegate::StoreError;
use tidegate::redis::OnceCall;

use super::memory::CALL_BYTES;
use super::*;

mod memory;
mod region;

fn key(text: &str) -> IdempotencyKey<'_> {
    IdempotencyKey::parse(text.as_bytes()).unwrap()
}

/// A call of workspace `w`.
fn call(name: &'static str) -> Call<'static> {
    Call { workspace: "w", key: key(name), operation: "limit", body: b"{}" }
}

fn alone() -> (Idempotency, ManualClock) {
    let clock = ManualClock::at_unix_ms(1_700_000_000_000);
    (Idempotency::new(Arc::new(clock.clone()), None, 1), clock)
}

async fn first(idempotency: &Idempotency, call: &Call<'_>) -> Claim {
    match idempotency.begin(call).await {
        Begun::First(claim) => claim,
        other => panic!("{other:?}"),
    }
}

async fn again(idempotency: &Idempotency, call: &Call<'_>) -> Remembered {
    match idempotency.begin(call).await {
        Begun::Again(remembered) => remembered,
        other => panic!("{other:?}"),
    }
}

async fn refused(idempotency: &Idempotency, call: &Call<'_>) -> Refusal {
    match idempotency.begin(call).await {
        Begun::Refused(why, _) => why,
        other => panic!("{other:?}"),
    }
}

/// Decides a call and says so.
async fn settle(idempotency: &Idempotency, call: &Call<'_>, reply: &'static str) -> Scope {
    first(idempotency, call).await.settle(&Bytes::from_static(reply.as_bytes())).await
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_sent_again_gets_the_same_reply() {
    let (idempotency, _) = alone();
    assert_eq!(settle(&idempotency, &call("k"), "first").await, Scope::Node);
    for _ in 0..3 {
        let remembered = again(&idempotency, &call("k")).await;
        assert_eq!(remembered, Remembered { reply: "first".into(), scope: Scope::Node });
    }
    let other_workspace = Call { workspace: "v", ..call("k") };
    settle(&idempotency, &other_workspace, "theirs").await;
    assert_eq!(again(&idempotency, &other_workspace).await.reply, "theirs");
    assert_eq!(again(&idempotency, &call("k")).await.reply, "first");
    settle(&idempotency, &call("other-key"), "second").await;
    let counts = idempotency.counts();
    assert_eq!((counts.calls, counts.replayed, counts.reused), (3, 5, 0));
}

#[tokio::test(start_paused = true)]
async fn a_key_that_was_used_for_another_call_is_refused() {
    let (idempotency, _) = alone();
    let claim = first(&idempotency, &call("k")).await;
    let others =
        [Call { body: b"{ }", ..call("k") }, Call { operation: "multiLimit", ..call("k") }];
    for other in &others {
        assert_eq!(refused(&idempotency, other).await, Refusal::Reused, "while it is decided");
    }
    claim.settle(&Bytes::from_static(b"first")).await;
    for other in &others {
        assert_eq!(refused(&idempotency, other).await, Refusal::Reused, "and afterwards");
    }
    assert_eq!(again(&idempotency, &call("k")).await.reply, "first");
    assert_eq!(idempotency.counts().reused, 4);
}

#[tokio::test(start_paused = true)]
async fn who_comes_while_it_is_decided_waits_for_the_reply() {
    let (idempotency, _) = alone();
    let claim = first(&idempotency, &call("k")).await;
    let waiting: Vec<_> = (0..5)
        .map(|_| {
            let idempotency = idempotency.clone();
            tokio::spawn(async move { again(&idempotency, &call("k")).await.reply })
        })
        .collect();
    tokio::task::yield_now().await;
    assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
    claim.settle(&Bytes::from_static(b"first")).await;
    for waiting in waiting {
        assert_eq!(waiting.await.unwrap(), "first");
    }
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_told_to_come_back_after_a_while() {
    let (idempotency, _) = alone();
    let claim = first(&idempotency, &call("k")).await;
    let start = Instant::now();
    assert_eq!(refused(&idempotency, &call("k")).await, Refusal::InProgress);
    assert_eq!(start.elapsed(), WAIT, "virtual time");
    assert_eq!(idempotency.counts().in_progress, 1);
    claim.settle(&Bytes::from_static(b"first")).await;
    assert_eq!(again(&idempotency, &call("k")).await.reply, "first");
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_leaves_before_the_decision_blocks_nobody() {
    let (idempotency, _) = alone();
    let claim = first(&idempotency, &call("k")).await;
    let waiting = {
        let idempotency = idempotency.clone();
        tokio::spawn(async move {
            let claim = first(&idempotency, &call("k")).await;
            claim.settle(&Bytes::from_static(b"second")).await
        })
    };
    let also_waiting = {
        let idempotency = idempotency.clone();
        tokio::spawn(async move { again(&idempotency, &call("k")).await.reply })
    };
    tokio::task::yield_now().await;
    drop(claim);
    waiting.await.unwrap();
    assert_eq!(also_waiting.await.unwrap(), "second");
    drop(first(&idempotency, &call("problem")).await);
    // What is released may be another call altogether.
    settle(&idempotency, &Call { body: b"other", ..call("problem") }, "new").await;
}

#[tokio::test(start_paused = true)]
async fn a_reply_is_kept_from_the_moment_of_settling_on() {
    let (idempotency, _) = alone();
    // The caller leaves: what tells the scope is never awaited.
    drop(first(&idempotency, &call("k")).await.settle(&Bytes::from_static(b"first")));
    assert_eq!(again(&idempotency, &call("k")).await.reply, "first");
}

#[tokio::test(start_paused = true)]
async fn a_reply_is_forgotten_after_its_time() {
    let (idempotency, clock) = alone();
    settle(&idempotency, &call("k"), "first").await;
    clock.advance(Duration::from_millis(599_999));
    assert_eq!(again(&idempotency, &call("k")).await.reply, "first", "asking does not renew it");
    settle(&idempotency, &call("younger"), "younger").await;
    clock.advance(Duration::from_millis(1));
    settle(&idempotency, &call("k"), "new").await;
    assert_eq!(again(&idempotency, &call("younger")).await.reply, "younger");
    clock.step_to_unix_ms(0);
    assert_eq!(again(&idempotency, &call("k")).await.reply, "new", "the wall clock has no say");
    clock.advance(Duration::from_secs(3_600));
    drop(first(&idempotency, &call("k")).await);
    let counts = idempotency.counts();
    assert_eq!((counts.calls, counts.bytes, counts.pushed_out), (0, 0, 0), "nothing is left");
}

/// One of several who send the same call at once. Says whether he was charged.
async fn send(idempotency: Idempotency, name: &str, leaves: bool) -> bool {
    let call = Call { key: key(name), ..call("k") };
    match idempotency.begin(&call).await {
        Begun::First(claim) if leaves => drop(claim),
        Begun::First(claim) => {
            claim.settle(&Bytes::copy_from_slice(name.as_bytes())).await;
            return true;
        }
        Begun::Again(remembered) => assert_eq!(remembered.reply, name),
        Begun::Refused(why, _) => panic!("{why}"),
    }
    false
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_at_once_one_is_charged() {
    let (idempotency, _) = alone();
    for round in 0..200 {
        let turns = (0..8).map(|turn| {
            let (idempotency, name) = (idempotency.clone(), format!("k{round}"));
            tokio::spawn(async move { send(idempotency, &name, turn % 2 == 0).await })
        });
        let mut charged = 0;
        for turn in turns.collect::<Vec<_>>() {
            charged += u32::from(turn.await.unwrap());
        }
        assert_eq!(charged, 1, "every other one leaves, if it is he who may decide");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_is_decided_once_and_a_problem_is_not_remembered() {
    let (idempotency, _) = alone();
    let problem =
        idempotency.once(&call("k"), async { Err::<(Bytes, Lasts), _>("no such key") }).await;
    assert!(matches!(problem, Once::Problem("no such key", Scope::Node)), "{problem:?}");
    for turn in ["first", "second"] {
        let decide = async { Ok::<_, &str>((Bytes::from_static(turn.as_bytes()), Lasts::Long)) };
        let Once::Reply { reply, scope, replayed } = idempotency.once(&call("k"), decide).await
        else {
            panic!("{turn}")
        };
        let expected = (Bytes::from_static(b"first"), Scope::Node, turn == "second");
        assert_eq!((reply, scope, replayed), expected);
    }
    let other = Call { body: b"other", ..call("k") };
    let refused = idempotency.once(&other, async { Err("not reached") }).await;
    assert!(matches!(refused, Once::Refused(Refusal::Reused, Scope::Node)), "{refused:?}");
}

/// Decides a call if it is not remembered; says what it is told, and whether that is remembered.
async fn once(idempotency: &Idempotency, reply: &'static str, lasts: Lasts) -> (Bytes, bool) {
    let decide = async { Ok::<_, &str>((Bytes::from_static(reply.as_bytes()), lasts)) };
    match idempotency.once(&call("k"), decide).await {
        Once::Reply { reply, scope, replayed } => {
            assert!(lasts == Lasts::Long || scope == Scope::Node);
            (reply, replayed)
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn what_does_not_last_is_decided_anew() {
    let (idempotency, clock) = alone();
    assert_eq!(once(&idempotency, "first", Lasts::Not).await, ("first".into(), false));
    assert_eq!(idempotency.counts().calls, 0);
    assert_eq!(once(&idempotency, "second", Lasts::Briefly).await, ("second".into(), false));
    clock.advance(Duration::from_millis(9_999));
    assert_eq!(once(&idempotency, "third", Lasts::Long).await, ("second".into(), true));
    clock.advance(Duration::from_millis(1));
    assert_eq!(once(&idempotency, "third", Lasts::Long).await, ("third".into(), false));
    clock.advance(Duration::from_millis(599_999));
    assert_eq!(once(&idempotency, "fourth", Lasts::Long).await, ("third".into(), true));
}

#[tokio::test(start_paused = true)]
async fn memory_is_given_back_in_steps() {
    let (idempotency, clock) = alone();
    for number in 0..2 * SWEEP_MAX {
        let name = number.to_string();
        let call = Call { key: key(&name), ..call("k") };
        first(&idempotency, &call).await.settle(&Bytes::new()).await;
    }
    idempotency.sweep();
    assert_eq!(idempotency.counts().calls, 2 * SWEEP_MAX, "their time is not over");
    clock.advance(Duration::from_secs(600));
    for left in [SWEEP_MAX, 0, 0] {
        idempotency.sweep();
        assert_eq!(idempotency.counts().calls, left);
    }
}

//! Two processes and a store between them that may be slow, away or damaged.

use super::*;

/// A call by its name: who claimed it, and the reply.
type Held = BTreeMap<[u8; 16], (OnceCall, Option<Vec<u8>>)>;

/// A store in memory, whose time does not pass.
#[derive(Debug, Default)]
struct FakeStore {
    calls: Mutex<Held>,
    /// For how long replies were to be kept, in the order in which they came.
    lives_ms: Mutex<Vec<u64>>,
    asked: AtomicU64,
    trouble: Mutex<Trouble>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Trouble {
    #[default]
    None,
    /// Refuses everything.
    Away,
    /// Never answers.
    Hangs,
    /// Does as it is told and never says so.
    Mute,
}

impl FakeStore {
    fn set(&self, trouble: Trouble) {
        *self.trouble.lock().unwrap() = trouble;
    }

    fn asked(&self) -> u64 {
        self.asked.load(Ordering::SeqCst)
    }

    fn say<'a, T: Send + 'a>(&'a self, answer: impl FnOnce() -> T + Send + 'a) -> Asking<'a, T> {
        Box::pin(async move {
            self.asked.fetch_add(1, Ordering::SeqCst);
            let trouble = *self.trouble.lock().unwrap();
            match trouble {
                Trouble::None => Ok(answer()),
                Trouble::Away => Err(StoreError::Unreachable("away".to_owned())),
                Trouble::Hangs => std::future::pending().await,
                Trouble::Mute => {
                    answer();
                    std::future::pending().await
                }
            }
        })
    }
}

impl OnceStore for FakeStore {
    fn claim<'a>(&'a self, call: &'a OnceCall, _life_ms: u64) -> Asking<'a, Claimed> {
        self.say(move || {
            let mut calls = self.calls.lock().unwrap();
            let (held, reply) = calls.entry(*call.name.as_bytes()).or_insert_with(|| (*call, None));
            match reply {
                _ if held.fingerprint != call.fingerprint => Claimed::Other,
                Some(reply) => Claimed::Done(reply.clone()),
                None if held.claimant == call.claimant => Claimed::First,
                None => Claimed::Pending,
            }
        })
    }

    fn settle<'a>(&'a self, call: &'a OnceCall, reply: &'a [u8], life_ms: u64) -> Asking<'a, bool> {
        self.say(move || {
            self.lives_ms.lock().unwrap().push(life_ms);
            let mut calls = self.calls.lock().unwrap();
            let (held, kept) = calls.entry(*call.name.as_bytes()).or_insert((*call, None));
            let mine = held.fingerprint == call.fingerprint && kept.is_none();
            if mine {
                *kept = Some(reply.to_vec());
            }
            mine
        })
    }

    fn release<'a>(&'a self, call: &'a OnceCall) -> Asking<'a, bool> {
        self.say(move || {
            let mut calls = self.calls.lock().unwrap();
            let name = call.name.as_bytes();
            let mine = calls.get(name).is_some_and(|(held, reply)| held == call && reply.is_none());
            if mine {
                calls.remove(name);
            }
            mine
        })
    }
}

/// Two processes of one region.
fn pair() -> (Idempotency, Idempotency, Arc<FakeStore>, ManualClock) {
    let store = Arc::new(FakeStore::default());
    let clock = ManualClock::at_unix_ms(1_700_000_000_000);
    let process = |seed| {
        Idempotency::new(Arc::new(clock.clone()), Some([3; 32]), seed)
            .region(Arc::clone(&store) as _)
    };
    (process(1), process(2), store, clock)
}

#[tokio::test(start_paused = true)]
async fn what_does_not_last_is_not_told_to_the_region() {
    let (one, other, store, _) = pair();
    assert_eq!(once(&one, "first", Lasts::Not).await, ("first".into(), false));
    // The claim is given back in a task of its own.
    tokio::task::yield_now().await;
    assert_eq!(once(&other, "second", Lasts::Briefly).await, ("second".into(), false));
    assert_eq!(once(&other, "third", Lasts::Long).await, ("second".into(), true));
    assert_eq!(refused(&one, &call("k")).await, Refusal::InProgress, "until the claim lapses");
    assert_eq!(*store.lives_ms.lock().unwrap(), Vec::<u64>::new());
}

#[tokio::test(start_paused = true)]
async fn whichever_process_gets_it_again_gives_the_same_reply() {
    let (one, other, store, _) = pair();
    assert_eq!((one.scope(), alone().0.scope()), (Scope::Region, Scope::Node));
    assert_eq!(settle(&one, &call("k"), "first").await, Scope::Region);
    let expected = Remembered { reply: "first".into(), scope: Scope::Region };
    assert_eq!(again(&other, &call("k")).await, expected);
    let asked = store.asked();
    assert_eq!(again(&one, &call("k")).await, expected);
    assert_eq!(again(&other, &call("k")).await, expected);
    assert_eq!(store.asked(), asked, "both remember it themselves now");
    let reused = Call { body: b"other", ..call("k") };
    assert_eq!(refused(&pair_with(&store), &reused).await, Refusal::Reused);
}

/// One more process.
fn pair_with(store: &Arc<FakeStore>) -> Idempotency {
    let clock = ManualClock::at_unix_ms(1_700_000_000_000);
    Idempotency::new(Arc::new(clock), Some([3; 32]), 9).region(Arc::clone(store) as _)
}

#[tokio::test(start_paused = true)]
async fn nothing_that_a_caller_wrote_can_be_read_in_the_store() {
    let (one, _, store, _) = pair();
    let key = key("order-of-ann");
    let call = Call { workspace: "acme", key, operation: "multiLimit", body: b"[\"ann\"]" };
    first(&one, &call).await.settle(&Bytes::from_static(b"{\"identifier\":\"ann\"}")).await;
    let held = format!("{:?}", store.calls.lock().unwrap());
    let calls = store.calls.lock().unwrap();
    let reply = calls.values().next().unwrap().1.clone().unwrap();
    for text in [&b"ann"[..], b"acme", b"identifier"] {
        assert!(!reply.windows(text.len()).any(|bytes| bytes == text));
        assert!(!held.contains(std::str::from_utf8(text).unwrap()));
    }
}

#[tokio::test(start_paused = true)]
async fn who_comes_to_another_process_waits_for_the_first_and_takes_over_when_it_leaves() {
    let (one, other, _, _) = pair();
    let claim = first(&one, &call("k")).await;
    let (k, left) = (call("k"), call("left"));
    let mut waiting = Box::pin(other.begin(&k));
    // One look of the other, and the next one after the reply.
    assert!(poll_once(&mut waiting).is_pending());
    claim.settle(&Bytes::from_static(b"first")).await;
    assert!(matches!(waiting.await, Begun::Again(remembered) if remembered.reply == "first"));

    let claim = first(&one, &call("left")).await;
    let mut waiting = Box::pin(other.begin(&left));
    assert!(poll_once(&mut waiting).is_pending());
    drop(claim);
    assert!(matches!(waiting.await, Begun::First(_)));
}

/// Polls once, without a waker of its own.
fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    std::pin::Pin::new(future).poll(&mut context)
}

#[tokio::test(start_paused = true)]
async fn a_process_that_died_blocks_a_key_and_says_so() {
    let (one, other, store, _) = pair();
    // What a crash does: nothing is given back.
    std::mem::forget(first(&one, &call("k")).await);
    let (asked, start) = (store.asked(), Instant::now());
    assert_eq!(refused(&other, &call("k")).await, Refusal::InProgress);
    assert!((WAIT..=WAIT + LOOK).contains(&start.elapsed()), "{:?}", start.elapsed());
    assert!((5..=6).contains(&(store.asked() - asked)));
    // The claim lapses.
    store.calls.lock().unwrap().clear();
    settle(&other, &call("k"), "second").await;
}

#[tokio::test(start_paused = true)]
async fn without_the_store_a_process_remembers_alone_and_says_so() {
    for (trouble, wait) in [(Trouble::Away, 0), (Trouble::Hangs, 20), (Trouble::Mute, 20)] {
        let (one, other, store, _) = pair();
        store.set(trouble);
        let start = Instant::now();
        assert_eq!(settle(&one, &call("k"), "first").await, Scope::Node, "{trouble:?}");
        assert_eq!(start.elapsed(), Duration::from_millis(wait), "{trouble:?}");
        let remembered = again(&one, &call("k")).await;
        assert_eq!(remembered, Remembered { reply: "first".into(), scope: Scope::Node });
        settle(&other, &call("other"), "second").await;
        assert!(one.counts().region_failures > 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_comes_back_hears_what_was_decided_meanwhile() {
    let (one, other, store, _) = pair();
    store.set(Trouble::Mute);
    let claim = first(&one, &call("k")).await;
    assert_eq!(claim.scope(), Scope::Node);
    store.set(Trouble::None);
    assert_eq!(claim.settle(&Bytes::from_static(b"first")).await, Scope::Node);
    tokio::task::yield_now().await;
    assert_eq!(again(&other, &call("k")).await.reply, "first");
    assert_eq!(again(&one, &call("k")).await.scope, Scope::Region);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_keeps_failing_is_left_alone_for_a_while() {
    let (one, _, store, clock) = pair();
    store.set(Trouble::Hangs);
    let names: Vec<String> = (0..20).map(|number| format!("k{number}")).collect();
    for name in &names {
        drop(first(&one, &Call { key: key(name), ..call("k") }).await);
    }
    assert!(store.asked() <= 10, "{}: claims and releases together", store.asked());
    let (asked, start) = (store.asked(), Instant::now());
    drop(first(&one, &call("resting")).await);
    assert_eq!((store.asked(), start.elapsed()), (asked, Duration::ZERO));
    clock.advance(Duration::from_secs(1));
    store.set(Trouble::None);
    assert_eq!(settle(&one, &call("back"), "first").await, Scope::Region);
}

#[tokio::test(start_paused = true)]
async fn what_is_too_long_is_not_told() {
    let (one, other, store, _) = pair();
    let one = one.bounds(Bounds { region_reply_bytes_max: 100, ..Bounds::default() });
    let long = first(&one, &call("long")).await.settle(&Bytes::from(vec![b'x'; 69])).await;
    assert_eq!(long, Scope::Node);
    tokio::task::yield_now().await;
    assert_eq!(store.calls.lock().unwrap().len(), 0, "the claim was given up");
    drop(first(&other, &call("long")).await);
}

/// A process that has more to remember than it may goes on telling the region, for a shorter time.
#[tokio::test(start_paused = true)]
async fn what_pushed_something_out_is_told_for_a_minute() {
    let (one, other, store, _) = pair();
    let one = one.bounds(Bounds { bytes_max: 3 * CALL_BYTES, ..Bounds::default() });
    for name in ["1", "2", "3", "4", "5"] {
        assert_eq!(settle(&one, &call(name), "").await, Scope::Region, "{name}");
    }
    let lives_ms = store.lives_ms.lock().unwrap().clone();
    assert_eq!(lives_ms, [600_000, 600_000, 600_000, 60_000, 60_000]);
    for name in ["1", "5"] {
        assert_eq!(again(&other, &call(name)).await.scope, Scope::Region, "{name}");
        assert_eq!(again(&one, &call(name)).await.scope, Scope::Region, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_cannot_be_opened_is_none() {
    let (one, other, store, _) = pair();
    settle(&one, &call("k"), "first").await;
    for (_, reply) in store.calls.lock().unwrap().values_mut() {
        *reply = Some(b"damaged".to_vec());
    }
    assert_eq!(settle(&other, &call("k"), "second").await, Scope::Node);
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_leaves_while_the_store_is_asked_blocks_nobody() {
    let (one, other, store, _) = pair();
    store.set(Trouble::Mute);
    let k = call("k");
    let mut beginning = Box::pin(one.begin(&k));
    assert!(poll_once(&mut beginning).is_pending());
    assert_eq!(store.calls.lock().unwrap().len(), 1);
    store.set(Trouble::None);
    drop(beginning);
    tokio::task::yield_now().await;
    settle(&other, &call("k"), "second").await;
    assert_eq!(again(&one, &call("k")).await.reply, "second");
}

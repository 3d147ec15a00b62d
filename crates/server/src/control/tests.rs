use tidegate::ManualClock;
use tidegate_stores::control::Mode;

use super::permission::Action;
use super::*;

mod fake;

pub(crate) use fake::FakeStore;

/// A control plane with a workspace `ws_1` and one key that may do everything, without a wait.
pub(crate) fn with_key(key: &str) -> Control {
    let store = Arc::new(FakeStore::with_workspace("ws_1"));
    let given = Key::given(crate::ids::digest(key.as_bytes()), "ws_1", &Action::everything());
    let control = Control::new(store.clone(), Arc::new(tidegate::SystemClock::new()), Some(given));
    control.known.store(Arc::new(control.begun.with(store.all(0))));
    control
}

async fn control(store: &Arc<FakeStore>) -> (Control, ManualClock) {
    let clock = ManualClock::at_unix_ms(1_700_000_000_000);
    let shared = Arc::new(clock.clone());
    let control = Control::new(Arc::clone(store) as _, shared, None);
    control.look().await.unwrap();
    (control, clock)
}

fn namespace(control: &Control, name: &str) -> Option<Arc<Namespace>> {
    control.known().workspace("ws_1")?.namespace(name).cloned()
}

fn set(namespace: &str, pattern: &str, limit: u64) -> Change {
    let (namespace, pattern) = (namespace.to_owned(), pattern.to_owned());
    Change::SetOverride {
        id: new_id(Kind::Override).unwrap(),
        namespace,
        pattern,
        limit,
        window_ms: 60_000,
    }
}

#[tokio::test]
async fn a_change_acts_at_once_here_and_after_a_look_elsewhere() {
    let store = Arc::new(FakeStore::with_workspace("ws_1"));
    let ((here, _), (there, _)) = (control(&store).await, control(&store).await);
    here.enter("ws_1", &["email"], "key_1").await;
    let id = namespace(&here, "email").unwrap().id.clone();
    here.change(&set(&id, "ann", 5), "key_1").await.unwrap();
    let found = |control: &Control| {
        let limit = namespace(control, "email")?.overrides.find("ann")?.limit.get();
        Some(limit)
    };
    assert_eq!((found(&here), found(&there)), (Some(5), None));
    there.look().await.unwrap();
    assert_eq!(found(&there), Some(5));
    assert!(namespace(&there, &id).is_some(), "also by its id");

    there.change(&set(&id, "ann", 7), "key_1").await.unwrap();
    let delete = Change::DeleteOverride { namespace: id.clone(), pattern: "ann".to_owned() };
    here.change(&delete, "key_1").await.unwrap();
    here.look().await.unwrap();
    assert_eq!((found(&here), found(&there)), (None, Some(7)));
    there.look().await.unwrap();
    assert_eq!(found(&there), None);
    let off = Change::SetNamespace { id, mode: Some(Mode::Off), consistency: None, outage: None };
    here.change(&off, "key_1").await.unwrap();
    assert_eq!(namespace(&here, "email").unwrap().mode, Mode::Off);
}

#[tokio::test]
async fn what_is_known_stays_while_the_store_is_away() {
    let store = Arc::new(FakeStore::with_workspace("ws_1"));
    let (control, clock) = control(&store).await;
    control.enter("ws_1", &["email"], "key_1").await;
    store.set_away(true);
    assert!(control.look().await.is_err());
    assert!(control.change(&set("x", "ann", 5), "key_1").await.is_err());
    assert!(namespace(&control, "email").is_some());

    // Nobody waits twice for a store that is away.
    control.enter("ws_1", &["sms"], "key_1").await;
    let asked = store.asked();
    control.enter("ws_1", &["sms"], "key_1").await;
    assert_eq!(store.asked(), asked);
    assert!(namespace(&control, "sms").is_none());

    store.set_away(false);
    clock.advance(Duration::from_millis(ENTER_AGAIN_MS));
    control.enter("ws_1", &["sms"], "key_1").await;
    assert!(namespace(&control, "sms").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_says_nothing_delays_a_request_for_a_second_at_most() {
    let store = Arc::new(FakeStore::with_workspace("ws_1"));
    let (control, _) = control(&store).await;
    store.set_silent(true);
    let start = tokio::time::Instant::now();
    control.enter("ws_1", &["sms"], "key_1").await;
    assert_eq!(start.elapsed(), ENTER_WITHIN);
    let change = control.change(&set("x", "ann", 5), "key_1").await;
    assert!(matches!(change, Err(ControlError::Store(GlobalError::Timeout))), "{change:?}");
    assert_eq!(start.elapsed(), ENTER_WITHIN + CHANGE_WITHIN);
}

#[tokio::test]
async fn a_name_is_entered_once_however_many_ask() {
    let store = Arc::new(FakeStore::with_workspace("ws_1"));
    let control = Arc::new(control(&store).await.0);
    let all = (0..20).map(|_| {
        let control = Arc::clone(&control);
        tokio::spawn(async move { control.enter("ws_1", &["a", "b"], "key_1").await })
    });
    for one in all.collect::<Vec<_>>() {
        one.await.unwrap();
    }
    assert_eq!(store.applied(), 1);
}

#[tokio::test(start_paused = true)]
async fn going_away_and_coming_back_is_said_once_each() {
    let store = Arc::new(FakeStore::with_workspace("ws_1"));
    let control = control(&store).await.0;
    let said = std::sync::Mutex::new(Vec::new());
    let kept = control.keep(|stands| said.lock().unwrap().push(stands.is_ok()));
    let story = async {
        let mut ticks = interval(Duration::from_secs(5));
        for away in [false, true, false, true] {
            store.set_away(away);
            ticks.tick().await;
        }
        ticks.tick().await;
    };
    tokio::select! {
        () = kept => unreachable!("it looks for ever"),
        () = story => {}
    }
    assert_eq!(*said.lock().unwrap(), [false, true, false]);
}

#[test]
fn a_key_that_may_do_everything_says_so() {
    assert_eq!(Action::everything().len(), 6);
}

#[tokio::test(start_paused = true)]
async fn those_who_wait_for_a_look_share_the_next() {
    let store = Arc::new(FakeStore::with_workspace("ws_1"));
    let control = Arc::new(control(&store).await.0);
    let asked = store.asked();
    let all = (0..50).map(|_| {
        let control = Arc::clone(&control);
        tokio::spawn(async move { control.look().await.unwrap() })
    });
    for one in all.collect::<Vec<_>>() {
        one.await.unwrap();
    }
    assert!(store.asked() <= asked + 2, "{}", store.asked() - asked);
    store.set_silent(true);
    let start = tokio::time::Instant::now();
    let both = tokio::join!(control.look_soon(), control.look_soon());
    assert!(both.0.is_err() && both.1.is_err());
    assert_eq!(start.elapsed(), LOOK_SOON, "nobody waits for the wait of another");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_comes_back_is_read_anew() {
    let store = Arc::new(FakeStore::with_workspace("ws_1"));
    let control = control(&store).await.0;
    control.enter("ws_1", &["email"], "key_1").await;
    store.set_away(true);
    let story = async {
        let mut ticks = interval(Duration::from_secs(5));
        ticks.tick().await;
        ticks.tick().await;
        // What came back has lost the namespace, and has as many revisions as before.
        store.lose_namespaces();
        store.set_away(false);
        ticks.tick().await;
    };
    tokio::select! {
        () = control.keep(|_| {}) => unreachable!("it looks for ever"),
        () = story => {}
    }
    assert!(namespace(&control, "email").is_none());
}

#[tokio::test]
async fn a_workspace_that_is_full_is_left_alone_for_a_while() {
    let store = Arc::new(FakeStore::with_workspace("ws_1"));
    let (control, clock) = control(&store).await;
    store.set_full(true);
    control.enter("ws_1", &["a"], "key_1").await;
    let asked = store.asked();
    control.enter("ws_1", &["b"], "key_1").await;
    assert_eq!(store.asked(), asked);
    assert!(!control.rests("ws_2"), "others are not");
    store.set_full(false);
    clock.advance(Duration::from_millis(ENTER_AGAIN_MS));
    control.enter("ws_1", &["a"], "key_1").await;
    assert!(namespace(&control, "a").is_some());
}

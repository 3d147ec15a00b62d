//! Servers that end, callers that give up, and locks that others hold: no change is half done, and
//! no transaction stays open.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sqlx::{Connection, MySqlConnection, SqliteConnection};
use tidegate_convergence::GlobalError;
use tidegate_lab::MariaDbServer;
use tidegate_stores::control::{Change, ControlError};
use tokio::time::{Instant, timeout};

use crate::support::{
    ACTOR, Place, Store, add_namespaces, add_workspace, eventually, set_override,
};

/// How long an unfinished change is let run: from nothing to long enough, in steps of this.
const STEP: Duration = Duration::from_micros(70);
const STEPS: u32 = 120;

/// Shorter than the time after which MariaDB ends a transaction in which nothing happens.
const FORGOTTEN: Duration = Duration::from_secs(15);

/// Four rows, so that there is much to leave half done.
fn four(turn: u32) -> Change {
    let names = (0..4).map(|n| (format!("rlns_{turn}_{n}"), format!("name-{turn}-{n}"))).collect();
    Change::AddNamespaces { workspace: "ws".to_owned(), names }
}

/// Rows, revision and audit come to say the same, and that so many changes were made at least. What
/// somebody left behind may still be on its way; half of a change would stay half.
async fn sound(store: &Store, changes_min: u64) {
    eventually("rows, revision and audit agree", async || {
        let all = store.all().await;
        let events = u64::try_from(store.events().await.len()).unwrap();
        let namespaces = u64::try_from(all.namespaces.len()).unwrap();
        let whole = namespaces % 4 == 0 && all.revision == 1 + namespaces / 4;
        (whole && events == 1 + namespaces && all.revision > changes_min).then_some(())
    })
    .await;
}

/// Makes a change that others may be in the way of, but not for as long as it takes a server to
/// end a transaction that was forgotten.
async fn soon(store: &Store, change: &Change) {
    let start = Instant::now();
    loop {
        match store.apply(change).await {
            Ok(_) => return,
            Err(ControlError::Store(GlobalError::Busy(_))) => {}
            Err(why) => unreachable!("{why}"),
        }
        assert!(start.elapsed() < FORGOTTEN, "somebody holds the revision");
    }
}

#[tokio::test]
async fn a_caller_who_gives_up_leaves_no_half_change_and_no_lock() {
    for (place, store) in Place::ready().await {
        store.make(&add_workspace("ws")).await;
        let (mut ended, other) = (0, place.store());
        for turn in 0..STEPS {
            let change = four(turn);
            match timeout(STEP * turn, store.apply(&change)).await {
                Ok(done) => {
                    done.unwrap();
                    ended += 1;
                }
                // Whoever comes next is not kept from it.
                Err(_) if turn % 8 == 0 => {
                    soon(&other, &four(1_000 + turn)).await;
                    ended += 1;
                }
                Err(_) => {}
            }
        }
        println!("{ended} of {STEPS} were made");
        sound(&store, ended).await;
    }
}

#[tokio::test]
async fn a_refused_change_gives_its_connection_back_without_a_transaction() {
    for (place, store) in Place::ready().await {
        store.make(&add_workspace("ws")).await;
        // The first of these is written before the second is refused.
        let names = [("same", "one"), ("same", "two")];
        let names = names.map(|(id, name)| (id.to_owned(), name.to_owned())).to_vec();
        let refused = Change::AddNamespaces { workspace: "ws".to_owned(), names };
        let other = place.store();
        for turn in 0..20 {
            assert_eq!(store.apply(&refused).await, Err(ControlError::Exists("namespace")));
            other.make(&four(turn)).await;
        }
        sound(&store, 20).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_killed_in_the_middle_keeps_whole_changes_and_those_it_acknowledged() {
    let mut server = MariaDbServer::start().unwrap();
    let url = server.url();
    let store = Store::Mysql(crate::support::mysql(&url));
    store.migrate().await.unwrap();
    store.make(&add_workspace("ws")).await;
    let ended = Arc::new(AtomicBool::new(false));
    let changers: Vec<_> = (1..=3_u32)
        .map(|who| {
            let (url, ended) = (url.clone(), Arc::clone(&ended));
            tokio::spawn(async move {
                let store = Store::Mysql(crate::support::mysql(&url));
                let (mut made, mut turn) = (Vec::new(), who * 100_000);
                while !ended.load(Ordering::SeqCst) {
                    // The same again if it is not known what became of it.
                    match store.apply(&four(turn)).await {
                        Ok(applied) => {
                            made.push(applied.changes.namespaces);
                            turn += 1;
                        }
                        Err(ControlError::Store(_)) => tokio::task::yield_now().await,
                        Err(why) => unreachable!("{why}"),
                    }
                }
                made
            })
        })
        .collect();
    for _ in 0..3 {
        let before = store.control().revision().await.unwrap();
        let more = async || store.control().revision().await.ok().filter(|now| *now > before + 20);
        eventually("changes are made", more).await;
        server.kill_9();
        server.restart().unwrap();
        eventually("it is back", async || store.control().revision().await.ok()).await;
    }
    ended.store(true, Ordering::SeqCst);
    let mut count = 0;
    let mut acknowledged = Vec::new();
    for changer in changers {
        let made = changer.await.unwrap();
        count += made.len();
        acknowledged.extend(made.into_iter().flatten());
    }
    sound(&store, u64::try_from(count).unwrap()).await;
    let all = store.all().await.namespaces;
    let lost: Vec<_> = acknowledged
        .iter()
        .filter(|row| all.binary_search_by(|a| a.id.cmp(&row.id)).is_err())
        .collect();
    assert!(lost.is_empty(), "{lost:?}");
}

#[tokio::test]
async fn a_revision_that_somebody_holds_is_busy_and_then_free() {
    for (place, store) in Place::ready().await {
        store.make(&add_workspace("ws")).await;
        let busy = match &place {
            Place::Server(server) => {
                let mut other = MySqlConnection::connect(&server.url()).await.unwrap();
                let mut held = other.begin().await.unwrap();
                sqlx::query("SELECT * FROM tidegate_revision FOR UPDATE")
                    .fetch_all(&mut *held)
                    .await
                    .unwrap();
                let busy = store.apply(&four(1)).await;
                store.control().changes(0).await.unwrap();
                held.rollback().await.unwrap();
                busy
            }
            Place::File(path) => {
                let url = format!("sqlite://{}", path.display());
                let mut other = SqliteConnection::connect(&url).await.unwrap();
                sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
                let busy = store.apply(&four(1)).await;
                store.control().changes(0).await.unwrap();
                sqlx::raw_sql("ROLLBACK").execute(&mut other).await.unwrap();
                busy
            }
        };
        assert!(matches!(busy, Err(ControlError::Store(GlobalError::Busy(_)))), "{busy:?}");
        store.make(&four(1)).await;
        sound(&store, 1).await;
    }
}

#[tokio::test]
async fn a_server_that_began_again_costs_no_change() {
    let mut server = MariaDbServer::start().unwrap();
    let store = Store::Mysql(crate::support::mysql(&server.url()));
    store.migrate().await.unwrap();
    store.make(&add_workspace("ws")).await;
    for turn in 0..3 {
        store.make(&four(turn)).await;
        server.kill_9();
        server.restart().unwrap();
    }
    sound(&store, 3).await;
    server.stop().unwrap();
    let gone = store.apply(&add_namespaces(&["x"])).await;
    assert!(matches!(gone, Err(ControlError::Store(GlobalError::Unreachable(_)))), "{gone:?}");
}

#[tokio::test]
async fn a_change_that_the_database_refuses_leaves_nothing_behind() {
    for (place, store) in Place::ready().await {
        store.make(&add_workspace("ws")).await;
        store.make(&add_namespaces(&["a"])).await;
        // The last thing that a change writes.
        place
            .either(
                "CREATE TRIGGER no BEFORE INSERT ON tidegate_audit FOR EACH ROW \
                 SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no'",
                "CREATE TRIGGER no BEFORE INSERT ON tidegate_audit \
                 BEGIN SELECT RAISE(ABORT, 'no'); END",
            )
            .await;
        let before = store.all().await;
        for _ in 0..8 {
            let refused = store.apply(&set_override("rlor_1", "rlns_a", "x", 1)).await;
            assert!(matches!(refused, Err(ControlError::Store(_))), "{refused:?}");
            assert_eq!(store.all().await, before);
        }
        place.sql("DROP TRIGGER no").await;
        let change = set_override("rlor_1", "rlns_a", "x", 1);
        let applied = place.store().control().apply(&change, ACTOR, 7).await.unwrap();
        assert_eq!(applied.changes.revision, before.revision + 1);
    }
}

//! Many who change things at once: nothing is lost, nothing is there twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tidegate_convergence::GlobalError;
use tidegate_lab::DEADLINE;
use tidegate_stores::control::{Change, Changes, ControlError};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::support::{
    Place, Store, add_namespaces, add_workspace, delete_override, set_override, sorted,
};

const CHANGERS: u64 = 6;
const TURNS: u64 = 40;

/// What a node keeps: rows by id.
#[derive(Debug, Default)]
struct Node {
    revision: u64,
    rows: BTreeMap<String, String>,
    namespaces: BTreeSet<String>,
}

impl Node {
    /// Takes in what changed. Rows belong to others that are there.
    fn take(&mut self, changes: Changes) {
        assert!(changes.revision >= self.revision, "revisions go back");
        self.revision = changes.revision;
        for row in changes.workspaces {
            self.rows.insert(row.id.clone(), format!("{row:?}"));
        }
        for row in changes.namespaces {
            assert!(self.rows.contains_key(&row.workspace), "{row:?} has no workspace");
            self.namespaces.insert(row.id.clone());
            self.rows.insert(row.id.clone(), format!("{row:?}"));
        }
        for row in changes.overrides {
            assert!(self.namespaces.contains(&row.namespace), "{row:?} has no namespace");
            self.rows.insert(row.id.clone(), format!("{row:?}"));
        }
    }
}

/// Reads on and on, until it is told to stop and has read once more.
async fn follow(store: Store, ended: Arc<AtomicBool>) -> Node {
    let mut node = Node::default();
    loop {
        let last = ended.load(Ordering::SeqCst);
        match store.control().changes(node.revision).await {
            Ok(changes) => node.take(changes),
            // The machine is slow: the same again.
            Err(GlobalError::Timeout) => continue,
            Err(why) => unreachable!("{why}"),
        }
        if last {
            return node;
        }
        tokio::task::yield_now().await;
    }
}

/// Changes that were made a second time because a slow machine did not say what became of them.
static UNSURE: AtomicU64 = AtomicU64::new(0);

/// Makes a change; others may be in the way for long.
async fn insist(store: &Store, change: &Change) -> Changes {
    let start = Instant::now();
    while start.elapsed() < 2 * DEADLINE {
        match store.apply(change).await {
            Ok(applied) => return applied.changes,
            Err(ControlError::Store(GlobalError::Busy(_))) => {}
            Err(ControlError::Store(GlobalError::Timeout)) => {
                UNSURE.fetch_add(1, Ordering::SeqCst);
            }
            Err(why) => unreachable!("{why}"),
        }
    }
    unreachable!("{change:?} was not made")
}

/// Changes what is its own and what all change; gives the revisions it got.
async fn change(store: Store, who: u64) -> Vec<u64> {
    let mut revisions = Vec::new();
    for turn in 0..TURNS {
        // All want the same namespaces, under ids of their own.
        let name = format!("space-{}", turn % 8);
        let names = vec![(format!("rlns_{who}_{turn}"), name)];
        let add = Change::AddNamespaces { workspace: "ws".to_owned(), names };
        let space = insist(&store, &add).await.namespaces[0].id.clone();
        let shared =
            set_override(&format!("rlor_{who}_{turn}"), &space, "shared", who * 1_000 + turn);
        revisions.push(insist(&store, &shared).await.revision);
        let own = set_override(
            &format!("rlor_{who}_own_{turn}"),
            &space,
            &format!("own-{who}"),
            turn + 1,
        );
        revisions.push(insist(&store, &own).await.revision);
        if turn % 3 == 0 {
            let gone = delete_override(&space, &format!("own-{who}"));
            revisions.push(insist(&store, &gone).await.revision);
        }
    }
    revisions
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_reads_on_sees_what_a_fresh_reader_sees_and_each_change_has_its_revision() {
    for (place, store) in Place::ready().await {
        store.make(&add_workspace("ws")).await;
        if let Place::Server(server) = &place {
            server.query("SET GLOBAL innodb_monitor_enable = 'lock_deadlocks'").unwrap();
        }
        let ended = Arc::new(AtomicBool::new(false));
        let followers: Vec<_> =
            (0..2).map(|_| tokio::spawn(follow(place.store(), Arc::clone(&ended)))).collect();
        let mut changers = JoinSet::new();
        for who in 1..=CHANGERS {
            changers.spawn(change(place.store(), who));
        }
        let mut revisions = Vec::new();
        while let Some(one) = changers.join_next().await {
            revisions.extend(one.unwrap());
        }
        ended.store(true, Ordering::SeqCst);
        let count = u64::try_from(revisions.len()).unwrap();
        let distinct: BTreeSet<u64> = revisions.into_iter().collect();
        let twice = count - u64::try_from(distinct.len()).unwrap();
        let unsure = UNSURE.load(Ordering::SeqCst);
        assert!(twice <= unsure, "{twice} revisions were given twice");
        let all = store.all().await;
        // One workspace, eight namespaces, and these: every revision is somebody's.
        assert!(all.revision.abs_diff(1 + 8 + count) <= unsure, "{} {count}", all.revision);
        assert_eq!(all.namespaces.len(), 8);
        assert_eq!(all.overrides.len(), 8 + 8 * usize::try_from(CHANGERS).unwrap());
        let (revision, mut fresh) = (all.revision, Node::default());
        fresh.take(all);
        for follower in followers {
            let node = follower.await.unwrap();
            assert_eq!((node.revision, &node.rows), (fresh.revision, &fresh.rows));
        }
        assert_eq!(deadlocks(&place), 0);
        let lines = audit_lines(&store).await;
        assert_eq!(lines, revision, "one row for each change");
    }
}

/// How many times a server had to choose a victim.
fn deadlocks(place: &Place) -> u64 {
    let Place::Server(server) = place else { return 0 };
    let sql = "SELECT count FROM information_schema.innodb_metrics WHERE name = 'lock_deadlocks'";
    server.query(sql).unwrap()[0][0].parse().unwrap()
}

/// How many rows the audit has, read in pages.
async fn audit_lines(store: &Store) -> u64 {
    let (mut lines, mut before) = (0, None);
    loop {
        let page = store.control().audit(None, before, 100).await.unwrap();
        let numbers: Vec<u64> = page.iter().map(|row| row.number).collect();
        assert!(numbers.is_sorted_by(|a, b| a > b), "newest first: {numbers:?}");
        let Some(last) = numbers.last() else { return lines };
        (lines, before) = (lines + u64::try_from(numbers.len()).unwrap(), Some(*last));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_who_make_the_same_thing_one_does() {
    for (place, store) in Place::ready().await {
        let mut makers = JoinSet::new();
        for _ in 0..CHANGERS {
            let store = place.store();
            makers.spawn(async move {
                insist(&store, &add_workspace("ws")).await;
                sorted(insist(&store, &add_namespaces(&["a", "b", "c"])).await).namespaces
            });
        }
        let mut seen = Vec::new();
        while let Some(one) = makers.join_next().await {
            seen.push(one.unwrap());
        }
        assert!(seen.iter().all(|rows| *rows == seen[0] && rows.len() == 3), "{seen:?}");
        assert_eq!(store.all().await.revision, 2);
        assert_eq!(store.events().await.len(), 4);
    }
}

/// Makes a namespace and an override in it, again and again.
async fn grow(store: Store, ended: Arc<AtomicBool>) -> u64 {
    let mut turn = 0;
    while !ended.load(Ordering::SeqCst) {
        let (name, id) = (format!("new-{turn}"), format!("rlor_new_{turn}"));
        insist(&store, &add_namespaces(&[&name])).await;
        insist(&store, &set_override(&id, &format!("rlns_{name}"), "x", 1)).await;
        turn += 1;
    }
    turn
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_is_never_read_without_the_one_it_belongs_to() {
    for (place, store) in Place::ready().await {
        store.make(&add_workspace("ws")).await;
        store.make(&add_namespaces(&["email"])).await;
        // So many that reading them takes long enough for others to make more.
        let fill = "#, x'726c6e735f656d61696c', #, 5, 1000, 5, NULL, 2";
        place.fill("tidegate_overrides", fill, 20_000).await;
        let ended = Arc::new(AtomicBool::new(false));
        let grower = tokio::spawn(grow(place.store(), Arc::clone(&ended)));
        let start = Instant::now();
        let mut last = 0;
        // Until reading has met much that was new.
        while last < 50 {
            let mut fresh = Node::default();
            let all = store.control().changes(0).await.unwrap();
            last = all.overrides.len() - 20_000;
            fresh.take(all);
            assert!(start.elapsed() < 2 * DEADLINE, "only {last} were made");
        }
        ended.store(true, Ordering::SeqCst);
        assert!(grower.await.unwrap() >= 50);
    }
}

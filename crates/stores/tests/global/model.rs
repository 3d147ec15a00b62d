//! The databases give the replies of the model, whatever is sent and whatever befalls them.

use proptest::prelude::*;
use sqlx::MySqlConnection;
use tidegate_convergence::{
    Batch, CALL_ROWS_MAX, GAPS_MAX, GlobalCall, GlobalError, GlobalReply, Import, MemoryGlobe,
    RegionName, RegionNumber,
};
use tokio::runtime::Runtime;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::histories;
use crate::support::{Place, Store, batch, connect, import, rows};

/// How far [`Step::Lapse`] moves the clock: no multiple of it is near the time after which a name
/// is free.
const LAPSE_MS: u64 = 12_000;
/// How many histories there are of each database.
const HISTORIES: u32 = 60;
/// How many rows may be begun at a time and not committed: each has a connection.
const HANDS: usize = 3;

#[derive(Clone, Debug)]
enum Step {
    Call(GlobalCall),
    /// So many rows at once.
    Burst(Batch, usize),
    /// Another connection begins a row: it has an id, and nobody sees it.
    Begin(usize, Batch),
    /// That row becomes visible, or never.
    End(usize, bool),
    /// Time passes.
    Lapse,
    /// A replica has heard of everything...
    Follow,
    /// ...and takes over: what came later is lost.
    TakeOver,
}

/// Numbers that are special to somebody.
fn numbers() -> impl Strategy<Value = u64> {
    let edges = [1 << 53, (1 << 53) + 1, 1 << 63, u64::MAX];
    let edge = (0..edges.len(), 0..2_u64).prop_map(move |(index, less)| edges[index] - less);
    prop_oneof![6 => 0..12_u64, 2 => edge, 1 => any::<u64>()]
}

fn ids() -> impl Strategy<Value = u64> {
    prop_oneof![12 => 0..16_u64, 2 => 0..200_u64, 1 => numbers()]
}

fn batches() -> impl Strategy<Value = Batch> {
    let payload = proptest::collection::vec(any::<u8>(), 0..20);
    let times = (numbers(), numbers());
    (0..3_u32, any::<bool>(), any::<u64>(), times, payload).prop_map(
        |(region, repeats, nonce, (written_ms, expires_ms), payload)| {
            let region = RegionNumber(region);
            Batch { region, repeats, nonce, written_ms, expires_ms, payload }
        },
    )
}

fn most() -> impl Strategy<Value = usize> {
    prop_oneof![4 => 0..6_usize, 2 => Just(100), 1 => Just(usize::MAX)]
}

fn imports() -> impl Strategy<Value = Import> {
    // One that is too long is refused.
    let gaps = proptest::collection::vec(ids(), 0..=GAPS_MAX + 1);
    (ids(), gaps, any::<bool>(), most()).prop_map(|(from, gaps, repeats, rows_max)| Import {
        from,
        gaps,
        repeats,
        rows_max,
    })
}

fn names() -> impl Strategy<Value = (RegionName, u128)> {
    // Names that a database with an opinion about text would take for the same.
    let name = (0..3_usize).prop_map(|n| RegionName::new(["eu", "EU", "eu."][n]).unwrap());
    let identity = (0..3_usize).prop_map(|n| [0, 7, u128::MAX][n]);
    (name, identity)
}

fn calls() -> impl Strategy<Value = GlobalCall> {
    prop_oneof![
        3 => names().prop_map(|(name, identity)| GlobalCall::Register { name, identity }),
        1 => names().prop_map(|(name, identity)| GlobalCall::Release { name, identity }),
        8 => batches().prop_map(GlobalCall::Publish),
        6 => imports().prop_map(GlobalCall::Import),
        2 => (0..3_u32, ids(), numbers(), most()).prop_map(|(region, up_to, before, rows_max)| {
            let region = RegionNumber(region);
            GlobalCall::Trim { region, up_to, written_before_ms: before, rows_max }
        }),
        1 => (numbers(), most()).prop_map(|(expired_before_ms, rows_max)| {
            GlobalCall::Collect { expired_before_ms, rows_max }
        }),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        40 => calls().prop_map(Step::Call),
        4 => (0..HANDS, batches()).prop_map(|(hand, batch)| Step::Begin(hand, batch)),
        4 => (0..HANDS, any::<bool>()).prop_map(|(hand, commits)| Step::End(hand, commits)),
        2 => Just(Step::Lapse),
        // More than one statement deletes.
        1 => (batches(), 50..150_usize).prop_map(|(batch, count)| Step::Burst(batch, count)),
        4 => Just(Step::Follow),
        4 => Just(Step::TakeOver),
    ];
    proptest::collection::vec(step, 1..50)
}

/// A database, and those who use it.
struct World {
    runtime: Runtime,
    place: Place,
    /// Two processes: what one wrote the other reads.
    stores: [Store; 2],
    /// Connections that begin rows and take their time. A file has none: it lets one write at a
    /// time, so that rows become visible in the order in which they were begun.
    hands: Mutex<Vec<MySqlConnection>>,
}

/// One history: the model, its clock, and what was begun.
struct History {
    model: MemoryGlobe,
    begun: [Option<(u64, Batch)>; HANDS],
    /// The largest id of a row that ever was visible: more a replica cannot know. Not the model's
    /// word, but the database's.
    visible_id: u64,
    /// What the replica has, and what it knows of ids.
    follower: Option<(MemoryGlobe, u64)>,
    lapsed_ms: u64,
    start: Instant,
}

impl World {
    fn new(place: Place) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let stores = [place.store(), place.store()];
        let hands = runtime.block_on(async {
            stores[0].migrate().await.unwrap();
            let mut hands = vec![];
            if let Place::Server(server) = &place {
                for _ in 0..HANDS {
                    hands.push(connect(server).await);
                }
            }
            hands
        });
        Self { runtime, place, stores, hands: Mutex::new(hands) }
    }

    fn run(&self, steps: &[Step]) {
        self.runtime.block_on(async {
            let (model, begun, follower) = (MemoryGlobe::default(), [const { None }; HANDS], None);
            let (start, visible_id, lapsed_ms) = (Instant::now(), 0, 0);
            let mut history = History { model, begun, visible_id, follower, lapsed_ms, start };
            // A history that failed may have left some open.
            self.end_all(&mut history).await;
            self.place.clear().await;
            for (turn, step) in steps.iter().enumerate() {
                match step {
                    Step::Call(call) => self.compare(&mut history, call, turn).await,
                    other => self.befall(&mut history, other).await,
                }
            }
            // In the end all is the same.
            self.compare(&mut history, &import(0, &[]), 0).await;
            self.end_all(&mut history).await;
        });
    }

    async fn compare(&self, history: &mut History, call: &GlobalCall, turn: usize) {
        let passed_ms = u64::try_from(history.start.elapsed().as_millis()).unwrap();
        let theirs = self.stores[turn % self.stores.len()].call(call).await;
        let ours = history.model.call(call, passed_ms + history.lapsed_ms);
        if let Ok(GlobalReply::Published { id }) = theirs {
            history.visible_id = history.visible_id.max(id);
        }
        match (&theirs, &ours) {
            // Clocks are read at different moments.
            (
                Err(GlobalError::NameTaken { seen_ms_ago: theirs }),
                Err(GlobalError::NameTaken { seen_ms_ago: ours }),
            ) => assert!(theirs.abs_diff(*ours) < LAPSE_MS / 3, "{theirs} {ours}"),
            // Each has its own words for it.
            (Err(GlobalError::Refused(_)), Err(GlobalError::Refused(_))) => {}
            _ => assert_eq!(theirs, ours, "{call:?}"),
        }
    }

    async fn befall(&self, history: &mut History, step: &Step) {
        match step {
            Step::Burst(batch, count) => {
                self.place.insert(batch, *count).await;
                for _ in 0..*count {
                    let id = history.model.begin();
                    history.model.commit(id, batch.clone());
                }
                let newest = rows(self.stores[0].call(&import(0, &[])).await).last().map(|r| r.id);
                history.visible_id = history.visible_id.max(newest.unwrap());
            }
            Step::Begin(hand, batch) => self.begin(history, *hand, batch).await,
            Step::End(hand, commits) => self.end(history, *hand, *commits).await,
            Step::Lapse => {
                history.lapsed_ms += LAPSE_MS;
                let seen = format!("SET seen_at = seen_at - {LAPSE_MS} WHERE seen_at > 0");
                self.place.sql(&format!("UPDATE tidegate_regions {seen}")).await;
                if history.follower.is_some() {
                    self.place.sql(&format!("UPDATE followed_regions {seen}")).await;
                }
            }
            Step::Follow => {
                self.place.follow().await;
                history.follower = Some((history.model.replica(), history.visible_id));
            }
            Step::TakeOver => {
                let Some((follower, visible_id)) = history.follower.clone() else { return };
                self.end_all(history).await;
                self.place.take_over(visible_id + 1).await;
                (history.model, history.visible_id) = (follower, visible_id);
            }
            Step::Call(_) => unreachable!("it is compared"),
        }
    }

    async fn begin(&self, history: &mut History, hand: usize, batch: &Batch) {
        let mut hands = self.hands.lock().await;
        let Some(hand_of) = hands.get_mut(hand).filter(|_| history.begun[hand].is_none()) else {
            return;
        };
        sqlx::raw_sql("START TRANSACTION").execute(&mut *hand_of).await.unwrap();
        let written = sqlx::query(
            "INSERT INTO tidegate_feed (region, repeats, nonce, written_at, expires_at, payload) \
             VALUES (?, ?, ?, ?, ?, ?)",
        );
        let written = written.bind(batch.region.0).bind(batch.repeats).bind(batch.nonce);
        let written = written.bind(batch.written_ms).bind(batch.expires_ms).bind(&batch.payload);
        let id = written.execute(hand_of).await.unwrap().last_insert_id();
        assert_eq!(id, history.model.begin(), "{batch:?}");
        history.begun[hand] = Some((id, batch.clone()));
    }

    async fn end(&self, history: &mut History, hand: usize, commits: bool) {
        let mut hands = self.hands.lock().await;
        let Some(hand_of) = hands.get_mut(hand) else { return };
        let how = if commits { "COMMIT" } else { "ROLLBACK" };
        sqlx::raw_sql(how).execute(hand_of).await.unwrap();
        if let Some((id, batch)) = history.begun[hand].take().filter(|_| commits) {
            history.visible_id = history.visible_id.max(id);
            history.model.commit(id, batch);
        }
    }

    /// What was begun is never committed.
    async fn end_all(&self, history: &mut History) {
        for hand in 0..HANDS {
            self.end(history, hand, false).await;
        }
    }
}

#[test]
fn replies_equal_those_of_the_model() {
    for place in Place::all() {
        let world = World::new(place);
        histories::run(HISTORIES, &steps(), |steps| world.run(steps));
    }
}

#[tokio::test]
async fn no_call_reads_or_deletes_more_rows_than_it_may() {
    let (all, more) = (CALL_ROWS_MAX + 300, batch(1, b"x"));
    for place in Place::all() {
        let (store, mut model) = (place.store(), MemoryGlobe::default());
        store.migrate().await.unwrap();
        place.insert(&more, all).await;
        for _ in 0..all {
            let id = model.begin();
            model.commit(id, more.clone());
        }
        let rows_max = usize::MAX;
        let everything = Import { from: 0, gaps: vec![], repeats: true, rows_max };
        let everything = GlobalCall::Import(everything);
        let deleted = GlobalCall::Collect { expired_before_ms: u64::MAX, rows_max };
        for call in [&everything, &deleted, &everything, &deleted, &everything] {
            let theirs = store.call(call).await;
            assert!(theirs == model.call(call, 0), "{call:?}");
            if let Ok(GlobalReply::Deleted { rows }) = theirs {
                assert!([CALL_ROWS_MAX as u64, 299].contains(&rows), "{rows}");
            }
        }
        assert_eq!(rows(store.call(&everything).await).len(), 1);
    }
}

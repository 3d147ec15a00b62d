//! Larger mixes than can be explored exhaustively, under random schedules, half of them chosen
//! with a probabilistic guarantee (PCT): the whole table, with its locks.

/// The small races of the loom tests, under random schedules.
#[path = "loom_tests.rs"]
mod races;

use std::sync::atomic::{AtomicU64, Ordering};

use shuttle::sync::Arc;
use shuttle::thread;

use crate::{
    Batch, BatchDecision, CellTicket, Consistency, Cost, Decision, Denial, Limit, Now, Options,
    Part, Request, Seed, Subject, Table, Window,
};

/// Schedules of each kind for each test; each takes well under a millisecond.
const SCHEDULES: usize = 20_000;
/// Ordering constraints that a bug may need to show itself.
const DEPTH: usize = 3;

const WINDOW_MS: u64 = 1_000;

/// Big enough for four subjects, so that newcomers have to push others out.
fn tiny_table() -> Arc<Table> {
    Arc::new(Table::new(tiny(Options::default()), Seed::from_bytes([4; 32])))
}

fn tiny(options: Options) -> Options {
    let sizes = (1..).map(|size| options.clone().with_budget_bytes(size << 9));
    sizes.into_iter().find(|options| options.subjects_max() >= 4).unwrap()
}

fn subject(identifier: &str) -> Subject<'_> {
    let window = Window::from_millis(WINDOW_MS).unwrap();
    let (workspace, namespace) = (Part::new("w").unwrap(), Part::new("n").unwrap());
    Subject::new(workspace, namespace, Part::new(identifier).unwrap(), window)
}

fn ask(identifier: &'static str, limit: u64, cost: u64) -> Request<'static> {
    Request::new(subject(identifier), Limit::new(limit), Cost::new(cost).unwrap())
}

fn at(ms: u64) -> Now {
    Now::new(1_000_000 + ms, ms)
}

fn explore(test: impl Fn() + Send + Sync + 'static) {
    let mut config = shuttle::Config::new();
    // A batch keeps its hundred items on the stack.
    config.stack_size = 1 << 19;
    let test = std::sync::Arc::new(test);
    let again = std::sync::Arc::clone(&test);
    let pct = shuttle::scheduler::PctScheduler::new(DEPTH, SCHEDULES);
    shuttle::Runner::new(pct, config.clone()).run(move || test());
    let random = shuttle::scheduler::RandomScheduler::new(SCHEDULES);
    shuttle::Runner::new(random, config).run(move || again());
}

type Work = Box<dyn FnOnce() -> u64 + Send>;

/// Runs all of them together and adds up what they return.
fn together(work: Vec<Work>) -> u64 {
    let threads: Vec<_> = work.into_iter().map(|work| thread::spawn(work)).collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).sum()
}

fn singles(table: &Arc<Table>, ask: Request<'static>, now: Now, many: usize) -> u64 {
    (0..many).map(|_| u64::from(table.decide(&ask, now).admitted())).sum()
}

#[test]
fn a_new_subject_is_taken_in_once() {
    explore(|| {
        let table = tiny_table();
        let work = (0..4).map(|_| {
            let table = Arc::clone(&table);
            Box::new(move || singles(&table, ask("a", 5, 1), at(0), 2)) as Work
        });
        assert_eq!(together(work.collect()), 5, "INV-4: eight tries, five units");
        assert_eq!(table.subjects(), 1);
        assert_eq!(table.counts().subjects_created, 1);
    });
}

#[test]
fn singles_and_batches_never_exceed_a_limit() {
    explore(|| {
        let table = tiny_table();
        let batch = |first, second| {
            let table = Arc::clone(&table);
            Box::new(move || {
                let items = [ask(first, 3, 1), ask(second, 3, 1)];
                let admitted = |_| table.decide_all(&Batch::new(&items).unwrap(), at(0)).admitted();
                (0..2).map(admitted).map(u64::from).sum::<u64>() * 2
            }) as Work
        };
        let single = |identifier| {
            let table = Arc::clone(&table);
            Box::new(move || singles(&table, ask(identifier, 3, 1), at(0), 2)) as Work
        };
        let spent = together(vec![batch("a", "b"), batch("b", "a"), single("a"), single("b")]);
        let left: u64 =
            ["a", "b"].map(|id| table.decide(&ask(id, 3, 0), at(0)).remaining()).iter().sum();
        assert_eq!(spent + left, 6, "INV-9, INV-10: all that is not spent is still there");
    });
}

/// Batches that are decided at once until half of a limit is used, those that take their time from
/// then on, and singles.
#[test]
fn batches_at_once_never_exceed_a_limit_and_leave_nothing_claimed() {
    explore(|| {
        let table = tiny_table();
        assert_eq!(["a", "b"].map(|id| singles(&table, ask(id, 6, 1), at(0), 1)), [1, 1]);
        let batch = |first, second| {
            let table = Arc::clone(&table);
            Box::new(move || {
                let items = [ask(first, 6, 1), ask(second, 6, 1)];
                let admitted = |_| table.decide_all(&Batch::new(&items).unwrap(), at(0)).admitted();
                (0..2).map(admitted).map(u64::from).sum::<u64>() * 2
            }) as Work
        };
        let single = |identifier| {
            let table = Arc::clone(&table);
            Box::new(move || singles(&table, ask(identifier, 6, 1), at(0), 2)) as Work
        };
        let spent = together(vec![batch("a", "b"), batch("b", "a"), single("a"), single("b")]);
        let cells = ["a", "b"].map(|id| table.cell(ask(id, 1, 0).subject(), 1_000).unwrap());
        for cell in &cells {
            assert_eq!(cell.claimed(), cell.mine(), "INV-10");
            assert!(cell.mine() <= 6, "INV-4");
        }
        let mine: u64 = cells.iter().map(|cell| cell.mine()).sum();
        assert_eq!(mine, spent + 2, "INV-9: all that was answered was spent, and nothing else");
    });
}

/// In a region, whoever is denied because of a batch that is then taken back is told so: it has
/// nobody read for a window.
#[test]
fn a_batch_at_once_that_is_taken_back_arms_nothing() {
    explore(|| taken_back(4, 2, 2));
    // A unit of a small limit, and more than a unit of a large one.
    explore(|| taken_back(4, 1, 3));
    explore(|| taken_back(63, 1, 62));
    explore(|| taken_back(128, 2, 126));
}

/// A batch of two subjects, and of each a single that together with it leaves nothing of the limit,
/// and one that wants more.
fn taken_back(limit: u64, batch_cost: u64, single_cost: u64) {
    let (table, cells) = region(limit);
    let batch = Arc::clone(&table);
    let batch = Box::new(move || {
        let items = ["a", "b"].map(|identifier| ask(identifier, limit, batch_cost));
        admitted(&batch, &items)
    }) as Work;
    let two_singles = |identifier| {
        let table = Arc::clone(&table);
        let ask = move |cost| singles(&table, ask(identifier, limit, cost), at(0), 1);
        Box::new(move || ask(single_cost) + ask(1)) as Work
    };
    let _ = together(vec![batch, two_singles("a"), two_singles("b")]);
    for cell in cells.map(|cell| table.cell_of(cell).unwrap()) {
        let (strict_until_ms, _) = cell.strict();
        assert!(strict_until_ms == 0 || cell.mine() == limit, "only who is exhausted is strict");
        assert_eq!((cell.claimed(), cell.reserved()), (cell.mine(), 0), "INV-10");
    }
}

/// Others get on with the subjects of a batch while it decides, and one of them ends the window: a
/// batch that need not hear of the region goes on in the next one.
#[test]
fn a_batch_at_once_that_is_overtaken_leaves_nothing_marked() {
    explore(|| overtaken(admitted));
    explore(|| {
        overtaken(|table, items| {
            u64::from(table.decide_all(&Batch::new(items).unwrap(), at(0)).admitted())
        });
    });
}

fn overtaken(decide: fn(&Table, &[Request<'_>]) -> u64) {
    let (table, _) = region(100);
    let batch = Arc::clone(&table);
    let batch = Box::new(move || decide(&batch, &[ask("a", 100, 2), ask("b", 100, 2)]));
    let single = |identifier, ms| {
        let table = Arc::clone(&table);
        Box::new(move || singles(&table, ask(identifier, 100, 2), at(ms), 1)) as Work
    };
    let _ = together(vec![batch, single("a", 0), single("b", 0), single("a", WINDOW_MS)]);
    let cells = [("a", 1_000), ("a", 1_001), ("b", 1_000)]
        .map(|(identifier, sequence)| table.cell(&subject(identifier), sequence).unwrap());
    for cell in cells {
        assert_eq!((cell.claimed(), cell.reserved()), (cell.mine(), 0), "INV-10");
    }
}

/// What is lent is lent once, also to a batch at once that was overtaken and looks again.
#[test]
fn a_batch_at_once_takes_no_more_than_is_lent() {
    explore(|| {
        let (table, [cell, _]) = region(1_000);
        let cells = table.cells(cell.subject).unwrap();
        cells.set_company(1);
        let bounded = |cost| ask("a", 1_000, cost).with_consistency(Consistency::Bounded);
        let batch = Arc::clone(&table);
        let batch = Box::new(move || admitted(&batch, &[bounded(100)])) as Work;
        let single = Arc::clone(&table);
        let single = Box::new(move || match single.decide_or_refresh(&bounded(100), at(0)) {
            Decision::Answered(answer) => u64::from(answer.admitted()),
            Decision::Ask(asking) => {
                single.release(asking);
                0
            }
            Decision::Refresh(_) => 0,
        }) as Work;
        let spent = together(vec![batch, single]);
        assert_eq!(spent, 1, "INV-16: an eighth of 1000 is lent, and the other has to ask");
        assert_eq!((cells.current.claimed(), cells.current.mine()), (100, 100), "INV-10");
    });
}

/// A table in a region that has just told of two subjects, and their cells.
fn region(limit: u64) -> (Arc<Table>, [CellTicket; 2]) {
    let options = tiny(Options::default().with_region());
    let table = Arc::new(Table::new(options, Seed::from_bytes([4; 32])));
    let cell = |identifier| {
        let need = table.decide_or_refresh(&ask(identifier, limit, 1), at(0));
        let Decision::Refresh(need) = need else { panic!("{need:?}") };
        let cell = table.cells(need.subject).unwrap().current;
        assert!(cell.mark_fresh_until_ms(5_000));
        cell.ticket(need.subject)
    };
    let cells = ["a", "b"].map(cell);
    (table, cells)
}

/// Whether the region has nothing to do with a batch and it is admitted: 1 if so.
fn admitted(table: &Table, items: &[Request<'_>]) -> u64 {
    match table.decide_all_or_refresh(&Batch::new(items).unwrap(), at(0)) {
        BatchDecision::Answered(answer) => u64::from(answer.admitted()),
        BatchDecision::Ask(asking) => {
            table.release(asking);
            0
        }
        BatchDecision::Refresh(_) => 0,
    }
}

#[test]
fn rollovers_lose_nothing() {
    explore(|| {
        let table = tiny_table();
        let work = [990, 1_000, 1_500, 1_990].map(|ms| {
            let table = Arc::clone(&table);
            Box::new(move || singles(&table, ask("a", 100, 1), at(ms), 2)) as Work
        });
        assert_eq!(together(work.into()), 8, "there is room for all");
        // Both windows still count: whatever the order, all of it is in one of the two cells.
        let cells =
            [1_000, 1_001].map(|sequence| table.cell(ask("a", 1, 0).subject(), sequence).unwrap());
        for cell in &cells {
            assert_eq!(cell.claimed(), cell.mine(), "INV-10");
        }
        assert_eq!(cells.iter().map(|cell| cell.mine()).sum::<u64>(), 8, "no increment is lost");
    });
}

/// A look-up finds who is there, also while the index closes a gap.
#[test]
fn a_cell_is_found_while_the_index_closes_a_gap() {
    let seed = Seed::from_bytes([4; 32]);
    let home = |name: &str| crate::key::Key::of(&subject(name), &seed).hash >> 8 & 15;
    let old = "old";
    let live = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"]
        .into_iter()
        .chain(["q", "r", "s", "t", "u", "v", "w", "x", "y", "z"])
        .find(|name| home(name) == home(old))
        .unwrap();
    explore(move || {
        let table = tiny_table();
        assert_eq!(singles(&table, ask(old, 1, 1), at(0), 1), 1);
        assert_eq!(singles(&table, ask(live, 3, 1), at(10_000), 1), 1);
        let sweep = {
            let table = Arc::clone(&table);
            thread::spawn(move || table.sweep(at(10_000)))
        };
        let found = table.cell(&subject(live), 1_010).is_some();
        sweep.join().unwrap();
        assert!(found, "it never left");
    });
}

#[test]
fn a_flood_never_forgets_what_is_near_its_limit() {
    explore(|| {
        let table = tiny_table();
        let spent = Arc::new(AtomicU64::new(0));
        assert_eq!(singles(&table, ask("hot", 4, 1), at(0), 3), 3);
        let hot = {
            let (table, spent) = (Arc::clone(&table), Arc::clone(&spent));
            Box::new(move || {
                spent.fetch_add(singles(&table, ask("hot", 4, 1), at(0), 3), Ordering::Relaxed);
                0_u64
            }) as Work
        };
        let flood = |names: [&'static str; 4]| {
            let table = Arc::clone(&table);
            Box::new(move || {
                for name in names {
                    let answer = table.decide(&ask(name, 100, 1), at(0));
                    assert!(answer.admitted() || answer.denial() == Some(Denial::Memory));
                }
                0_u64
            }) as Work
        };
        together(vec![hot, flood(["c", "d", "e", "f"]), flood(["g", "h", "c", "d"])]);
        assert_eq!(spent.load(Ordering::Relaxed), 1, "one of four was left");
        assert!(table.counts().subjects_evicted > 0, "the flood did push others out");
    });
}

#[test]
fn sweeps_drop_only_what_expired() {
    explore(|| {
        let table = tiny_table();
        assert_eq!(singles(&table, ask("old", 1, 1), at(0), 1), 1);
        let live = {
            let table = Arc::clone(&table);
            Box::new(move || singles(&table, ask("live", 3, 1), at(10_000), 2)) as Work
        };
        let again = {
            let table = Arc::clone(&table);
            Box::new(move || singles(&table, ask("old", 1, 1), at(10_000), 2)) as Work
        };
        let sweep = {
            let table = Arc::clone(&table);
            Box::new(move || {
                (0..3).for_each(|_| {
                    table.sweep(at(10_000));
                });
                0_u64
            }) as Work
        };
        assert_eq!(together(vec![live, again, sweep]), 3, "two of three, and one of one");
        assert_eq!(table.decide(&ask("live", 3, 0), at(10_000)).remaining(), 1);
        assert!(!table.decide(&ask("old", 1, 1), at(10_000)).admitted(), "spent anew just now");
    });
}

#[test]
fn a_sweep_denies_no_batch() {
    explore(|| {
        let table = tiny_table();
        assert_eq!(singles(&table, ask("old", 1, 1), at(0), 1), 1);
        let sweep = {
            let table = Arc::clone(&table);
            thread::spawn(move || table.sweep(at(10_000)))
        };
        let items = [ask("old", 3, 1), ask("b", 3, 1)];
        let answer = table.decide_all(&Batch::new(&items).unwrap(), at(10_000));
        sweep.join().unwrap();
        assert!(answer.admitted(), "there is room: {:?}", answer.items()[0].denial());
    });
}

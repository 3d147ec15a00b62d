//! The table against a model that is small enough to be obviously right: one thread, plain
//! numbers, one struct per subject.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tidegate_limiter::{Answer, Batch, Now, Request, Table};

use crate::support::{START_MS, request, table};

const IDENTIFIERS: [&str; 3] = ["a", "b", "c"];
const WINDOWS_MS: [u64; 2] = [1_000, 3_000];

/// What happens to the table and to the model alike.
#[derive(Clone, Debug)]
enum Step {
    Single(Ask),
    Batch(Vec<Ask>),
    /// Both clocks advance.
    Pass(u64),
    /// The wall clock jumps, and nothing passes.
    Jump(i64),
    /// A request whose reading of both clocks is this old.
    Late(Ask, u64),
    /// Peers and other regions are heard of, for the current cell.
    Told {
        ask: Ask,
        peers: u64,
        foreign: u64,
    },
    Sweep,
}

#[derive(Clone, Copy, Debug)]
struct Ask {
    identifier: usize,
    window: usize,
    limit: u64,
    cost: u64,
}

impl Ask {
    fn request(self) -> Request<'static> {
        request(IDENTIFIERS[self.identifier], self.limit, WINDOWS_MS[self.window], self.cost)
    }
}

/// One subject: two counts, where they stand, and when the current cell was first used.
#[derive(Clone, Copy, Debug, Default)]
struct Cells {
    sequence: u64,
    current: u64,
    previous: u64,
    turned_ms: u64,
    peers: u64,
    foreign: u64,
    told_before: u64,
    /// Named by a jump of the clock.
    renamed: bool,
}

impl Cells {
    fn told(self) -> u64 {
        self.peers + self.foreign
    }
}

#[derive(Debug, Default)]
struct Model {
    subjects: BTreeMap<(usize, usize), Cells>,
}

impl Model {
    /// Brings a subject to `now` and returns it with the time elapsed in its cell.
    fn place(&mut self, ask: Ask, now: Now) -> (&mut Cells, u64) {
        let window_ms = WINDOWS_MS[ask.window];
        let sequence = now.unix_ms() / window_ms;
        let fresh = Cells { sequence, turned_ms: now.monotonic_ms(), ..Cells::default() };
        let cells = self.subjects.entry((ask.identifier, ask.window)).or_insert(fresh);
        let since_ms = now.monotonic_ms().saturating_sub(cells.turned_ms);
        let (ahead, behind) =
            (sequence.checked_sub(cells.sequence), cells.sequence.checked_sub(sequence));
        match (ahead, behind) {
            (Some(0), _) => return (cells, now.unix_ms() % window_ms),
            (Some(1), _) if !cells.renamed || since_ms >= window_ms - window_ms / 16 => {
                *cells = Cells {
                    sequence,
                    current: 0,
                    previous: cells.current,
                    peers: 0,
                    foreign: 0,
                    told_before: cells.told(),
                    renamed: false,
                    turned_ms: cells.turned_ms.max(now.monotonic_ms()),
                };
            }
            (Some(ahead), _)
                if since_ms
                    >= (window_ms - window_ms / 16) * (ahead - 1 + u64::from(cells.renamed)) =>
            {
                *cells = fresh;
            }
            (None, Some(1)) => return (cells, 0),
            (None, _) if now.monotonic_ms() < cells.turned_ms => return (cells, 0),
            // The wall clock jumped: the cells change their name, and nothing fades until the next.
            _ => {
                cells.sequence = sequence + 1;
                cells.renamed = true;
                cells.turned_ms = cells.turned_ms.max(now.monotonic_ms());
                return (cells, 0);
            }
        }
        (cells, now.unix_ms() % window_ms)
    }

    /// Whether the ask fits beside `earlier`, what is left if it does, and its cells.
    fn look(&mut self, ask: Ask, earlier: u64, now: Now) -> (Option<u64>, &mut Cells) {
        let (cells, elapsed_ms) = self.place(ask, now);
        let window_ms = u128::from(WINDOWS_MS[ask.window]);
        let before = u128::from(cells.previous + cells.told_before);
        let weighted = before * (window_ms - u128::from(elapsed_ms)) / window_ms;
        let effective = u128::from(cells.current + cells.told() + earlier + ask.cost) + weighted;
        let room = u128::from(ask.limit).checked_sub(effective).filter(|_| ask.limit > 0);
        (room.map(|room| u64::try_from(room).unwrap()), cells)
    }

    fn spend(&mut self, ask: Ask, now: Now) {
        let (cells, _) = self.place(ask, now);
        cells.current += ask.cost;
    }

    fn single(&mut self, ask: Ask, now: Now) -> Option<u64> {
        let (remaining, _) = self.look(ask, 0, now);
        if remaining.is_some() {
            self.spend(ask, now);
        }
        remaining
    }

    /// What each item has left, and whether all were admitted.
    fn batch(&mut self, asks: &[Ask], now: Now) -> (bool, Vec<Option<u64>>) {
        let mut items = Vec::new();
        for (at, ask) in asks.iter().enumerate() {
            let same =
                |other: &&Ask| (other.identifier, other.window) == (ask.identifier, ask.window);
            let earlier = asks[..at].iter().filter(same).map(|other| other.cost).sum();
            items.push(self.look(*ask, earlier, now).0);
        }
        let admitted = items.iter().all(Option::is_some);
        for (ask, item) in asks.iter().zip(&mut items) {
            if admitted {
                self.spend(*ask, now);
            } else {
                *item = item.map(|remaining| remaining + ask.cost);
            }
        }
        (admitted, items)
    }
}

fn any_ask() -> impl Strategy<Value = Ask> {
    (0..3_usize, 0..2_usize, prop_oneof![0..=12_u64, Just(1_000)], 0..=6_u64)
        .prop_map(|(identifier, window, limit, cost)| Ask { identifier, window, limit, cost })
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => any_ask().prop_map(Step::Single),
        3 => proptest::collection::vec(any_ask(), 1..6).prop_map(Step::Batch),
        4 => prop_oneof![0..100_u64, 0..1_500_u64, 900..7_000_u64].prop_map(Step::Pass),
        1 => prop_oneof![-9_000..=9_000_i64, Just(86_400_999), Just(-86_399_001)]
            .prop_map(Step::Jump),
        1 => (any_ask(), 0..9_000_u64).prop_map(|(ask, late_ms)| Step::Late(ask, late_ms)),
        1 => (any_ask(), 0..8_u64, 0..8_u64)
            .prop_map(|(ask, peers, foreign)| Step::Told { ask, peers, foreign }),
        1 => Just(Step::Sweep),
    ]
}

/// Drives both, and compares every answer.
struct Pair {
    table: Table,
    model: Model,
    wall_ms: u64,
    monotonic_ms: u64,
}

impl Pair {
    fn now(&self) -> Now {
        Now::new(self.wall_ms, self.monotonic_ms)
    }

    fn compare(answer: &Answer, expected: Option<u64>) {
        assert_eq!(answer.admitted().then_some(answer.remaining()), expected, "{answer:?}");
    }

    fn single(&mut self, ask: Ask, now: Now) {
        let answer = self.table.decide(&ask.request(), now);
        Self::compare(&answer, self.model.single(ask, now));
    }

    fn told(&mut self, ask: Ask, peers: u64, foreign: u64) {
        // Both look, so that both stand at the same cell.
        self.single(Ask { cost: 0, ..ask }, self.now());
        let cells = self.model.subjects[&(ask.identifier, ask.window)];
        let request = ask.request();
        let handle = self.table.cell(request.subject(), cells.sequence).unwrap();
        assert_eq!((handle.mine(), handle.claimed()), (cells.current, cells.current), "INV-10");
        assert!(handle.observe_region(peers + cells.current, cells.current));
        assert!(handle.observe_foreign(foreign));
        let cells = self.model.subjects.get_mut(&(ask.identifier, ask.window)).unwrap();
        cells.peers = cells.peers.max(peers);
        cells.foreign = cells.foreign.max(foreign);
        assert_eq!((handle.peers(), handle.foreign()), (cells.peers, cells.foreign), "INV-1");
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Single(ask) => self.single(ask, self.now()),
            Step::Batch(asks) => {
                let requests: Vec<_> = asks.iter().map(|ask| ask.request()).collect();
                let answer = self.table.decide_all(&Batch::new(&requests).unwrap(), self.now());
                let (admitted, items) = self.model.batch(&asks, self.now());
                assert_eq!(answer.admitted(), admitted, "INV-9");
                for (answer, expected) in answer.items().iter().zip(items) {
                    Self::compare(answer, expected);
                }
            }
            Step::Pass(ms) => {
                self.wall_ms += ms;
                self.monotonic_ms += ms;
            }
            Step::Jump(ms) => {
                self.wall_ms = self.wall_ms.checked_add_signed(ms).unwrap();
            }
            Step::Late(ask, late_ms) => {
                let now = Now::new(self.wall_ms - late_ms, self.monotonic_ms - late_ms);
                self.single(ask, now);
            }
            Step::Told { ask, peers, foreign } => self.told(ask, peers, foreign),
            Step::Sweep => {
                (0..8).for_each(|_| {
                    self.table.sweep(self.now());
                });
                self.forget_what_was_dropped();
            }
        }
    }

    /// Only what has expired may be dropped.
    fn forget_what_was_dropped(&mut self) {
        let (table, monotonic_ms) = (&self.table, self.monotonic_ms);
        self.model.subjects.retain(|(identifier, window), cells| {
            let ask = Ask { identifier: *identifier, window: *window, limit: 1, cost: 1 };
            let kept = table.cell(ask.request().subject(), cells.sequence).is_some();
            let idle_ms = monotonic_ms.saturating_sub(cells.turned_ms);
            assert!(kept || idle_ms >= 3 * WINDOWS_MS[*window], "dropped {cells:?}");
            kept
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1_500,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Singles, batches, rollovers, limit changes, clock steps, late requests, what is told by
    /// peers and regions, and sweeps: every answer is the model's.
    #[test]
    fn table_equals_model(steps in proptest::collection::vec(any_step(), 1..80)) {
        let model = Model::default();
        let mut pair = Pair { table: table(), model, wall_ms: START_MS, monotonic_ms: 1_000_000 };
        for step in steps {
            pair.step(step);
        }
    }
}

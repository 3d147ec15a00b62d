use std::sync::Arc;

use proptest::prelude::*;

use super::*;

const TURN: Turn = Turn::FIRST;

/// The memory of one cell.
struct Memory(Spent, Heard, Marks);

impl Memory {
    fn new() -> Self {
        Self(Spent::new(TURN), Heard::new(TURN), Marks::new(TURN))
    }

    fn cell(&self) -> Cell<'_> {
        Cell::of(&self.0, &self.1, &self.2)
    }
}

fn alive() -> bool {
    true
}

/// MX1 of the contract: raises, ignores lower and equal values. Negative values cannot be
/// represented.
#[test]
fn raise_never_goes_back() {
    let register = Register::new(Word::new(TURN, 0));
    for (raise, expected) in [(5, 5), (10, 10), (7, 10), (10, 10), (0, 10)] {
        assert_eq!(register.raise(TURN, alive, raise), Write::Done);
        assert_eq!(register.read(TURN), expected);
    }
}

/// MX2 of the contract: ten concurrent proposers converge to the maximum.
#[test]
fn concurrent_raises_converge_to_the_maximum() {
    let register = Arc::new(Register::new(Word::new(TURN, 0)));
    let propose = |count: u64| {
        let register = Arc::clone(&register);
        std::thread::spawn(move || register.raise(TURN, alive, count))
    };
    let threads: Vec<_> = (1..=10).map(|n| propose(n * 10)).collect();
    for thread in threads {
        assert_eq!(thread.join().unwrap(), Write::Done);
    }
    assert_eq!(register.read(TURN), 100);
}

#[test]
fn a_register_of_another_turn_reads_zero_and_is_replaced() {
    let register = Register::new(Word::new(TURN, 7));
    let later = TURN.next().next();
    assert_eq!(register.read(later), 0);
    assert_eq!(register.raise(later, alive, 3), Write::Done);
    assert_eq!((register.read(later), register.read(TURN)), (3, 0));
    assert_eq!(register.raise(TURN, || false, 9), Write::Passed, "its turn has passed");
    assert_eq!(register.write(TURN, || false, |_| 9), Write::Passed, "also for a claim");
    assert_eq!(register.read(later), 3);
}

#[test]
fn a_closed_register_accepts_nothing() {
    let register = Register::new(Word::new(Turn::RETIRED, 0));
    assert_eq!(register.raise(TURN, alive, 1), Write::Passed);
    register.begin(TURN, alive);
    assert_eq!(register.load().turn(), Turn::RETIRED);
}

#[test]
fn a_turn_begins_over_leftovers_only() {
    let later = TURN.next().next();
    let register = Register::new(Word::new(TURN, 7));
    register.begin(later, || false);
    assert_eq!(register.read(TURN), 7, "the turn is not the one to begin any more");
    register.begin(later, alive);
    assert_eq!(register.load(), Word::new(later, 0));
}

#[test]
fn turns_alternate_for_ever() {
    let mut turn = TURN;
    for _ in 0..20_000 {
        assert_ne!(turn.cell(), turn.next().cell());
        assert_eq!(turn.next().previous(), turn);
        assert_ne!(turn, Turn::RETIRED);
        turn = turn.next();
    }
}

#[test]
fn acknowledge_takes_at_most_mine() {
    let memory = Memory::new();
    let cell = memory.cell();
    assert_eq!(cell.mine.raise(TURN, alive, 5), Write::Done);
    assert_eq!(cell.acknowledge(TURN, alive, 9), Write::Done);
    assert_eq!(cell.acked.read(TURN), 5, "INV-2");
}

/// What is told to a cell, as a value that can be merged in any order.
#[derive(Clone, Copy, Debug)]
enum Told {
    Region(u64, u64),
    OwnRegion(u64),
    Foreign(u64),
    Acknowledged(u64),
}

fn any_told() -> impl Strategy<Value = Told> {
    let count = 0..1_000_u64;
    prop_oneof![
        (count.clone(), count.clone()).prop_map(|(sum, part)| Told::Region(sum, part.min(sum))),
        count.clone().prop_map(Told::OwnRegion),
        count.clone().prop_map(Told::Foreign),
        count.prop_map(Told::Acknowledged),
    ]
}

impl Cell<'_> {
    fn tell(self, told: Told) {
        let write = match told {
            Told::Region(sum, recorded) => self.observe_region(TURN, alive, (sum, recorded)),
            Told::OwnRegion(published) => self.observe_own_region(TURN, alive, published),
            Told::Foreign(sum) => self.observe_foreign(TURN, alive, sum),
            Told::Acknowledged(recorded) => self.acknowledge(TURN, alive, recorded),
        };
        assert_eq!(write, Write::Done);
    }

    fn told_all(told: &[Told]) -> [u64; 10] {
        let memory = Memory::new();
        let cell = memory.cell();
        let _ = cell.mine.raise(TURN, alive, 500);
        let _ = cell.claimed.raise(TURN, alive, 500);
        for told in told {
            cell.tell(*told);
        }
        cell.registers().map(|register| register.read(TURN))
    }
}

proptest! {
    #![proptest_config(crate::cases(2_000))]

    /// Monotonic: nothing that is told lowers a register (INV-1), and `acked <= mine` (INV-2).
    #[test]
    fn merging_is_monotonic(told in proptest::collection::vec(any_told(), 1..20)) {
        for upto in 1..told.len() {
            let (before, after) = (Cell::told_all(&told[..upto]), Cell::told_all(&told[..=upto]));
            prop_assert!(before.iter().zip(after).all(|(before, after)| *before <= after));
            prop_assert!(after[2] <= after[1]);
        }
    }

    /// Idempotent: telling everything again changes nothing.
    #[test]
    fn merging_is_idempotent(told in proptest::collection::vec(any_told(), 1..20)) {
        let twice: Vec<_> = told.iter().chain(&told).copied().collect();
        prop_assert_eq!(Cell::told_all(&told), Cell::told_all(&twice));
    }

    /// Commutative: any order comes to the same.
    #[test]
    fn merging_is_commutative(
        told in proptest::collection::vec(any_told(), 1..20),
        turn in 0..20_usize,
    ) {
        let mut other = told.clone();
        other.reverse();
        other.rotate_left(turn % told.len());
        prop_assert_eq!(Cell::told_all(&told), Cell::told_all(&other));
    }

    /// Associative: what two cells know, joined, is what one that was told both knows.
    #[test]
    fn merging_is_associative(
        first in proptest::collection::vec(any_told(), 0..10),
        second in proptest::collection::vec(any_told(), 0..10),
    ) {
        let joined: Vec<_> = first.iter().chain(&second).copied().collect();
        let (a, b) = (Cell::told_all(&first), Cell::told_all(&second));
        let pairwise: Vec<_> = a.iter().zip(b).map(|(a, b)| *a.max(&b)).collect();
        prop_assert_eq!(Cell::told_all(&joined).to_vec(), pairwise);
    }
}

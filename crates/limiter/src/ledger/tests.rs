use proptest::prelude::*;

use super::*;
use crate::request::{Cost, Limit};

fn terms(limit: u64, cost: u64) -> Terms {
    let window = Window::from_millis(1_000).unwrap();
    Terms { window, limit: Limit::new(limit), cost: Cost::new(cost).unwrap() }
}

/// The memory of one ledger.
struct Memory(Front, Back);

impl Memory {
    fn new() -> Self {
        Self(Front::free(7), Back::free())
    }

    /// The ledger of a subject, and its era.
    fn found(&self, fingerprint: [u64; 2], life: u32) -> (Ledger<'_>, u64) {
        let ledger = Ledger::new(&self.0, &self.1);
        let window = terms(1, 1).window;
        let founding = Founding { window, fingerprint, digest: [1, 2], life };
        (ledger, ledger.found(&founding, NOW))
    }
}

const NOW: Now = Now::new(10_000, 10_000);

#[test]
fn a_claim_keeps_its_ledger() {
    let memory = Memory::new();
    let (ledger, era) = memory.found([7, 7], 3);
    let Verdict::Held(claim, _) = ledger.claim(era, terms(2, 1), NOW) else {
        panic!("there was room");
    };
    assert!(!ledger.retire(|| true), "something is claimed");
    ledger.release(claim);
    assert!(!ledger.retire(|| false), "the caller does not agree");
    assert!(ledger.retire(|| true));
    assert!(is_in_use(era) && !is_in_use(ledger.era()));
    assert_eq!((name_of(era), name_of(ledger.era())), (7, 7));
}

#[test]
fn a_retired_ledger_decides_nothing() {
    let memory = Memory::new();
    let (ledger, era) = memory.found([7, 7], 3);
    assert!(ledger.retire(|| true));
    assert!(matches!(ledger.claim(era, terms(2, 1), NOW), Verdict::Moved));
    assert!(matches!(ledger.claim(era, terms(2, 0), NOW), Verdict::Moved));
    assert!(ledger.look(era, terms(2, 1).window, NOW).is_none());
}

#[test]
fn a_reused_ledger_is_another_subjects() {
    let memory = Memory::new();
    let (ledger, era) = memory.found([7, 7], 3);
    assert!(ledger.is_of([7, 7]));
    assert!(ledger.retire(|| true));
    let (ledger, later) = memory.found([7, 8], 4);
    assert_eq!(later, era + 2 * ERA);
    assert!(!ledger.is_of([7, 7]) && ledger.is_of([7, 8]));
    assert!(matches!(ledger.claim(era, terms(2, 1), NOW), Verdict::Moved), "an old era");
    let cell = ledger.cell(ledger.position().turn());
    assert_eq!(cell.claimed.load().count(), 0, "the old claim was taken back");
    assert!(matches!(ledger.claim(later, terms(2, 1), NOW), Verdict::Held(..)));
    assert_eq!(ledger.life(), 4);
}

/// The reason of a denial: a batch in flight, or the limit.
#[test]
fn a_denial_knows_reservations_from_admissions() {
    let memory = Memory::new();
    let (ledger, era) = memory.found([7, 7], 3);
    let Verdict::Held(claim, _) = ledger.reserve(era, terms(1, 1), NOW) else {
        panic!("there was room");
    };
    let Verdict::Denied(look) = ledger.claim(era, terms(1, 1), NOW) else {
        panic!("the room is reserved");
    };
    assert_eq!(ledger.deny(era, &look, terms(1, 1), NOW), Denied::Reserved);
    assert_eq!(ledger.strict().0, 0, "a reservation arms nothing");
    ledger.commit(claim, terms(1, 1));
    ledger.settle(era, claim.turn, claim.cost);
    let Verdict::Denied(look) = ledger.claim(era, terms(1, 1), NOW) else {
        panic!("the room is spent");
    };
    let deny = |era| ledger.deny(era, &look, terms(1, 1), NOW);
    assert_eq!(deny(era + 2 * ERA), Denied::Limit { arms: false }, "another's");
    assert_eq!(deny(era), Denied::Limit { arms: true });
    assert_eq!(deny(era), Denied::Limit { arms: false }, "armed");
}

/// A single oversized request must not turn every later admission into a read of the store.
#[test]
fn a_denial_arms_only_what_is_exhausted() {
    let memory = Memory::new();
    let (ledger, era) = memory.found([7, 7], 3);
    let deny = |limit, cost| {
        let Verdict::Denied(seen) = ledger.claim(era, terms(limit, cost), NOW) else {
            panic!("it does not fit");
        };
        ledger.deny(era, &seen, terms(limit, cost), NOW)
    };
    assert_eq!(deny(2, 3), Denied::Limit { arms: false }, "nothing is used");
    let Verdict::Held(claim, _) = ledger.claim(era, terms(2, 2), NOW) else {
        panic!("there was room");
    };
    ledger.commit(claim, terms(2, 2));
    assert_eq!(deny(0, 1), Denied::Limit { arms: false }, "there is nothing to exhaust");
    assert_eq!(deny(2, 1), Denied::Limit { arms: true });
}

/// A decision that looked the ledger up for its former subject leaves the new one where it is.
#[test]
fn a_stale_decision_does_not_turn_a_newcomer() {
    let memory = Memory::new();
    let (ledger, era) = memory.found([7, 7], 3);
    assert!(ledger.retire(|| true));
    let (ledger, _) = memory.found([7, 8], 4);
    let before = ledger.position();
    let stale = Terms { window: Window::from_millis(1_100).unwrap(), ..terms(2, 1) };
    assert!(matches!(ledger.claim(era, stale, Now::new(12_100, 10_000)), Verdict::Moved));
    assert_eq!(ledger.position(), before);
}

/// Nobody relies on a turn alone across a reuse: a batch that slept until the turn came round.
#[test]
fn a_claim_of_another_era_is_never_settled() {
    let memory = Memory::new();
    let (ledger, era) = memory.found([7, 7], 3);
    let Verdict::Held(claim, _) = ledger.reserve(era, terms(9, 3), NOW) else {
        panic!("there was room");
    };
    // Both cells pass, so that the claim keeps nothing, and others use the ledger.
    let later = NOW.after_ms(5_000);
    assert!(matches!(ledger.claim(era, terms(9, 0), later), Verdict::Held(..)));
    let era = (0..10_000).find_map(|_| {
        assert!(ledger.retire(|| true));
        let (_, era) = memory.found([8, 8], 4);
        (ledger.position().turn() == claim.turn).then_some(era)
    });
    let (era, now) = (era.unwrap(), NOW);
    let Verdict::Held(other, _) = ledger.reserve(era, terms(9, 5), now) else {
        panic!("there was room");
    };
    assert!(ledger.commit(other, terms(9, 5)));
    ledger.release(claim);
    ledger.settle(claim.era, claim.turn, claim.cost);
    assert!(!ledger.commit_held(claim, terms(9, 3)));
    let cell = ledger.cell(claim.turn);
    let counts = [cell.claimed, cell.mine, cell.reserved].map(|word| word.read(claim.turn));
    assert_eq!(counts, [5, 5, 5], "all of it is the newcomer's");
}

/// The first admission of a cell is the first that `mine` sees, whatever was reserved before.
#[test]
fn a_reservation_does_not_hide_the_first_admission() {
    let memory = Memory::new();
    let (ledger, era) = memory.found([7, 7], 3);
    let Verdict::Held(reserved, _) = ledger.reserve(era, terms(1_000, 1), NOW) else {
        panic!("there was room");
    };
    let Verdict::Held(single, _) = ledger.claim(era, terms(1_000, 1), NOW) else {
        panic!("there was room");
    };
    assert!(ledger.commit(single, terms(1_000, 1)), "it begins the cell");
    ledger.release(reserved);
    ledger.settle(era, reserved.turn, reserved.cost);
    let standing = ledger.standing(NOW, false);
    assert_eq!(standing.use_share, 1, "1 of 1,000 is used");
}

/// Whoever is strict is as good as above half of its limit.
#[test]
fn a_strict_subject_counts_as_above_half() {
    let memory = Memory::new();
    let (ledger, era) = memory.found([7, 7], 3);
    let Verdict::Held(claim, _) = ledger.claim(era, terms(1_000, 100), NOW) else {
        panic!("there was room");
    };
    ledger.commit(claim, terms(1_000, 100));
    let Verdict::Denied(seen) = ledger.claim(era, terms(10, 1), NOW) else {
        panic!("100 of 10 are used");
    };
    assert!(ledger.standing(NOW, false).use_share < ABOVE_HALF);
    assert_eq!(ledger.deny(era, &seen, terms(10, 1), NOW), Denied::Limit { arms: true });
    assert_eq!(ledger.standing(NOW, false).use_share, ABOVE_HALF);
    assert!(
        ledger.standing(NOW.after_ms(1_000), false).use_share < ABOVE_HALF,
        "until its deadline"
    );
}

/// INV-28: an answer never says that what it knows of the current cell is younger than it is.
#[test]
fn an_age_is_never_less_than_it_is() {
    let memory = Memory::new();
    let (ledger, era) = memory.found([7, 7], 3);
    let window = terms(1, 1).window;
    let age_ms = |after_ms| {
        let now = NOW.after_ms(after_ms);
        ledger.age_ms(ledger.place(era, window, now).unwrap(), window, 5_000, now)
    };
    assert_eq!(age_ms(300), 1_300, "nothing was heard of either cell");
    let turn = ledger.position().turn();
    let fresh_until = NOW.monotonic_ms() + 300 + 5_000;
    let _ = ledger.cell(turn).fresh_until.raise(turn, || true, fresh_until);
    assert_eq!([age_ms(300), age_ms(900)], [0, 600], "since the region was asked");
    assert_eq!([age_ms(1_000), age_ms(1_400)], [0, 400], "since the cell can hold anything");
    assert_eq!(age_ms(2_400), 1_400, "nothing was heard of either cell");
}

/// From a turn, neither of the two that may follow shares a register with it or with the other.
#[test]
fn the_times_of_three_turns_are_kept_apart() {
    let mut turn = Turn::FIRST;
    for _ in 0..20_000 {
        let thirds = [turn, turn.next(), turn.skip()].map(Turn::third);
        assert!(thirds[0] != thirds[1] && thirds[1] != thirds[2] && thirds[2] != thirds[0]);
        let (now, later) = ([turn.previous(), turn], [turn.skip().previous(), turn.skip()]);
        assert!(now.iter().all(|turn| !later.contains(turn)), "both cells are new");
        turn = turn.next();
    }
}

/// A reading of clocks of which the wall clock runs faster or slower by this part in 1,024.
fn drifting(ms: u64, drift: i64) -> Now {
    let drifted = i64::try_from(ms).unwrap() * (1_024 + drift) / 1_024;
    Now::new(1_000_000 + drifted.unsigned_abs(), 5_000 + ms)
}

proptest! {
    #![proptest_config(crate::cases(20_000))]

    /// A clock that does not jump is never taken for one that does, however it drifts, however
    /// long nothing is asked and however late requests are.
    #[test]
    fn no_cell_is_renamed_under_a_true_clock(
        drift in -32..=32_i64,
        steps in proptest::collection::vec(
            (
                prop_oneof![0..40_u64, 0..1_100_u64, 900..9_000_u64],
                prop_oneof![Just(0_u64), 0..5_000_u64],
            ),
            1..60,
        ),
    ) {
        let memory = Memory::new();
        let ledger = Ledger::new(&memory.0, &memory.1);
        let (window, mut ms) = (terms(1, 1).window, 10_000);
        let founding = Founding { window, fingerprint: [7, 7], digest: [1, 2], life: 0 };
        let era = ledger.found(&founding, drifting(ms, drift));
        let mut newest = 0;
        for (pass_ms, late_ms) in steps {
            ms += pass_ms;
            let now = drifting(ms.saturating_sub(late_ms), drift);
            newest = newest.max(now.unix_ms() / 1_000).max(ledger.position().sequence());
            prop_assert!(matches!(ledger.claim(era, terms(1, 0), now), Verdict::Held(..)));
            prop_assert!(!ledger.position().is_renamed());
            prop_assert_eq!(ledger.position().sequence(), newest);
        }
    }
}

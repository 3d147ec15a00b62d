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
        Self(Front::free(), Back::free())
    }

    /// The ledger of a subject, and its era.
    fn found(&self, fingerprint: [u64; 2], life: u64) -> (Ledger<'_>, u64) {
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
    let Verdict::Held(claim, look) = ledger.claim(era, terms(2, 1), NOW) else {
        panic!("there was room");
    };
    assert!(look.first);
    assert!(!ledger.retire(|| true), "something is claimed");
    ledger.release(claim);
    assert!(!ledger.retire(|| false), "the caller does not agree");
    assert!(ledger.retire(|| true));
    assert_eq!(ledger.era(), era + 1);
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
    assert_eq!(later, era + 2);
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
    assert_eq!(ledger.deny(&look, terms(1, 1), NOW), Denied::Reserved);
    assert_eq!(ledger.strict().0, 0, "a reservation arms nothing");
    ledger.commit(claim, terms(1, 1));
    ledger.settle(claim.turn, claim.cost);
    let Verdict::Denied(look) = ledger.claim(era, terms(1, 1), NOW) else {
        panic!("the room is spent");
    };
    assert_eq!(ledger.deny(&look, terms(1, 1), NOW), Denied::Limit { arms: true });
    assert_eq!(ledger.deny(&look, terms(1, 1), NOW), Denied::Limit { arms: false }, "armed");
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

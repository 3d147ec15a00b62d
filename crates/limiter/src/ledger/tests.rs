use super::*;
use crate::request::{Cost, Limit};

fn terms(limit: u64, cost: u64) -> Terms {
    let window = Window::from_millis(1_000).unwrap();
    Terms { window, limit: Limit::new(limit), cost: Cost::new(cost).unwrap() }
}

fn ledger() -> (Ledger, u64) {
    let ledger = Ledger::free();
    let window = Window::from_millis(1_000).unwrap();
    let founding = Founding { window, identity: &[7; IDENTITY_WORDS], digest: [1, 2], life: 3 };
    let era = ledger.found(&founding, NOW);
    (ledger, era)
}

const NOW: Now = Now::new(10_000, 10_000);

#[test]
fn a_claim_keeps_its_ledger() {
    let (ledger, era) = ledger();
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
    let (ledger, era) = ledger();
    assert!(ledger.retire(|| true));
    assert!(matches!(ledger.claim(era, terms(2, 1), NOW), Verdict::Moved));
    assert!(matches!(ledger.claim(era, terms(2, 0), NOW), Verdict::Moved));
    assert!(ledger.look(era, terms(2, 1).window, NOW).is_none());
}

#[test]
fn a_reused_ledger_is_another_subjects() {
    let (ledger, era) = ledger();
    assert!(ledger.is_of(&[7; IDENTITY_WORDS], terms(1, 1).window));
    assert!(ledger.retire(|| true));
    let founding =
        Founding { window: terms(1, 1).window, identity: &[8; 12], digest: [0; 2], life: 4 };
    let later = ledger.found(&founding, NOW);
    assert_eq!(later, era + 2);
    assert!(!ledger.is_of(&[7; IDENTITY_WORDS], terms(1, 1).window));
    assert!(matches!(ledger.claim(era, terms(2, 1), NOW), Verdict::Moved), "an old era");
    let cell = ledger.cell(ledger.position().turn());
    assert_eq!(cell.claimed.load().count(), 0, "the old claim was taken back");
    assert!(matches!(ledger.claim(later, terms(2, 1), NOW), Verdict::Held(..)));
    assert_eq!(ledger.life(), 4);
}

/// The reason of a denial: a batch in flight, or the limit.
#[test]
fn a_denial_knows_reservations_from_admissions() {
    let (ledger, era) = ledger();
    let Verdict::Held(claim, _) = ledger.reserve(era, terms(1, 1), NOW) else {
        panic!("there was room");
    };
    let Verdict::Denied(look) = ledger.claim(era, terms(1, 1), NOW) else {
        panic!("the room is reserved");
    };
    assert!(ledger.is_reserved(&look, terms(1, 1)));
    assert!(!ledger.arm_strict(&look, terms(1, 1), NOW), "a reservation arms nothing");
    ledger.commit(claim, terms(1, 1), NOW);
    ledger.settle(claim.turn, claim.cost);
    let Verdict::Denied(look) = ledger.claim(era, terms(1, 1), NOW) else {
        panic!("the room is spent");
    };
    assert!(!ledger.is_reserved(&look, terms(1, 1)));
    assert!(ledger.arm_strict(&look, terms(1, 1), NOW));
}

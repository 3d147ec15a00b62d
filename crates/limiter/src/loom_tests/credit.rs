//! Races for what may be admitted without asking, and around what is asked for.

use super::*;
use crate::cells::CellHandle;

/// Of the room, this part may be taken on credit.
const PART: u64 = 2;

/// `Some` if it was decided on credit, and how.
fn on_credit(memory: &Memory, era: u64, terms: Terms) -> Option<bool> {
    let ledger = memory.ledger();
    match memory.claim_on_credit(era, terms, PART, at(10))? {
        Verdict::Held(claim, _) => {
            ledger.commit(claim, terms);
            Some(true)
        }
        Verdict::Denied(_) => Some(false),
        Verdict::Moved => None,
    }
}

/// Two that want the last unit of credit: one gets it, the other has to ask.
#[test]
fn credit_is_lent_once() {
    explore(None, || {
        let (ledger, era) = ledger();
        ledger.ledger().set_company(1);
        let other = {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || on_credit(&ledger, era, terms(4, 1)))
        };
        let here = on_credit(&ledger, era, terms(4, 1));
        // Half of 4 for the first; half of 3, of which 1 is unrecorded, for the second.
        let both = [here, other.join().unwrap()];
        assert!(both == [Some(true), None] || both == [None, Some(true)], "{both:?}");
    });
}

/// What is recorded meanwhile gives credit back, and never more than it was.
#[test]
fn an_acknowledgement_gives_credit_back() {
    explore(None, || {
        let (ledger, era) = ledger();
        let turn = ledger.ledger().position().turn();
        ledger.ledger().set_company(1);
        assert_eq!(on_credit(&ledger, era, terms(4, 1)), Some(true));
        let store = {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || {
                let cell = CellHandle::of_turn(ledger.ledger(), era, turn).unwrap();
                assert!(cell.acknowledge(1));
            })
        };
        let here = on_credit(&ledger, era, terms(4, 1));
        store.join().unwrap();
        let cell = ledger.ledger().cell(turn);
        let unrecorded = cell.claimed.read(turn) - cell.acked.read(turn);
        assert!(unrecorded <= 1, "half of the room that is left");
        assert!(matches!(here, Some(true) | None));
        assert_eq!(held(&ledger, turn).0, 1 + u64::from(here.is_some()));
    });
}

/// What is asked for is granted or not while another decides: the room is spent once, and who is
/// denied because of it hears that it is not the limit.
fn asked_for_vs_single(granted: bool) {
    explore(None, move || {
        let (ledger, era) = ledger();
        let turn = ledger.ledger().position().turn();
        let want = terms(1, 1);
        let Verdict::Held(claim, _) = ledger.ledger().reserve(era, want, at(10)) else {
            panic!("there is room");
        };
        let region = {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || {
                if granted {
                    ledger.ledger().commit_held(claim, want);
                } else {
                    ledger.ledger().release(claim);
                }
                ledger.ledger().settle(era, turn, want.cost);
            })
        };
        let here = match ledger.claim(era, want, at(10)) {
            Verdict::Held(claim, _) => {
                ledger.ledger().commit(claim, want);
                true
            }
            Verdict::Denied(seen) => {
                assert!(granted || seen.is_by_reservations(want), "nothing was ever spent");
                false
            }
            Verdict::Moved => panic!("nobody retires it"),
        };
        region.join().unwrap();
        assert!(!(granted && here), "one unit, spent twice");
        let spent = u64::from(granted || here);
        assert_eq!(held(&ledger, turn), (spent, spent));
        assert_eq!(ledger.ledger().cell(turn).reserved.read(turn), 0);
    });
}

#[test]
fn what_is_granted_vs_single() {
    asked_for_vs_single(true);
}

#[test]
fn what_is_refused_vs_single() {
    asked_for_vs_single(false);
}

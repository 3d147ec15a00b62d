//! Races between admissions and whoever tells the region of them.

use super::*;
use crate::cells::CellHandle;

/// What `Region` does before it forgets a subject: sets the mark, then looks once more.
#[cfg(shuttle)]
fn forget_unless_dirty(memory: &Memory, era: u64, turn: Turn) -> bool {
    let cell = CellHandle::of_turn(memory.ledger(), era, turn).unwrap();
    cell.replay_from(0);
    cell.mine() > cell.acked()
}

/// An admission is told to the region: either it notes itself, or who forgets the subject sees it.
/// loom takes sequentially consistent accesses for weaker ones, so only shuttle can tell.
#[cfg(shuttle)]
#[test]
fn an_admission_is_noted_or_seen() {
    explore(None, || {
        let (ledger, era) = ledger();
        let turn = ledger.ledger().position().turn();
        let cell = CellHandle::of_turn(ledger.ledger(), era, turn).unwrap();
        cell.mute_replay();
        let noted = {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || {
                assert_eq!(admit(&ledger, era, terms(5, 1), at(10)), Some(true));
                ledger.ledger().asks_replay(era, turn)
            })
        };
        let seen = forget_unless_dirty(&ledger, era, turn);
        assert!(noted.join().unwrap() || seen, "nobody would tell the region");
    });
}

/// Of those that pass the mark at once, one notes the subject.
#[test]
fn one_of_two_notes() {
    explore(None, || {
        let (ledger, era) = ledger();
        let turn = ledger.ledger().position().turn();
        let other = {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || {
                assert_eq!(admit(&ledger, era, terms(5, 1), at(10)), Some(true));
                ledger.ledger().asks_replay(era, turn)
            })
        };
        assert_eq!(admit(&ledger, era, terms(5, 1), at(10)), Some(true));
        let here = ledger.ledger().asks_replay(era, turn);
        assert!(here ^ other.join().unwrap());
    });
}

/// What a store answers is never merged into another subject's cells.
#[test]
fn a_late_reply_vs_reuse() {
    explore(unless_patient(3), || {
        let (ledger, era) = ledger();
        let turn = ledger.ledger().position().turn();
        let reply = {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || {
                if let Some(cell) = CellHandle::of_turn(ledger.ledger(), era, turn) {
                    cell.observe_region(7, 0);
                    cell.acknowledge(0);
                    cell.mark_fresh_until_ms(99_000);
                }
            })
        };
        assert!(ledger.ledger().retire(|| true));
        let era = found(&ledger, at(10));
        reply.join().unwrap();
        let turn = ledger.ledger().position().turn();
        let cell = CellHandle::of_turn(ledger.ledger(), era, turn).unwrap();
        assert_eq!((cell.peers(), cell.confirmed(), cell.fresh_until_ms()), (0, 0, 0));
    });
}

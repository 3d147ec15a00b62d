//! Races to turn a ledger: no race looks like a clock that jumped.

use super::*;

/// Two requests that find the same subject idle both start from nothing.
#[test]
fn idle_subject_two_at_once() {
    explore(unless_patient(2), || {
        let (ledger, era) = ledger();
        assert_eq!(admit(&ledger, era, terms(1, 1), at(10)), Some(true));
        let other = {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || admit(&ledger, era, terms(2, 1), at(20)))
        };
        let here = admit(&ledger, era, terms(2, 1), at(20));
        assert_eq!((here, other.join().unwrap()), (Some(true), Some(true)), "both fit");
    });
}

/// Three requests of which at most two fit in any order. loom takes sequentially consistent
/// accesses for weaker ones, so only shuttle can tell.
#[cfg(shuttle)]
#[test]
fn two_turns_admit_no_more_than_any_order() {
    explore(None, || {
        let ms = |ms: u64| Now::new(10_000 + ms, 10_000 + ms);
        let memory = Memory(Front::free(0), Back::free());
        let era = found(&memory, ms(990));
        let ledger = Arc::new(memory);
        let spawn = |limit, cost, now| {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || admit(&ledger, era, terms(limit, cost), now).unwrap())
        };
        let others = [spawn(2, 1, ms(3_500)), spawn(2, 2, ms(1_300))];
        let here = admit(&ledger, era, terms(3, 3), ms(990)).unwrap();
        let others = others.map(|thread| thread.join().unwrap());
        assert!(!(here && others == [true; 2]), "all three: {:?}", ledger.ledger().position());
    });
}

/// Threads of which each asks at the beginning of its windows, on a clock that is right.
fn race_over_windows<const N: usize>(windows: [&'static [u64]; N]) {
    let (ledger, era) = ledger();
    let spawn = |windows: &'static [u64]| {
        let ledger = Arc::clone(&ledger);
        thread::spawn(move || {
            for window in windows {
                assert_eq!(admit(&ledger, era, terms(9, 1), at(*window)), Some(true));
            }
        })
    };
    windows.map(spawn).into_iter().for_each(|thread| thread.join().unwrap());
    let newest = windows.iter().flat_map(|windows| windows.iter()).max();
    let position = ledger.ledger().position();
    assert!(!position.is_renamed(), "no clock jumped");
    assert_eq!(Some(&position.sequence()), newest, "the newest reading names the cell");
    let began = ledger.ledger().began(position.turn()).map(|began| (began.sure, began.at_ms));
    assert_eq!(began, Some((true, position.sequence() * WINDOW_MS)));
}

#[test]
fn a_turn_vs_a_skip_is_no_jump() {
    explore(unless_patient(1), || race_over_windows([&[11], &[13]]));
}

/// Too many orders of memory for loom.
#[cfg(shuttle)]
#[test]
fn two_skips_are_no_jump() {
    explore(None, || race_over_windows([&[12], &[20]]));
}

#[test]
fn a_slow_skip_vs_two_turns_is_no_jump() {
    explore(unless_patient(1), || race_over_windows([&[11, 12], &[20]]));
}

/// What a store says of a cell under its old name is not merged under the new one, but for a reply
/// that comes at the moment of the jump: that one is told that it came too late.
#[test]
fn a_reply_vs_a_jump() {
    use crate::cells::CellHandle;
    explore(unless_patient(2), || {
        let (ledger, era) = ledger();
        assert_eq!(admit(&ledger, era, terms(9, 5), at(10)), Some(true));
        let turn = ledger.ledger().position().turn();
        let reply = {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || {
                let cell = CellHandle::of_turn(ledger.ledger(), era, turn).unwrap();
                let told = cell.acknowledge(5);
                (cell.acked() == 5, told)
            })
        };
        let jumped = Now::new(500_000, 10_000);
        assert_eq!(admit(&ledger, era, terms(9, 1), jumped), Some(true));
        let (seen, told) = reply.join().unwrap();
        assert!(told || !seen, "what is read of a cell under another name is 0");
        assert_eq!(ledger.ledger().position().sequence(), 501);
        assert_eq!(held(&ledger, turn), (6, 6), "what was admitted stays");
    });
}

//! Small races, in every order in which threads may run and memory may show itself.
//!
//! loom explores two threads without a bound (up to its own partial-order reduction; the largest
//! only on request, see `unless_patient`) and three with at most three preemptions. shuttle
//! runs the same tests under random schedules, because loom was seen to reduce too much: it misses
//! the mistakes that `a_slow_turn_wipes_nothing` and `retire_keeps_what_is_claimed` are there for,
//! which shuttle finds at once.

#[cfg(loom)]
use loom::{sync::Arc, thread};
#[cfg(shuttle)]
use shuttle::{sync::Arc, thread};

use crate::ledger::{Back, Denied, Founding, Front, Ledger, Terms, Verdict};
use crate::register::Turn;
use crate::request::{Cost, Limit, Window};
use crate::reserve::{Held, Reserved, Want};
use crate::time::Now;
use ways::explore;

#[path = "loom_tests/credit.rs"]
mod credit;
#[path = "loom_tests/region.rs"]
mod region;
#[path = "loom_tests/reuse.rs"]
mod reuse;
#[path = "loom_tests/turns.rs"]
mod turns;
#[path = "loom_tests/ways.rs"]
mod ways;

const WINDOW_MS: u64 = 1_000;

fn window() -> Window {
    Window::from_millis(WINDOW_MS).unwrap()
}

/// The first moment of a sequence, on both clocks.
fn at(sequence: u64) -> Now {
    Now::new(sequence * WINDOW_MS, sequence * WINDOW_MS)
}

fn terms(limit: u64, cost: u64) -> Terms {
    Terms { window: window(), limit: Limit::new(limit), cost: Cost::new(cost).unwrap() }
}

/// The memory of one ledger.
struct Memory(Front, Back);

impl Memory {
    fn ledger(&self) -> Ledger<'_> {
        Ledger::new(&self.0, &self.1)
    }
}

fn found(memory: &Memory, now: Now) -> u64 {
    let founding = Founding { window: window(), fingerprint: [0; 2], digest: [0; 2], life: 0 };
    memory.ledger().found(&founding, now)
}

/// A ledger that stands at sequence 10, and its era.
fn ledger() -> (Arc<Memory>, u64) {
    let memory = Memory(Front::free(0), Back::free());
    let era = found(&memory, at(10));
    (Arc::new(memory), era)
}

fn admit(memory: &Memory, era: u64, terms: Terms, now: Now) -> Option<bool> {
    let ledger = memory.ledger();
    match memory.claim(era, terms, now) {
        Verdict::Held(claim, _) => {
            ledger.commit(claim, terms);
            Some(true)
        }
        Verdict::Denied(_) => Some(false),
        Verdict::Moved => None,
    }
}

/// `claimed` and `mine` of the cell of a turn.
fn held(memory: &Memory, turn: Turn) -> (u64, u64) {
    let cell = memory.ledger().cell(turn);
    (cell.claimed.read(turn), cell.mine.read(turn))
}

/// A bound for two threads whose every order takes minutes to hours: without it if
/// `TIDEGATE_PATIENCE` is set, as `cargo xtask loom` does.
fn unless_patient(preemptions: usize) -> Option<usize> {
    std::env::var_os("TIDEGATE_PATIENCE").is_none().then_some(preemptions)
}

/// Threads that all want one unit of a limit of `limit`: exactly that many get one.
fn race_for_the_last_units(threads: u64, limit: u64) {
    let (ledger, era) = ledger();
    let spawn = |_| {
        let ledger = Arc::clone(&ledger);
        thread::spawn(move || admit(&ledger, era, terms(limit, 1), at(10)))
    };
    let racing: Vec<_> = (1..threads).map(spawn).collect();
    let here = admit(&ledger, era, terms(limit, 1), at(10));
    let verdicts = racing.into_iter().map(|thread| thread.join().unwrap()).chain([here]);
    let admitted = verdicts.map(|verdict| u64::from(verdict.unwrap())).sum::<u64>();
    assert_eq!(admitted, limit.min(threads), "contention alone never denies, nor admits twice");
    assert_eq!(held(&ledger, ledger.ledger().position().turn()), (admitted, admitted));
}

#[test]
fn single_vs_single_at_the_limit() {
    explore(None, || race_for_the_last_units(2, 1));
}

#[test]
fn single_vs_single_below_the_limit() {
    explore(None, || race_for_the_last_units(2, 2));
}

#[test]
fn three_singles_at_the_limit() {
    explore(Some(3), || race_for_the_last_units(3, 2));
}

/// A batch of two subjects. `None` if a ledger moved.
fn admit_both(wants: [Want<'_>; 2], now: Now) -> Option<bool> {
    let mut held = Held::default();
    for want in wants {
        match held.reserve(want, now) {
            Reserved::Held(_) => {}
            Reserved::Denied(_) => return Some(false),
            Reserved::Moved => return None,
        }
    }
    held.commit();
    Some(true)
}

#[test]
fn batch_vs_single_vs_replay_read() {
    explore(Some(3), || {
        let ((first, era), (second, _)) = (ledger(), ledger());
        let batch = {
            let (first, second) = (Arc::clone(&first), Arc::clone(&second));
            thread::spawn(move || {
                let terms = terms(1, 1);
                let wants = [&first, &second].map(|memory| Want::new(memory.ledger(), era, terms));
                admit_both(wants, at(10)).unwrap()
            })
        };
        let single = {
            let second = Arc::clone(&second);
            thread::spawn(move || admit(&second, era, terms(1, 1), at(10)).unwrap())
        };
        // What a replay would send while they run.
        let sent = held(&first, first.ledger().position().turn()).1;
        let (batch, single) = (batch.join().unwrap(), single.join().unwrap());
        let admitted = (u64::from(batch), u64::from(batch) + u64::from(single));
        assert!(admitted.1 <= 1, "the second subject has one unit");
        assert!(batch || single, "contention alone denies nobody everything");
        assert!(sent <= admitted.0, "INV-11: a reservation never reaches what is sent");
        for (ledger, admitted) in [(&first, admitted.0), (&second, admitted.1)] {
            // INV-9, INV-10: all or nothing, and nothing stays reserved.
            assert_eq!(held(ledger, ledger.ledger().position().turn()), (admitted, admitted));
        }
    });
}

#[test]
fn batch_vs_batch() {
    explore(None, || {
        let ((first, era), (second, _)) = (ledger(), ledger());
        let run = {
            let (first, second) = (Arc::clone(&first), Arc::clone(&second));
            move || {
                let terms = terms(1, 1);
                let wants = [&first, &second].map(|memory| Want::new(memory.ledger(), era, terms));
                admit_both(wants, at(10)).unwrap()
            }
        };
        let other = thread::spawn(run.clone());
        let (here, there) = (run(), other.join().unwrap());
        assert!(here ^ there, "two batches that both fit alone: one is admitted, never none");
        for ledger in [&first, &second] {
            assert_eq!(held(ledger, ledger.ledger().position().turn()), (1, 1));
        }
    });
}

#[test]
fn rollover_vs_admit() {
    explore(unless_patient(3), || {
        let (ledger, era) = ledger();
        let late = {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || admit(&ledger, era, terms(1, 1), at(10)).unwrap())
        };
        let next = admit(&ledger, era, terms(5, 1), at(11)).unwrap();
        let late = late.join().unwrap();
        assert!(next, "a limit of 5 has room whatever the other does");
        let turn = ledger.ledger().position().turn();
        let (claimed, mine) = held(&ledger, turn);
        let (claimed_before, mine_before) = held(&ledger, turn.previous());
        let admitted = u64::from(next) + u64::from(late);
        assert_eq!(mine + mine_before, admitted, "no increment is lost, none is counted twice");
        assert_eq!((claimed, claimed_before), (mine, mine_before));
    });
}

/// A late request must not take the cell before its own for empty because another uses its words.
#[test]
fn a_late_look_misses_nothing() {
    explore(None, || {
        let (ledger, era) = ledger();
        assert_eq!(admit(&ledger, era, terms(3, 3), at(10)), Some(true));
        assert_eq!(admit(&ledger, era, terms(9, 0), at(11)), Some(true));
        let late = {
            let ledger = Arc::clone(&ledger);
            // At the beginning of window 11 all three of window 10 still weigh: no room.
            thread::spawn(move || admit(&ledger, era, terms(3, 1), at(11)))
        };
        let next = admit(&ledger, era, terms(9, 1), at(12));
        assert_eq!(next, Some(true));
        let late = late.join().unwrap();
        // If it was decided after the turn, in window 12: what window 11 holds, nothing, weighs.
        let turn = ledger.ledger().position().turn();
        let (_, before) = held(&ledger, turn.previous());
        assert_eq!(before, 0, "nothing was admitted in window 11");
        assert!(late.is_some());
    });
}

#[test]
fn two_rollovers_vs_admit() {
    explore(unless_patient(3), || {
        let (ledger, era) = ledger();
        assert_eq!(admit(&ledger, era, terms(1, 1), at(10)), Some(true));
        let late = {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || admit(&ledger, era, terms(2, 1), at(10)))
        };
        // Both old cells are past: the late cost may go with its cell, but not into another one.
        let next = admit(&ledger, era, terms(5, 1), at(12)).unwrap();
        let late = late.join().unwrap();
        let turn = ledger.ledger().position().turn();
        let (claimed, mine) = held(&ledger, turn);
        assert!(next && mine >= 1);
        assert!(mine <= 1 + u64::from(late == Some(true)));
        assert_eq!(claimed, mine, "INV-10");
        assert_eq!(held(&ledger, turn.previous()), (0, 0));
    });
}

/// A thread that wins a turn and then sleeps must not begin it over a later one.
#[test]
fn a_slow_turn_wipes_nothing() {
    explore(unless_patient(2), || {
        let (ledger, era) = ledger();
        let slow = {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || admit(&ledger, era, terms(5, 1), at(11)))
        };
        // Two turns on, the same registers are in use again.
        assert!(admit(&ledger, era, terms(5, 1), at(12)).is_some());
        let later = admit(&ledger, era, terms(5, 1), at(13)).unwrap();
        let slow = slow.join().unwrap();
        let (claimed, mine) = held(&ledger, ledger.ledger().position().turn());
        assert!(later && mine >= 1, "what was admitted in the later cell is still there");
        assert!(mine <= 2 + u64::from(slow == Some(true)));
        assert_eq!(claimed, mine, "INV-10");
    });
}

#[test]
fn merge_vs_rollover() {
    explore(None, || {
        let (ledger, era) = ledger();
        let turn = ledger.ledger().position().turn();
        let reply = {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || {
                let alive = || ledger.ledger().is_alive(era, turn);
                ledger.ledger().cell(turn).observe_region(turn, alive, (7, 0))
            })
        };
        assert!(admit(&ledger, era, terms(5, 1), at(12)).unwrap(), "a passed sum denies nobody");
        let _ = reply.join().unwrap();
        let now = ledger.ledger().position().turn();
        assert_eq!(
            ledger.ledger().cell(now).told(now),
            0,
            "a late reply never counts in another cell"
        );
        assert_eq!(ledger.ledger().cell(now.previous()).told(now.previous()), 0);
    });
}

#[test]
fn evict_vs_admit() {
    explore(None, || {
        let (ledger, era) = ledger();
        let evict = {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || {
                // As a flood would: only what nothing was spent in.
                let turn = ledger.ledger().position().turn();
                ledger.ledger().retire(|| held(&ledger, turn) == (0, 0))
            })
        };
        let admitted = admit(&ledger, era, terms(2, 1), at(10));
        let retired = evict.join().unwrap();
        match (admitted, retired) {
            (Some(true), false) => {
                assert_eq!(
                    held(&ledger, ledger.ledger().position().turn()),
                    (1, 1),
                    "the claim kept it"
                );
            }
            (None, true) => {}
            (Some(true), true) => panic!("what was admitted is forgotten"),
            (None, false) => panic!("the ledger moved although nobody retired it"),
            (Some(false), _) => panic!("there was room"),
        }
    });
}

/// Closing a ledger must not make what was spent look unspent.
#[test]
fn a_closing_ledger_hides_nothing() {
    explore(None, || {
        let (ledger, era) = ledger();
        assert_eq!(admit(&ledger, era, terms(2, 2), at(10)), Some(true));
        // At the beginning of the next window all of it still weighs.
        assert_eq!(admit(&ledger, era, terms(9, 0), at(11)), Some(true));
        let evict = {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || ledger.ledger().retire(|| true))
        };
        let admitted = admit(&ledger, era, terms(2, 1), at(11));
        let retired = evict.join().unwrap();
        assert_ne!(admitted, Some(true), "there is no room");
        assert!(admitted == Some(false) || retired || admitted.is_none());
    });
}

/// The ledger goes to another subject while a decision on the first one is under way.
#[test]
fn reuse_vs_admit() {
    explore(None, || {
        let (ledger, era) = ledger();
        let reuse = {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || {
                ledger.ledger().retire(|| true).then(|| {
                    let era = found(&ledger, at(10));
                    admit(&ledger, era, terms(2, 1), at(10)).unwrap()
                })
            })
        };
        let first = admit(&ledger, era, terms(2, 1), at(10));
        let newcomer = reuse.join().unwrap();
        assert_ne!(first, Some(false), "there was room for both");
        let admitted_here = match newcomer {
            Some(admitted) => u64::from(admitted),
            None => u64::from(first == Some(true)),
        };
        let counted = held(&ledger, ledger.ledger().position().turn());
        assert_eq!(counted, (admitted_here, admitted_here), "a newcomer's cells hold its own cost");
    });
}

#[test]
fn retire_keeps_what_is_claimed() {
    explore(None, || {
        let (ledger, era) = ledger();
        let batch = {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || match ledger.claim(era, terms(2, 1), at(10)) {
                Verdict::Held(claim, _) => {
                    let kept = ledger.ledger().era() == era;
                    ledger.ledger().release(claim);
                    assert!(kept, "a claim keeps its ledger");
                }
                Verdict::Moved => {}
                Verdict::Denied(_) => panic!("there was room"),
            })
        };
        let retired = ledger.ledger().retire(|| true);
        batch.join().unwrap();
        assert_eq!(ledger.ledger().era() != era, retired);
        if !retired {
            assert_eq!(held(&ledger, ledger.ledger().position().turn()), (0, 0), "INV-10");
        }
    });
}

/// At a boundary, one on each side of it: in either order only one fits. loom takes sequentially
/// consistent accesses for weaker ones, so only shuttle can tell.
#[cfg(shuttle)]
#[test]
fn a_boundary_admits_no_more_than_either_order() {
    explore(None, || {
        let (ledger, era) = ledger();
        let late = {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || admit(&ledger, era, terms(1, 1), at(10)).unwrap())
        };
        let next = admit(&ledger, era, terms(1, 1), at(11)).unwrap();
        let late = late.join().unwrap();
        assert!(late ^ next, "one of them fits, and with it the other does not");
    });
}

/// A reservation that ends and another that begins must not look like none to an eviction.
#[test]
fn retire_sees_one_claim_follow_another() {
    explore(None, || {
        let (ledger, era) = ledger();
        let Verdict::Held(first, _) = ledger.claim(era, terms(5, 1), at(10)) else {
            panic!("there was room");
        };
        let other = {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || {
                ledger.ledger().release(first);
                if let Verdict::Held(claim, _) = ledger.claim(era, terms(5, 1), at(10)) {
                    assert_eq!(ledger.ledger().era(), era, "a claim keeps its ledger");
                    ledger.ledger().release(claim);
                }
            })
        };
        let _ = ledger.ledger().retire(|| true);
        other.join().unwrap();
    });
}

/// A denial that only a reservation caused says so, also if that ends meanwhile.
#[test]
fn a_denial_says_what_caused_it() {
    explore(None, || {
        let (ledger, era) = ledger();
        let batch = {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || {
                let mut held = Held::default();
                let want = Want::new(ledger.ledger(), era, terms(1, 1));
                let _ = held.reserve(want, at(10));
            })
        };
        if let Verdict::Denied(look) = ledger.claim(era, terms(1, 1), at(10)) {
            let reason = ledger.ledger().deny(era, &look, terms(1, 1), at(10));
            assert_eq!(reason, Denied::Reserved, "nothing was ever spent");
        }
        batch.join().unwrap();
    });
}

/// Requests of different costs: whatever the order, all that fits is spent.
#[cfg(shuttle)]
#[test]
fn contention_leaves_nothing_unspent() {
    explore(None, || {
        let (ledger, era) = ledger();
        let spawn = |cost| {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || admit(&ledger, era, terms(3, cost), at(10)).unwrap())
        };
        let all = [spawn(2), spawn(1), spawn(1), spawn(1)].map(|thread| thread.join().unwrap());
        let turn = ledger.ledger().position().turn();
        assert_eq!(held(&ledger, turn), (3, 3), "{all:?}");
    });
}

/// What a late request left in a cell that has passed keeps nobody from dropping the subject.
#[test]
fn a_leftover_does_not_keep_a_ledger() {
    explore(None, || {
        let (ledger, era) = ledger();
        assert_eq!(admit(&ledger, era, terms(9, 5), at(10)), Some(true));
        let late = {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || admit(&ledger, era, terms(9, 1), at(10)))
        };
        let _ = admit(&ledger, era, terms(9, 0), at(12));
        let _ = late.join().unwrap();
        assert!(ledger.ledger().retire(|| true), "nothing is in flight");
    });
}

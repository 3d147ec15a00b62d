//! Races with an eviction, and with whoever gets the ledger next.

use super::*;

/// Gives the ledger to another subject, if nothing is claimed.
fn reuse(memory: &Memory, now: Now) -> Option<u64> {
    let founding = Founding { window: window(), fingerprint: [1; 2], digest: [1; 2], life: 0 };
    memory.ledger().retire(|| true).then(|| memory.ledger().found(&founding, now))
}

/// A decision that looked the ledger up for its former subject takes no room from the next.
#[test]
fn a_stale_decision_denies_no_newcomer() {
    explore(Some(3), || {
        let (ledger, era) = ledger();
        let newcomer = {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || {
                let era = reuse(&ledger, at(10))?;
                admit(&ledger, era, terms(1, 1), at(10))
            })
        };
        let _ = admit(&ledger, era, terms(1, 1), at(10));
        assert_ne!(newcomer.join().unwrap(), Some(false), "a lost race never denies");
    });
}

/// Too many orders of memory for loom.
#[cfg(shuttle)]
#[test]
fn a_stale_decision_turns_no_newcomer() {
    explore(None, || {
        let (ledger, era) = ledger();
        let newcomer = {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || reuse(&ledger, at(20)))
        };
        let _ = ledger.ledger().place(era, window(), at(30));
        if newcomer.join().unwrap().is_some() {
            assert_eq!(ledger.ledger().position().sequence(), 20, "the newcomer was moved");
        }
    });
}

/// Whoever sees where the newcomer stands sees that the era is another.
#[test]
fn a_newcomers_position_tells_its_era() {
    explore(None, || {
        let (ledger, era) = ledger();
        let newcomer = {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || reuse(&ledger, at(20)))
        };
        let sequence = ledger.ledger().position().sequence();
        assert!(sequence == 10 || ledger.ledger().era() != era, "it would be turned");
        newcomer.join().unwrap();
    });
}

/// A look-up that meets the newcomer's fingerprint does not decide on the counts of another.
#[test]
fn a_newcomer_is_not_denied_on_old_counts() {
    explore(unless_patient(3), || {
        let (ledger, era) = ledger();
        assert_eq!(admit(&ledger, era, terms(1, 1), at(10)), Some(true));
        let newcomer = {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || reuse(&ledger, at(10)))
        };
        // As `Shard::find` does.
        let era = ledger.ledger().era();
        if crate::ledger::is_in_use(era) && ledger.ledger().is_of([1; 2]) {
            let verdict = ledger.claim(era, terms(1, 1), at(10));
            assert!(!matches!(verdict, Verdict::Denied(_)), "denied on another subject's counts");
        }
        newcomer.join().unwrap();
    });
}

/// What the own region published contains what was admitted here, also while an eviction that
/// fails has closed the word that says so: it is no peer's.
#[test]
fn a_failed_eviction_makes_no_peers() {
    explore(Some(3), || {
        let (ledger, era) = ledger();
        // So that the cell is the first whose word an eviction closes.
        let spent_in = 10 + ledger.ledger().position().turn().cell() as u64;
        assert_eq!(admit(&ledger, era, terms(9, 0), at(spent_in)), Some(true));
        assert_eq!(ledger.ledger().position().turn().cell(), 0);
        assert_eq!(admit(&ledger, era, terms(9, 3), at(spent_in)), Some(true));
        assert_eq!(admit(&ledger, era, terms(9, 0), at(spent_in + 1)), Some(true));
        let before = ledger.ledger().position().turn().previous();
        let evict = {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || ledger.ledger().retire(|| true))
        };
        let spend = {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || admit(&ledger, era, terms(9, 1), at(spent_in + 1)))
        };
        let alive = || ledger.ledger().is_alive(era, before);
        let _ = ledger.ledger().cell(before).observe_own_region(before, alive, 3);
        let (retired, _) = (evict.join().unwrap(), spend.join().unwrap());
        let told = ledger.ledger().cell(before).told(before);
        assert!(retired || told == 0, "INV-3: all three were admitted here");
    });
}

/// A denial that only a reservation in the previous cell caused says so.
#[test]
fn a_denial_says_what_caused_it_across_a_boundary() {
    explore(unless_patient(3), || {
        let (ledger, era) = ledger();
        let batch = {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || {
                let mut held = Held::default();
                let want = Want::new(ledger.ledger(), era, terms(1, 1));
                let _ = held.reserve(want, at(10));
            })
        };
        if let Verdict::Denied(look) = ledger.claim(era, terms(1, 1), at(11)) {
            let reason = ledger.ledger().deny(era, &look, terms(1, 1), at(11));
            assert_eq!(reason, Denied::Reserved, "nothing was ever spent");
        }
        batch.join().unwrap();
    });
}

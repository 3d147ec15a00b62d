//! Which subjects the globe is told of, and how often.

use tidegate_limiter::Walk;

use super::*;
use crate::region::Touched;

/// The only subject of a process.
fn subject(process: &Process) -> Ticket {
    let mut all = Vec::new();
    process.table.walk(&mut Walk::default(), usize::MAX, |subject| all.push(subject));
    assert_eq!(all.len(), 1);
    all[0]
}

/// What the region has to tell at this moment, after whoever admitted something has noted it.
fn touched(process: &mut Process, now: Now) -> Vec<Touched> {
    let mut touched = Vec::new();
    process.region.tick(&process.table, now);
    process.region.take_touched(&mut touched);
    touched
}

#[test]
fn a_note_touches_a_subject_only_until_its_cell_was_heard_of() {
    let mut world = World::new(&[1]);
    let now = world.now;
    let process = &mut world.processes[0];
    // Admitted without a look at the region.
    assert!(process.table.decide(&long(1), now).admitted());
    let first = touched(process, now);
    let new = Touched { subject: subject(process), grown: 0, over_ms: 0, is_untold: true };
    assert_eq!(first, [new]);
    world.settle();
    world.run_ms(3_000);
    let now = world.now;
    let process = &mut world.processes[0];
    assert!(process.table.cells(subject(process)).unwrap().current.fresh_until_ms() > 0);
    // More than may stay untold.
    assert!(process.table.decide(&long(100), now).admitted());
    assert_eq!(touched(process, now), []);
    let mut effects = Vec::new();
    process.region.take_effects(&mut effects);
    for effect in effects {
        if let Effect::Call { id, call, .. } = effect {
            let reply = world.stores[0].call(&call, now.monotonic_ms());
            process.region.replied(&process.table, id, Ok(reply), now);
        }
    }
    let (subject, told) = (subject(process), touched(process, now));
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!((told[0].subject, told[0].grown, told[0].is_untold), (subject, 100, false));
}

#[test]
fn a_reply_that_overtakes_the_note_is_enough_to_hear_of_others() {
    let mut world = World::new(&[1, 1]);
    let now = world.now;
    let process = &mut world.processes[0];
    assert!(process.table.decide(&long(1), now).admitted());
    // The note stands in a long line; meanwhile the subject is sent again, for a loss.
    process.table.take_noted(&mut Vec::new());
    let subject = subject(process);
    let touched = Touched { subject, grown: 1, over_ms: 9, is_untold: true };
    process.globe.touched(&process.table, &[touched], now);
    let cells = process.table.cells(subject).unwrap();
    cells.current.mark_fresh_until_ms(u64::MAX >> 16);
    assert!(world.check(1, &long(600)).admitted());
    world.run_ms(8_000);
    let cells = world.processes[0].table.cells(subject).unwrap();
    assert_eq!(cells.current.foreign(), 600);
}

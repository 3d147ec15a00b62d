//! When subjects are told that began together.

use super::*;

#[test]
fn what_began_together_is_not_told_together() {
    const SUBJECTS: u64 = 400;
    let (mut world, mut process) = (World::new(), Process::new(1));
    let names: Vec<String> = (0..SUBJECTS).map(|at| format!("i{at}")).collect();
    for name in &names {
        assert!(world.check(&mut process, &request(name, 1_000_000, 1)).admitted());
    }
    // A tenth of a second each, up to the most that any of them may wait.
    let told: Vec<u64> = (0..20)
        .map(|_| {
            let before = process.region.counts(&process.table).replayed;
            world.run_ms(&mut process, 100);
            process.region.counts(&process.table).replayed - before
        })
        .collect();
    assert_eq!(told.iter().sum::<u64>(), SUBJECTS, "each of them once");
    // What waits for a multiple of five goes up to that much earlier.
    let (first, second) = told.split_at(14);
    assert_eq!(first.iter().sum::<u64>(), 0, "nobody has much to tell");
    assert!(second.iter().all(|told| *told <= 110), "80 would be even: {second:?}");
}

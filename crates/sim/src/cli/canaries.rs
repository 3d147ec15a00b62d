//! The planted mistakes, looked for.

use super::Plan;

/// Looks for every planted mistake. Fails if one is not found, or if they take too many seeds.
#[cfg(feature = "planted")]
pub(crate) fn canaries(plan: &Plan) -> bool {
    use std::sync::Mutex;
    use tidegate_sim::canaries::{CANARIES, MEDIAN, WITHIN, find};

    let within = plan.within.unwrap_or(WITHIN);
    let inside = plan.cut.of(0).inside;
    println!("{:<18} {:<22} {:>6}  within {within} seeds", "mistake", "oracle", "seeds");
    let left = Mutex::new(CANARIES.into_iter().map(|(mistake, _)| mistake));
    let next = || left.lock().ok().and_then(|mut left| left.next());
    let (mut took, mut missed) = (Vec::new(), 0);
    let work = |mistake| (mistake, find(mistake, within, inside));
    tidegate_sim::in_jobs(plan.jobs, next, work, |(mistake, found)| {
        let name = format!("{mistake:?}");
        let broken = found.and_then(|(seed, report)| Some((seed + 1, report.broken?)));
        match broken {
            Some((seeds, broken)) => {
                println!("{name:<18} {:<22} {seeds:>6}", broken.oracle);
                took.push((seeds, name));
            }
            None => {
                println!("{name:<18} NOT FOUND");
                missed += 1;
            }
        }
    });
    took.sort();
    // One that is not found took more than all others.
    let median = took.get((took.len() + missed) / 2).map_or(u64::MAX, |(seeds, _)| *seeds);
    let slowest = took.last().map_or_else(String::new, |(seeds, name)| format!("{seeds} ({name})"));
    println!("median {median} seeds (at most {MEDIAN}), slowest {slowest}, {missed} not found");
    missed == 0 && median <= MEDIAN
}

/// There are none.
#[cfg(not(feature = "planted"))]
pub(crate) fn canaries(_: &Plan) -> bool {
    eprintln!("built without the feature `planted`");
    false
}

//! Makes a failing run small: fewer faults, nodes, subjects, requests, and less time.

use crate::fault::Fault;
use crate::options::Options;
use crate::report::{Report, Violation};

/// Runs that a search may take.
const RUNS_MAX: u32 = 400;

/// The smallest options found under which the same oracle still fails.
pub fn shrink(options: &Options, run: impl Fn(Options) -> Report) -> (Options, Option<Violation>) {
    let mut best = (options.clone(), run(options.clone()).broken);
    let Some(oracle) = best.1.as_ref().map(|violation| violation.oracle) else { return best };
    let mut runs = 0;
    loop {
        let mut smaller = false;
        for candidate in candidates(&best.0) {
            if runs >= RUNS_MAX {
                return best;
            }
            runs += 1;
            let broken = run(candidate.clone()).broken;
            if broken.as_ref().is_some_and(|violation| violation.oracle == oracle) {
                best = (candidate, broken);
                smaller = true;
                break;
            }
        }
        if !smaller {
            return best;
        }
    }
}

/// Options that are smaller in one way, the largest steps first.
fn candidates(from: &Options) -> Vec<Options> {
    let mut all = Vec::new();
    let mut add = |change: &dyn Fn(&mut Options)| {
        let mut options = from.clone();
        change(&mut options);
        if options != *from {
            all.push(options);
        }
    };
    for fault in Fault::ALL {
        add(&|options| options.faults = options.faults.without(fault));
    }
    add(&|options| options.aims = false);
    for share in [2, 4, 8, 16] {
        add(&|options| options.requests -= options.requests / share);
    }
    for shape in from.shape.smaller() {
        add(&|options| options.shape = shape.clone());
    }
    for subjects in 1..from.kinds.len() {
        add(&|options| options.kinds.truncate(subjects));
    }
    add(&|options| options.batch_percent = 0);
    add(&|options| options.bounded_percent = 0);
    add(&|options| options.deny_percent = 0);
    for share in [2, 4, 8] {
        add(&|options| options.safety_ms -= options.safety_ms / share);
    }
    add(&|options| options.requests = options.requests.saturating_sub(1).max(1));
    all
}

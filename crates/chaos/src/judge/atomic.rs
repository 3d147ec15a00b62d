//! A batch counts as a whole, or not at all.
//!
//! The two of a pair are only ever spent together: what Redis holds of them in the end differs by
//! no more than what a process may have ended without telling of either, whether or not somebody
//! heard the answer. What is lost later, is lost of both. And what is said of the items adds up to
//! what is said of the batch.

use std::collections::BTreeMap;

use super::{Verdict, conservation::is_untold};
use crate::history::{Call, End, History};
use crate::shape::{Class, node_name, region_name, region_of};

/// What is known of one of a pair in a region.
#[derive(Debug, Default)]
struct Side {
    /// What Redis holds.
    sum: Option<u64>,
    /// What a server may have admitted and not told before it ended.
    untold: u64,
}

/// The sides of each pair, by region and name.
type Pairs = BTreeMap<(usize, usize), BTreeMap<String, Side>>;

pub(crate) fn judge(history: &History) -> Verdict {
    let mut verdict = Verdict::new("atomic");
    let (batches, denied) = words(&mut verdict, history);
    let (mut most, mut allowed) = (0, 0);
    for ((pair, region), sides) in pairs(history) {
        let sums: Option<Vec<u64>> = sides.values().map(|side| side.sum).collect();
        // That a server says nothing is found elsewhere.
        let Some([one, other]) = sums.as_deref() else { continue };
        let untold = sides.values().map(|side| side.untold).max().unwrap_or(0);
        let apart = one.abs_diff(*other);
        verdict.judged = verdict.judged.saturating_add(1);
        (most, allowed) = (most.max(apart), allowed.max(untold));
        if apart > untold {
            let place = region_name(region);
            verdict.breaks(format!(
                "pair {pair} in {place}: {one} and {other} recorded, at most {untold} untold"
            ));
        }
    }
    verdict.said = format!(
        "{batches} batches, {denied} of them denied; two of a pair differ by {most} at most, \
         {allowed} may be untold"
    );
    verdict
}

/// What was said of batches and of their items. How many were answered, and how many denied.
fn words(verdict: &mut Verdict, history: &History) -> (u64, u64) {
    let mut batches: BTreeMap<u64, Vec<&Call>> = BTreeMap::new();
    for call in &history.calls {
        if let (Some(item), End::Answered(_)) = (call.item, call.end) {
            batches.entry(item.batch).or_default().push(call);
        }
    }
    let (mut answered, mut denied) = (0_u64, 0_u64);
    for (number, items) in batches {
        verdict.judged = verdict.judged.saturating_add(1);
        answered = answered.saturating_add(1);
        let passed = items.iter().any(|call| call.answer().is_some_and(|answer| answer.admitted));
        denied = denied.saturating_add(u64::from(!passed));
        let fit = items.iter().all(|call| call.item.is_some_and(|item| item.fits));
        if passed != fit {
            let who = items.first().map(|call| node_name(call.node)).unwrap_or_default();
            let said = if passed { "passed" } else { "was denied" };
            let items = if fit { "all items fit" } else { "an item did not fit" };
            verdict.breaks(format!("batch {number} at {who} {said}, and {items}"));
        }
    }
    (answered, denied)
}

fn pairs(history: &History) -> Pairs {
    let mut pairs = Pairs::new();
    for call in &history.calls {
        let Class::Pair(pair) = call.subject.class else { continue };
        let sides = pairs.entry((pair, region_of(call.node))).or_default();
        let side = sides.entry(call.subject.name()).or_default();
        // Whether or not anybody heard of it.
        let cost = call.admitted().saturating_add(call.unknown());
        if cost > 0 && is_untold(history, call) {
            side.untold = side.untold.saturating_add(cost);
        }
    }
    for seen in &history.seen {
        let Class::Pair(pair) = seen.subject.class else { continue };
        let sides = pairs.entry((pair, region_of(seen.node))).or_default();
        sides.entry(seen.subject.name()).or_default().sum = seen.sum;
    }
    pairs
}

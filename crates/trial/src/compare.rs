//! Two policies side by side: for whom something changes.

use std::cmp::Reverse;

use crate::findings::{Changed, Comparison};
use crate::run::Run;

/// Calls, by how two policies differ on them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pairing {
    newly_denied: u64,
    newly_admitted: u64,
}

impl Pairing {
    /// Counts the calls that both have settled.
    #[inline]
    pub(crate) fn pair(&mut self, runs: &mut [Run]) {
        let [current, candidate] = runs else { return };
        let (Some(current), Some(candidate)) = (current.outcomes(), candidate.outcomes()) else {
            return;
        };
        while let (Some(before), Some(after)) = (current.front(), candidate.front()) {
            match (before, after) {
                (true, false) => self.newly_denied = self.newly_denied.saturating_add(1),
                (false, true) => self.newly_admitted = self.newly_admitted.saturating_add(1),
                _ => {}
            }
            current.pop_front();
            candidate.pop_front();
        }
    }
}

/// What the candidate changes.
pub(crate) fn compare(current: &Run, candidate: &Run, calls: &Pairing, top: usize) -> Comparison {
    let mut newly = changes(current, candidate);
    let mut no_longer = changes(candidate, current);
    let limited_by_both = newly.both;
    newly.first.sort_unstable_by_key(|it| (Reverse(it.denied_after), it.identifier.clone()));
    // Seen from the other side.
    for it in &mut no_longer.first {
        std::mem::swap(&mut it.denied_before, &mut it.denied_after);
    }
    no_longer.first.sort_unstable_by_key(|it| (Reverse(it.denied_before), it.identifier.clone()));
    let (newly_limited, no_longer_limited) = (newly.first.len(), no_longer.first.len());
    newly.first.truncate(top);
    no_longer.first.truncate(top);
    Comparison {
        newly_limited: newly_limited as u64,
        no_longer_limited: no_longer_limited as u64,
        limited_by_both,
        newly_denied_calls: calls.newly_denied,
        newly_admitted_calls: calls.newly_admitted,
        newly_limited_first: newly.first,
        no_longer_limited_first: no_longer.first,
    }
}

/// Who is denied by one and not by the other, and how many by both.
struct Changes {
    first: Vec<Changed>,
    both: u64,
}

fn changes(before: &Run, after: &Run) -> Changes {
    let mut found = Changes { first: Vec::new(), both: 0 };
    for (limit, tally) in after.limits() {
        let other = before.limits().find(|(it, _)| it.name == limit.name).map(|(_, tally)| tally);
        for (number, standing) in (0_u32..).zip(&tally.standings) {
            if standing.denied == 0 {
                continue;
            }
            let name = tally.names.get(number);
            let denied_before = other.and_then(|other| {
                let at = other.names.find(name)?;
                other.standings.get(at as usize).map(|it| it.denied)
            });
            if denied_before.is_some_and(|denied| denied > 0) {
                found.both = found.both.saturating_add(1);
                continue;
            }
            found.first.push(Changed {
                limit: limit.name.clone(),
                identifier: name.to_owned(),
                requests: standing.requests,
                denied_before: 0,
                denied_after: standing.denied,
            });
        }
    }
    found
}

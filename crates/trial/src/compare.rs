//! Two policies side by side: for whom something changes.

use std::cmp::Reverse;

use crate::findings::{Changed, Comparison};
use crate::policy::LIMITS_MAX;
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

/// Names of limits do not matter, nor how many of them deny somebody: an identifier is who it is
/// by its fields.
fn changes(before: &Run, after: &Run) -> Changes {
    let mut found = Changes { first: Vec::new(), both: 0 };
    for (at, (limit, tally)) in after.limits().enumerate() {
        let earlier: Vec<_> = after.alike(&limit.by, at).collect();
        let alike: Vec<_> = after.alike(&limit.by, LIMITS_MAX).collect();
        let others: Vec<_> = before.alike(&limit.by, LIMITS_MAX).collect();
        for name in tally.denied_names() {
            if earlier.iter().any(|(_, it)| it.denies(name)) {
                continue;
            }
            if others.iter().any(|(_, it)| it.denies(name)) {
                found.both = found.both.saturating_add(1);
                continue;
            }
            // Of equals the first.
            let each = alike.iter().rev().filter_map(|(by, it)| Some((by, it.standing_of(name)?)));
            let Some((most, standing)) = each.max_by_key(|(_, standing)| standing.denied) else {
                continue;
            };
            found.first.push(Changed {
                limit: most.name.clone(),
                identifier: name.to_owned(),
                requests: standing.requests.into(),
                denied_before: 0,
                denied_after: standing.denied.into(),
            });
        }
    }
    found
}

/// Identifiers that a policy saw, and those of them that it denied at least once.
pub(crate) fn distinct(run: &Run) -> (u64, u64) {
    let (mut identifiers, mut affected) = (0_u64, 0_u64);
    for (at, (limit, tally)) in run.limits().enumerate() {
        let earlier: Vec<_> = run.alike(&limit.by, at).collect();
        if earlier.is_empty() {
            identifiers = identifiers.saturating_add(tally.standings.len() as u64);
            affected = affected.saturating_add(tally.denied_names().count() as u64);
            continue;
        }
        let seen = |name: &&str| earlier.iter().any(|(_, it)| it.standing_of(name).is_some());
        let denied = |name: &&str| earlier.iter().any(|(_, it)| it.denies(name));
        let new = tally.all_names().filter(|name| !seen(name)).count();
        identifiers = identifiers.saturating_add(new as u64);
        let new = tally.denied_names().filter(|name| !denied(name)).count();
        affected = affected.saturating_add(new as u64);
    }
    (identifiers, affected)
}

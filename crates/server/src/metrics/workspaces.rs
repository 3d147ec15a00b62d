//! Decisions of single workspaces, if they are asked for.
//!
//! Promises: at most so many workspaces have series of their own, the first that are decided for;
//! the others share one. To count takes no lock and no memory.
//! Refuses: names. A workspace is called by its id, which we made.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use arc_swap::ArcSwap;

/// How the others are called.
const OTHER: &str = "other";

/// What was decided for workspaces.
#[derive(Debug)]
pub(crate) struct Workspaces {
    /// Which one has which place. Only grows, up to the number of places.
    places: ArcSwap<HashMap<String, usize>>,
    /// Of those with a place of their own, and of the others behind them.
    decisions: Box<[Decisions]>,
    /// Held while a place is given.
    giving: Mutex<()>,
}

/// Apart from its neighbours: processors move memory in pairs of lines of 64 bytes, and workspaces
/// should not wait for each other.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Decisions {
    admitted: AtomicU64,
    denied: AtomicU64,
}

/// What was decided for one workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WorkspaceSeen {
    pub(super) id: String,
    pub(super) admitted: u64,
    pub(super) denied: u64,
}

impl Workspaces {
    /// With places for so many.
    pub(crate) fn new(most: usize) -> Self {
        let decisions = (0..most.saturating_add(1)).map(|_| Decisions::default()).collect();
        Self { places: ArcSwap::default(), decisions, giving: Mutex::new(()) }
    }

    /// Something was decided for a workspace.
    pub(crate) fn note(&self, id: &str, admitted: bool) {
        let place = self.places.load().get(id).copied();
        let place = place.or_else(|| self.give(id)).unwrap_or_else(|| self.most());
        let Some(decisions) = self.decisions.get(place) else { return };
        let count = if admitted { &decisions.admitted } else { &decisions.denied };
        // ORDER: relaxed, here and where they are read. Counts that nothing else follows from.
        count.fetch_add(1, Ordering::Relaxed);
    }

    const fn most(&self) -> usize {
        self.decisions.len().saturating_sub(1)
    }

    /// Gives a place to a workspace that has none, if one is free.
    fn give(&self, id: &str) -> Option<usize> {
        if self.places.load().len() >= self.most() || !is_plain(id) {
            return None;
        }
        let _giving = self.giving.lock().unwrap_or_else(PoisonError::into_inner);
        let places = self.places.load_full();
        if let Some(place) = places.get(id) {
            return Some(*place);
        }
        let place = places.len();
        if place >= self.most() {
            return None;
        }
        let mut places = HashMap::clone(&places);
        places.insert(id.to_owned(), place);
        self.places.store(places.into());
        Some(place)
    }

    /// Those with a place, by their ids, and the others.
    pub(super) fn seen(&self) -> Vec<WorkspaceSeen> {
        let places = self.places.load();
        let mut all: Vec<(&str, usize)> =
            places.iter().map(|(id, place)| (id.as_str(), *place)).collect();
        all.sort_unstable();
        all.push((OTHER, self.most()));
        let seen = |(id, place): (&str, usize)| {
            let Decisions { admitted, denied } = self.decisions.get(place)?;
            let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
            Some(WorkspaceSeen {
                id: id.to_owned(),
                admitted: load(admitted),
                denied: load(denied),
            })
        };
        all.into_iter().filter_map(seen).collect()
    }
}

/// Whether it can stand in a label as it is. Ids that we made can.
fn is_plain(id: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    !id.is_empty() && id.bytes().all(plain) && id != OTHER
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_have_places_and_the_rest_share_one() {
        let workspaces = Workspaces::new(2);
        for (id, admitted) in
            [("ws_b", true), ("ws_a", false), ("ws_c", true), ("ws_d", false), ("ws_b", true)]
        {
            workspaces.note(id, admitted);
        }
        let seen = workspaces.seen();
        let seen: Vec<_> = seen.iter().map(|it| (it.id.as_str(), it.admitted, it.denied)).collect();
        assert_eq!(seen, [("ws_a", 0, 1), ("ws_b", 2, 0), ("other", 1, 1)]);
    }

    #[test]
    fn what_cannot_stand_in_a_label_has_no_place() {
        let workspaces = Workspaces::new(9);
        for id in ["", "a\"b", "a b", "\u{e9}", "other"] {
            workspaces.note(id, true);
        }
        let other = WorkspaceSeen { id: "other".to_owned(), admitted: 5, denied: 0 };
        assert_eq!(workspaces.seen(), [other]);
    }

    #[test]
    fn workspaces_that_come_at_once_have_one_place_each() {
        let workspaces = Workspaces::new(8);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let note =
                    || (0..800).for_each(|n| workspaces.note(&format!("ws_{}", n % 8), true));
                scope.spawn(note);
            }
        });
        let seen = workspaces.seen();
        assert_eq!(seen.len(), 9);
        assert!(seen.iter().take(8).all(|it| it.admitted == 400), "{seen:?}");
    }
}

//! When subjects are to be replayed.
//!
//! Those of one millisecond lie together, in the order in which they came. When a subject is due is
//! kept with the subject itself; one that is due at another time by now, or not at all, is left
//! where it was and passed over when its time comes. To look for it would cost more than to keep
//! it: there are no more of these than were set in the longest time that a subject waits.

use std::collections::{BTreeMap, VecDeque};

use tidegate_limiter::Ticket;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Due {
    slots: BTreeMap<u64, VecDeque<Ticket>>,
}

impl Due {
    pub(super) fn add(&mut self, due_ms: u64, subject: Ticket) {
        self.slots.entry(due_ms).or_default().push_back(subject);
    }

    /// When the first is due.
    pub(super) fn first_ms(&self) -> Option<u64> {
        self.slots.first_key_value().map(|(due_ms, _)| *due_ms)
    }

    /// How many are due at this moment; some of them not any more.
    pub(super) fn overdue(&self, now_ms: u64) -> usize {
        self.slots.range(..=now_ms).map(|(_, slot)| slot.len()).sum()
    }

    /// Takes the first that is due at this moment, and when it was.
    pub(super) fn take(&mut self, now_ms: u64) -> Option<(u64, Ticket)> {
        let mut first = self.slots.first_entry().filter(|first| *first.key() <= now_ms)?;
        let (due_ms, subject) = (*first.key(), first.get_mut().pop_front());
        if first.get().is_empty() {
            first.remove();
        }
        Some((due_ms, subject?))
    }

    pub(super) fn clear(&mut self) {
        self.slots.clear();
    }
}

#[cfg(test)]
mod tests {
    use tidegate_limiter::{
        Cost, Limit, Now, Options, Part, Request, Seed, Subject, Table, Walk, Window,
    };

    use super::*;

    fn tickets(count: usize) -> Vec<Ticket> {
        let table = Table::new(Options::default().with_region(), Seed::from_bytes([7; 32]));
        let window = Window::from_millis(60_000).unwrap();
        for number in 0..count {
            let name = number.to_string();
            let [part, name] = ["a", name.as_str()].map(|text| Part::new(text).unwrap());
            let subject = Subject::new(part, part, name, window);
            table.decide(&Request::new(subject, Limit::new(9), Cost::ONE), Now::new(0, 0));
        }
        let mut all = Vec::new();
        table.walk(&mut Walk::default(), usize::MAX, |ticket| all.push(ticket));
        all
    }

    #[test]
    fn the_first_that_is_due_comes_first_and_none_before_its_time() {
        let all = tickets(4);
        let [a, b, c, d] = all[..] else { panic!("{all:?}") };
        let mut due = Due::default();
        assert_eq!((due.first_ms(), due.take(u64::MAX)), (None, None));
        [(20, b), (10, c), (20, a), (30, d)].into_iter().for_each(|(ms, it)| due.add(ms, it));
        assert_eq!((due.first_ms(), due.overdue(9), due.overdue(20)), (Some(10), 0, 3));
        assert_eq!(due.take(9), None);
        let taken: Vec<_> = std::iter::from_fn(|| due.take(29)).collect();
        assert_eq!(taken, [(10, c), (20, b), (20, a)]);
        assert_eq!((due.first_ms(), due.overdue(29)), (Some(30), 0));
        due.clear();
        assert_eq!(due.first_ms(), None);
    }
}

//! What happens when.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Events in the order of their times; those of one moment in the order they were put in.
#[derive(Debug)]
pub(crate) struct Queue<E> {
    heap: BinaryHeap<Entry<E>>,
    last: u64,
}

#[derive(Debug)]
struct Entry<E> {
    at: (u64, u64),
    event: E,
}

impl<E> Queue<E> {
    pub(crate) const fn new() -> Self {
        Self { heap: BinaryHeap::new(), last: 0 }
    }

    pub(crate) fn push(&mut self, at_us: u64, event: E) {
        self.last += 1;
        self.heap.push(Entry { at: (at_us, self.last), event });
    }

    /// The next event, if it comes before `end_us`.
    pub(crate) fn pop_before(&mut self, end_us: u64) -> Option<(u64, E)> {
        if self.heap.peek()?.at.0 >= end_us {
            return None;
        }
        self.heap.pop().map(|entry| (entry.at.0, entry.event))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    /// The earliest is the largest: the heap gives the largest first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.at.cmp(&self.at)
    }
}

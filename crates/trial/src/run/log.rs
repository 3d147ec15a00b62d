//! The referee: a log of all admissions of the last window's length, for every identifier.
//!
//! Admissions of one millisecond are one entry. The newest entry of an identifier lies with its
//! other numbers, and for most that is all there is. The others lie in one list of nodes that are
//! used again, 16 bytes each; before the list grows, those that have left their windows are taken
//! out everywhere, so that it holds little more than what is really in the windows.

/// No node.
const NONE: u32 = u32::MAX;
/// Nodes of the first list.
const NODES_MIN: usize = 1_024;

#[derive(Clone, Copy, Debug)]
struct Node {
    at_ms: u64,
    cost: u32,
    /// The next newer one of the identifier; after the newest comes the oldest.
    next: u32,
}

/// The entries of one identifier, and what they cost together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) sum: u64,
    /// The newest entry; none if it costs nothing.
    newest_ms: u64,
    newest_cost: u32,
    /// The newest of the others.
    tail: u32,
}

impl Default for Span {
    fn default() -> Self {
        Self { sum: 0, newest_ms: 0, newest_cost: 0, tail: NONE }
    }
}

#[derive(Debug)]
pub(crate) struct Log {
    nodes: Vec<Node>,
    free: u32,
    free_count: usize,
}

impl Default for Log {
    fn default() -> Self {
        Self { nodes: Vec::new(), free: NONE, free_count: 0 }
    }
}

impl Log {
    /// Takes out what has left the window.
    #[inline]
    pub(crate) fn expire(&mut self, span: &mut Span, window_ms: u64, now_ms: u64) {
        if span.tail != NONE {
            self.expire_nodes(span, window_ms, now_ms);
        }
        if span.newest_ms.saturating_add(window_ms) <= now_ms {
            span.sum = span.sum.saturating_sub(span.newest_cost.into());
            span.newest_cost = 0;
        }
    }

    fn expire_nodes(&mut self, span: &mut Span, window_ms: u64, now_ms: u64) {
        while let Some(at) = self.nodes.get(span.tail as usize).map(|tail| tail.next)
            && let Some(node) = self.nodes.get_mut(at as usize)
        {
            if node.at_ms.saturating_add(window_ms) > now_ms {
                return;
            }
            span.sum = span.sum.saturating_sub(node.cost.into());
            let next = std::mem::replace(&mut node.next, self.free);
            (self.free, self.free_count) = (at, self.free_count.saturating_add(1));
            if at == span.tail {
                span.tail = NONE;
            } else if let Some(tail) = self.nodes.get_mut(span.tail as usize) {
                tail.next = next;
            }
        }
    }

    /// Reads the newest node of an identifier.
    #[inline]
    pub(crate) fn warm(&self, span: &Span) {
        std::hint::black_box(self.nodes.get(span.tail as usize).map(|tail| tail.next));
    }

    /// Adds an admission. Times do not fall.
    #[inline]
    pub(crate) fn push(&mut self, span: &mut Span, now_ms: u64, cost: u64) {
        span.sum = span.sum.saturating_add(cost);
        let mut left = cost;
        // A cost is at most 2^40: 256 entries.
        while left > 0 {
            let full = span.newest_cost == u32::MAX;
            if span.newest_cost > 0 && (full || span.newest_ms != now_ms) {
                self.append(span);
            }
            let room = u32::MAX - span.newest_cost;
            let part = u32::try_from(left).unwrap_or(u32::MAX).min(room);
            span.newest_ms = now_ms;
            span.newest_cost = span.newest_cost.saturating_add(part);
            left = left.saturating_sub(part.into());
        }
    }

    /// Makes the newest entry a node.
    fn append(&mut self, span: &mut Span) {
        let cost = std::mem::take(&mut span.newest_cost);
        let node = Node { at_ms: span.newest_ms, cost, next: NONE };
        let at = if let Some(free) = self.nodes.get_mut(self.free as usize) {
            let at = std::mem::replace(&mut self.free, free.next);
            *free = node;
            self.free_count = self.free_count.saturating_sub(1);
            at
        } else {
            self.nodes.push(node);
            u32::try_from(self.nodes.len().saturating_sub(1)).unwrap_or(NONE)
        };
        let tail = self.nodes.get_mut(span.tail as usize);
        let oldest = tail.map_or(at, |tail| std::mem::replace(&mut tail.next, at));
        if let Some(node) = self.nodes.get_mut(at as usize) {
            node.next = oldest;
        }
        span.tail = at;
    }

    /// Whether the list would have to grow: what has expired should be taken out before.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.free == NONE && self.nodes.len() == self.nodes.capacity()
    }

    /// After that: grows if little became free. Taking out looked at all identifiers, so that it
    /// pays only once for so many admissions.
    pub(crate) fn make_room(&mut self, identifiers: usize) {
        if self.free_count < (self.nodes.len() / 4).max(identifiers) {
            self.nodes.reserve(self.nodes.len().max(identifiers).max(NODES_MIN));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_holds_what_a_plain_list_holds(
            steps in prop::collection::vec((0..3_usize, 0..40_u64, 1..6_u64), 1..300),
            window in 1..100_u64,
        ) {
            let mut log = Log::default();
            let mut spans = [Span::default(); 3];
            let mut plain: [VecDeque<(u64, u64)>; 3] = Default::default();
            let mut now = 0;
            for (who, step, cost) in steps {
                now += step / 4;
                if log.is_full() {
                    for span in &mut spans {
                        log.expire(span, window, now);
                    }
                    log.make_room(3);
                }
                let (span, plain) = (&mut spans[who], &mut plain[who]);
                log.expire(span, window, now);
                plain.retain(|(at, _)| at + window > now);
                prop_assert_eq!(span.sum, plain.iter().map(|(_, cost)| cost).sum::<u64>());
                log.push(span, now, cost);
                plain.push_back((now, cost));
            }
        }
    }

    #[test]
    fn large_costs_are_kept_whole() {
        let (mut log, mut span) = (Log::default(), Span::default());
        for now_ms in [0, 0, 5] {
            log.push(&mut span, now_ms, 1 << 40);
        }
        assert_eq!(span.sum, 3 << 40);
        log.expire(&mut span, 5, 5);
        assert_eq!(span.sum, 1 << 40);
        log.expire(&mut span, 5, 10);
        assert_eq!(span.sum, 0);
    }

    #[test]
    fn nodes_are_used_again() {
        let (mut log, mut span) = (Log::default(), Span::default());
        for now_ms in 0..100_000 {
            log.expire(&mut span, 10, now_ms);
            log.push(&mut span, now_ms, 1);
        }
        assert!(log.nodes.len() <= 11, "{}", log.nodes.len());
    }
}

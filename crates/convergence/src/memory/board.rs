//! The board of a regional store in memory.

use std::collections::BTreeMap;

use tidegate_limiter::Digest;

use crate::board::{BoardCall, BoardReply, POSTS_LIFE_MS, POSTS_MAX, Post};

/// What a region posted, who leads, and who the region is.
#[derive(Clone, Debug, Default)]
pub(super) struct Board {
    identity: Option<u128>,
    /// Who leads, and until when.
    leader: Option<(u128, u64)>,
    posts: BTreeMap<Place, u64>,
    due_ms: Option<u64>,
    expires_ms: u64,
}

/// A post without its step.
type Place = (Digest, u64, u64);

impl Board {
    pub(super) fn call(&mut self, call: &BoardCall, now_ms: u64) -> BoardReply {
        if call.sure {
            self.identity = Some(call.identity);
        }
        let identity = *self.identity.get_or_insert(call.identity);
        self.post(call, now_ms);
        let leads = self.lead(call, now_ms);
        let due = self.due_ms.is_some_and(|due_ms| due_ms <= now_ms);
        let taken = if leads && (due || call.hurry) { self.take(call.take_max) } else { vec![] };
        let due_in_ms = self.due_ms.map(|due_ms| due_ms.saturating_sub(now_ms));
        BoardReply { identity, leads, taken, due_in_ms }
    }

    fn post(&mut self, call: &BoardCall, now_ms: u64) {
        if self.expires_ms <= now_ms {
            self.posts.clear();
            self.due_ms = None;
        }
        for post in &call.posts {
            let place = (post.subject, post.window_ms, post.sequence);
            if self.posts.len() < POSTS_MAX || self.posts.contains_key(&place) {
                let step = self.posts.entry(place).or_insert(post.step);
                *step = (*step).min(post.step);
            }
        }
        if !call.posts.is_empty() {
            self.expires_ms = now_ms.saturating_add(POSTS_LIFE_MS);
            let due_ms = now_ms.saturating_add(call.within_ms);
            self.due_ms = Some(self.due_ms.map_or(due_ms, |before| before.min(due_ms)));
        }
    }

    fn lead(&mut self, call: &BoardCall, now_ms: u64) -> bool {
        let leader = self.leader.filter(|(_, until_ms)| *until_ms > now_ms);
        if leader.is_some_and(|(who, _)| who != call.who) {
            return false;
        }
        let until_ms = now_ms.saturating_add(call.lease_ms);
        self.leader = (call.lease_ms > 0).then_some((call.who, until_ms));
        self.leader.is_some()
    }

    fn take(&mut self, most: usize) -> Vec<Post> {
        let mut taken = Vec::new();
        while taken.len() < most
            && let Some(((subject, window_ms, sequence), step)) = self.posts.pop_first()
        {
            taken.push(Post { subject, window_ms, sequence, step });
        }
        if self.posts.is_empty() {
            self.due_ms = None;
        }
        taken
    }
}

#[cfg(test)]
mod tests;

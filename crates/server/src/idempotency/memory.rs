//! What this process remembers: bounded, and shared fairly between workspaces.
//!
//! Promises: never more than its budget; a workspace never loses a reply to one that holds more;
//! the oldest reply of a workspace goes first. One that is alone may have it all. Claims under way
//! are never pushed out, and a reply whose time is over is never given. No call has to forget more
//! than a few replies of others.
//! Refuses: a claim when there is nothing to push out for it, or when its workspace has too many.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use tidegate_limiter::Digest;
use tokio::sync::Semaphore;

use super::name::{Ticket, Workspace};
use super::{Bounds, Scope};

/// What a call costs beside its reply: its place in the maps, which are half empty at worst, and
/// what an allocation adds. `tests/idempotency` compares it with what is really allocated.
pub(super) const CALL_BYTES: usize = 512;

/// Replies whose time is over that one call forgets at most, twice: some ten microseconds. What it
/// adds is less than what they free, so that a full memory of old replies pushes out nothing.
const EXPIRE_MAX: usize = 64;

/// Calls that are being decided, and the replies to those that were.
#[derive(Debug)]
pub(super) struct Memory {
    bounds: Bounds,
    calls: BTreeMap<Digest, Kept>,
    /// Whose turn it is to be forgotten: the number of each reply, in the order of their ages.
    ages: BTreeMap<u64, Workspace>,
    shares: BTreeMap<Workspace, Share>,
    /// How much each workspace holds: the last holds most.
    sizes: BTreeSet<(usize, Workspace)>,
    bytes: usize,
    /// The number of the next reply.
    next: u64,
    pushed_out: u64,
}

/// What one workspace holds.
#[derive(Debug, Default)]
struct Share {
    bytes: usize,
    /// Calls under way: what nobody can push out.
    claims: usize,
    /// Its replies, the oldest first.
    replies: VecDeque<Aging>,
}

#[derive(Debug)]
struct Aging {
    number: u64,
    until_ms: u64,
    name: Digest,
}

#[derive(Debug)]
struct Kept {
    fingerprint: [u8; 16],
    state: State,
}

#[derive(Debug)]
enum State {
    /// Closed when it is over, one way or the other. `roomy` if nothing was pushed out for it.
    Pending {
        over: Arc<Semaphore>,
        roomy: bool,
    },
    Done {
        reply: Bytes,
        scope: Scope,
        number: u64,
        until_ms: u64,
    },
}

/// What is known of a call.
#[derive(Debug)]
pub(super) enum Known {
    /// Nothing: whoever asked decides it, and closes this when that is over.
    First(Arc<Semaphore>),
    /// Someone else decides it.
    Pending(Arc<Semaphore>),
    /// The reply.
    Done(Bytes, Scope),
    /// The name belongs to another call.
    Other,
    /// There is no room for another claim.
    Full,
}

/// How much is remembered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) calls: usize,
    pub(super) bytes: usize,
    pub(super) pushed_out: u64,
}

impl Memory {
    pub(super) const fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            calls: BTreeMap::new(),
            ages: BTreeMap::new(),
            shares: BTreeMap::new(),
            sizes: BTreeSet::new(),
            bytes: 0,
            next: 0,
            pushed_out: 0,
        }
    }

    pub(super) fn usage(&self) -> Usage {
        Usage { calls: self.calls.len(), bytes: self.bytes, pushed_out: self.pushed_out }
    }

    /// Looks the call up; nobody decides it yet, the caller does.
    pub(super) fn claim(&mut self, ticket: &Ticket, now_ms: u64) -> Known {
        self.expire(now_ms, EXPIRE_MAX);
        self.forget_if_over(ticket, now_ms);
        if let Some(kept) = self.calls.get(&ticket.name) {
            return match &kept.state {
                _ if kept.fingerprint != ticket.fingerprint => Known::Other,
                State::Pending { over, .. } => Known::Pending(Arc::clone(over)),
                State::Done { reply, scope, .. } => Known::Done(reply.clone(), *scope),
            };
        }
        let claims = self.shares.get(&ticket.workspace).map_or(0, |share| share.claims);
        if claims.saturating_add(1).saturating_mul(CALL_BYTES) > self.bounds.workspace_bytes_max {
            return Known::Full;
        }
        self.grow(ticket.workspace, CALL_BYTES);
        let before = self.pushed_out;
        if !self.make_room() {
            self.shrink(ticket.workspace, CALL_BYTES);
            return Known::Full;
        }
        self.count_claims(ticket.workspace, claims.saturating_add(1));
        let (over, roomy) = (Arc::new(Semaphore::new(0)), self.pushed_out == before);
        let state = State::Pending { over: Arc::clone(&over), roomy };
        self.calls.insert(ticket.name, Kept { fingerprint: ticket.fingerprint, state });
        Known::First(over)
    }

    /// A claim that came to nothing.
    pub(super) fn release(&mut self, ticket: &Ticket) {
        if self.calls.remove(&ticket.name).is_some() {
            self.end_claim(ticket.workspace);
            self.shrink(ticket.workspace, CALL_BYTES);
        }
    }

    fn end_claim(&mut self, workspace: Workspace) {
        let claims = self.shares.get(&workspace).map_or(0, |share| share.claims);
        self.count_claims(workspace, claims.saturating_sub(1));
    }

    fn count_claims(&mut self, workspace: Workspace, claims: usize) {
        if let Some(share) = self.shares.get_mut(&workspace) {
            share.claims = claims;
        }
    }

    /// Keeps the reply to a call that was claimed, from now on and for so long. Says whether
    /// nothing was pushed out for it. One that is kept for less time than those before it is never
    /// given too late, but may be forgotten with them.
    pub(super) fn settle(
        &mut self,
        ticket: &Ticket,
        reply: Bytes,
        scope: Scope,
        (now_ms, life_ms): (u64, u64),
    ) -> bool {
        self.expire(now_ms, EXPIRE_MAX);
        let until_ms = now_ms.saturating_add(life_ms);
        let Some(kept) = self.calls.get_mut(&ticket.name) else { return false };
        let State::Pending { roomy, .. } = kept.state else { return false };
        let bytes = reply.len();
        let (number, name) = (self.next, ticket.name);
        kept.state = State::Done { reply, scope, number, until_ms };
        self.next = number.wrapping_add(1);
        self.end_claim(ticket.workspace);
        self.ages.insert(number, ticket.workspace);
        self.grow(ticket.workspace, bytes);
        let share = self.shares.entry(ticket.workspace).or_default();
        share.replies.push_back(Aging { number, until_ms, name });
        let before = self.pushed_out;
        self.make_room();
        roomy && self.pushed_out == before
    }

    /// The region has the reply as well.
    pub(super) fn is_in_region(&mut self, name: Digest) {
        if let Some(Kept { state: State::Done { scope, .. }, .. }) = self.calls.get_mut(&name) {
            *scope = Scope::Region;
        }
    }

    /// Forgets what is too old, but not more than told.
    pub(super) fn expire(&mut self, now_ms: u64, most: usize) {
        for _ in 0..most {
            let Some((_, workspace)) = self.ages.first_key_value() else { return };
            let workspace = *workspace;
            let oldest = self.shares.get(&workspace).and_then(|share| share.replies.front());
            if oldest.is_none_or(|oldest| oldest.until_ms > now_ms) {
                return;
            }
            self.forget(workspace, 0);
        }
    }

    /// Forgets the reply to this call if its time is over: [`expire`](Self::expire) may not have
    /// come to it yet.
    fn forget_if_over(&mut self, ticket: &Ticket, now_ms: u64) {
        let Some(Kept { state: State::Done { number, until_ms, .. }, .. }) =
            self.calls.get(&ticket.name)
        else {
            return;
        };
        let Some(share) = self.shares.get(&ticket.workspace).filter(|_| *until_ms <= now_ms) else {
            return;
        };
        if let Ok(at) = share.replies.binary_search_by_key(number, |aging| aging.number) {
            self.forget(ticket.workspace, at);
        }
    }

    /// Pushes out replies until everything fits; `false` if it cannot.
    fn make_room(&mut self) -> bool {
        while self.bytes > self.bounds.bytes_max {
            let Some(largest) = self.largest() else { return false };
            if !self.forget(largest, 0) {
                return false;
            }
            self.pushed_out = self.pushed_out.saturating_add(1);
        }
        true
    }

    /// The workspace that holds most, of those that have a reply.
    fn largest(&self) -> Option<Workspace> {
        let has_reply = |workspace: &Workspace| {
            self.shares.get(workspace).is_some_and(|share| !share.replies.is_empty())
        };
        self.sizes.iter().rev().map(|(_, workspace)| *workspace).find(has_reply)
    }

    /// Forgets a reply of a workspace, the oldest is at 0; `false` if there is none.
    fn forget(&mut self, workspace: Workspace, at: usize) -> bool {
        let forgotten = self.shares.get_mut(&workspace).and_then(|share| share.replies.remove(at));
        let Some(Aging { number, name, .. }) = forgotten else { return false };
        self.ages.remove(&number);
        let reply = match self.calls.remove(&name) {
            Some(Kept { state: State::Done { reply, .. }, .. }) => reply.len(),
            _ => 0,
        };
        self.shrink(workspace, CALL_BYTES.saturating_add(reply));
        true
    }

    fn grow(&mut self, workspace: Workspace, bytes: usize) {
        self.resize(workspace, |held| held.saturating_add(bytes));
    }

    fn shrink(&mut self, workspace: Workspace, bytes: usize) {
        self.resize(workspace, |held| held.saturating_sub(bytes));
    }

    fn resize(&mut self, workspace: Workspace, change: impl FnOnce(usize) -> usize) {
        let share = self.shares.entry(workspace).or_default();
        let (before, after) = (share.bytes, change(share.bytes));
        share.bytes = after;
        self.sizes.remove(&(before, workspace));
        self.bytes = self.bytes.saturating_sub(before).saturating_add(after);
        if after == 0 {
            self.shares.remove(&workspace);
        } else {
            self.sizes.insert((after, workspace));
        }
    }
}

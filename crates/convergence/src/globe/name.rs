//! Who the region is.
//!
//! Its name is bound to a random identity that all its processes share through their board. A
//! region that finds its name bound to another identity says nothing and hears nothing.

use tidegate_limiter::Digest;

use crate::global::{GlobalCall, GlobalError, RENEW_MS, RegionNumber};

use super::{At, Call, Globe};

/// How soon a region that was refused its name asks again.
const CLASH_MS: u64 = 5_000;

/// See the module.
#[derive(Debug)]
pub(super) struct Name {
    identity: u128,
    /// The board has said who the region is.
    agreed: bool,
    /// It has its name.
    named: bool,
    /// Another region has it.
    refused: bool,
    under_way: bool,
    next_ms: u64,
}

impl Name {
    pub(super) const fn new(identity: u128) -> Self {
        Self { identity, agreed: false, named: false, refused: false, under_way: false, next_ms: 0 }
    }

    pub(super) const fn identity(&self) -> u128 {
        self.identity
    }

    /// The region's number, once it has its name.
    pub(super) fn number(&self) -> Option<RegionNumber> {
        self.named.then(|| RegionNumber::of(self.identity))
    }

    /// Whether another region has the name.
    pub(super) const fn is_refused(&self) -> bool {
        self.refused
    }

    /// The board says who the region is.
    pub(super) const fn agree(&mut self, identity: u128) {
        if !self.named {
            (self.identity, self.agreed) = (identity, true);
        }
    }

    /// When there is something to do.
    pub(super) fn next_ms(&self) -> Option<u64> {
        (self.agreed && !self.under_way).then_some(self.next_ms)
    }

    /// Somebody has to say that the name is in use.
    pub(super) fn renew_from(&mut self, now_ms: u64) {
        self.next_ms = self.next_ms.min(now_ms);
    }
}

impl Globe {
    /// Takes the region's name, or says that it still is in use.
    pub(super) fn register(&mut self, at: At<'_>) {
        if self.name.next_ms().is_none_or(|next_ms| next_ms > at.ms()) {
            return;
        }
        self.name.under_way = true;
        let (name, identity) = (self.options.name.clone(), self.name.identity);
        self.send(Call::Register { identity }, GlobalCall::Register { name, identity });
    }

    pub(super) fn registered(
        &mut self,
        at: At<'_>,
        identity: u128,
        answered: Result<u32, &GlobalError>,
    ) {
        self.name.under_way = false;
        if identity != self.name.identity {
            // The board said meanwhile that the region is another.
            self.name.next_ms = at.ms();
            return;
        }
        self.name.refused = matches!(answered, Err(GlobalError::NameTaken { .. }));
        match answered {
            Ok(regions) => {
                if !std::mem::replace(&mut self.name.named, true) {
                    if self.values.set_own(RegionNumber::of(self.name.identity)) {
                        // What it published under the other number is another region's now, and no
                        // row says so: those that hold it were read.
                        self.untold = Some(Digest::from_bytes([0; 16]));
                        self.tell_untold(at);
                    }
                    self.feed.import_from(at.ms());
                    if self.draining {
                        // What was told to nobody, because nobody would have heard it, is told now.
                        self.drain(at.table, at.now);
                    }
                }
                self.counts.regions = u64::from(regions);
                // One of the region's processes is enough, if there is one.
                let renews = self.leader.leads(at.ms()) || self.posts.are_unanswered();
                // The others look now and then whether it still is theirs.
                let rest_ms = if renews { RENEW_MS } else { self.dice.jitter(3 * RENEW_MS) };
                self.name.next_ms = at.ms().saturating_add(rest_ms);
            }
            Err(GlobalError::NameTaken { .. }) => {
                self.counts.name_clashes += 1;
                (self.name.named, self.name.agreed) = (false, false);
                self.name.next_ms = at.ms().saturating_add(CLASH_MS);
                self.leader.resign();
                // What was said under this name is not said under another one too.
                self.leader.sent.clear();
            }
            Err(_) => {
                // Without a breaker: there is one call at a time, and after a failure none for four
                // times as long as others wait. By the default tuning an open one would let a probe
                // through every 5 s instead of every 2 s, and the region would have its name later.
                let retry_ms = self.dice.jitter(self.tuning.retry_ms.saturating_mul(4));
                self.name.next_ms = at.ms().saturating_add(retry_ms);
            }
        }
    }
}

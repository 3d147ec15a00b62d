//! How one process speaks with the other regions: a state machine that is told what happened and
//! says what to do. It opens no socket and reads no clock, and no request ever waits for it.
//!
//! - [`touched`](Globe::touched): what the region has recorded of a subject grew. If it is worth
//!   publishing by the rule, the process *posts* it on the board of its region.
//! - One process of a region leads. It takes the posts, reads from the regional store what the
//!   cells hold, and *publishes* that: never what it knows only from other regions.
//! - Every process *imports* what all regions published. What others used counts in its decisions;
//!   what its own region published comes back to it and is known to be published only then.
//! - What does not come back in time is posted again. So no process, no store and no row is one
//!   that must not be lost.

mod assumed;
mod counts;
mod digests;
mod feed;
mod import;
mod known;
mod leader;
mod name;
mod posts;
mod publish;
mod repeat;
mod rule;
mod steady;
mod values;

use std::collections::BTreeMap;

use tidegate_limiter::planted::{self, Planted};
use tidegate_limiter::{Cells, Digest, Now, Table, Ticket};

pub use counts::GlobeCounts;
pub use known::{GlobeView, PublishedCell};

use crate::board::{BoardCall, Post};
use crate::dice::Dice;
use crate::global::{GlobalCall, Import, RegionName, RegionNumber};
use crate::pack::Counter;
use crate::store::ShardCall;
use crate::tuning::GlobeTuning;
use digests::Digests;
use feed::Feed;
use leader::Leader;
use name::Name;
use posts::Posts;
use steady::Steady;
use values::Values;

/// Cells forgotten in one step: a small fraction of a millisecond.
const EXPIRED_AT_ONCE: usize = 1_024;

/// Names a call until its answer comes. [`Globe`] has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GlobeId(u64);

/// What has to be done. The answer, or that none came in time, goes to the method named. [`Globe`]
/// has an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GlobeEffect {
    /// Call the board of the region: [`Globe::board_replied`].
    Board {
        /// Its name.
        id: GlobeId,
        /// What to send.
        call: BoardCall,
        /// How long to wait for the answer.
        timeout_ms: u64,
    },
    /// Read from the regional store: [`Globe::region_replied`].
    Region {
        /// Its name.
        id: GlobeId,
        /// What to send.
        call: ShardCall,
        /// How long to wait for the answer.
        timeout_ms: u64,
    },
    /// Call the global store: [`Globe::global_replied`].
    Global {
        /// Its name.
        id: GlobeId,
        /// What to send.
        call: GlobalCall,
        /// How long to wait for the answer.
        timeout_ms: u64,
    },
}

/// Which region a process is of. [`Globe`] has an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GlobeOptions {
    /// Its name: no other region has it.
    pub name: RegionName,
    /// How many regions there are at most. With more, they hide more from each other.
    pub regions_max: u16,
    /// The regional store is this process's own and ends with it: what it has not published by then
    /// nobody knows, and its identity is used by nobody else.
    pub private: bool,
}

/// One process's conversation with the other regions.
///
/// ```
/// use tidegate_convergence::{
///     Batch, Counter, GlobalCall, Globe, GlobeEffect, GlobeOptions, GlobeTuning, MemoryGlobe,
///     MemoryRegion, RegionName, RegionNumber, pack,
/// };
/// use tidegate_limiter::{Digest, Now, Options, Seed, Table};
///
/// // Another region has used 8 of a subject.
/// let (subject, window_ms, sequence) = (Digest::from_bytes([7; 16]), 60_000, 28_333_334);
/// let counter = Counter { window_ms, sequence, subject, count: 8 };
/// let (payload, expires_ms) = pack(vec![counter]).remove(0);
/// let mut now = Now::new(sequence * window_ms, 10_000);
/// let (region, written_ms) = (RegionNumber(9), now.unix_ms());
/// let batch = Batch { region, repeats: false, nonce: 1, written_ms, expires_ms, payload };
/// let mut global_store = MemoryGlobe::default();
/// global_store.call(&GlobalCall::Publish(batch), written_ms)?;
///
/// let table = Table::new(Options::default().with_region(), Seed::from_bytes([7; 32]));
/// let mut regional_store = MemoryRegion::new(1);
/// let name = RegionName::new("eu")?;
/// let options = GlobeOptions { name, regions_max: 3, private: false };
/// let mut globe = Globe::new(GlobeTuning::default(), options, 1 << 64, 1);
/// globe.begin(&table);
/// for _ in 0..20 {
///     globe.tick(&table, now);
///     let mut effects = Vec::new();
///     globe.take_effects(&mut effects);
///     for effect in effects {
///         let ms = now.monotonic_ms();
///         match effect {
///             GlobeEffect::Board { id, call, .. } => {
///                 let reply = regional_store.board(&call, ms);
///                 globe.board_replied(&table, id, Ok(reply), now);
///             }
///             GlobeEffect::Region { id, call, .. } => {
///                 let reply = regional_store.call(&call, ms);
///                 globe.region_replied(&table, id, Ok(reply), now);
///             }
///             GlobeEffect::Global { id, call, .. } => {
///                 let reply = global_store.call(&call, now.unix_ms());
///                 globe.global_replied(&table, id, reply, now);
///             }
///         }
///     }
///     let rest_ms = globe.next_tick_ms().saturating_sub(now.monotonic_ms());
///     now = now.after_ms(rest_ms.clamp(1, 1_000));
/// }
/// assert_eq!((globe.counts(now).registered, globe.counts(now).imported), (1, 1));
/// let view = globe.known((subject, window_ms), sequence, now);
/// assert_eq!(view.number, Some(RegionNumber::of(globe.identity())));
/// assert_eq!(view.current.others, [(RegionNumber(9), 8)]);
///
/// globe.drain(&table, now);
/// assert!(globe.is_clean() && globe.is_settled(), "it had nothing to say");
/// globe.release(now);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Globe {
    tuning: GlobeTuning,
    options: GlobeOptions,
    incarnation: u128,
    shards: u16,
    dice: Dice,
    last: u64,
    calls: BTreeMap<GlobeId, Call>,
    effects: Vec<GlobeEffect>,
    counts: GlobeCounts,
    name: Name,
    /// Where in the table subjects are that may concern other regions.
    served: Digests<Ticket>,
    /// Where the search goes on for those of them that were evicted.
    served_next: Digest,
    values: Values,
    /// The region has another number: the served subjects from here on are not told yet what is
    /// another region's by it.
    untold: Option<Digest>,
    posts: Posts,
    leader: Leader,
    feed: Feed,
    steady: Steady,
    /// There is more to forget.
    expiring: bool,
    draining: bool,
}

/// A call under way.
#[derive(Debug)]
enum Call {
    Board { posts: Vec<Post>, sent_ms: u64 },
    Read(Vec<Post>),
    Register { identity: u128 },
    Release,
    Publish { counters: Vec<Counter>, bytes: usize, row: (RegionNumber, u64) },
    Repeat { counters: usize },
    Trim,
    Import { import: Import, sent: Now, generation: u64 },
}

/// Where and when something happens.
#[derive(Clone, Copy, Debug)]
struct At<'a> {
    table: &'a Table,
    now: Now,
}

impl At<'_> {
    const fn ms(self) -> u64 {
        self.now.monotonic_ms()
    }
}

impl Globe {
    /// A process with a random identity, in front of a regional store with so many shards. The
    /// [type](Self) has an example.
    #[must_use]
    pub fn new(tuning: GlobeTuning, options: GlobeOptions, incarnation: u128, shards: u16) -> Self {
        let mut dice = Dice::new(incarnation);
        let identity = u128::from(dice.roll()) << 64 | u128::from(dice.roll());
        Self {
            tuning,
            options,
            incarnation,
            shards,
            dice,
            last: 0,
            calls: BTreeMap::new(),
            effects: Vec::new(),
            counts: GlobeCounts::default(),
            name: Name::new(identity),
            served: Digests::new(),
            served_next: Digest::from_bytes([0; 16]),
            values: Values::new(tuning.values_max),
            untold: None,
            posts: Posts::default(),
            leader: Leader::new(&tuning, shards),
            feed: Feed::new(&tuning),
            steady: Steady::default(),
            expiring: false,
            draining: false,
        }
    }

    /// Says to the table that other regions matter, before anything is heard of them. The
    /// [type](Self) has an example.
    pub fn begin(&mut self, table: &Table) {
        table.heard_globe(0, self.tuning.window_min_ms);
    }

    /// Does what is due. Call it no later than [`next_tick_ms`](Self::next_tick_ms). The
    /// [type](Self) has an example.
    pub fn tick(&mut self, table: &Table, now: Now) {
        let at = At { table, now };
        self.watch_clock(at);
        self.expiring = self.values.expire(now.unix_ms(), EXPIRED_AT_ONCE);
        self.tell_untold(at);
        self.take_in(at);
        self.repost(at);
        self.call_board(at);
        self.register(at);
        self.lead(at);
        self.import(at);
    }

    /// Takes what has to be done, in order. The [type](Self) has an example.
    pub fn take_effects(&mut self, into: &mut Vec<GlobeEffect>) {
        into.append(&mut self.effects);
    }

    /// The moment of the monotonic clock at which [`tick`](Self::tick) has something to do. The
    /// [type](Self) has an example.
    #[must_use]
    pub fn next_tick_ms(&self) -> u64 {
        if self.expiring || self.untold.is_some() {
            return 0;
        }
        let registers_ms = self.name.next_ms();
        // Who has no name neither publishes nor imports: there is nothing to be woken for.
        let named = self.name.number().is_some();
        let leads_ms = self.leader.next_ms(named);
        let woken = named || planted::is(Planted::NamelessWoken);
        let imports_ms = self.feed.next_ms().filter(|_| woken);
        let all = [self.posts.next_ms(), registers_ms, leads_ms, imports_ms];
        all.into_iter().flatten().min().unwrap_or(u64::MAX)
    }

    /// From now on nothing waits: what is to be published is. Over when it [is
    /// clean](Self::is_clean). The [type](Self) has an example.
    pub fn drain(&mut self, table: &Table, now: Now) {
        let at = At { table, now };
        self.draining = true;
        if self.options.private && !planted::is(Planted::NoLastWords) {
            // What is on the board nobody else takes.
            self.posts.forget_posted();
            self.post_everything(at);
        }
        self.posts.hurry(at.ms());
    }

    /// Whether there is nothing that this process should have published. The [type](Self) has an
    /// example.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        let busy = |call: &Call| {
            matches!(call, Call::Read(_) | Call::Publish { .. })
                || matches!(call, Call::Board { posts, .. } if !posts.is_empty())
        };
        self.posts.is_told() && self.leader.is_idle() && !self.calls.values().any(busy)
    }

    /// Whether it can be [released](Self::release): nothing is left to publish, and nothing is
    /// under way that would take the name again after it was given up. The [type](Self) has an
    /// example.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let registers = |call: &Call| matches!(call, Call::Register { .. });
        self.is_clean() && !(self.options.private && self.calls.values().any(registers))
    }

    /// Gives up what this process holds: the lead of its region, and its name if that is its own.
    /// Call it last. The [type](Self) has an example.
    pub fn release(&mut self, now: Now) {
        let call = BoardCall {
            lease_ms: 0,
            take_max: 0,
            ..self.board_call(Vec::new(), 0, now.monotonic_ms())
        };
        self.leader.resign();
        let posts = Vec::new();
        let id = self.call(Call::Board { posts, sent_ms: now.monotonic_ms() });
        let timeout_ms = self.tuning.follow_ms;
        self.effects.push(GlobeEffect::Board { id, call, timeout_ms });
        if self.options.private && self.name.number().is_some() {
            let (name, identity) = (self.options.name.clone(), self.name.identity());
            self.send(Call::Release, GlobalCall::Release { name, identity });
        }
    }

    /// How things stand. The [type](Self) has an example.
    #[must_use]
    pub fn counts(&self, now: Now) -> GlobeCounts {
        let mut counts = GlobeCounts {
            values: self.values.cells() as u64,
            pending: self.posts.pending() as u64,
            unpublished: self.leader.backlog() as u64,
            gaps: self.feed.gaps() as u64,
            leads: u64::from(self.leader.leads(now.monotonic_ms())),
            registered: u64::from(self.name.number().is_some()),
            age_ms: now.monotonic_ms().saturating_sub(self.feed.heard_ms()),
            ..self.counts
        };
        counts.publish_breaker = self.leader.breaker().state();
        counts.import_breaker = self.feed.breaker().state();
        counts.count_breaker(counts.publish_breaker);
        counts.count_breaker(counts.import_breaker);
        counts
    }

    /// Whether the other regions are told of a subject, and hear of it.
    fn concerns(&self, cells: &Cells<'_>, now: Now) -> bool {
        let ends_ms = cells.sequence.saturating_add(2).saturating_mul(cells.window_ms);
        cells.window_ms >= self.tuning.window_min_ms && ends_ms > now.unix_ms()
    }

    fn call(&mut self, call: Call) -> GlobeId {
        self.last += 1;
        let id = GlobeId(self.last);
        self.calls.insert(id, call);
        id
    }

    fn send(&mut self, kind: Call, call: GlobalCall) {
        let id = self.call(kind);
        let timeout_ms = self.tuning.timeout_ms;
        self.effects.push(GlobeEffect::Global { id, call, timeout_ms });
    }
}

#[cfg(test)]
mod tests;

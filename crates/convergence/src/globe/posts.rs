//! What this process finds worth publishing, and the board it posts that on.

use std::collections::BTreeMap;

use tidegate_limiter::planted::{self, Planted};
use tidegate_limiter::{CellHandle, Cells, Digest, Now, Table, Ticket, Walk};

use crate::board::{BoardCall, BoardReply, Post};
use crate::global::RENEW_MS;
use crate::pack::Counter;
use crate::region::Touched;
use crate::store::{CellName, StoreError};
use crate::tuning::Rule;

use super::assumed::Assumed;
use super::rule::{Standing, Weights, quiet};
use super::{At, Call, Globe, GlobeEffect, GlobeId};

/// Most posts in one call: a quarter of a millisecond of a Redis. Callers that read or ask stand in
/// line behind it.
const POSTS_AT_ONCE: usize = 128;
/// Most posts that a leader takes in one call: as much again.
const TAKEN_AT_ONCE: usize = 256;
/// A leader with more than this to do takes nothing: what is on the board is safe there.
const BACKLOG_MAX: usize = 20_000;
/// Posts of this much time go together. Half of the least that any of them may wait.
const GATHER_MS: u64 = 50;
/// For each subject that comes, so many of the others are looked at, whether they are still in the
/// table. All are, by the time a quarter as many have come: so at most a third more are kept than
/// there are, while their number does not fall. To look at all of them at once would hold up who
/// waits for the region.
const SERVED_LOOKS: usize = 4;
/// Posts looked at again in one step.
const REPOSTS_AT_ONCE: usize = 256;
/// Subjects told in one step what is known of them: about a quarter of a millisecond.
const TOLD_AT_ONCE: usize = 256;
/// A leader does not look sooner than this for what is due.
const LOOK_MS: u64 = 10;
/// What was published quickly is visible elsewhere after about this time.
const VISIBLE_MS: u64 = 250;
/// A post that may wait less than this is worth an early import: others answer it.
const URGENT_MS: u64 = 400;

/// What was posted, or will be with the next call.
#[derive(Debug, Default)]
pub(super) struct Posts {
    /// Not on the board yet, with their steps.
    outgoing: BTreeMap<(Digest, u64, u64), u64>,
    /// When the first of these has to be published.
    due_ms: Option<u64>,
    /// On the board, or published, but not seen in an import yet.
    posted: Assumed,
    next_board_ms: u64,
    under_way: bool,
    /// The last call to the board failed.
    unanswered: bool,
    /// For the RFC's rule: when everything is published that is worth it.
    next_floor_ms: u64,
}

impl Posts {
    /// Whether everything is on the board.
    pub(super) fn is_told(&self) -> bool {
        self.outgoing.is_empty()
    }

    /// Whether the board does not answer.
    pub(super) const fn are_unanswered(&self) -> bool {
        self.unanswered
    }

    pub(super) fn pending(&self) -> usize {
        self.posted.len()
    }

    /// So much of a cell is published. Says when that was posted, if it was all.
    pub(super) fn shown(&mut self, cell: CellName, count: u64) -> Option<u64> {
        self.posted.shown(cell, count)
    }

    /// When there is something to do.
    pub(super) fn next_ms(&self) -> Option<u64> {
        let board = (!self.under_way).then_some(self.next_board_ms);
        [board, self.posted.next_ms()].into_iter().flatten().min()
    }

    /// What was posted of a cell is published, and will not be shown: it is taken so for longer.
    pub(super) fn keep(&mut self, cell: CellName, until_ms: u64) {
        self.posted.keep(cell, until_ms);
    }

    /// Nothing that was posted is taken as published.
    pub(super) fn forget_posted(&mut self) {
        self.posted.clear();
    }

    /// What is outgoing goes at once.
    pub(super) fn hurry(&mut self, now_ms: u64) {
        self.next_board_ms = now_ms;
        self.due_ms = self.due_ms.map(|_| now_ms);
    }

    pub(super) fn add(&mut self, post: Post, due_ms: u64, now_ms: u64) {
        let place = (post.subject, post.window_ms, post.sequence);
        let step = self.outgoing.entry(place).or_insert(post.step);
        *step = (*step).min(post.step);
        self.due_ms = Some(self.due_ms.map_or(due_ms, |before| before.min(due_ms)));
        self.next_board_ms = self.next_board_ms.min(now_ms.saturating_add(GATHER_MS));
    }

    fn take(&mut self) -> Vec<Post> {
        let mut posts = Vec::new();
        while posts.len() < POSTS_AT_ONCE
            && let Some(((subject, window_ms, sequence), step)) = self.outgoing.pop_first()
        {
            posts.push(Post { subject, window_ms, sequence, step });
        }
        posts
    }
}

impl Globe {
    /// What the region has recorded of these subjects may have grown, or they are new here.
    /// [`Region::take_touched`](crate::Region::take_touched) gives them; the [type](Self) has an
    /// example of the rest.
    pub fn touched(&mut self, table: &Table, touched: &[Touched], now: Now) {
        let at = At { table, now };
        for Touched { subject, grown, over_ms, is_untold } in touched.iter().copied() {
            let Some(cells) = table.cells(subject).filter(|cells| self.concerns(cells, now)) else {
                continue;
            };
            // Otherwise it is told of what is imported when that is.
            if is_untold {
                self.adopt(at, subject, &cells);
            }
            self.weigh_up(at, &cells, (grown, over_ms));
        }
    }

    /// Tells the table what other regions have used of these subjects: those that are about to be
    /// decided on for the first time. A [`Need`](tidegate_limiter::Need) names each; the
    /// [type](Self) has an example of the rest.
    pub fn adopt_all(&mut self, table: &Table, subjects: impl Iterator<Item = Ticket>, now: Now) {
        for subject in subjects {
            if let Some(cells) = table.cells(subject).filter(|cells| self.concerns(cells, now)) {
                self.adopt(At { table, now }, subject, &cells);
            }
        }
    }

    /// The same of one.
    fn adopt(&mut self, at: At<'_>, subject: Ticket, cells: &Cells<'_>) {
        let is_new = self.served.insert(cells.current.digest(), subject);
        self.tell(cells);
        // Those that were evicted are found out when they are looked for; most never are.
        if is_new {
            let is_there = |subject: &Ticket| at.table.cells(*subject).is_some();
            let next = self.served.retain_some(self.served_next, SERVED_LOOKS, is_there);
            self.served_next = next.unwrap_or(Digest::from_bytes([0; 16]));
        }
    }

    /// Tells the table what is known of both cells of a subject.
    pub(super) fn tell(&self, cells: &Cells<'_>) {
        let (window_ms, digest) = (cells.window_ms, cells.current.digest());
        let before = cells.sequence.checked_sub(1).map(|before| (before, cells.previous));
        for (sequence, cell) in
            [Some((cells.sequence, cells.current)), before].into_iter().flatten()
        {
            let mut value = self.values.of(window_ms, sequence, digest);
            if planted::is(Planted::OwnUnknown) && cell.mine() + cell.peers() == 0 {
                value.foreign += std::mem::take(&mut value.own);
            }
            if value.foreign > 0 {
                cell.observe_foreign(value.foreign);
            }
            if value.own > 0 {
                let own = value.own;
                // The mistake: all of it is taken to be this process's own.
                if planted::is(Planted::OwnHidesMine) {
                    cell.acknowledge(own.min(cell.mine()));
                }
                // The mistake: nothing of it is.
                if planted::is(Planted::OwnAdded) {
                    cell.observe_region(own, 0);
                } else {
                    cell.observe_own_region(own);
                }
            }
        }
    }

    /// Tells the table what is known of some of the subjects that are not told yet.
    pub(super) fn tell_untold(&mut self, at: At<'_>) {
        let Some(from) = self.untold else { return };
        let (mut left, mut next) = (TOLD_AT_ONCE, None);
        self.served.walk(from, |digest, subject| {
            if left == 0 {
                next = Some(digest);
                return false;
            }
            left -= 1;
            let cells = at.table.cells(*subject);
            if let Some(cells) = cells.filter(|cells| self.concerns(cells, at.now)) {
                self.tell(&cells);
            }
            true
        });
        self.untold = next;
    }

    /// Posts a subject if that is worth it. `rate`: how much the region used of it in which time.
    pub(super) fn consider(&mut self, at: At<'_>, subject: Ticket, rate: (u64, u64)) {
        let cells = at.table.cells(subject).filter(|cells| self.concerns(cells, at.now));
        if let Some(cells) = cells {
            self.weigh_up(at, &cells, rate);
        }
    }

    /// The same, of one whose cells are at hand.
    pub(super) fn weigh_up(&mut self, at: At<'_>, cells: &Cells<'_>, rate: (u64, u64)) {
        if self.draining && self.options.private && !planted::is(Planted::NoLastWords) {
            return self.post_rest(at, cells);
        }
        if self.is_little(at, cells) {
            return;
        }
        let Some(standing) = self.standing(at, cells) else { return };
        let (tuning, regions_max) = (self.tuning, u64::from(self.options.regions_max));
        if standing.others > 0 {
            self.feed.import_within(standing.room_lasts_ms(rate));
        }
        if let Some(step) = standing.due(tuning.rule, regions_max) {
            let wait_ms = match tuning.rule {
                Rule::Budget { .. } => standing.wait_ms(&tuning, regions_max, rate),
                Rule::Floor { every_ms, .. } => self.floor_wait_ms(at, every_ms),
            };
            self.post(at, cells, (step, wait_ms));
        }
    }

    /// Whether a subject is out of the question, whatever was published of it: most are, and need
    /// not be looked up.
    fn is_little(&self, at: At<'_>, cells: &Cells<'_>) -> bool {
        let Rule::Budget { quiet_part, .. } = self.tuning.rule else { return false };
        let company = cells.current.foreign() > 0 || cells.previous.foreign() > 0;
        let turned = at.now.unix_ms() / cells.window_ms.max(1) == cells.sequence;
        let (_, limit) = cells.used_of_limit(at.now);
        let most = self.sum(cells.current).saturating_add(self.sum(cells.previous));
        turned && !company && most < quiet(limit, quiet_part, self.options.regions_max.into())
    }

    /// What the rule looks at; `None` if nothing was ever admitted here.
    fn standing(&self, at: At<'_>, cells: &Cells<'_>) -> Option<Standing> {
        let (used, limit) = cells.used_of_limit(at.now);
        let (window_ms, subject) = (cells.window_ms, cells.current.digest());
        let (sequence, confirmed) = self.recorded(cells, at.now);
        let sequences = [sequence, sequence.saturating_sub(1)];
        let (own, others) = self.values.both(window_ms, sequences, subject);
        let posted = sequences.map(|sequence| self.posts.posted.of(CellName { subject, sequence }));
        let published = [own[0].max(posted[0]), own[1].max(posted[1])];
        let start_ms = sequence.saturating_mul(window_ms);
        let elapsed_ms = at.now.unix_ms().saturating_sub(start_ms).min(window_ms);
        let weights = Weights { window_ms, rest_ms: window_ms - elapsed_ms };
        (limit > 0).then_some(Standing { weights, limit, used, confirmed, published, others })
    }

    fn post(&mut self, at: At<'_>, cells: &Cells<'_>, (step, wait_ms): (u64, u64)) {
        let (subject, window_ms) = (cells.current.digest(), cells.window_ms);
        let due_ms = at.ms().saturating_add(if self.draining { 0 } else { wait_ms });
        let (sequence, confirmed) = self.recorded(cells, at.now);
        self.posts.add(Post { subject, window_ms, sequence, step }, due_ms, at.ms());
        self.counts.posted += 1;
        let until_ms = due_ms.saturating_add(self.tuning.repost_ms);
        for (sequence, sum) in [sequence, sequence.saturating_sub(1)].into_iter().zip(confirmed) {
            if sum > self.values.of(window_ms, sequence, subject).own {
                let cell = CellName { subject, sequence };
                self.posts.posted.set(cell, (sum, window_ms), until_ms);
                self.posts.posted.begin(cell, at.ms());
            }
        }
        if wait_ms < URGENT_MS {
            self.feed.import_from(due_ms.saturating_add(VISIBLE_MS));
        }
    }

    /// How long it is to the next time that the RFC's rule publishes.
    fn floor_wait_ms(&mut self, at: At<'_>, every_ms: u64) -> u64 {
        while self.posts.next_floor_ms <= at.ms() {
            let jittered_ms = self.dice.jitter(every_ms).max(1);
            self.posts.next_floor_ms =
                self.posts.next_floor_ms.max(at.ms().saturating_sub(every_ms)) + jittered_ms;
        }
        self.posts.next_floor_ms - at.ms()
    }

    /// What was posted and has not come back by now is looked at again.
    pub(super) fn repost(&mut self, at: At<'_>) {
        for _ in 0..REPOSTS_AT_ONCE {
            let Some((cell, (_, window_ms))) = self.posts.posted.take_late(at.ms()) else {
                return;
            };
            if planted::is(Planted::NoRepost) {
                self.posts.posted.set(cell, (u64::MAX, window_ms), u64::MAX);
                continue;
            }
            self.counts.reposted += 1;
            let CellName { subject, sequence } = cell;
            let ticket = self.served.get(subject).copied();
            match ticket.filter(|ticket| at.table.cells(*ticket).is_some()) {
                Some(ticket) => self.consider(at, ticket, (0, 0)),
                // It was evicted: what it used is in the regional store all the same. Once.
                None => self.post_unserved(at, Post { subject, window_ms, sequence, step: 1 }),
            }
        }
    }

    /// Posts a cell that this process knows by name only.
    pub(super) fn post_unserved(&mut self, at: At<'_>, post: Post) {
        let Post { subject, window_ms, sequence, .. } = post;
        let cell = Counter { window_ms, sequence, subject, count: 0 };
        if cell.expires_ms() > at.now.unix_ms() {
            let due_ms = at.ms().saturating_add(self.tuning.publish_max_ms);
            self.posts.add(post, due_ms, at.ms());
        }
    }

    /// Posts whatever is not published.
    pub(super) fn post_everything(&mut self, at: At<'_>) {
        let mut all = Vec::new();
        at.table.walk(&mut Walk::default(), usize::MAX, |subject| all.push(subject));
        for subject in all {
            let cells = at.table.cells(subject).filter(|cells| self.concerns(cells, at.now));
            if let Some(cells) = cells {
                self.post_rest(at, &cells);
            }
        }
    }

    /// Posts whatever is not published of one subject. A step of nothing: however little it weighs,
    /// nobody says it later.
    fn post_rest(&mut self, at: At<'_>, cells: &Cells<'_>) {
        let standing = self.standing(at, cells);
        let has_news = |standing: Standing| {
            standing.confirmed.iter().zip(&standing.published).any(|(sum, out)| sum > out)
        };
        if standing.is_some_and(has_news) {
            self.post(at, cells, (0, 0));
        }
    }

    /// Posts what there is, and asks whether this process leads.
    pub(super) fn call_board(&mut self, at: At<'_>) {
        if self.posts.under_way || self.posts.next_board_ms > at.ms() {
            return;
        }
        self.posts.under_way = true;
        let posts = self.posts.take();
        let within_ms = self.posts.due_ms.map_or(0, |due_ms| due_ms.saturating_sub(at.ms()));
        if self.posts.outgoing.is_empty() {
            self.posts.due_ms = None;
        }
        let call = self.board_call(posts.clone(), within_ms, at.ms());
        let id = self.call(Call::Board { posts, sent_ms: at.ms() });
        let timeout_ms = self.tuning.follow_ms;
        self.effects.push(GlobeEffect::Board { id, call, timeout_ms });
    }

    pub(super) fn board_call(&self, posts: Vec<Post>, within_ms: u64, now_ms: u64) -> BoardCall {
        // Who cannot publish must not keep others from it.
        let able = self.name.number().is_some() && self.leader.is_able(now_ms);
        let room = self.leader.backlog() < BACKLOG_MAX;
        BoardCall {
            who: self.incarnation,
            identity: self.name.identity(),
            sure: self.name.number().is_some(),
            posts,
            within_ms,
            lease_ms: if able { self.tuning.lease_ms } else { 0 },
            take_max: if room { TAKEN_AT_ONCE } else { 0 },
            hurry: self.draining,
        }
    }

    /// The answer to a call to the board, or that there is none. The [type](Self) has an example.
    pub fn board_replied(
        &mut self,
        table: &Table,
        id: GlobeId,
        answered: Result<BoardReply, StoreError>,
        now: Now,
    ) {
        let Some(Call::Board { posts, sent_ms }) = self.calls.remove(&id) else { return };
        let at = At { table, now };
        self.posts.under_way = false;
        let Ok(reply) = answered else {
            self.counts.board_errors += 1;
            self.posts.unanswered = true;
            // Who cannot know whether somebody leads says that the name is in use.
            self.name.renew_from(at.ms().saturating_add(RENEW_MS));
            for post in posts {
                self.posts.add(post, at.ms(), at.ms());
            }
            self.posts.next_board_ms = at.ms().saturating_add(self.tuning.follow_ms);
            return;
        };
        self.posts.unanswered = false;
        let is_full = posts.len() >= POSTS_AT_ONCE;
        self.name.agree(reply.identity);
        if reply.leads {
            if !self.leader.leads(at.ms()) {
                self.name.renew_from(at.ms());
            }
            self.leader.lead_until(sent_ms.saturating_add(self.tuning.lease_ms));
        } else {
            self.leader.resign();
        }
        // A board that ends with this process keeps nothing for others. (Who was refused its name
        // has nobody to tell.)
        let alone = self.draining && self.options.private && !self.name.is_refused();
        if alone && !reply.leads {
            for post in posts {
                self.posts.add(post, at.ms(), at.ms());
            }
        }
        self.counts.taken += reply.taken.len() as u64;
        self.leader.take(reply.taken);
        let rest_ms = match (reply.leads, reply.due_in_ms) {
            (true, Some(due_ms)) => due_ms.clamp(LOOK_MS, self.tuning.board_ms.max(LOOK_MS)),
            (true, None) => self.tuning.board_ms,
            (false, _) => self.dice.jitter(self.tuning.follow_ms),
        };
        self.posts.next_board_ms = at.ms().saturating_add(rest_ms);
        if !self.posts.outgoing.is_empty() || self.draining {
            // What was more than one call takes goes on soon.
            let rest_ms = rest_ms.min(if is_full { LOOK_MS } else { GATHER_MS });
            self.posts.next_board_ms = at.ms().saturating_add(rest_ms);
        }
        self.lead(at);
    }

    /// What the region has recorded of a cell. A region that is one process has no store that adds
    /// up what its lives have used: those before this one are its peers. Unless the clock jumped:
    /// then they are those of a cell that had another name.
    pub(super) fn sum(&self, cell: CellHandle<'_>) -> u64 {
        let (confirmed, lives) = (cell.confirmed(), cell.acked().saturating_add(cell.peers()));
        // Afterwards: a jump is marked before it can be seen.
        if self.options.private && !cell.has_jumped() { confirmed.max(lives) } else { confirmed }
    }

    /// The sequence of the window that the clock is in, and what the region has recorded of it and
    /// of the one before. The table turns a subject when it is asked for; the clock may be one
    /// ahead.
    fn recorded(&self, cells: &Cells<'_>, now: Now) -> (u64, [u64; 2]) {
        let (current, previous) = (self.sum(cells.current), self.sum(cells.previous));
        match now.unix_ms() / cells.window_ms.max(1) {
            clock if clock == cells.sequence.saturating_add(1) => (clock, [0, current]),
            _ => (cells.sequence, [current, previous]),
        }
    }
}

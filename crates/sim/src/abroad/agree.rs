//! Everything is mended: what each region has to say becomes known to all others, and then there
//! is nothing left to say.

use tidegate_convergence::{BoardCall, GlobeTuning, Post, RegionNumber, Rule};

use super::oracles::{Cell, Maxima};
use super::{Abroad, WINDOW_MIN_MS};
use crate::fault::{Fault, Faults};
use crate::ghost::Ghost;
use crate::node::{Process, START_MS};
use crate::promises::settled::{Losses, MARGIN_MS, resend_ms, settle_max_ms};
use crate::report::Excuse;
use crate::truth::Name;
use crate::world::{Home, Spec, World};

impl World {
    /// How long it may take: [`settle_max_ms`] by the tuning and the faults of this run.
    pub(crate) fn settle_max_ms(&self) -> u64 {
        settle_max_ms(&self.tuning, &self.options.globe, self.losses())
    }

    /// What may have to be got over.
    pub(crate) fn losses(&self) -> Losses {
        let naming = [Fault::Flush, Fault::Failover, Fault::Namesake];
        let renames = naming.iter().any(|fault| self.options.faults.has(*fault));
        Losses { names: renames || self.options.is_private(), rows: self.has_missed_rows() }
    }

    /// Whether somebody missed rows: a failover lost them, or a replica lagged.
    fn has_missed_rows(&self) -> bool {
        self.database.as_ref().is_some_and(|database| database.epoch > 0 || database.lagged)
    }

    /// INV-29, INV-30: waits until all regions know what they should.
    pub(crate) fn agree(&mut self) {
        if self.database.is_none() {
            return;
        }
        let (since_us, most_ms) = (self.now_us, self.settle_max_ms());
        // A loss is noticed by an import, and the one under way may have to time out first.
        let GlobeTuning { timeout_ms, import_ms, .. } = self.options.globe;
        let broken = self.options.faults != Faults::default();
        let least_ms = if broken { timeout_ms + 2 * import_ms } else { 0 };
        // What it costs is published again in its time, whether others have done so or not.
        let least_ms =
            least_ms + if self.has_missed_rows() { resend_ms(&self.options.globe) } else { 0 };
        let mut calm_ms: Option<u64> = None;
        while self.is_judged() {
            self.run_until(self.now_us + 200_000);
            let took_ms = (self.now_us - since_us) / 1_000;
            let unsettled = self.unsettled(took_ms >= most_ms / 2);
            // What was taken from a board and is on its way is seen nowhere: so it looks twice.
            let was_calm_ms = calm_ms.filter(|_| unsettled.is_none());
            calm_ms = unsettled.is_none().then(|| was_calm_ms.unwrap_or(took_ms));
            match (unsettled, was_calm_ms) {
                (None, Some(calm_ms)) if took_ms >= least_ms => {
                    // Since when it is so: that it was waited for is no time that it took.
                    self.note_settled(calm_ms);
                    return;
                }
                (Some(what), _) if took_ms >= most_ms => {
                    self.broken("settled", || format!("after {took_ms} ms {what}"));
                }
                _ => {}
            }
        }
    }

    /// INV-22: in a quiet time nothing is published.
    pub(crate) fn check_silent(&mut self, before: (u64, u64)) {
        let (rows, named) = self.rows_and_names();
        let (rows, named) = (rows - before.0, named > before.1);
        // Who tries to publish what is refused also tries what went with it.
        let poisoned = self.database.as_ref().is_some_and(|database| database.poison.is_some());
        // A name that lapses in the quiet time lets its namesake speak for the first time.
        if rows > 0 && !poisoned && !named && self.report.broken.is_none() {
            self.broken("feedback", || format!("{rows} rows are written with nothing new"));
        }
    }

    /// How many rows were written, and how often a process was given another name.
    pub(crate) fn rows_and_names(&self) -> (u64, u64) {
        self.database.as_ref().map_or((0, 0), |database| (database.rows, database.namings))
    }

    /// INV-30: rows that never came are given up.
    pub(crate) fn check_gaps(&mut self) {
        let gaps = |world: &Self| {
            // Who has no name does not import.
            let named = world.abroad().filter(|(_, abroad)| abroad.own.is_some());
            let counts =
                named.map(|(process, abroad)| abroad.globe.counts(world.reading(process).into()));
            counts.map(|counts| counts.gaps).sum::<u64>()
        };
        if gaps(self) == 0 {
            return;
        }
        let GlobeTuning { gap_ms, import_ms, .. } = self.options.globe;
        self.run_until(self.now_us + (gap_ms + 2 * import_ms) * 1_000);
        let left = gaps(self);
        if left > 0 {
            self.broken("gaps", || format!("{left} rows are waited for without end"));
        }
    }

    /// The processes that other regions concern.
    pub(crate) fn abroad(&self) -> impl Iterator<Item = (&Process, &Abroad)> {
        let all = self.nodes.iter().filter_map(|node| node.process.as_deref());
        all.filter_map(|process| Some((process, process.abroad.as_ref()?)))
    }

    /// What is not as it should be in the end. What a store lost is waited for as well, but not
    /// for ever.
    fn unsettled(&self, patient: bool) -> Option<String> {
        let maxima = self.database.as_ref()?.maxima();
        for (process, abroad) in self.abroad() {
            let number = process.number;
            if self.is_namesake(process.home) && abroad.own.is_none() {
                continue;
            }
            let Some(own) = abroad.own else {
                return Some(format!("process {number} does not know its region"));
            };
            let counts = abroad.globe.counts(self.reading(process).into());
            let age_max_ms = 3 * self.options.globe.import_ms + 1_000;
            if counts.age_ms > age_max_ms {
                return Some(format!("process {number} has not read the feed to its end"));
            }
            let poisoned = self.database.as_ref().is_some_and(|d| d.poison.is_some());
            let pending = counts.pending > 0 && !(patient && self.has_lost(process.home));
            let busy = !abroad.globe.is_clean() || counts.unpublished > 0 || pending;
            if busy && !poisoned {
                return Some(format!("process {number} has something to say: {counts:?}"));
            }
            if !poisoned && self.has_posts((process.home, own), &maxima, patient) {
                return Some(format!("what process {number} could take is on the board"));
            }
            let missed = self.missed(abroad, &maxima);
            let hidden = self.hidden(process, own, &maxima);
            if let Some(what) = missed.or(hidden) {
                return Some(format!("process {number}, {what}"));
            }
        }
        None
    }

    /// Whether another region of the world has its name.
    fn is_namesake(&self, home: usize) -> bool {
        let namesakes = self.options.faults.has(Fault::Namesake);
        namesakes && (home == 0 || home + 1 == self.homes.len())
    }

    /// Whether the store of a region has lost something that still counts: what was confirmed once
    /// is posted until it expires, and there is nothing to publish.
    pub(crate) fn has_lost(&self, home: usize) -> bool {
        let GlobeTuning { repost_ms, timeout_ms, .. } = self.options.globe;
        let since_ms = START_MS + self.now_ms() - repost_ms - 2 * timeout_ms;
        let truth = &self.homes.at(home).truth;
        let mut cells = truth.cells.iter();
        cells.any(|(name, cell)| cell.lossy && self.expires_ms(*name) > since_ms)
    }

    /// Whether there is something on the board of a region: a cell that is posted by its name only
    /// is on nobody's mind. But not for ever of what the store lost and there is nothing to say of.
    fn has_posts(
        &self,
        (home, own): (usize, RegionNumber),
        maxima: &Maxima,
        patient: bool,
    ) -> bool {
        let look = BoardCall {
            who: 0,
            identity: 0,
            sure: false,
            posts: Vec::new(),
            within_ms: 0,
            lease_ms: 1,
            take_max: usize::MAX,
            hurry: true,
        };
        let (Home { store, truth, .. }, now_ms) = (self.homes.at(home), self.now_ms());
        let lost = |post: &Post| {
            let subject = self.digests.get(&post.subject).copied().unwrap_or(usize::MAX);
            let both = [post.sequence, post.sequence.saturating_sub(1)];
            let lossy = both.iter().any(|sequence| {
                truth.cells.get(&(subject, *sequence)).is_some_and(|cell| cell.lossy)
            });
            let silent = both.iter().all(|sequence| {
                let cell = (post.subject, post.window_ms, *sequence, own);
                let out = maxima.get(&cell).copied().unwrap_or(0);
                store.sum(post.subject, *sequence, now_ms) <= out
            });
            lossy && silent
        };
        let mut board = store.memory.clone();
        // When nobody leads any more.
        let posts = board.board(&look, now_ms + self.options.globe.lease_ms).taken;
        posts.iter().any(|post| !(patient && lost(post)))
    }

    /// Whether the clock of one of its nodes has jumped.
    pub(crate) fn has_stepped(&self, home: usize) -> bool {
        let mut nodes = self.nodes.iter().enumerate();
        nodes.any(|(at, node)| node.stepped && self.home_of(at) == home)
    }

    /// Something that is in the feed and that a process was not told, or the other way round.
    pub(super) fn missed(&self, abroad: &Abroad, maxima: &Maxima) -> Option<String> {
        let unix_ms = START_MS + self.now_ms();
        // Also of what is not in the feed at all any more.
        for cell in self.database.as_ref()?.published.keys() {
            let (digest, window_ms, sequence, number) = cell;
            let name = (self.digests.get(digest).copied()?, *sequence);
            if (sequence + 2) * window_ms <= unix_ms + MARGIN_MS {
                continue;
            }
            let (told, count) = (abroad.count(name, *number), maxima.get(cell).copied());
            let count = count.unwrap_or(0);
            let lost = told > count && self.excuse((name, *cell), (told, count)).is_some();
            let far = told < count && abroad.far.contains(&(name, *number));
            if told != count && !lost && !far {
                return Some(format!("{name:?}: told {told} of {number:?}, in the feed {count}"));
            }
        }
        None
    }

    /// Why nobody can tell again what a process was told of a cell: a failover took it out of the
    /// feed, or a leader whose clock is ahead did, for which it is over.
    pub(crate) fn excuse(
        &self,
        (name, cell): (Name, Cell),
        (told, count): (u64, u64),
    ) -> Option<Excuse> {
        let database = self.database.as_ref()?;
        if database.is_trimmed(cell) {
            return Some(Excuse::Trimmed);
        }
        if database.lost(cell) < told {
            return None;
        }
        // A leader whose clock was wrong did not publish it again, and threw away what the others
        // of its region had it look at.
        if database.is_outlived(cell) {
            return Some(Excuse::Outlived);
        }
        // Who wrote it lives and knows it, but has lost its name: it says nothing any more.
        if database.is_mute(cell.3) {
            return Some(Excuse::Mute);
        }
        if self.is_lost_unknown((name, cell), count) {
            return Some(Excuse::Unread);
        }
        self.is_lost_twice((name, cell), count).then_some(Excuse::Twice)
    }

    /// Whether a failover lost a row of a region before the region itself read it, and who wrote it
    /// has ended: those who live look for theirs. What it said is hidden again from those who did
    /// not read it, and published again when it is worth it. Who lives may have written less of the
    /// cell since then: to repeat what it knows is not to have written what was lost.
    fn is_lost_unknown(&self, (name, cell): (Name, Cell), count: u64) -> bool {
        let mut own = self.abroad().filter(|(_, abroad)| abroad.former == Some(cell.3));
        own.all(|own| self.has_had(own, (name, cell)) <= count)
    }

    /// The most that a process read or wrote of a cell of its region.
    fn has_had(&self, (process, abroad): (&Process, &Abroad), (name, cell): (Name, Cell)) -> u64 {
        let database = self.database.as_ref();
        let written = database.map_or(0, |database| database.written(cell, process.number));
        abroad.count(name, cell.3).max(written)
    }

    /// Whether a total was lost by a failover of the database, and by the store of its region as
    /// well, which had it from a process that has ended, or one that told it again only after who
    /// leads had looked. Others of the region may have read it, but a post has no total: who leads
    /// publishes what the store holds, and what it read itself.
    fn is_lost_twice(&self, (name, cell): (Name, Cell), count: u64) -> bool {
        let (digest, _, sequence, number) = cell;
        let home = self.database.as_ref().and_then(|database| database.holders.get(&number));
        let Some(Home { store, truth, .. }) = home.map(|home| self.homes.at(*home)) else {
            return false;
        };
        let lossy = truth.cells.get(&name).is_some_and(|cell| cell.lossy);
        if !lossy {
            return false;
        }
        let own = self.abroad().filter(|(_, abroad)| abroad.former == Some(number));
        let leads = |(process, abroad): &(&Process, &Abroad)| {
            abroad.globe.counts(self.reading(process).into()).leads > 0
        };
        let leaders: Vec<_> = own.filter(leads).collect();
        let held = store.sum(digest, sequence, self.now_ms());
        let unaware = leaders.iter().all(|own| {
            let database = self.database.as_ref();
            let looked = database.is_some_and(|d| d.has_found_no_more(own.0.number, cell, count));
            self.has_had(*own, (name, cell)) <= count && (held <= count || looked)
        });
        !leaders.is_empty() && unaware
    }

    /// Something that a region should have published, by what its processes know.
    fn hidden(&self, process: &Process, own: RegionNumber, maxima: &Maxima) -> Option<String> {
        self.all_hidden(process, own, maxima).into_iter().next().map(|(_, what)| what)
    }

    /// All of it.
    pub(super) fn all_hidden(
        &self,
        process: &Process,
        own: RegionNumber,
        maxima: &Maxima,
    ) -> Vec<(Name, String)> {
        let unix_ms = self.reading(process).unix_ms;
        let mut all = Vec::new();
        for (subject, ghost) in &process.ghosts {
            let Some(spec) = self.specs.get(*subject) else { continue };
            let poisoned = self.database.as_ref().and_then(|d| d.poison);
            let current = unix_ms / spec.window_ms == ghost.sequence;
            // Where nothing was admitted the limit is not known.
            let used = ghost.current.mine + ghost.previous.mine > 0;
            let skip = poisoned.is_some_and(|(poison, _)| poison == *subject);
            if !current || !used || skip || spec.window_ms < WINDOW_MIN_MS || !ghost.adopted {
                continue;
            }
            // Nobody looks again when a clock has stepped back to when the last window counted.
            let stepped = self.has_stepped(process.home);
            let elapsed_ms = if stepped { spec.window_ms } else { unix_ms % spec.window_ms };
            let due = |ghost: &Ghost, elapsed_ms: u64| {
                let at = (ghost.sequence, elapsed_ms);
                let standing = self.standing((process, own), spec, at, maxima);
                self.is_due((*subject, spec.window_ms), ghost, &standing)
            };
            // Who has recorded nothing of this window, and heard of nobody who has, has not looked
            // since the last one ended. The window before that counted then: what it had said of
            // it, and who else used it.
            let asleep = ghost.current.confirmed == 0 && ghost.current.foreign == 0;
            let what = due(ghost, elapsed_ms)
                .filter(|_| !asleep || due(&ghost.before(), spec.window_ms).is_some());
            all.extend(what.map(|what| ((*subject, ghost.sequence), what)));
        }
        all
    }

    /// How it stands with a window and the one before.
    fn standing(
        &self,
        (process, own): (&Process, RegionNumber),
        spec: &Spec,
        (sequence, elapsed_ms): (u64, u64),
        maxima: &Maxima,
    ) -> Standing {
        let (unix_ms, now_ms) = (self.reading(process).unix_ms, self.now_ms());
        let both = [sequence, sequence - 1];
        let cells = both.map(|sequence| {
            let of = |number| (spec.digest, spec.window_ms, sequence, number);
            // What is over need not be in the feed any more.
            let over = (sequence + 2) * spec.window_ms <= unix_ms;
            let ever = self.database.as_ref().filter(|_| over).map(|all| &all.published);
            let maxima = ever.unwrap_or(maxima);
            let range = maxima.range(of(RegionNumber(0))..=of(RegionNumber(u32::MAX)));
            let others = range.filter(|((.., number), _)| *number != own).count() as u64;
            (maxima.get(&of(own)).copied().unwrap_or(0), others)
        });
        let (published, others) =
            (cells.map(|cell| cell.0), cells.iter().map(|cell| cell.1).max().unwrap_or(0));
        let store = &self.homes.at(process.home).store;
        let held = both.map(|sequence| store.sum(spec.digest, sequence, now_ms));
        Standing { limit: spec.limit, published, others, elapsed_ms, held }
    }

    /// Whether what a process knows of a subject is worth publishing, by the rule, reckoned apart
    /// from it; with some leeway, because nobody looks again when only time has passed.
    fn is_due(
        &self,
        (subject, window_ms): (usize, u64),
        ghost: &Ghost,
        standing: &Standing,
    ) -> Option<String> {
        let Standing { limit, published, others, elapsed_ms, held } = *standing;
        let limit = if self.options.second_limit_percent > 0 { 2 * limit } else { limit };
        let [out, out_before] = published;
        let [held, held_before] = held;
        let news = ghost.current.confirmed.min(held).saturating_sub(out);
        let news_before = ghost.previous.confirmed.min(held_before).saturating_sub(out_before);
        // Times the length of the window, so that nothing is rounded.
        let rest_ms = u128::from(window_ms - elapsed_ms);
        let hidden = u128::from(news) * u128::from(window_ms) + u128::from(news_before) * rest_ms;
        let step = match self.options.globe.rule {
            Rule::Floor { part, .. } => {
                let floor = limit.div_ceil(part).max(1);
                let due = news > 0 && ghost.current.confirmed >= floor
                    || news_before > 0 && ghost.previous.confirmed >= floor;
                if due { 0 } else { u64::MAX }
            }
            Rule::Budget { quiet_part, limit_part, room_part, .. } => {
                let quiet = (limit / (quiet_part * u64::from(self.options.regions_max))).max(1);
                let room = limit.saturating_sub(ghost.used(elapsed_ms));
                let silent = out + out_before == 0;
                let company = (limit / limit_part).max(room / room_part) / (others + 1);
                match others {
                    0 if silent || room < quiet => quiet,
                    0 => quiet.max(out + out_before),
                    _ if silent => company.clamp(1, quiet),
                    _ => company.max(1),
                }
            }
        };
        let due = hidden > 0 && hidden >= u128::from(step) * u128::from(window_ms);
        due.then(|| {
            let name: Name = (subject, ghost.sequence);
            format!("{name:?}: {news} are hidden, {step} may be: {standing:?}")
        })
    }

    /// After the probes every table counts what its process was told.
    pub(crate) fn check_foreign(&mut self, process: &Process, subject: usize) {
        let (Some(abroad), Some(ghost)) = (&process.abroad, process.ghosts.get(&subject)) else {
            return;
        };
        let (number, told) = (process.number, abroad.foreign((subject, ghost.sequence)));
        let unix_ms = self.reading(process).unix_ms;
        let current = self.specs.get(subject).is_some_and(|spec| {
            spec.window_ms >= WINDOW_MIN_MS && unix_ms / spec.window_ms == ghost.sequence
        });
        // A new window whose predecessor is known is not asked about for a while.
        if current && ghost.current.asked_ms.is_some() && ghost.current.foreign < told {
            let counted = ghost.current.foreign;
            self.broken("foreign", || {
                format!("process {number}, subject {subject}: counts {counted}, told {told}")
            });
        }
    }
}

/// What a region has published of a subject, and how many others have.
#[derive(Clone, Copy, Debug)]
struct Standing {
    limit: u64,
    published: [u64; 2],
    others: u64,
    elapsed_ms: u64,
    /// What the regional store holds.
    held: [u64; 2],
}

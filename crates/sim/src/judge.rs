//! Whether a request was decided rightly.

use tidegate_limiter::{Answer, AskedFor, Consistency, Denial, Source};

use crate::decide::Concluded;
use crate::fault::Fault;
use crate::ghost::{Ghost, Reading, weigh};
use crate::node::{Ask, Caller, Process};
use crate::wait::LATE_US;
use crate::world::World;

impl World {
    /// What the verdict should have been, item by item.
    pub(crate) fn judge(&mut self, process: &mut Process, caller: &Caller, c: &Concluded) {
        let (mut all, mut waits) = (true, true);
        for (at, (ask, answer)) in caller.asks.iter().zip(&c.answers).enumerate() {
            let earlier = earlier(caller, c, at);
            if answer.denial() == Some(Denial::Memory) {
                (all, waits) = (false, false);
                self.check_refused(process);
                continue;
            }
            let outage = answer.denial() == Some(Denial::Outage);
            if outage {
                // It would be admitted; and it may be that it is the only one in its way.
                (all, waits) = (false, false);
            }
            let Some(ghost) = process.ghosts.get_mut(&ask.subject) else { continue };
            let elapsed_ms = ghost.place(c.reading, &mut Vec::new());
            let (ghost, used) = (ghost.clone(), ghost.held(elapsed_ms) + earlier);
            let fits = ask.limit > 0 && used + ask.cost <= ask.limit;
            all &= fits;
            let settled = ghost.used(elapsed_ms) + earlier;
            let reserved = !fits && ask.limit > 0 && settled + ask.cost <= ask.limit;
            waits &= fits || ask.bounded && reserved;
            if fits != (answer.admitted() || outage) {
                let oracle = if fits { "arithmetic" } else { "knowledge" };
                let (number, ask) = (process.number, *ask);
                self.broken(oracle, || {
                    format!("process {number} knows of {used}, and admits {}: {ask:?}", !fits)
                });
            }
            if reserved != (answer.denial() == Some(Denial::Reserved)) {
                let said = answer.denial();
                self.broken("arithmetic", || format!("{said:?}, in truth reserved: {reserved}"));
            }
            if !fits && !reserved {
                self.check_denial(process, &ghost, (*ask, earlier), elapsed_ms);
            }
            self.check_reset(&ghost, (*ask, answer));
            let remaining = ask.limit.saturating_sub(used + ask.cost);
            if !caller.batch && answer.admitted() && answer.remaining() != remaining {
                let said = answer.remaining();
                self.broken("arithmetic", || format!("{said} remaining instead of {remaining}"));
            }
            self.check_asked(process, &ghost, (*ask, answer), (c, elapsed_ms));
            self.check_lent(process, &ghost, (*ask, answer), (c, elapsed_ms, earlier));
            let read = caller.batch && c.last && !caller.reserved;
            let read = read && !c.missed.contains(&ask.subject);
            self.check_outage(process, &ghost, (*ask, answer), (c, elapsed_ms, earlier, read));
        }
        // INV-25: who is denied only because others wait, waits too. A batch that was read first is
        // decided on what is known then.
        let read = caller.batch && c.last;
        if waits && !all && !c.in_vain && !read {
            let (number, asks) = (process.number, caller.asks.clone());
            self.broken("false denial", || {
                format!("process {number} denies {asks:?} for what others wait for")
            });
        }
        if all != c.admitted {
            let admitted = c.admitted;
            self.broken("atomicity", || format!("all fit: {all}, admitted: {admitted}"));
        }
    }

    /// INV-7: the answer says when the cell ends that it was decided in.
    fn check_reset(&mut self, ghost: &Ghost, (ask, answer): (Ask, &Answer)) {
        let (ends_ms, said_ms) = (ghost.ends_ms(), answer.reset_unix_ms());
        if said_ms != ends_ms {
            self.broken("reset", || {
                format!("{said_ms} of {ask:?} instead of {ends_ms}: {ghost:?}")
            });
        }
    }

    /// Whether an admission had to ask, and whether the answer owns up to what it does not know.
    fn check_asked(
        &mut self,
        process: &Process,
        ghost: &Ghost,
        (ask, answer): (Ask, &Answer),
        (c, elapsed_ms): (&Concluded, u64),
    ) {
        let now_ms = c.reading.monotonic_ms;
        let terms = (ask.cost, ask.limit);
        // Where a clock is behind its subject nothing elapses, and a new cell is warm for as long.
        let passed_ms = now_ms.saturating_sub(ghost.turned_ms);
        let elapsed_ms = if self.options.excuses { elapsed_ms } else { elapsed_ms.max(passed_ms) };
        let fresh = ghost.is_fresh(terms, elapsed_ms, self.tuning.freshness.fresh_ms, now_ms);
        let strict = ghost.is_strict(ask.limit, now_ms);
        let jumps = self.has_jumped(process);
        let number = process.number;
        let excused = self.options.excuses && jumps && !strict;
        if c.admitted && !c.asked && !answer.degraded() && (strict || !fresh) && !excused {
            let oracle = if strict { "strict" } else { "freshness" };
            self.broken(oracle, || format!("process {number} admits without asking: {ask:?}"));
        }
        // Not of a subject that was dropped while it waited, and is new again.
        if c.in_vain && !answer.degraded() && answer.source() == Source::Region {
            self.broken("degraded", || format!("process {number} did not hear of {ask:?}"));
        }
        let least_ms = match ghost.current.asked_ms {
            Some(asked_ms) => now_ms.saturating_sub(asked_ms),
            None => elapsed_ms,
        };
        let least_ms = match &process.abroad {
            Some(abroad) if ghost.is_long() => least_ms.max(now_ms.saturating_sub(abroad.heard_ms)),
            _ => least_ms,
        };
        // After a jump nothing counts as elapsed, and the age that is said is less than it is.
        let jumped = self.options.excuses && jumps;
        if answer.age_ms() < least_ms && !jumped {
            let said_ms = answer.age_ms();
            self.broken("age", || format!("{said_ms} ms old, in truth {least_ms} ms"));
        }
    }

    /// What is said to be admitted by the bounded rule, and was not granted, was lent: the view
    /// was warm, and what the store has not recorded is within the credit.
    fn check_lent(
        &mut self,
        process: &Process,
        ghost: &Ghost,
        (ask, answer): (Ask, &Answer),
        (c, elapsed_ms, earlier): (&Concluded, u64, u64),
    ) {
        if !ask.bounded || !c.admitted || answer.degraded() {
            return;
        }
        self.check_credit(process, ghost, ask, (c.reading, elapsed_ms, earlier));
    }

    /// INV-49: who is to be denied when the region cannot be asked is never admitted without it;
    /// and is denied for that only if the region had to be asked. A batch that no shard can grant
    /// is decided on what was `read`.
    fn check_outage(
        &mut self,
        process: &Process,
        ghost: &Ghost,
        (ask, answer): (Ask, &Answer),
        (c, elapsed_ms, earlier, read): (&Concluded, u64, u64, bool),
    ) {
        let number = process.number;
        if ask.deny && c.admitted && answer.degraded() && !(read && ask.bounded) {
            self.broken("outage", || format!("process {number} admits {ask:?} unasked"));
        }
        if answer.denial() != Some(Denial::Outage) {
            return;
        }
        let (now_ms, terms) = (c.reading.monotonic_ms, (ask.cost, ask.limit));
        let fresh = ghost.is_fresh(terms, elapsed_ms, self.tuning.freshness.fresh_ms, now_ms);
        let warm = fresh && !ghost.is_strict(ask.limit, now_ms);
        let lent = !ask.bounded || ghost.lends(terms, earlier, elapsed_ms);
        // An answer of a store that lost something is heard, and makes nothing fresh.
        let lost = self.homes.at(process.home).has_lost || self.has_jumped(process);
        let needless = warm && lent && !c.asked && !lost;
        if !ask.deny || !answer.degraded() || needless {
            let answer = *answer;
            self.broken("outage", || format!("process {number} denies {ask:?}: {answer:?}"));
        }
    }

    /// Whether the clock of a process has jumped.
    fn has_jumped(&self, process: &Process) -> bool {
        self.nodes.get(process.node).is_some_and(|node| node.stepped)
    }

    /// What is only held while the rest of its batch is asked for is lent, too.
    pub(crate) fn check_lent_with(&mut self, process: &mut Process, ask: Ask, reading: Reading) {
        let Some(ghost) = process.ghosts.get_mut(&ask.subject) else { return };
        let elapsed_ms = ghost.place(reading, &mut Vec::new());
        let ghost = ghost.clone();
        self.check_credit(process, &ghost, ask, (reading, elapsed_ms, 0));
    }

    fn check_credit(
        &mut self,
        process: &Process,
        ghost: &Ghost,
        ask: Ask,
        (reading, elapsed_ms, earlier): (Reading, u64, u64),
    ) {
        let now_ms = reading.monotonic_ms;
        let terms = (ask.cost, ask.limit);
        let fresh = ghost.is_fresh(terms, elapsed_ms, self.tuning.freshness.fresh_ms, now_ms);
        let jumps = self.options.excuses && self.has_jumped(process);
        let warm = (fresh || jumps) && !ghost.is_strict(ask.limit, now_ms);
        if !warm || !ghost.lends(terms, earlier, elapsed_ms) {
            let (number, company) = (process.number, ghost.company);
            let (held, side) = (ghost.held(elapsed_ms), ghost.current.clone());
            self.broken("credit", || {
                format!(
                    "process {number} admits {ask:?} unasked: warm {warm}, {company} processes, \
                     {held} held, {side:?}"
                )
            });
        }
    }

    /// What was claimed is admitted: the answer says by whom, and what is left.
    pub(crate) fn judge_asked(&mut self, process: &mut Process, caller: &Caller, c: &Concluded) {
        for (at, (ask, answer)) in caller.asks.iter().zip(&c.answers).enumerate() {
            // What was only held with the others was lent: nobody had to grant it.
            let unheard = caller.has_asked(at) && c.granted == Some(AskedFor::Unheard);
            let optimistic = answer.consistency() == Consistency::Bounded && unheard;
            let denied = unheard && ask.deny;
            if denied != (answer.denial() == Some(Denial::Outage)) {
                let (ask, answer) = (*ask, *answer);
                self.broken("outage", || format!("{ask:?} was unheard {unheard}: {answer:?}"));
            }
            if answer.admitted() == denied || answer.degraded() != unheard || optimistic {
                let (ask, answer) = (*ask, *answer);
                self.broken("degraded", || format!("{ask:?} was unheard {unheard}: {answer:?}"));
            }
            let Some(ghost) = process.ghosts.get_mut(&ask.subject) else { continue };
            let elapsed_ms = ghost.place(c.reading, &mut Vec::new());
            // What was admitted is answered by the cell that holds it; a denial by the current one.
            let cell = caller.cells.get(at).filter(|_| c.admitted);
            let (ghost, elapsed_ms) = match cell {
                Some(cell) => ghost.turned_back(*cell, c.reading),
                None => (ghost.clone(), elapsed_ms),
            };
            self.check_reset(&ghost, (*ask, answer));
            let used = ghost.held(elapsed_ms).saturating_sub(ask.cost) + ask.cost;
            let (left, said) = (ask.limit.saturating_sub(used), answer.remaining());
            if !caller.batch && !denied && said != left {
                self.broken("arithmetic", || {
                    format!("{said} remaining of {ask:?} instead of {left}: {ghost:?}")
                });
            }
            self.check_asked(process, &ghost, (*ask, answer), (c, elapsed_ms));
            if c.admitted {
                self.note_share(*ask, ghost.sequence);
            }
        }
    }

    /// Nobody waits for longer than it said, unless its node stands still.
    pub(crate) fn check_deadline(&mut self, process: &Process, caller: &Caller) {
        let number = process.number;
        let late_us = self.now_us.saturating_sub(caller.deadline_us);
        let node = self.nodes.get(process.node);
        let stood = node.is_some_and(|node| node.stood_until_us >= caller.deadline_us);
        if late_us > LATE_US && !stood {
            self.broken("deadline", || format!("process {number} answers {late_us} us late"));
        }
    }

    /// What the region refused, the view that it brought denies: unless time has passed.
    pub(crate) fn check_refused_twice(&mut self, process: &Process, caller: &Caller, fits: bool) {
        let (Some(turn), [ask]) = (caller.refused, caller.asks.as_slice()) else { return };
        let timeless = self.options.late_readings && !self.has_jumped(process);
        // Who was granted too much takes it for its own, until it takes another name.
        let timeless = timeless && self.report.regranted == 0;
        let ghost = process.ghosts.get(&ask.subject).filter(|ghost| ghost.turn == turn);
        if fits && timeless && ghost.is_some() {
            let (number, ask) = (process.number, *ask);
            self.broken("refusal", || format!("process {number} would admit {ask:?} again"));
        }
    }

    /// A denial is right if the truth has no room either.
    fn check_denial(
        &mut self,
        process: &Process,
        ghost: &Ghost,
        (ask, earlier): (Ask, u64),
        elapsed_ms: u64,
    ) {
        let window_ms = self.specs.get(ask.subject).map_or(1, |spec| spec.window_ms);
        let place = (process, ask.subject);
        let current = self.most(place, &ghost.current, ghost.sequence);
        let before = ghost.sequence.saturating_sub(1);
        let previous = self.most(place, &ghost.previous, before);
        let used = current + weigh(previous, window_ms, elapsed_ms) + earlier;
        if ask.limit > 0 && used + ask.cost <= ask.limit {
            let number = process.number;
            self.broken("false denial", || {
                format!("process {number} denies {ask:?}, and only {used} are used")
            });
        }
    }

    /// The overshoot accountant: after an admission, the truth is at most the limit and what the
    /// others admitted that this process was not told.
    pub(crate) fn account(&mut self, process: &mut Process, ask: Ask, reading: Reading) {
        let Some(ghost) = process.ghosts.get_mut(&ask.subject) else { return };
        let elapsed_ms = ghost.place(reading, &mut Vec::new());
        let window_ms = self.specs.get(ask.subject).map_or(1, |spec| spec.window_ms);
        let name = (ask.subject, ghost.sequence);
        let before = (ask.subject, ghost.sequence.saturating_sub(1));
        let (total, previous) = (self.world_total(name), self.world_total(before));
        let (known, known_before) = (ghost.current.view(), ghost.previous.view());
        let untold = total.saturating_sub(known)
            + weigh(previous.saturating_sub(known_before), window_ms, elapsed_ms)
            + 1;
        let used = total + weigh(previous, window_ms, elapsed_ms);
        if used > ask.limit + untold {
            self.broken("overshoot", || format!("{used} of {ask:?}, {untold} not told"));
        }
        let told = process.abroad.as_ref().map_or(0, |abroad| abroad.foreign(name));
        let heard = ghost.current.foreign;
        self.report.unheeded += u64::from(told > heard);
        // Only what came from a clock that is ahead, before the window began, is not heard at once;
        // and what a subject had heard that was dropped while it waited.
        let clocks = [Fault::Skew, Fault::Step].iter().any(|fault| self.options.faults.has(*fault));
        if told > heard && ghost.adopted && !clocks {
            let number = process.number;
            self.broken("unheeded", || format!("process {number} was told {told}, heard {heard}"));
        }
        self.note_share(ask, name.1);
    }

    /// What all regions admitted to a cell, as a share of the limit that somebody was admitted by.
    fn note_share(&mut self, ask: Ask, sequence: u64) {
        let total = self.world_total((ask.subject, sequence));
        let share = total.saturating_mul(1_000) / ask.limit.max(1);
        self.report.worst_permille = self.report.worst_permille.max(share);
    }
}

/// What earlier items of a batch take from the same subject. One that was refused for want of
/// memory takes nothing.
fn earlier(caller: &Caller, c: &Concluded, at: usize) -> u64 {
    let subject = caller.asks.get(at).map(|ask| ask.subject);
    let before = caller.asks.iter().zip(&c.answers).take(at);
    let same = before.filter(|(ask, answer)| {
        Some(ask.subject) == subject && answer.denial() != Some(Denial::Memory)
    });
    same.map(|(ask, _)| ask.cost).sum()
}

//! What must hold after every event.

use std::collections::BTreeMap;

use tidegate_convergence::{Record, Shard, ShardReply, Tuning};

use crate::doubt::LATE_MS;
use crate::fault::Fault;
use crate::ghost::Side;
use crate::node::{Ask, Call, Process, number_of};
use crate::truth::{End, Owner};
use crate::world::{Home, World};

/// Calls a shard may have under way that nobody waits for and that carry nothing: one a second, or
/// one each 50 ms while it is suspected, each for two seconds.
const QUESTIONS_MAX: usize = 48;

impl World {
    /// Looks whether a subject is still in the table; if not, its ghost ends with it. Only what is
    /// recorded may be dropped, unless it has expired.
    pub(crate) fn verify(&mut self, process: &mut Process, subject: usize) {
        let Some(spec) = self.specs.get(subject) else { return };
        let Some(ghost) = process.ghosts.get(&subject) else { return };
        let Ok(request) = spec.request(Ask::look(subject)) else { return };
        let cell = process.table.cell(request.subject(), ghost.sequence);
        if cell.is_some_and(|cell| cell.life() == ghost.life) {
            return;
        }
        let idle_ms = self.reading(process).monotonic_ms.saturating_sub(ghost.turned_ms);
        let expired = idle_ms >= 3 * spec.window_ms;
        let sides = [(ghost.sequence, &ghost.current), (ghost.sequence - 1, &ghost.previous)];
        let (owner, number) = ((process.number, ghost.life), process.number);
        for (sequence, side) in sides {
            let clean = side.acked >= side.mine && side.pending == 0;
            let (mine, acked) = (side.mine + side.pending, side.acked);
            let end = if clean { End::Evicted } else { End::Left };
            self.homes.at_mut(process.home).truth.end((subject, sequence), owner, end);
            if !clean && !expired {
                self.broken("eviction", || {
                    format!("process {number} drops subject {subject}: {acked} of {mine} recorded")
                });
            }
        }
        self.report.evicted += 1;
        process.dropped = Some(self.now_us);
        process.dropped_us.insert(subject, self.now_us);
        process.ghosts.remove(&subject);
    }

    /// The same for all subjects.
    pub(crate) fn verify_all(&mut self, process: &mut Process) {
        let subjects: Vec<usize> = process.ghosts.keys().copied().collect();
        for subject in subjects {
            self.verify(process, subject);
        }
    }

    /// An answer tells the ghosts what it tells the process.
    pub(crate) fn hear(&mut self, process: &mut Process, call: &Call, honest: &ShardReply) {
        process.shards_met.insert(call.call.shard);
        if let Some(present) = honest.present {
            process.present.insert(call.call.shard, present);
        }
        let present = process.present.get(&call.call.shard).copied();
        let fresh_until_ms = call.sent_ms + self.tuning.freshness.fresh_ms;
        let asked = honest.asked.iter().flat_map(|asked| asked.cells.iter().copied().map(Some));
        let replies = honest.replies.iter().copied().chain(asked);
        for ((subject, era, place), reply) in call.about.iter().zip(replies) {
            self.verify(process, *subject);
            let (Some(ghost), Some(reply)) = (process.ghosts.get_mut(subject), reply) else {
                continue;
            };
            if let Some(present) = present.filter(|_| ghost.era == *era) {
                let components = reply.current.components.max(reply.previous.components);
                ghost.company = components.clamp(present, 2 * present);
            }
            if let Some(side) = ghost.side(*era, *place) {
                side.hear(reply.current.sum, reply.current.recorded);
                side.fresh_until_ms = side.fresh_until_ms.max(fresh_until_ms);
                side.asked_ms = side.asked_ms.max(Some(call.sent_ms));
            }
            if let Some(side) =
                ghost.side(*era, (place.0.saturating_sub(1), place.1.saturating_sub(1)))
            {
                side.hear(reply.previous.sum, reply.previous.recorded);
            }
        }
    }

    /// The registers of both cells hold what they should, and the view is a lower bound.
    pub(crate) fn check_registers(&mut self, process: &mut Process, subject: usize) {
        self.verify(process, subject);
        let (Some(ghost), Some(spec)) = (process.ghosts.get(&subject), self.specs.get(subject))
        else {
            return;
        };
        let Ok(request) = spec.request(Ask::look(subject)) else { return };
        let mut wrong = None;
        let sides = [(ghost.sequence, &ghost.current), (ghost.sequence - 1, &ghost.previous)];
        for (sequence, side) in sides {
            let Some(cell) = process.table.cell(request.subject(), sequence) else { continue };
            let (mine, peers, claimed) = (cell.mine(), cell.peers(), cell.claimed());
            let view = claimed + peers + cell.foreign();
            let most = self.most((process, subject), side, sequence) + side.pending;
            if view > most
                || cell.confirmed() > self.most_of_all((process.home, subject), side, sequence)
            {
                let confirmed = cell.confirmed();
                let what = format!("view {view}, confirmed {confirmed}, truth {most}");
                wrong = wrong.or(Some(("view above truth", what)));
            } else if cell.foreign() > self.most_foreign((process, subject), side, sequence) {
                let what = format!("foreign {} is more than others used", cell.foreign());
                wrong = wrong.or(Some(("foreign above truth", what)));
            } else if !self.options.inside {
            } else if (mine, claimed) != (side.mine, side.mine + side.pending) {
                let Side { mine: admitted, pending, .. } = side;
                let what = format!(
                    "mine {mine}, claimed {claimed}, admitted {admitted}, {pending} pending"
                );
                wrong = wrong.or(Some(("conservation", what)));
            } else if peers != side.known {
                let what = format!("peers {peers}, told {}", side.known);
                wrong = wrong.or(Some(("knowledge", what)));
            } else if cell.foreign() != side.foreign {
                let what = format!("foreign {}, told {}", cell.foreign(), side.foreign);
                wrong = wrong.or(Some(("foreign", what)));
            } else if cell.acked() > side.acked {
                let what = format!("acked {}, recorded {}", cell.acked(), side.acked);
                wrong = wrong.or(Some(("acknowledgement", what)));
            }
        }
        if let Some((oracle, what)) = wrong {
            let number = process.number;
            self.broken(oracle, || format!("process {number}, subject {subject}: {what}"));
        }
    }

    /// The most that a process can know of a cell: what it admitted, and what the others admitted
    /// under any name the cell had.
    pub(crate) fn most(
        &self,
        (process, subject): (&Process, usize),
        side: &Side,
        sequence: u64,
    ) -> u64 {
        let truth = &self.homes.at(process.home).truth;
        let life = process.ghosts.get(&subject).map_or(0, |ghost| ghost.life);
        let owner: Owner = (process.number, life);
        let others = side.names(sequence).map(|name| {
            let name = (subject, name);
            // A clock that stepped back leads a process to cells that it has been in before: what
            // it admitted then comes back to it as something that its region has published.
            let again = truth.amount(name, owner) > side.mine || truth.is_carried(name, owner);
            let own = if again { 0 } else { truth.most_of(name, owner) };
            let near = truth.most(name).saturating_sub(own);
            let (far, former) = self.elsewhere(process, name);
            [near, former, far]
        });
        let [near, former, far] = others.fold([0; 3], |[near, former, far], name| {
            [near.max(name[0]), former.max(name[1]), far.max(name[2])]
        });
        // What a store held that ended with its process is in nobody's but that number. But a cell
        // that was renamed may know that by one name, and what is near by the other.
        let same = self.options.is_private() && side.names(sequence).count() == 1;
        let near = if same { near.max(former) } else { near + former };
        side.mine + near + far
    }

    /// The most that was published of it under other numbers than the own.
    fn most_foreign(&self, (process, subject): (&Process, usize), side: &Side, at: u64) -> u64 {
        let names = side.names(at).map(|name| self.elsewhere(process, (subject, name)));
        names.map(|(far, former)| far + former).max().unwrap_or(0)
    }

    fn most_of_all(&self, (home, subject): (usize, usize), side: &Side, sequence: u64) -> u64 {
        let truth = &self.homes.at(home).truth;
        side.names(sequence).map(|name| truth.most((subject, name))).max().unwrap_or(0)
    }

    /// A call says what was admitted.
    pub(crate) fn check_record(&mut self, process: &mut Process, subject: usize, record: &Record) {
        self.verify(process, subject);
        let Some(ghost) = process.ghosts.get(&subject) else {
            let number = process.number;
            self.broken("record", || format!("process {number} sends of a dropped {subject}"));
            return;
        };
        if !self.options.inside {
            return;
        }
        if process.asked.contains(&(subject, ghost.era)) {
            let number = process.number;
            self.broken("alone", || format!("process {number} disturbs what it asks of {subject}"));
            return;
        }
        let said = (record.sequence, record.total, record.previous_total);
        let meant = (ghost.sequence, ghost.current.mine, ghost.previous.mine);
        let component = (number_of(record.component.incarnation), record.component.life);
        let owner = (process.number, ghost.life);
        if said != meant || component != owner {
            self.broken("record", || {
                format!("{owner:?} sends {said:?} as {component:?}, admitted {meant:?}")
            });
        }
    }

    /// INV-33: what is under way is bounded.
    pub(crate) fn check_calls(&mut self, process: &Process) {
        let (mut replays, mut questions, mut asks) = (0, 0, 0);
        for call in process.calls.values().filter(|call| !call.awaited) {
            if call.call.ask.is_some() {
                asks += 1;
            } else if call.call.records.is_empty() {
                questions += 1;
            } else {
                replays += 1;
            }
        }
        let shards = usize::from(self.options.shards);
        let replays_max = shards * self.tuning.replays_in_flight_max;
        let asks_max = shards * self.tuning.asks_in_flight_max;
        if replays > replays_max || questions > QUESTIONS_MAX * shards || asks > asks_max {
            self.broken("calls", || {
                format!("{replays} replays, {questions} questions, {asks} asks under way")
            });
        }
    }

    /// INV-32, INV-33: memory and queues are bounded, and nobody sees more losses than there were.
    pub(crate) fn check_bounds(&mut self, process: &mut Process) {
        self.verify_all(process);
        self.check_prompt(process);
        self.check_stale(process);
        let (bytes, budget) = (process.table.accounted_bytes(), self.options.table_bytes);
        if bytes > budget {
            self.broken("memory", || format!("{bytes} bytes of {budget}"));
        }
        let counts = process.region.counts(&process.table);
        let carried: usize = process.calls.values().map(|call| call.about.len()).sum();
        // Those that expired, and gave their place to others, leave when they are due.
        let most = 2 * self.subjects_max() as u64 + carried as u64 + counts.asked;
        if counts.dirty > most {
            let dirty = counts.dirty;
            self.broken("queue", || format!("{dirty} subjects to tell of, {most} exist"));
        }
        let were = process.losses_max;
        if counts.losses > were {
            let (seen, number) = (counts.losses, process.number);
            self.broken("losses", || format!("process {number} saw {seen} losses of {were}"));
        }
        let now_ms = self.now_ms();
        let Home { store, truth, .. } = self.homes.at(process.home);
        let stale = truth.cells.iter().find(|((subject, sequence), cell)| {
            let Some(spec) = self.specs.get(*subject) else { return false };
            let over = cell.expires_ms.is_some_and(|expires_ms| expires_ms <= now_ms);
            over && store.sum(spec.digest, *sequence, now_ms) > 0
        });
        if let Some((name, _)) = stale {
            let name = *name;
            self.broken("ttl", || format!("the store still holds {name:?}"));
        }
    }

    fn subjects_max(&self) -> usize {
        let bytes = self.options.table_bytes;
        tidegate_limiter::Options::default().with_budget_bytes(bytes).subjects_max()
    }

    /// INV-26: what is admitted is recorded within the time a replay may wait; so that what the
    /// others do not know, and what is lost with a process, is at most what was admitted in that
    /// time and a round trip. Where calls fail or are late, the time begins when they do not any
    /// more, and a breaker may have opened.
    pub(crate) fn check_prompt(&mut self, process: &mut Process) {
        let (now_us, number) = (self.now_us, process.number);
        let tuning = &self.tuning;
        let queued_ms = self.queued_ms(process);
        let most_ms = tuning.replay_max_ms + tuning.replay_min_ms + LATE_MS + queued_ms;
        let opened_ms = if self.is_calm() { 0 } else { tuning.breaker.open_ms };
        let most_us = (most_ms + opened_ms) * 1_000;
        let shards = self.options.shards;
        let all = (0..shards).map(Shard).map(|shard| (shard, self.well_since_us(process, shard)));
        let well: BTreeMap<Shard, Option<u64>> = all.collect();
        let mut late = None;
        for (subject, ghost) in &mut process.ghosts {
            let owner = (number, ghost.life);
            let before = ghost.sequence - 1;
            let spec = self.specs.get(*subject);
            let shard = spec.map(|spec| Shard::of(spec.digest, shards));
            let well_us = shard.and_then(|shard| well.get(&shard).copied().flatten());
            let sides = [(ghost.sequence, &mut ghost.current), (before, &mut ghost.previous)];
            for (sequence, side) in sides {
                let truth = &self.homes.at(process.home).truth;
                let cell = truth.cells.get(&(*subject, sequence));
                let part = cell.and_then(|cell| cell.parts.iter().find(|part| part.owner == owner));
                let applied = part.map_or(0, |part| part.applied);
                if side.untold.is_some_and(|(total, _)| total <= applied) {
                    side.untold = None;
                }
                // A clock that jumped gave it another name: what was told under the old one counts.
                let carried = part.is_some_and(|part| part.carried) || !side.former.is_empty();
                if side.mine > applied && !carried {
                    let (_, since_us) = *side.untold.get_or_insert((side.mine, now_us));
                    let over = |well_us: u64| now_us.saturating_sub(since_us.max(well_us));
                    let is_late = well_us.is_some_and(|well_us| over(well_us) > most_us);
                    late = late.or(is_late.then_some((*subject, sequence)));
                }
            }
        }
        if let Some(name) = late {
            self.broken("promptness", || format!("process {number} has not told of {name:?}"));
        }
    }

    /// How long what is due may wait for its turn, where calls carry little.
    fn queued_ms(&self, process: &Process) -> u64 {
        let (_, latency_us) = self.options.latency_us;
        // More at once only where more than this waits.
        let Tuning { replays_in_flight, replays_in_flight_max, .. } = self.tuning;
        let each = self.tuning.replay_records * replays_in_flight.min(replays_in_flight_max);
        let calls = process.ghosts.len() / each.max(1);
        calls as u64 * 2 * latency_us / 1_000
    }

    /// Whether nothing keeps calls from being answered.
    pub(crate) fn is_calm(&self) -> bool {
        let harmless = [Fault::Flood, Fault::Leave, Fault::Skew, Fault::Reorder, Fault::Duplicate];
        let abroad = |fault| fault > Fault::Leave && fault != Fault::Behead;
        self.options.faults.iter().all(|fault| harmless.contains(&fault) || abroad(fault))
    }

    /// A new subject may be refused only if the memory is nearly full.
    pub(crate) fn check_refused(&mut self, process: &Process) {
        let (subjects, most) = (process.table.subjects(), self.subjects_max());
        if subjects + most / 16 + 1 < most {
            self.broken("refused", || format!("no room with {subjects} subjects of {most}"));
        }
    }
}

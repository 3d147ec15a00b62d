//! One process and its region, in virtual time. The names in brackets are lines of the behaviour
//! that the seeds' reference implementation asserts.

use tidegate_limiter::{
    Answer, Batch, BatchDecision, Consistency, Cost, Decision, Limit, Now, Options, Part, Request,
    Seed, Source, Subject, Table, Window,
};

use tidegate_limiter::{AskedFor, Need, Reason};

use super::*;
use crate::memory::MemoryRegion;
use crate::store::CellName;

mod again;
mod ask;
mod endings;
mod lines;
mod outage;
mod unrecorded;
mod waves;

const START_MS: u64 = 1_700_000_040_000;
const WINDOW_MS: u64 = 60_000;

/// One process; the store answers when the test says so.
struct Process {
    table: Table,
    region: Region,
    effects: Vec<Effect>,
}

/// A store and the time.
struct World {
    store: MemoryRegion,
    now: Now,
}

impl World {
    fn new() -> Self {
        Self { store: MemoryRegion::new(1), now: Now::new(START_MS, 10_000) }
    }

    fn pass_ms(&mut self, ms: u64) {
        self.now = self.now.after_ms(ms);
    }

    /// Answers every call that is out, in the order they were made; returns how many there were.
    fn answer_all(&mut self, process: &mut Process) -> usize {
        let mut answered = 0;
        loop {
            process.take_effects();
            let calls = process.take_calls();
            if calls.is_empty() {
                return answered;
            }
            for (id, call) in calls {
                let reply = self.store.call(&call, self.now.monotonic_ms());
                process.region.replied(&process.table, id, Ok(reply), self.now);
                answered += 1;
            }
        }
    }

    /// No call is answered.
    fn fail_all(&self, process: &mut Process) -> usize {
        process.take_effects();
        let calls = process.take_calls();
        for (id, _) in &calls {
            process.region.replied(&process.table, *id, Err(StoreError::Timeout), self.now);
        }
        process.take_wakes();
        calls.len()
    }

    /// Lets time pass, ticking when it is due and answering at once.
    fn run_ms(&mut self, process: &mut Process, ms: u64) {
        let end = self.now.monotonic_ms() + ms;
        loop {
            process.region.tick(&process.table, self.now);
            self.answer_all(process);
            let next =
                process.region.next_tick_ms().unwrap_or(end).max(self.now.monotonic_ms() + 1);
            if next > end {
                return self.pass_ms(end - self.now.monotonic_ms());
            }
            self.pass_ms(next - self.now.monotonic_ms());
        }
    }

    fn check(&mut self, process: &mut Process, request: &Request<'_>) -> Answer {
        match process.table.decide_or_refresh(request, self.now) {
            Decision::Answered(answer) => answer,
            Decision::Refresh(need) => {
                let refresh = process.region.refresh(&process.table, &[need], self.now);
                assert!(matches!(refresh, Refresh::Wait(_)));
                self.answer_all(process);
                let wakes = process.take_wakes();
                assert_eq!(wakes.len(), 1);
                let heard = wakes[0].1.unheard.is_empty();
                process.table.decide_refreshed(request, heard, self.now)
            }
            Decision::Ask(asking) => {
                let claimed = asking.claimed().next();
                let asked = process.region.ask(&process.table, asking, self.now);
                assert!(matches!(asked, Asked::Wait(_)));
                self.answer_all(process);
                let wakes = process.take_wakes();
                assert_eq!(wakes.len(), 1);
                let how = match wakes[0].1.granted {
                    Some(Granted::Yes) => AskedFor::Granted,
                    Some(Granted::Unheard) => AskedFor::Unheard,
                    // Not the same again, or it would go on for ever.
                    _ => return self.check(process, request),
                };
                process.table.answer_asked(request, (how, claimed), self.now)
            }
        }
    }

    fn sum(&self, process: &Process, request: &Request<'_>) -> u64 {
        let sequence = self.now.unix_ms() / WINDOW_MS;
        let cell = process.table.cell(request.subject(), sequence).unwrap();
        self.store.sum(CellName { subject: cell.digest(), sequence }, self.now.monotonic_ms())
    }
}

impl Process {
    fn new(incarnation: u128) -> Self {
        let options = Options::default().with_budget_bytes(1 << 20).with_region();
        let table = Table::new(options, Seed::from_bytes([7; 32]));
        let region = Region::new(Tuning::default(), incarnation, 1);
        Self { table, region, effects: Vec::new() }
    }

    fn take_effects(&mut self) {
        self.region.take_effects(&mut self.effects);
    }

    fn take_calls(&mut self) -> Vec<(CallId, ShardCall)> {
        let is_call = |effect: &mut Effect| matches!(effect, Effect::Call { .. });
        let calls = self.effects.extract_if(.., is_call);
        let parts = calls.filter_map(|effect| match effect {
            Effect::Call { id, call, .. } => Some((id, call)),
            _ => None,
        });
        parts.collect()
    }

    fn take_wakes(&mut self) -> Vec<(Waiter, Outcome)> {
        self.take_effects();
        let wakes = std::mem::take(&mut self.effects).into_iter();
        let parts = wakes.filter_map(|effect| match effect {
            Effect::Wake { waiter, outcome } => Some((waiter, outcome)),
            _ => None,
        });
        parts.collect()
    }

    /// Reads so far, of all reasons.
    fn reads(&self) -> u64 {
        let counts = self.region.counts(&self.table);
        counts.refreshed_cold
            + counts.refreshed_stale
            + counts.refreshed_strict
            + counts.refreshed_significant
    }
}

fn request(identifier: &str, limit: u64, cost: u64) -> Request<'_> {
    let part = |text| Part::new(text).unwrap();
    let window = Window::from_millis(WINDOW_MS).unwrap();
    let subject = Subject::new(part("w"), part("n"), part(identifier), window);
    Request::new(subject, Limit::new(limit), Cost::new(cost).unwrap())
}

fn need(process: &Process, request: &Request<'_>, now: Now) -> Option<Need> {
    match process.table.decide_or_refresh(request, now) {
        Decision::Answered(_) => None,
        Decision::Refresh(need) => Some(need),
        Decision::Ask(asking) => panic!("not bounded: {asking:?}"),
    }
}

#[test]
fn two_processes_see_each_other() {
    let (mut world, mut a, mut b) = (World::new(), Process::new(1), Process::new(2));
    let five = request("i", 10, 5);
    let answer = world.check(&mut a, &five);
    assert_eq!((answer.remaining(), answer.source()), (5, Source::Region));
    world.run_ms(&mut a, 100);
    assert_eq!(world.sum(&a, &five), 5, "significant: replayed at once");
    assert_eq!(world.check(&mut b, &five).remaining(), 0);
    world.run_ms(&mut b, 100);
    assert_eq!(world.sum(&a, &five), 10);
    // A does not know yet, but what it has is one read old: the next replay or read tells.
    world.pass_ms(5_000);
    let denied = world.check(&mut a, &request("i", 10, 1));
    assert!(!denied.admitted(), "stale: read first");
    assert!(a.region.is_clean() && b.region.is_clean());
}

/// [ST1] A denial arms strict mode for one window; [ST2] the next admission asks the region first.
#[test]
fn strict_requests_are_checked() {
    let (mut world, mut a, mut b) = (World::new(), Process::new(1), Process::new(2));
    let one = request("i", 100, 1);
    world.check(&mut a, &request("i", 100, 100));
    assert!(!world.check(&mut a, &one).admitted());
    let (until_ms, limit) = {
        let sequence = world.now.unix_ms() / WINDOW_MS;
        a.table.cell(one.subject(), sequence).unwrap().strict()
    };
    assert_eq!((until_ms, limit), (world.now.monotonic_ms() + WINDOW_MS, 100));
    world.run_ms(&mut a, WINDOW_MS + 30_000);
    let reads = a.reads();
    assert!(!world.check(&mut a, &request("i", 100, 60)).admitted());
    assert_eq!(a.reads(), reads, "a denial reads nothing");
    world.check(&mut b, &request("i", 100, 20));
    world.run_ms(&mut b, 100);
    let answer = world.check(&mut a, &request("i", 100, 1));
    assert_eq!((answer.source(), a.reads()), (Source::Region, reads + 1));
    assert_eq!(answer.remaining(), 100 - 49 - 20 - 1, "what b admitted counts");
}

/// [FR1] A replay makes the cell fresh; [FR2] it is asked again exactly when that is over.
#[test]
fn replays_and_reads_keep_a_cell_fresh() {
    let (mut world, mut a) = (World::new(), Process::new(1));
    let one = request("i", 1_000, 1);
    world.check(&mut a, &one);
    world.run_ms(&mut a, 3_000);
    assert_eq!((a.reads(), world.sum(&a, &one)), (1, 1), "cold, then replayed in its time");
    assert!(a.region.is_clean());
    world.check(&mut a, &one);
    let sent = world.now.monotonic_ms();
    let (mut ticks, end) = (0, sent + 2_000);
    while !a.region.is_clean() || ticks == 0 {
        a.region.tick(&a.table, world.now);
        if world.answer_all(&mut a) > 0 {
            ticks += 1;
        }
        assert!(world.now.monotonic_ms() <= end);
        world.pass_ms(1);
    }
    let sequence = world.now.unix_ms() / WINDOW_MS;
    let fresh_until = a.table.cell(one.subject(), sequence).unwrap().fresh_until_ms();
    assert!(fresh_until >= sent + 5_000);
    world.pass_ms(fresh_until - 1 - world.now.monotonic_ms());
    assert_eq!(need(&a, &one, world.now), None, "fresh for one more millisecond");
    world.pass_ms(1);
    assert_eq!(need(&a, &one, world.now).map(|need| need.reason), Some(Reason::Stale));
}

/// [FR3] Any number of callers share one read.
#[test]
fn callers_share_a_read() {
    let (mut world, mut a) = (World::new(), Process::new(1));
    let one = request("i", 1_000, 1);
    let mut waiters = Vec::new();
    for _ in 0..32 {
        let need = need(&a, &one, world.now).unwrap();
        let Refresh::Wait(waiter) = a.region.refresh(&a.table, &[need], world.now) else {
            panic!()
        };
        waiters.push(waiter);
    }
    assert_eq!(world.answer_all(&mut a), 1);
    let woken: Vec<Waiter> = a.take_wakes().into_iter().map(|(waiter, _)| waiter).collect();
    assert_eq!((woken, a.reads()), (waiters, 1));
}

/// A strict request is not content with a read that was sent before it came.
#[test]
fn strict_requests_look_again() {
    let (mut world, mut a) = (World::new(), Process::new(1));
    let need = need(&a, &request("i", 1_000, 1), world.now).unwrap();
    let strict = Need { reason: Reason::Strict, ..need };
    assert!(matches!(a.region.refresh(&a.table, &[need], world.now), Refresh::Wait(_)));
    assert!(matches!(a.region.refresh(&a.table, &[strict], world.now), Refresh::Wait(_)));
    world.answer_all(&mut a);
    let again: Vec<bool> = a.take_wakes().iter().map(|(_, outcome)| outcome.look_again).collect();
    assert_eq!(again, [false, true]);
}

/// [FR4], [FR5], [OF1] A read that fails changes nothing, and is repeated after 300 ms.
#[test]
fn a_failed_read_is_repeated_after_a_while() {
    let (mut world, mut a) = (World::new(), Process::new(1));
    let one = request("i", 1_000, 1);
    let first = need(&a, &one, world.now).unwrap();
    let Refresh::Wait(_) = a.region.refresh(&a.table, &[first], world.now) else { panic!() };
    world.fail_all(&mut a);
    let answer = a.table.decide_refreshed(&one, false, world.now);
    assert!(answer.admitted() && answer.degraded());
    assert!(answer.age_ms() >= WINDOW_MS, "nothing is known");
    world.pass_ms(299);
    let Decision::Answered(answer) = a.table.decide_or_refresh(&one, world.now) else { panic!() };
    assert!(answer.degraded());
    world.pass_ms(1);
    assert_eq!(need(&a, &one, world.now).map(|need| need.reason), Some(Reason::Cold));
    let answer = world.check(&mut a, &one);
    assert!(!answer.degraded() && answer.age_ms() == 0);
    assert_eq!(answer.remaining(), 997);
}

/// [OF3] A store that does not answer is left alone.
#[test]
fn the_breaker_stops_asking() {
    let (mut world, mut a) = (World::new(), Process::new(1));
    let mut reads = [0; 2];
    for (round, count) in reads.iter_mut().enumerate() {
        for n in 0..100 {
            let name = format!("{round}-{n}");
            let one = request(&name, 1_000, 1);
            let need = need(&a, &one, world.now).unwrap();
            if let Refresh::Wait(_) = a.region.refresh(&a.table, &[need], world.now) {
                *count += world.fail_all(&mut a);
            }
            assert!(a.table.decide_refreshed(&one, false, world.now).admitted());
        }
    }
    assert_eq!(reads, [20, 0]);
    world.pass_ms(1_000);
    world.check(&mut a, &request("after", 1_000, 1));
    assert_eq!(a.reads(), 21, "after a second a probe goes through");
}

/// What is admitted while the store is away is recorded when it is back; nothing is dropped.
#[test]
fn an_outage_loses_nothing() {
    let (mut world, mut a) = (World::new(), Process::new(1));
    let one = request("i", 1_000, 1);
    world.check(&mut a, &one);
    let mut calls = 0;
    for _ in 0..500 {
        if let Decision::Answered(answer) = a.table.decide_or_refresh(&one, world.now) {
            assert!(answer.admitted());
        } else {
            assert!(a.table.decide_refreshed(&one, false, world.now).admitted());
        }
        a.region.tick(&a.table, world.now);
        calls += world.fail_all(&mut a);
        world.pass_ms(20);
    }
    assert_eq!(a.region.counts(&a.table).unreplayed_cost, 501);
    assert!(calls < 100, "{calls} calls to a store that is away");
    world.run_ms(&mut a, 3_000);
    assert_eq!(world.sum(&a, &one), 501);
    assert!(a.region.is_clean());
}

/// A flush is noticed by an idle process, and healed.
#[test]
fn a_flush_is_healed() {
    let (mut world, mut a) = (World::new(), Process::new(1));
    let names: Vec<String> = (0..300).map(|n| n.to_string()).collect();
    for name in &names {
        world.check(&mut a, &request(name, 100, 10));
    }
    world.run_ms(&mut a, 2_000);
    assert!(a.region.is_clean());
    let calls = a.region.counts(&a.table).calls;
    world.store.flush(Shard(0));
    world.run_ms(&mut a, 2_300);
    for name in &names {
        assert_eq!(world.sum(&a, &request(name, 100, 10)), 10);
    }
    let counts = a.region.counts(&a.table);
    assert_eq!((counts.losses, counts.resent), (1, 300), "one loss, one resend");
    // In full calls of sixteen, and the questions for the token.
    assert!(counts.calls - calls < 30, "{} calls", counts.calls - calls);
    world.run_ms(&mut a, 5_000);
    assert_eq!(a.region.counts(&a.table).resent, 300);
}

/// A hot key costs the region next to nothing.
#[test]
fn a_hot_key_is_replayed_now_and_then() {
    let (mut world, mut a) = (World::new(), Process::new(1));
    let one = request("i", 1 << 40, 1);
    for _ in 0..5_000 {
        for _ in 0..20 {
            world.check(&mut a, &one);
        }
        world.run_ms(&mut a, 1);
    }
    let counts = a.region.counts(&a.table);
    assert!(counts.replayed <= 21 && a.reads() <= 2, "{counts:?}");
}

/// The new cell of a known subject needs no read; one large cost does.
#[test]
fn no_herd_at_a_boundary() {
    let (mut world, mut a) = (World::new(), Process::new(1));
    let one = request("i", 1_000, 1);
    world.pass_ms(WINDOW_MS - 1_000);
    world.check(&mut a, &one);
    world.run_ms(&mut a, 1_000);
    let reads = a.reads();
    assert!(world.check(&mut a, &one).admitted());
    assert_eq!(a.reads(), reads, "warm, with what was known");
    assert_eq!(
        need(&a, &request("i", 1_000, 16), world.now).map(|need| need.reason),
        Some(Reason::Significant)
    );
}

/// Everything cold of a batch is asked in one call.
#[test]
fn a_batch_asks_once() {
    let (mut world, mut a) = (World::new(), Process::new(1));
    let items = ["i", "j", "k", "i"].map(|name| request(name, 10, 2));
    let batch = Batch::new(&items).unwrap();
    let BatchDecision::Refresh(needs) = a.table.decide_all_or_refresh(&batch, world.now) else {
        panic!()
    };
    assert_eq!(needs.len(), 3);
    assert!(matches!(a.region.refresh(&a.table, &needs, world.now), Refresh::Wait(_)));
    assert_eq!(world.answer_all(&mut a), 1);
    assert_eq!(a.take_wakes().len(), 1);
    let answer = a.table.decide_all_refreshed(&batch, &[], world.now);
    let remaining: Vec<u64> = answer.items().iter().map(Answer::remaining).collect();
    assert_eq!((answer.admitted(), remaining), (true, vec![8, 8, 8, 6]));
    world.run_ms(&mut a, 300);
    assert_eq!(world.sum(&a, &items[0]), 4);
    assert!(a.region.is_clean());
}

/// Draining sends what would have waited.
#[test]
fn drain_leaves_nothing() {
    let (mut world, mut a) = (World::new(), Process::new(1));
    let one = request("i", 1_000, 1);
    world.check(&mut a, &one);
    a.region.drain(world.now);
    a.region.tick(&a.table, world.now);
    world.answer_all(&mut a);
    assert!(a.region.is_clean());
    assert_eq!(world.sum(&a, &one), 1);
}

/// A clone sends totals under the same name: whoever notices takes another.
#[test]
fn a_clone_is_noticed() {
    let (mut world, mut a, mut b) = (World::new(), Process::new(1), Process::new(1));
    world.check(&mut a, &request("i", 10, 5));
    world.run_ms(&mut a, 100);
    world.check(&mut b, &request("i", 10, 1));
    b.take_effects();
    assert_eq!(b.region.counts(&b.table).identity_clashes, 1);
    b.region.reincarnate(&b.table, 2, world.now);
    assert_eq!(b.table.subjects(), 0);
    world.check(&mut b, &request("i", 10, 1));
    world.run_ms(&mut b, 100);
    assert_eq!(world.sum(&b, &request("i", 10, 1)), 6);
}

/// A failover is noticed even by a process that never heard an answer to its question who the store
/// is: whoever recorded its first totals said so.
#[test]
fn a_failover_before_the_first_question_is_noticed() {
    let (mut world, mut a, mut b) = (World::new(), Process::new(1), Process::new(2));
    world.check(&mut b, &request("other", 10, 1));
    let replica = world.store.clone();
    let five = request("i", 10, 5);
    world.check(&mut a, &five);
    a.region.tick(&a.table, world.now);
    a.take_effects();
    for (id, call) in a.take_calls() {
        let reply = world.store.call(&call, world.now.monotonic_ms());
        let answered = if call.records.is_empty() { Err(StoreError::Timeout) } else { Ok(reply) };
        a.region.replied(&a.table, id, answered, world.now);
    }
    assert_eq!(world.sum(&a, &five), 5);
    world.store.fail_over(Shard(0), &replica);
    assert_eq!(world.sum(&a, &five), 0);
    world.run_ms(&mut a, 3_000);
    assert_eq!(world.sum(&a, &five), 5);
}

//! A wall clock that jumps, judged from the outside. Nothing here knows how the table deals with
//! jumps; the promises are those of ADR 3 and of section 2 of the design:
//!
//! 1. *No jump makes room that time did not.* Whatever was spent an age ago still counts for at
//!    least `1 - age / window`, where ages are told by a clock that can be believed:
//!    that of [`Kind::believed_ms`].
//! 2. *No jump denies for long.* What was spent counts for at most three windows of real time,
//!    counted from the spending or from the first request that noticed the last jump.
//! 3. The cell that a request is decided in is that of its clock, or the next.
//! 4. Whoever waits as long as the answer says is admitted, and not before.
//!
//! Some of it does not hold of clocks that jump more than once by a few windows, or that jump
//! and then meet late requests: [`Kind`] says what is judged of which clock.

use std::cell::Cell;
use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_limiter::{Answer, Batch, Denial, Now, Table};

use super::reference::{Ask, Who};
use super::{any_ask, any_time, for_all};
use crate::support::{START_MS, table};

/// Longer than any history.
const HOUR_MS: u64 = 3_600_000;

/// How the wall clock of a history misbehaves. Late requests come with `Far` only, and `Wild` is
/// judged by the first and the third promise alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// It is set by less than the shortest window, back and forth.
    Near,
    /// It jumps once, by three of the longest windows or more.
    Once,
    /// Every jump is further than the clock itself gets meanwhile.
    Far,
    /// Anything.
    Wild,
}

#[derive(Clone, Debug)]
enum Step {
    Single(Ask),
    Batch(Vec<Ask>),
    /// Asks, and if that is denied, waits as the answer says and asks again.
    Wait(Ask),
    Pass(u64),
    /// From now on the wall clock is ahead of the real time by this.
    Set(u64),
    /// A request whose reading of both clocks is this old, but not from before a jump.
    Late(Ask, u64),
    Sweep,
}

/// One admission.
#[derive(Clone, Copy, Debug)]
struct Spent {
    cost: u64,
    believed_ms: u64,
    /// Until when it may count, in real time.
    until_ms: u64,
}

/// What was spent by a subject, and the last that it saw of the clocks.
#[derive(Clone, Debug)]
struct Subject {
    spent: Vec<Spent>,
    last: Now,
    believed_ms: u64,
    /// When the cell ends that answers were last given in, and since when on the monotonic clock.
    cell: (u64, u64),
}

impl Kind {
    /// The time that a subject may believe has come.
    ///
    /// * Small steps: the latest that the wall clock ever said. A clock that was set back and
    ///   comes back gives nothing twice.
    /// * Jumps of three windows and more: the real time. They are not believed.
    /// * Otherwise a step ahead may be believed as if that time had passed, one back never.
    fn believed_ms(self, subject: &Subject, now: Now) -> u64 {
        let passed_ms = now.monotonic_ms().saturating_sub(subject.last.monotonic_ms());
        let moved_ms = now.unix_ms().saturating_sub(subject.last.unix_ms());
        match self {
            Self::Near => subject.believed_ms.max(now.unix_ms()),
            Self::Once | Self::Far => subject.believed_ms.max(now.monotonic_ms()),
            Self::Wild => subject.believed_ms + passed_ms.max(moved_ms),
        }
    }

    /// For how many windows something may count. A small step after a jump that was not believed
    /// can make a later idle time look like a jump again: up to sixteen windows of it, or, if the
    /// steps are not small, any time.
    fn windows_max(self) -> u64 {
        match self {
            Self::Once | Self::Far => 3,
            Self::Near => 16,
            Self::Wild => 1_000,
        }
    }
}

impl Subject {
    /// The subject sees this reading.
    fn read(&mut self, kind: Kind, window_ms: u64, now: Now) {
        self.believed_ms = kind.believed_ms(self, now);
        if kind == Kind::Wild && now.monotonic_ms() >= self.cell.1 + 3 * window_ms {
            // A clock that is set back makes a cell last. After three windows a jump may end it.
            self.believed_ms += window_ms;
        }
        let ahead = |now: Now| now.unix_ms().abs_diff(now.monotonic_ms());
        if ahead(now) != ahead(self.last) {
            // What counted when it was last looked at may go on from here.
            let last_ms = self.last.monotonic_ms();
            self.spent.retain(|spent| spent.until_ms > last_ms);
            let until_ms = now.monotonic_ms() + kind.windows_max() * window_ms;
            let spent = self.spent.iter_mut();
            spent.for_each(|spent| spent.until_ms = spent.until_ms.max(until_ms));
        }
        self.last = now;
    }

    /// The least and the most of it that may count.
    fn used(&self, window_ms: u64, now: Now) -> (u64, u64) {
        let weight = |spent: &Spent| {
            spent.cost * window_ms.saturating_sub(self.believed_ms - spent.believed_ms)
        };
        let least = self.spent.iter().map(weight).sum::<u64>() / window_ms;
        let counts = |spent: &&Spent| spent.until_ms > now.monotonic_ms();
        let most = self.spent.iter().filter(counts).map(|spent| spent.cost).sum();
        (least, most)
    }
}

struct Judge {
    table: Table,
    kind: Kind,
    subjects: BTreeMap<Who, Subject>,
    ahead_ms: u64,
    passed_ms: u64,
    set_at_ms: u64,
    jumps: u64,
    waits: u64,
}

impl Judge {
    fn new(kind: Kind, ahead_ms: u64, (jumps, waits): (u64, u64)) -> Self {
        let (subjects, passed_ms) = (BTreeMap::new(), 60_000);
        let set_at_ms = passed_ms - 9_000;
        Self { table: table(), kind, subjects, ahead_ms, passed_ms, set_at_ms, jumps, waits }
    }

    fn now(&self, late_ms: u64) -> Now {
        let passed_ms = self.passed_ms - late_ms;
        Now::new(START_MS + self.ahead_ms + passed_ms, 1_000_000 + passed_ms)
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Single(ask) => {
                self.single(ask, 0);
            }
            Step::Batch(asks) => self.batch(&asks),
            Step::Wait(ask) if self.may_trust_waits(ask) => self.wait(ask),
            Step::Pass(ms) => self.passed_ms += ms,
            Step::Set(ahead_ms) => {
                self.jumps += u64::from(self.ahead_ms != ahead_ms);
                (self.ahead_ms, self.set_at_ms) = (ahead_ms, self.passed_ms);
            }
            Step::Late(ask, late_ms) => {
                let late_max_ms = self.passed_ms - self.set_at_ms;
                self.single(ask, late_ms.min(late_max_ms));
            }
            Step::Sweep => self.sweep(),
            Step::Wait(_) => {}
        }
    }

    /// What has expired by now may be forgotten, even by requests that are late.
    fn sweep(&mut self) {
        let now = self.now(0);
        (0..8).for_each(|_| {
            self.table.sweep(now);
        });
        for subject in self.subjects.values_mut().filter(|_| self.kind == Kind::Far) {
            subject.believed_ms = self.kind.believed_ms(subject, now);
        }
    }

    fn single(&mut self, ask: Ask, late_ms: u64) -> Answer {
        let now = self.now(late_ms);
        let answer = self.table.decide(&ask.request(), now);
        self.judge(&[(ask, answer)], answer.admitted(), now);
        answer
    }

    fn batch(&mut self, asks: &[Ask]) {
        let requests: Vec<_> = asks.iter().map(|ask| ask.request()).collect();
        let answer = self.table.decide_all(&Batch::new(&requests).unwrap(), self.now(0));
        let items: Vec<_> = asks.iter().copied().zip(answer.items().iter().copied()).collect();
        assert_eq!(answer.admitted(), items.iter().all(|(_, item)| item.admitted()), "INV-9");
        self.judge(&items, answer.admitted(), self.now(0));
    }

    /// A clock that was set ahead by part of a window may look as if it had jumped, at the second
    /// boundary afterwards; then waiting as told is not enough.
    fn may_trust_waits(&self, ask: Ask) -> bool {
        match self.kind {
            Kind::Once | Kind::Far => true,
            Kind::Near => self.passed_ms - self.set_at_ms >= 5 * ask.window_ms(),
            Kind::Wild => false,
        }
    }

    fn wait(&mut self, ask: Ask) {
        let answer = self.single(ask, 0);
        if let (Some(Denial::Limit), Some(wait_ms)) = (answer.denial(), answer.retry_after_ms()) {
            self.waits += 1;
            self.passed_ms += wait_ms - 1;
            assert!(!self.single(ask, 0).admitted(), "{ask:?} before {answer:?}");
            self.passed_ms += 1;
            assert!(self.single(ask, 0).admitted(), "{ask:?} after {answer:?}");
        }
    }

    fn judge(&mut self, items: &[(Ask, Answer)], all: bool, now: Now) {
        for (at, (ask, answer)) in items.iter().enumerate() {
            let before = items[..at].iter().filter(|(other, _)| other.who() == ask.who());
            let earlier = before.map(|(other, _)| other.cost).sum();
            let cell = (0, now.monotonic_ms());
            let fresh = Subject { spent: vec![], last: now, believed_ms: 0, cell };
            let subject = self.subjects.entry(ask.who()).or_insert(fresh);
            subject.read(self.kind, ask.window_ms(), now);
            let used = subject.used(ask.window_ms(), now);
            if subject.cell.0 != answer.reset_unix_ms() {
                subject.cell = (answer.reset_unix_ms(), now.monotonic_ms());
            }
            judge_verdict(*ask, answer, used, (earlier, all));
            judge_times(*ask, answer, earlier, now);
            let reset_max_ms = now.unix_ms() + 2 * ask.window_ms();
            let late = now != self.now(0);
            assert!(late || answer.reset_unix_ms() <= reset_max_ms, "{answer:?} at {now:?}");
        }
        for (ask, _) in items.iter().filter(|_| all) {
            let late_ms = self.now(0).monotonic_ms() - now.monotonic_ms();
            let subject = self.subjects.get_mut(&ask.who()).unwrap();
            let lasts_ms = self.kind.windows_max() * ask.window_ms();
            let until_ms = now.monotonic_ms() + late_ms + lasts_ms;
            // A late request may count from when its clock was read.
            let believed_ms = subject.believed_ms.saturating_sub(late_ms);
            subject.spent.push(Spent { cost: ask.cost, believed_ms, until_ms });
        }
    }
}

fn judge_verdict(
    ask: Ask,
    answer: &Answer,
    (least, most): (u64, u64),
    (earlier, all): (u64, bool),
) {
    let Ask { limit, cost, .. } = ask;
    match answer.denial() {
        None => {
            let used = limit - answer.remaining() - earlier - if all { cost } else { 0 };
            assert!(least <= used, "room out of nothing: {least} > {used}, {ask:?} {answer:?}");
            assert!(used <= most, "counts for too long: {used} > {most}, {ask:?} {answer:?}");
        }
        Some(Denial::Limit) => {
            let may_deny = limit == 0 || most + earlier + cost > limit;
            assert!(may_deny, "denied with {most} used: {ask:?} {answer:?}");
        }
        Some(other) => panic!("denied for {other:?}"),
    }
}

fn judge_times(ask: Ask, answer: &Answer, earlier: u64, now: Now) {
    let (reset_ms, window_ms) = (answer.reset_unix_ms(), ask.window_ms());
    assert_eq!(reset_ms % window_ms, 0, "cells are aligned");
    assert!(reset_ms > now.unix_ms(), "{answer:?} at {now:?}");
    let never = ask.limit == 0 || earlier + ask.cost > ask.limit;
    match answer.retry_after_ms() {
        None => assert!(never, "{ask:?} {answer:?}"),
        Some(0) => assert!(answer.admitted(), "{ask:?} {answer:?}"),
        Some(wait_ms) => {
            assert!(!answer.admitted() && !never, "{ask:?} {answer:?}");
            assert!(now.unix_ms() + wait_ms <= reset_ms + window_ms, "{answer:?} at {now:?}");
        }
    }
}

/// How far the wall clock is ahead of the real time: first, and where it may jump to.
fn any_clock() -> impl Strategy<Value = (Kind, Vec<u64>)> {
    let once = prop_oneof![
        (9_000..30_000_u64).prop_map(|ahead| vec![0, ahead]),
        (9_000..30_000_u64).prop_map(|back| vec![back, 0]),
    ];
    let far = vec(HOUR_MS..24 * HOUR_MS, 4).prop_map(|gaps| {
        let so_far = |at: usize| gaps[..at].iter().sum();
        (0..gaps.len()).map(so_far).collect()
    });
    let wild = vec(prop_oneof![0..18_000_u64, Just(24 * HOUR_MS)], 4);
    prop_oneof![
        vec(0..1_000_u64, 4).prop_map(|ahead| (Kind::Near, ahead)),
        once.prop_map(|ahead| (Kind::Once, ahead)),
        far.prop_map(|ahead| (Kind::Far, ahead)),
        wild.prop_map(|ahead| (Kind::Wild, ahead)),
    ]
}

fn any_step(kind: Kind, ahead_ms: Vec<u64>) -> impl Strategy<Value = Step> {
    let late_max_ms = if kind == Kind::Far { 9_000_u64 } else { 1 };
    prop_oneof![
        8 => any_ask().prop_map(Step::Single),
        2 => vec(any_ask(), 1..4).prop_map(Step::Batch),
        2 => any_ask().prop_map(Step::Wait),
        4 => any_time().prop_map(Step::Pass),
        3 => proptest::sample::select(ahead_ms).prop_map(Step::Set),
        1 => (any_ask(), 0..late_max_ms).prop_map(|(ask, late_ms)| Step::Late(ask, late_ms)),
        1 => Just(Step::Sweep),
    ]
}

fn any_history() -> impl Strategy<Value = (Kind, u64, Vec<Step>)> {
    any_clock().prop_flat_map(|(kind, mut ahead_ms)| {
        let first_ms = ahead_ms[0];
        if kind == Kind::Once {
            ahead_ms.remove(0);
        }
        (Just(kind), Just(first_ms), vec(any_step(kind, ahead_ms), 1..60))
    })
}

/// Whatever the wall clock does, real time makes room and nothing else does.
#[test]
fn a_jumping_clock_keeps_its_promises() {
    let total = Cell::new((0, 0));
    for_all(20_000, &any_history(), |(kind, ahead_ms, steps)| {
        let mut judge = Judge::new(kind, ahead_ms, total.get());
        for step in steps {
            judge.step(step);
        }
        total.set((judge.jumps, judge.waits));
    });
    let (jumps, waits) = total.get();
    assert!(jumps > 1_000 && waits > 1_000, "{jumps} jumps and {waits} waits prove nothing");
}

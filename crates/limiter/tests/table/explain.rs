//! Explaining and inspecting: they say what the decision that follows does, and change nothing.

use proptest::prelude::*;
use tidegate_limiter::{
    Answer, AskedFor, Asking, Batch, Consistency, Decision, Denial, Digest, FleetSecret, Freshness,
    Need, Now, Options, Outage, Reason, Request, SavedSubject, SavedSubjects, Seed, Table, Ticket,
    Walk,
};

use crate::support::{START_MS, now, request, subject, table};

const WINDOWS_MS: [u64; 2] = [60_000, 1_000];
const NAMES: [&str; 3] = ["a", "b", "c"];

#[derive(Clone, Debug)]
enum Step {
    Ask(Ask),
    Batch(Vec<Ask>),
    Pass(u64),
    /// The wall clock is set, while no time passes.
    Jump(i64),
    Told {
        ask: Ask,
        peers: u64,
        foreign: u64,
        fresh: bool,
    },
    /// The region does not answer for a while.
    Silent(Ask),
    /// A bounded request stays on its way to the region.
    Hold(Ask),
    /// One of those comes back, granted or not.
    Land(bool),
    /// So many processes are there.
    Company(u64),
    Sweep,
}

#[derive(Clone, Copy, Debug)]
struct Ask {
    name: usize,
    window: usize,
    limit: u64,
    cost: u64,
    consistency: Consistency,
    outage: Outage,
}

impl Ask {
    fn request(&self) -> Request<'static> {
        let request = request(NAMES[self.name], self.limit, WINDOWS_MS[self.window], self.cost);
        request.with_consistency(self.consistency).with_outage(self.outage)
    }

    fn bounded(&self) -> Request<'static> {
        self.request().with_consistency(Consistency::Bounded)
    }
}

/// A table, and what is on its way to the region.
struct World {
    table: Table,
    regional: bool,
    now: Now,
    held: Vec<Asking>,
}

fn any_ask() -> impl Strategy<Value = Ask> {
    // Of 100, three processes lend four each: less than one cost may be.
    let limit = prop_oneof![0..=12_u64, Just(100), Just(1_000)];
    let consistency = prop_oneof![Just(Consistency::Fast), Just(Consistency::Bounded)];
    let outage = prop_oneof![Just(Outage::Local), Just(Outage::Deny)];
    let rules = (consistency, outage);
    (0..NAMES.len(), 0..WINDOWS_MS.len(), limit, 0..=6_u64, rules).prop_map(
        |(name, window, limit, cost, (consistency, outage))| Ask {
            name,
            window,
            limit,
            cost,
            consistency,
            outage,
        },
    )
}

fn any_step() -> impl Strategy<Value = Step> {
    let passed = prop_oneof![0..100_u64, 0..3_000_u64, 20_000..200_000_u64];
    let jumped = prop_oneof![-2_000..2_000_i64, -200_000..200_000_i64];
    prop_oneof![
        8 => any_ask().prop_map(Step::Ask),
        2 => proptest::collection::vec(any_ask(), 1..4).prop_map(Step::Batch),
        4 => passed.prop_map(Step::Pass),
        1 => jumped.prop_map(Step::Jump),
        3 => (any_ask(), 0..8_u64, 0..8_u64, any::<bool>()).prop_map(
            |(ask, peers, foreign, fresh)| Step::Told { ask, peers, foreign, fresh }
        ),
        1 => any_ask().prop_map(Step::Silent),
        2 => any_ask().prop_map(Step::Hold),
        2 => any::<bool>().prop_map(Step::Land),
        2 => (0..4_u64).prop_map(Step::Company),
        1 => Just(Step::Sweep),
    ]
}

/// A table of which something was saved, in a region or not.
fn restored_table(regional: bool, saved: u64) -> Table {
    let all = NAMES.iter().take(2).map(|name| SavedSubject {
        subject: Digest::of(&subject("workspace", name, 60_000), &FleetSecret::default()),
        window_ms: 60_000,
        sequence: START_MS / 60_000,
        current: saved,
        previous: saved + 1,
    });
    let options = Options::default().with_budget_bytes(1 << 20);
    let options = options.with_saved(SavedSubjects::new(all.collect()));
    let options = if regional { options.with_freshness(Freshness::default()) } else { options };
    Table::new(options, Seed::from_bytes([42; 32]))
}

/// What an explanation says of a request is what the request then gets.
fn agree(table: &Table, regional: bool, request: &Request<'_>, now: Now) {
    let why = table.explain(request, now);
    let terms = why.subject.current.view() + why.weighted + request.cost().get();
    assert_eq!(terms, why.effective);
    assert_eq!(table.explain(request, now), why, "asking twice changes nothing");
    if !regional {
        assert_eq!((why.asks, why.credit, why.answer), (None, None, table.decide(request, now)));
        return;
    }
    let covered = why.credit.is_none_or(|credit| credit.covers(why.cost));
    match table.decide_or_refresh(request, now) {
        Decision::Answered(answer) => {
            assert_eq!(why.answer, answer);
            assert_eq!(why.asks.is_some(), why.asked_in_vain, "{why:?}");
            assert!(covered || why.asked_in_vain || !answer.admitted(), "{why:?}");
        }
        Decision::Refresh(Need { reason, .. }) => {
            assert_eq!((why.asks, why.asked_in_vain), (Some(reason), false));
            let answer = table.decide_refreshed(request, false, now);
            if request.outage() == Outage::Deny && reason != Reason::Reserved {
                assert_eq!(answer.denial(), Some(Denial::Outage), "{why:?}");
                return;
            }
            assert_eq!((answer.degraded(), answer.admitted()), (true, reason != Reason::Reserved));
            assert_eq!(without_source(why.answer), without_source(answer));
        }
        Decision::Ask(asking) => {
            assert_eq!((why.answer.admitted(), why.asked_in_vain), (true, false), "{why:?}");
            assert!(why.asks.is_some_and(|reason| (reason == Reason::Credit) <= !covered));
            let claimed = asking.claimed().next();
            table.commit(asking);
            let answer = table.answer_asked(request, (AskedFor::Granted, claimed), now);
            assert_eq!(answer.consistency(), Consistency::Bounded);
            assert_eq!(without_source(why.answer), without_source(answer));
        }
    }
}

/// Everything but who was asked, and what came of it.
fn without_source(answer: Answer) -> (bool, u64, u64, Option<u64>, u64) {
    let (admitted, remaining) = (answer.admitted(), answer.remaining());
    (admitted, remaining, answer.reset_unix_ms(), answer.retry_after_ms(), answer.age_ms())
}

impl World {
    fn new(regional: bool, saved: u64) -> Self {
        let table = restored_table(regional, saved);
        Self { table, regional, now: now(70_000), held: Vec::new() }
    }

    fn step(&mut self, step: &Step) {
        let (table, now) = (&self.table, self.now);
        match step {
            Step::Ask(ask) => agree(table, self.regional, &ask.request(), now),
            Step::Batch(asks) => {
                let requests: Vec<_> = asks.iter().map(Ask::request).collect();
                let _ = table.decide_all(&Batch::new(&requests).unwrap(), now);
            }
            Step::Pass(ms) => self.now = now.after_ms(*ms),
            Step::Jump(ms) => {
                let wall_ms = now.unix_ms().checked_add_signed(*ms).unwrap();
                self.now = Now::new(wall_ms, now.monotonic_ms());
            }
            Step::Told { ask, peers, foreign, fresh } => {
                let view = table.inspect(ask.request().subject(), now);
                let subject = *ask.request().subject();
                if let Some(cell) = table.cell(&subject, view.current.sequence) {
                    cell.observe_region(cell.mine() + peers, cell.mine());
                    cell.observe_foreign(*foreign);
                    if *fresh {
                        cell.acknowledge(cell.mine());
                        cell.mark_fresh_until_ms(now.monotonic_ms() + 5_000);
                    }
                }
            }
            Step::Silent(ask) => {
                let subject = match table.decide_or_refresh(&ask.request(), now) {
                    Decision::Refresh(need) => Some(need.subject),
                    Decision::Ask(asking) => {
                        let subject = asking.wanted().next().map(|wanted| wanted.cell.subject);
                        table.release(asking);
                        subject
                    }
                    Decision::Answered(_) => None,
                };
                let cells = subject.and_then(|subject| table.cells(subject));
                cells.into_iter().for_each(|it| it.retry_no_sooner(now.monotonic_ms() + 300));
            }
            Step::Hold(ask) => {
                if let Decision::Ask(asking) = table.decide_or_refresh(&ask.bounded(), now) {
                    self.held.push(asking);
                }
            }
            Step::Land(granted) => match self.held.pop() {
                Some(asking) if *granted => table.commit(asking),
                Some(asking) => table.release(asking),
                None => {}
            },
            Step::Company(processes) => {
                let mut all: Vec<Ticket> = Vec::new();
                table.walk(&mut Walk::default(), 1_000, |subject| all.push(subject));
                let all = all.into_iter().filter_map(|subject| table.cells(subject));
                all.for_each(|cells| cells.set_company(*processes));
            }
            Step::Sweep => {
                table.sweep(now);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 3_000, failure_persistence: None, ..ProptestConfig::default()
    })]

    /// Over any history, and any clock.
    #[test]
    fn an_explanation_is_what_the_decision_does(
        regional in any::<bool>(),
        saved in 0..5_u64,
        steps in proptest::collection::vec(any_step(), 1..60),
    ) {
        let mut world = World::new(regional, saved);
        for one in &steps {
            world.step(one);
        }
    }
}

proptest! {
    // Each case prints all registers of a table several times.
    #![proptest_config(ProptestConfig {
        cases: 100, failure_persistence: None, ..ProptestConfig::default()
    })]

    /// Every register, counter and list of the table is what it was.
    #[test]
    fn looking_changes_nothing(
        regional in any::<bool>(),
        steps in proptest::collection::vec(any_step(), 1..20),
        asks in proptest::collection::vec(any_ask(), 1..4),
        later_ms in prop_oneof![0..2_000_u64, 0..200_000_u64],
    ) {
        let mut world = World::new(regional, 3);
        for one in &steps {
            world.step(one);
        }
        let (table, now) = (&world.table, world.now);
        let before = format!("{table:?}");
        // The last one is after the hour for which what has expired is kept.
        let much_later = Now::new(now.unix_ms() + 4_000_000, 5);
        let soon = Now::new(now.unix_ms() + 99_999, 5);
        for moment in [now, now.after_ms(later_ms), soon, much_later] {
            for ask in &asks {
                let _ = table.explain(&ask.request(), moment);
                let _ = table.inspect(ask.request().subject(), moment);
            }
        }
        prop_assert!(before == format!("{table:?}"), "a look has changed something");
    }
}

#[test]
fn a_stranger_is_explained_and_not_taken_in() {
    let table = table();
    let why = table.explain(&request("a", 3, 60_000, 4), now(0));
    assert_eq!((why.subject.known, why.effective, why.limit), (false, 4, 3));
    assert_eq!(why.answer.denial(), Some(Denial::Limit));
    assert_eq!((why.answer.retry_after_ms(), table.subjects()), (None, 0));
}

#[test]
fn every_term_is_said() {
    let table = restored_table(true, 0);
    let one = request("c", 100, 60_000, 10);
    let at = now(0);
    assert_eq!(table.explain(&one, at).asks, Some(Reason::Cold));
    let _ = table.decide(&one, at);
    let sequence = START_MS / 60_000;
    let cell = table.cell(one.subject(), sequence).unwrap();
    cell.observe_region(17, 10);
    cell.acknowledge(4);
    cell.observe_foreign(5);
    cell.mark_fresh_until_ms(at.monotonic_ms() + 2_000);

    let seen = table.inspect(one.subject(), at);
    let held = seen.current;
    assert_eq!((held.mine, held.claimed, held.acked, held.unreplayed()), (10, 10, 4, 6));
    assert_eq!((held.peers, held.confirmed, held.foreign, held.view()), (7, 17, 5, 22));
    assert_eq!((held.start_unix_ms, held.end_unix_ms), (START_MS, START_MS + 60_000));
    assert_eq!((seen.dirty, seen.fresh_for_ms, seen.strict), (true, Some(2_000), None));

    let later = at.after_ms(60_000 + 15_000);
    let why = table.explain(&one, later);
    assert_eq!(why.subject.current.sequence, sequence + 1);
    assert_eq!((why.subject.previous.view(), why.weight_ms, why.weighted), (22, 45_000, 16));
    assert_eq!((why.effective, why.answer.remaining()), (26, 74));
}

#[test]
fn strict_mode_is_told() {
    let table = restored_table(true, 0);
    let one = request("c", 2, 60_000, 2);
    assert!(table.decide(&one, now(0)).admitted());
    assert!(!table.decide(&one, now(0)).admitted());
    let strict = table.inspect(one.subject(), now(10_000)).strict.unwrap();
    assert_eq!((strict.left_ms, strict.limit), (50_000, 2));
    // The next window but one: there is room, and the region is asked first.
    let why = table.explain(&request("c", 2, 60_000, 1), now(59_999));
    assert_eq!((why.answer.admitted(), why.asks), (false, None), "a denial asks nobody");
}

#[test]
fn a_credit_is_told_and_who_is_beyond_it_asks() {
    let table = restored_table(true, 0);
    let one = request("c", 100, 60_000, 3).with_consistency(Consistency::Bounded);
    let at = now(0);
    assert_eq!(table.explain(&one, at).asks, Some(Reason::Cold), "nobody was heard of yet");
    let Decision::Ask(asking) = table.decide_or_refresh(&one, at) else { panic!("it asks") };
    let subject = asking.wanted().next().unwrap().cell.subject;
    let waits = table.explain(&request("c", 3, 60_000, 1).with_consistency(one.consistency()), at);
    assert_eq!((waits.asks, waits.answer.admitted()), (Some(Reason::Reserved), false));
    table.commit(asking);
    let cells = table.cells(subject).unwrap();
    cells.set_company(2);
    let cell = table.cell(one.subject(), START_MS / 60_000).unwrap();
    cell.acknowledge(3);
    cell.mark_fresh_until_ms(at.monotonic_ms() + 5_000);

    // Of a room of 97, two processes have six each.
    let why = table.explain(&one, at);
    let credit = why.credit.unwrap();
    assert_eq!((credit.room, credit.processes, credit.most, credit.used), (97, 2, 6, 0));
    assert_eq!((why.asks, why.subject.credit(100)), (None, Some(credit)));
    assert!(matches!(table.decide_or_refresh(&one, at), Decision::Answered(_)));
    let why = table.explain(&one, at);
    let credit = why.credit.unwrap();
    assert_eq!((credit.room, credit.most, credit.used), (94, 5, 3));
    assert_eq!((why.asks, why.answer.admitted()), (Some(Reason::Credit), true));
    let fast = table.explain(&one.with_consistency(Consistency::Fast), at);
    assert_eq!((fast.asks, fast.credit), (None, None), "fast spends what it sees");
}

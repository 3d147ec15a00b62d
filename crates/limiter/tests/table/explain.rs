//! Explaining and inspecting: they say what the decision that follows does, and change nothing.

use proptest::prelude::*;
use tidegate_limiter::{
    Answer, Batch, Decision, Denial, Digest, FleetSecret, Freshness, Need, Now, Options, Reason,
    Request, SavedSubject, SavedSubjects, Seed, Table,
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
    Sweep,
}

#[derive(Clone, Copy, Debug)]
struct Ask {
    name: usize,
    window: usize,
    limit: u64,
    cost: u64,
}

impl Ask {
    fn request(&self) -> Request<'static> {
        request(NAMES[self.name], self.limit, WINDOWS_MS[self.window], self.cost)
    }
}

fn any_ask() -> impl Strategy<Value = Ask> {
    let limit = prop_oneof![0..=12_u64, Just(1_000)];
    (0..NAMES.len(), 0..WINDOWS_MS.len(), limit, 0..=6_u64)
        .prop_map(|(name, window, limit, cost)| Ask { name, window, limit, cost })
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
        assert_eq!((why.asks, why.answer), (None, table.decide(request, now)));
        return;
    }
    match table.decide_or_refresh(request, now) {
        Decision::Answered(answer) => {
            assert_eq!(why.answer, answer);
            assert_eq!(why.asks.is_some(), why.asked_in_vain, "{why:?}");
        }
        Decision::Refresh(Need { reason, .. }) => {
            assert_eq!((why.asks, why.asked_in_vain), (Some(reason), false));
            let answer = table.decide_refreshed(request, false, now);
            assert!(answer.degraded() && answer.admitted());
            assert_eq!(without_source(why.answer), without_source(answer));
        }
        Decision::Ask(asking) => panic!("nothing is bounded here: {asking:?}"),
    }
}

/// Everything but that the region did not answer.
fn without_source(answer: Answer) -> (bool, u64, u64, Option<u64>, u64) {
    let (admitted, remaining) = (answer.admitted(), answer.remaining());
    (admitted, remaining, answer.reset_unix_ms(), answer.retry_after_ms(), answer.age_ms())
}

fn step(table: &Table, regional: bool, step: &Step, now: &mut Now) {
    match step {
        Step::Ask(ask) => agree(table, regional, &ask.request(), *now),
        Step::Batch(asks) => {
            let requests: Vec<_> = asks.iter().map(Ask::request).collect();
            let _ = table.decide_all(&Batch::new(&requests).unwrap(), *now);
        }
        Step::Pass(ms) => *now = now.after_ms(*ms),
        Step::Jump(ms) => {
            let wall_ms = now.unix_ms().checked_add_signed(*ms).unwrap();
            *now = Now::new(wall_ms, now.monotonic_ms());
        }
        Step::Told { ask, peers, foreign, fresh } => {
            let view = table.inspect(ask.request().subject(), *now);
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
            let request = ask.request();
            if let Decision::Refresh(need) = table.decide_or_refresh(&request, *now) {
                table.cells(need.subject).unwrap().retry_no_sooner(now.monotonic_ms() + 300);
            }
        }
        Step::Sweep => {
            table.sweep(*now);
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
        let table = restored_table(regional, saved);
        let mut now = now(70_000);
        for one in &steps {
            step(&table, regional, one, &mut now);
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
        let table = restored_table(regional, 3);
        let mut now = now(70_000);
        for one in &steps {
            step(&table, regional, one, &mut now);
        }
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

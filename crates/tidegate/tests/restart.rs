//! A process on its own that ends and starts again, on a clock that is told to move.
#![expect(clippy::unwrap_used, reason = "what cannot be had fails the test that needs it")]

use std::time::Duration;

use tidegate::{
    Batch, BuildError, Builder, Cost, Limit, Limiter, ManualClock, Part, Request, Saved,
    SavedError, Subject, Window,
};

/// The start of a minute, and of an hour.
const HOUR_MS: u64 = 1_699_999_200_000;
const MINUTE: u64 = 60_000;
const _: () = assert!(HOUR_MS.is_multiple_of(60 * MINUTE));

fn clock() -> ManualClock {
    ManualClock::at_unix_ms(HOUR_MS)
}

fn request(identifier: &str, limit: u64, cost: u64) -> Request<'_> {
    request_in(MINUTE, identifier, limit, cost)
}

fn request_in(window_ms: u64, identifier: &str, limit: u64, cost: u64) -> Request<'_> {
    let part = |text| Part::new(text).unwrap();
    let window = Window::from_millis(window_ms).unwrap();
    let subject = Subject::new(part("w"), part("n"), part(identifier), window);
    Request::new(subject, Limit::new(limit), Cost::new(cost).unwrap())
}

fn builder(clock: &ManualClock) -> Builder {
    Limiter::builder().clock(clock.clone()).memory_budget_bytes(4 << 20)
}

fn start(clock: &ManualClock) -> Limiter {
    builder(clock).build().unwrap()
}

fn save(limiter: &Limiter) -> Vec<u8> {
    let mut bytes = Vec::new();
    limiter.save(&mut bytes).unwrap();
    bytes
}

/// The process ends, and starts again with another seed and nothing but what it saved.
fn restart(limiter: Limiter, clock: &ManualClock) -> Limiter {
    let bytes = save(&limiter);
    drop(limiter);
    let saved = Saved::read(bytes.as_slice(), None).unwrap();
    builder(clock).restore(saved).build().unwrap()
}

fn pass(clock: &ManualClock, ms: u64) {
    clock.advance(Duration::from_millis(ms));
}

fn left(limiter: &Limiter, identifier: &str, limit: u64) -> u64 {
    limiter.check_now(&request(identifier, limit, 0)).remaining()
}

#[test]
fn a_restart_in_the_middle_of_a_window_keeps_every_count() {
    let clock = clock();
    let limiter = start(&clock);
    for number in 0..500_u64 {
        let name = format!("user-{number}");
        assert!(limiter.check_now(&request(&name, 1_000, number + 1)).admitted());
    }
    pass(&clock, 30_000);
    let limiter = restart(limiter, &clock);
    assert_eq!(limiter.subjects(), 0, "they come back when they are asked for");
    for number in 0..500_u64 {
        let name = format!("user-{number}");
        assert_eq!(left(&limiter, &name, 1_000), 1_000 - number - 1, "{name}");
    }
    assert_eq!(left(&limiter, "a stranger", 1_000), 1_000);
}

/// The same requests, with a restart between any two of them and without: the same answers.
#[test]
fn no_answer_depends_on_a_restart() {
    let (clock, other_clock) = (clock(), clock());
    let (mut restarted, steady) = (start(&clock), start(&other_clock));
    let mut denied = 0;
    for step in 0..200_u64 {
        let (name, cost) = (["a", "b", "c"][(step % 3) as usize], step % 4);
        let ask = request(name, 5, cost);
        let (one, other) = (restarted.check_now(&ask), steady.check_now(&ask));
        assert_eq!(one, other, "step {step}");
        denied += u64::from(!one.admitted());
        let ms = step * 7_919 % 11_000;
        pass(&clock, ms);
        pass(&other_clock, ms);
        if step % 5 == 0 {
            restarted = restart(restarted, &clock);
        }
    }
    assert!((10..190).contains(&denied), "{denied}: a run with one verdict proves little");
}

#[test]
fn across_a_boundary_the_previous_window_weighs_what_it_should() {
    let clock = clock();
    let limiter = start(&clock);
    assert!(limiter.check_now(&request("a", 100, 40)).admitted());
    pass(&clock, 50_000);
    let bytes = save(&limiter);
    // The process is away while the window ends.
    pass(&clock, 25_000);
    let saved = Saved::read(bytes.as_slice(), None).unwrap();
    assert_eq!((saved.subjects(), saved.written_unix_ms()), (1, HOUR_MS + 50_000));
    let limiter = builder(&clock).restore(saved).build().unwrap();
    assert_eq!(left(&limiter, "a", 100), 100 - 30, "three quarters of the window are left of it");
    pass(&clock, 30_000);
    assert_eq!(left(&limiter, "a", 100), 100 - 10);
}

#[test]
fn after_two_windows_nothing_is_restored() {
    let clock = clock();
    let limiter = start(&clock);
    assert!(limiter.check_now(&request("a", 100, 40)).admitted());
    let bytes = save(&limiter);
    pass(&clock, 2 * MINUTE);
    let saved = Saved::read(bytes.as_slice(), None).unwrap();
    let limiter = builder(&clock).restore(saved).build().unwrap();
    assert_eq!(left(&limiter, "a", 100), 100);
    pass(&clock, 60 * MINUTE);
    let again = Saved::read(save(&limiter).as_slice(), None).unwrap();
    assert_eq!(again.subjects(), 0);
}

#[test]
fn short_windows_are_not_saved() {
    let clock = clock();
    let limiter = start(&clock);
    let (short, long) = (request_in(MINUTE - 1, "a", 9, 1), request_in(MINUTE, "a", 9, 1));
    assert!(limiter.check_now(&short).admitted() && limiter.check_now(&long).admitted());
    let limiter = restart(limiter, &clock);
    assert_eq!(limiter.check_now(&short).remaining(), 8);
    assert_eq!(limiter.check_now(&long).remaining(), 7);
}

#[test]
fn a_second_restart_keeps_what_nobody_touched() {
    let clock = clock();
    let limiter = start(&clock);
    for name in ["a", "b"] {
        assert!(limiter.check_now(&request(name, 10, 3)).admitted());
    }
    let limiter = restart(limiter, &clock);
    assert!(limiter.check_now(&request("b", 10, 2)).admitted());
    let limiter = restart(limiter, &clock);
    assert!(limiter.check_now(&request("b", 10, 1)).admitted());
    let limiter = restart(limiter, &clock);
    assert_eq!((left(&limiter, "a", 10), left(&limiter, "b", 10)), (7, 4));
    let seen = limiter.inspect(request("b", 10, 0).subject()).here;
    assert_eq!((seen.current.mine, seen.current.peers, seen.current.restored), (0, 6, 6));
}

#[test]
fn a_limit_holds_for_batches_across_a_restart() {
    let clock = clock();
    let mut limiter = start(&clock);
    let (mut admitted, both) = (0, [request("a", 20, 3), request("b", 100, 1)]);
    for _ in 0..20 {
        admitted += u64::from(limiter.check_all_now(&Batch::new(&both).unwrap()).admitted());
        limiter = restart(limiter, &clock);
    }
    assert_eq!(admitted, 6, "six threes are eighteen");
    assert_eq!((left(&limiter, "a", 20), left(&limiter, "b", 100)), (2, 94));
}

#[test]
fn a_denied_batch_is_not_saved_as_spent() {
    let clock = clock();
    let limiter = start(&clock);
    let both = [request("a", 10, 3), request("b", 0, 1)];
    assert!(!limiter.check_all_now(&Batch::new(&both).unwrap()).admitted());
    let limiter = restart(limiter, &clock);
    assert_eq!(left(&limiter, "a", 10), 10);
}

#[test]
fn counts_of_another_fleet_are_refused() {
    let clock = clock();
    let limiter = builder(&clock).fleet_secret([1; 32]).build().unwrap();
    assert!(limiter.check_now(&request("a", 10, 3)).admitted());
    let bytes = save(&limiter);
    let read = |secret| Saved::read(bytes.as_slice(), secret);
    assert!(matches!(read(None), Err(SavedError::OtherSecret)));
    let saved = read(Some([1; 32])).unwrap();
    let elsewhere = builder(&clock).restore(saved.clone()).build();
    assert!(matches!(elsewhere, Err(BuildError::SavedWithOtherSecret)));
    let limiter = builder(&clock).fleet_secret([1; 32]).restore(saved).build().unwrap();
    assert_eq!(left(&limiter, "a", 10), 7);
}

/// A machine without a clock of its own starts in the past, and hears the time a little later.
#[test]
fn a_clock_that_is_behind_at_the_start_costs_no_counts() {
    let clock = clock();
    let limiter = start(&clock);
    for name in ["a", "b"] {
        assert!(limiter.check_now(&request(name, 10, 3)).admitted());
    }
    clock.step_to_unix_ms(MINUTE);
    let mut limiter = restart(limiter, &clock);
    assert_eq!(left(&limiter, "a", 10), 10, "that is what it says of 1970");
    assert!(limiter.check_now(&request("a", 10, 1)).admitted());
    for _ in 0..3 {
        limiter = restart(limiter, &clock);
    }
    assert_eq!(left(&limiter, "a", 10), 9, "what was admitted in 1970 counts there");
    let _ = limiter.sweep();
    clock.step_to_unix_ms(HOUR_MS + 1);
    assert_eq!(left(&limiter, "b", 10), 7);
    assert!(limiter.check_now(&request("a", 10, 1)).admitted());
    for _ in 0..10_000 {
        let _ = limiter.sweep();
    }
    assert_eq!(left(&limiter, "a", 10), 10 - 3 - 1 - 1, "and what was just admitted, in 1970");
}

/// The clock is ahead when the process starts, by less than an hour.
#[test]
fn a_clock_that_is_ahead_at_the_start_costs_no_counts() {
    let clock = clock();
    let limiter = start(&clock);
    assert!(limiter.check_now(&request("a", 10, 3)).admitted());
    let bytes = save(&limiter);
    clock.step_to_unix_ms(HOUR_MS + 59 * MINUTE);
    let saved = Saved::read(bytes.as_slice(), None).unwrap();
    let limiter = builder(&clock).restore(saved).build().unwrap();
    assert!(limiter.check_now(&request("b", 10, 1)).admitted());
    let _ = limiter.sweep();
    let limiter = restart(limiter, &clock);
    clock.step_to_unix_ms(HOUR_MS + 1);
    assert_eq!(left(&limiter, "a", 10), 7);
}

/// Saving takes many steps on a large table; checks go on between them.
#[test]
fn a_save_goes_in_steps() {
    let clock = clock();
    let limiter = start(&clock);
    for number in 0..5_000 {
        assert!(limiter.check_now(&request(&format!("user-{number}"), 10, 1)).admitted());
    }
    let (mut saving, mut bytes, mut steps) = (limiter.saving(), Vec::new(), 0);
    while saving.step(&mut bytes) {
        steps += 1;
        assert!(limiter.check_now(&request("user-1", 1_000, 1)).admitted());
    }
    assert!(steps > 5, "{steps}");
    assert_eq!((saving.counts().subjects, saving.counts().left_out), (5_000, 0));
    assert_eq!(Saved::read(bytes.as_slice(), None).unwrap().subjects(), 5_000);
}

/// Threads spend while it is saved: what is saved is never more than was admitted.
#[test]
fn a_save_under_load_counts_nothing_that_did_not_happen() {
    let clock = clock();
    let limiter = start(&clock);
    let before = limiter.counts().admitted_local;
    let saved = std::thread::scope(|scope| {
        let spend = || {
            for number in 0..20_000_u64 {
                let name = ["a", "b", "c", "d"][(number % 4) as usize];
                let _ = limiter.check_now(&request(name, 1_000_000, 1));
            }
        };
        let spenders = [scope.spawn(spend), scope.spawn(spend)];
        let saved: Vec<Vec<u8>> = (0..50).map(|_| save(&limiter)).collect();
        spenders.into_iter().for_each(|spender| spender.join().unwrap());
        saved
    });
    let admitted = limiter.counts().admitted_local - before;
    let mut last = 0;
    for bytes in saved.iter().chain([&save(&limiter)]) {
        let saved = Saved::read(bytes.as_slice(), None).unwrap();
        let limiter = builder(&clock).restore(saved).build().unwrap();
        let spent: u64 = ["a", "b", "c", "d"]
            .map(|name| 1_000_000 - left(&limiter, name, 1_000_000))
            .iter()
            .sum();
        assert!(last <= spent && spent <= admitted, "{last} {spent} {admitted}");
        last = spent;
    }
    assert_eq!(last, admitted);
}

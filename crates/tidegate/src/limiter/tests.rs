use std::time::Duration;

use super::*;
use crate::{Cost, Limit, ManualClock, Part, Subject, Window};

/// The start of a minute, so that a test sees a whole window.
const MINUTE_MS: u64 = 1_700_000_040_000;
const _: () = assert!(MINUTE_MS.is_multiple_of(60_000));

fn request(identifier: &str, limit: u64) -> Request<'_> {
    let part = |text| Part::new(text).unwrap();
    let window = Window::from_millis(60_000).unwrap();
    let subject = Subject::new(part("ws"), part("ns"), part(identifier), window);
    Request::new(subject, Limit::new(limit), Cost::ONE)
}

fn limiter_at(clock: &ManualClock) -> Limiter {
    Limiter::builder().clock(clock.clone()).seed([1; 32]).build().unwrap()
}

#[test]
fn a_limiter_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    shared(&Limiter::builder().build().unwrap());
}

#[test]
fn checks_use_the_clock_they_were_given() {
    let clock = ManualClock::at_unix_ms(MINUTE_MS);
    let limiter = limiter_at(&clock);
    let first = limiter.check_now(&request("a", 1));
    assert!(first.admitted());
    assert_eq!(first.reset_unix_ms(), MINUTE_MS + 60_000);

    let denied = limiter.check_now(&request("a", 1));
    assert!(!denied.admitted());
    clock.advance(Duration::from_millis(denied.retry_after_ms().unwrap() - 1));
    assert!(!limiter.check_now(&request("a", 1)).admitted());
    clock.advance(Duration::from_millis(1));
    assert!(limiter.check_now(&request("a", 1)).admitted());
}

#[test]
fn a_batch_is_admitted_as_a_whole_or_not_at_all() {
    let limiter = limiter_at(&ManualClock::at_unix_ms(MINUTE_MS));
    let requests = [request("a", 2), request("b", 1)];
    let batch = Batch::new(&requests).unwrap();
    assert!(limiter.check_all_now(&batch).admitted());

    let denied = limiter.check_all_now(&batch);
    assert!(!denied.admitted());
    let verdicts: Vec<bool> = denied.items().iter().map(Answer::admitted).collect();
    assert_eq!(verdicts, [true, false]);
    assert_eq!(
        limiter.check_now(&request("a", 2)).remaining(),
        0,
        "the denied batch spent nothing"
    );
}

#[test]
fn sweeping_gives_the_memory_of_expired_subjects_back() {
    let clock = ManualClock::at_unix_ms(MINUTE_MS);
    let limiter = limiter_at(&clock);
    for number in 0..1_000 {
        assert!(limiter.check_now(&request(&format!("user-{number}"), 1)).admitted());
    }
    assert_eq!(limiter.subjects(), 1_000);
    assert!(limiter.accounted_bytes() > 0);

    clock.advance(Duration::from_secs(3_600));
    // A step is bounded, so it takes several; a hundred thousand are more than any step size asks.
    let forgotten: usize = (0..100_000).map(|_| limiter.sweep()).sum();
    assert_eq!(forgotten, 1_000);
    assert_eq!(limiter.subjects(), 0);
}

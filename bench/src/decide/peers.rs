//! The peers, each as its documentation says to use it, tuned where that costs nothing.

use std::collections::HashMap;
use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use governor::clock::QuantaUpkeepClock;
use governor::state::keyed::DefaultKeyedStateStore;
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use limitador::limit::{Context, Expression, Limit, Namespace};
use throttlecrab::PeriodicStore;

use super::contestant::{Contestant, START_UNIX_MS, Setup, WINDOW_MS};
use super::keys::{Key, NAMESPACES, Script};
use crate::Failure;

/// One text for those who know only one key, in exactly one allocation.
fn joined(key: Key<'_>) -> String {
    let len = key.workspace.len() + key.namespace.len() + key.identifier.len() + 2;
    let mut text = String::with_capacity(len);
    text.push_str(key.workspace);
    text.push('/');
    text.push_str(key.namespace);
    text.push('/');
    text.push_str(key.identifier);
    text
}

fn quota(setup: Setup) -> Result<Quota, Failure> {
    let limit = NonZeroU32::new(setup.limit).ok_or("governor has no limit of 0")?;
    let interval = Duration::from_millis(WINDOW_MS) / setup.limit;
    Ok(Quota::with_period(interval).ok_or("the limit is too high")?.allow_burst(limit))
}

/// `governor` as most use it: a `String` per call, its default map and clock.
pub(crate) struct GovernorString(DefaultKeyedRateLimiter<String>);

impl GovernorString {
    pub(crate) fn new(setup: Setup) -> Result<Self, Failure> {
        Ok(Self(RateLimiter::keyed(quota(setup)?)))
    }
}

impl Contestant for GovernorString {
    type Now = ();

    fn now(&self, _ms: u64) {}

    #[inline(always)]
    fn decide(&self, script: &Script, at: usize, (): ()) -> bool {
        let Some(key) = script.key(at) else { return false };
        black_box(&self.0.check_key(&joined(key))).is_ok()
    }
}

/// `governor` at its fastest: 16 bytes hashed from the parts, and a clock that a thread keeps.
pub(crate) struct GovernorU128(RateLimiter<u128, DefaultKeyedStateStore<u128>, QuantaUpkeepClock>);

impl GovernorU128 {
    pub(crate) fn new(setup: Setup) -> Result<Self, Failure> {
        let clock = QuantaUpkeepClock::from_interval(Duration::from_millis(1))
            .map_err(|error| format!("governor's upkeep clock: {error}"))?;
        Ok(Self(RateLimiter::new(quota(setup)?, DefaultKeyedStateStore::default(), clock)))
    }
}

impl Contestant for GovernorU128 {
    type Now = ();

    fn now(&self, _ms: u64) {}

    #[inline(always)]
    fn decide(&self, script: &Script, at: usize, (): ()) -> bool {
        let Some(key) = script.key(at) else { return false };
        black_box(&self.0.check_key(&super::digest::digest(key))).is_ok()
    }
}

/// The `limitador` crate in memory: one limit for each namespace, two variables.
pub(crate) struct Limitador(limitador::RateLimiter);

impl Limitador {
    pub(crate) fn new(setup: Setup) -> Result<Self, Failure> {
        // Its cache forgets what does not fit: twice the keys, so that nothing is forgotten.
        let limiter = limitador::RateLimiter::new(u64::try_from(setup.keys.max(1_000))? * 2);
        for namespace in NAMESPACES {
            let variable = |name: &str| -> Result<Expression, Failure> {
                Expression::parse(name).map_err(|error| error.to_string().into())
            };
            let variables = [variable("workspace")?, variable("identifier")?];
            let seconds = WINDOW_MS / 1_000;
            limiter.add_limit(Limit::new(
                namespace,
                u64::from(setup.limit),
                seconds,
                [],
                variables,
            ));
        }
        Ok(Self(limiter))
    }
}

impl Contestant for Limitador {
    type Now = ();

    fn now(&self, _ms: u64) {}

    #[inline(always)]
    fn decide(&self, script: &Script, at: usize, (): ()) -> bool {
        let Some(key) = script.key(at) else { return false };
        let values = HashMap::from([
            ("workspace".to_owned(), key.workspace.to_owned()),
            ("identifier".to_owned(), key.identifier.to_owned()),
        ]);
        let context = Context::from(values);
        let namespace = Namespace::from(key.namespace);
        let result = self.0.check_rate_limited_and_update(&namespace, &context, 1);
        black_box(&result).as_ref().is_ok_and(|result| !result.limited)
    }
}

/// `throttlecrab`'s core. It takes `&mut self`: one lock around it.
pub(crate) struct Throttlecrab {
    limiter: Mutex<throttlecrab::RateLimiter<PeriodicStore>>,
    limit: i64,
}

impl Throttlecrab {
    pub(crate) fn new(setup: Setup) -> Self {
        // Cleans up by the wall clock, which runs from the past here: never within a run.
        let store = PeriodicStore::builder().capacity(setup.keys).build();
        let limiter = Mutex::new(throttlecrab::RateLimiter::new(store));
        Self { limiter, limit: i64::from(setup.limit) }
    }
}

impl Contestant for Throttlecrab {
    type Now = SystemTime;

    fn now(&self, ms: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(START_UNIX_MS + ms)
    }

    #[inline(always)]
    fn decide(&self, script: &Script, at: usize, now: SystemTime) -> bool {
        let Some(key) = script.key(at) else { return false };
        let key = joined(key);
        let Ok(mut limiter) = self.limiter.lock() else { return false };
        let result = limiter.rate_limit(&key, self.limit, self.limit, 60, 1, now);
        drop(limiter);
        black_box(&result).as_ref().is_ok_and(|(allowed, _)| *allowed)
    }
}

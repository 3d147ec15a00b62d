//! Callers who come whether or not anybody answers, and who write down what they were told.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::{MissedTickBehavior, interval};

use crate::batch;
use crate::chance::Chance;
use crate::clock::Clock;
use crate::history::{Answer, Call, End};
use crate::http::{Door, Reply, Trouble};
use crate::options::Planted;
use crate::shape::{Class, ONCE_COST, REGIONS, Subject, nodes_of, once};
use crate::world::World;

pub(crate) const LIMIT: &str = "/v2/ratelimit.limit";
/// How often callers come: some of them each time.
const TICK_MS: u64 = 10;
/// Most calls under way. A server that is stopped for six seconds holds a few hundred.
const UNDER_WAY_MAX: usize = 4_000;
/// Of a hundred calls, how many carry an `Idempotency-Key`...
const ONCE_PERCENT: u64 = 2;
/// ...and how many are batches.
const BATCH_PERCENT: u64 = 10;
/// How often such a call is made until it is answered. A 409 may last for ten seconds.
const TRIES_MAX: usize = 30;
/// How long is waited between them.
const AGAIN: Duration = Duration::from_millis(500);
/// A planted mistake happens to one call in so many.
pub(crate) const PLANTED_EACH: u64 = 25;

/// What callers share.
pub(crate) struct Load {
    pub(crate) world: Arc<World>,
    pub(crate) clock: Clock,
    pub(crate) planted: Option<Planted>,
    calls: Mutex<Vec<Call>>,
    skipped: AtomicU64,
    counted: AtomicU64,
}

/// The body of a call.
pub(crate) fn body(subject: &Subject, cost: u64) -> Value {
    json!({ "namespace": subject.namespace, "identifier": subject.identifier,
            "limit": subject.limit, "duration": subject.window_ms, "cost": cost })
}

impl Load {
    pub(crate) fn new(world: &Arc<World>, clock: &Clock, planted: Option<Planted>) -> Arc<Self> {
        let (world, clock, calls) = (Arc::clone(world), clock.clone(), Mutex::default());
        let (skipped, counted) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Self { world, clock, planted, calls, skipped, counted })
    }

    /// How many calls there were.
    pub(crate) fn count(&self) -> usize {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// What was written down, and how many calls were not made.
    pub(crate) fn take(&self) -> (Vec<Call>, u64) {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        // ORDER: relaxed, a count that orders nothing.
        (std::mem::take(&mut *calls), self.skipped.load(Ordering::Relaxed))
    }

    pub(crate) fn note(&self, call: Call) {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call);
    }

    pub(crate) fn skip(&self) {
        // ORDER: relaxed, a count that orders nothing.
        self.skipped.fetch_add(1, Ordering::Relaxed);
    }

    /// Makes calls until that time, and waits for the last answer.
    pub(crate) async fn run(self: &Arc<Self>, subjects: &[Arc<Subject>], plan: &Rate) {
        let mut chance = Chance::new(plan.seed, "load");
        let room = Arc::new(Semaphore::new(UNDER_WAY_MAX));
        let mut ticks = interval(Duration::from_millis(TICK_MS));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let begin_ms = self.clock.now_ms();
        // Those of a pair are used by batches only.
        let single = |subject: &&Arc<Subject>| !matches!(subject.class, Class::Pair(_));
        let singles: Vec<&Arc<Subject>> = subjects.iter().filter(single).collect();
        let (mut made, mut keys) = (0_u64, 0_u64);
        while self.clock.now_ms() < plan.end_ms && !self.clock.is_stopped() {
            ticks.tick().await;
            let passed_ms = self.clock.now_ms().saturating_sub(begin_ms);
            // By the clock, not by the ticks: a busy machine must not make fewer calls.
            let due = passed_ms.saturating_mul(plan.per_second) / 1_000;
            while made < due {
                made = made.saturating_add(1);
                let Ok(permit) = Arc::clone(&room).try_acquire_owned() else {
                    self.skip();
                    continue;
                };
                let load = Arc::clone(self);
                if chance.percent(ONCE_PERCENT) {
                    keys = keys.saturating_add(1);
                    let (number, dice) = (keys, chance.any());
                    tokio::spawn(async move {
                        load.once(number, dice).await;
                        drop(permit);
                    });
                    continue;
                }
                if chance.percent(BATCH_PERCENT) {
                    let drawn = batch::draw(&mut chance, subjects, made);
                    tokio::spawn(async move {
                        load.batch(drawn).await;
                        drop(permit);
                    });
                    continue;
                }
                let Some(subject) = singles.get(chance.index(singles.len())) else { continue };
                let Some(node) = subject.nodes.get(chance.index(subject.nodes.len())) else {
                    continue;
                };
                let (subject, node) = (Arc::clone(*subject), *node);
                let cost = chance.between(1, subject.cost_max);
                tokio::spawn(async move {
                    load.call(&subject, node, cost, None).await;
                    drop(permit);
                });
            }
        }
        // Bounded: every call is, and one with a key has so many tries.
        let all = u32::try_from(UNDER_WAY_MAX).unwrap_or(u32::MAX);
        let _ = room.acquire_many(all).await;
    }

    /// One call, written down. `None` if the server was away.
    async fn call(
        &self,
        subject: &Arc<Subject>,
        node: usize,
        cost: u64,
        key: Option<&Key<'_>>,
    ) -> Option<End> {
        let Some(door) = self.world.nodes.get(node).and_then(|node| node.door()) else {
            self.skip();
            return None;
        };
        let (sent_ms, sent_us) = (self.clock.now_ms(), self.clock.now_us());
        let end = match key {
            Some(key) if key.leaves => {
                End::Nothing(door.leave(LIMIT, &body(subject, cost), key.text).await)
            }
            _ => self.ask(&door, subject, cost, key.map(|key| key.text)).await,
        };
        let took_us = self.clock.now_us().saturating_sub(sent_us);
        let (subject, life, ended_ms) = (Arc::clone(subject), door.life, self.clock.now_ms());
        let item = None;
        self.note(Call { subject, item, node, life, cost, sent_ms, ended_ms, took_us, end });
        Some(end)
    }

    /// The mistake that was planted, if it is to happen now.
    pub(crate) fn planted_now(&self) -> Option<Planted> {
        // ORDER: relaxed, a count that orders nothing.
        let turn = self.counted.fetch_add(1, Ordering::Relaxed);
        self.planted.filter(|_| turn.is_multiple_of(PLANTED_EACH))
    }

    /// One call, with the mistake that was planted, if any.
    async fn ask(&self, door: &Door, subject: &Subject, cost: u64, key: Option<&str>) -> End {
        let planted = self.planted_now();
        // The same key with another body would be refused.
        let planted = planted.filter(|planted| key.is_none() || *planted != Planted::Free);
        let text = body(subject, if planted == Some(Planted::Free) { 0 } else { cost });
        let end = read(door.post(LIMIT, &text, key).await);
        match (planted, end) {
            (Some(Planted::Free), End::Answered(answer)) => {
                End::Answered(Answer { admitted: true, ..answer })
            }
            (Some(Planted::Twice), end) => {
                let _ = door.post(LIMIT, &text, None).await;
                end
            }
            (Some(Planted::Error), End::Answered(_)) => End::Status(500),
            (_, end) => end,
        }
    }

    /// A call with an `Idempotency-Key`, made until it is answered, at one server after another.
    async fn once(&self, number: u64, dice: u64) {
        let region = usize::try_from(dice % 2).unwrap_or(0) % REGIONS;
        let (subject, text) = (once(number, region), format!("chaos-{number}"));
        let nodes: Vec<usize> = nodes_of(region).collect();
        let mut again = interval(AGAIN);
        // Half of the callers leave before they can have heard anything, a quarter asks again
        // although it has.
        let (leaves, asks_again) = (dice & 4 == 0, dice & 12 == 12);
        let (mut answered, start) = (0_usize, usize::try_from(dice >> 8 & 1).unwrap_or(0));
        for turn in 0..TRIES_MAX {
            let Some(node) = nodes.get((start.wrapping_add(turn)) % nodes.len().max(1)) else {
                return;
            };
            let key = Key { text: &text, leaves: leaves && turn == 0 };
            let end = self.call(&subject, *node, ONCE_COST, Some(&key)).await;
            answered = answered.saturating_add(usize::from(matches!(end, Some(End::Answered(_)))));
            if answered > usize::from(asks_again) || self.clock.is_stopped() {
                return;
            }
            again.tick().await;
        }
    }
}

/// How many calls, until when.
pub(crate) struct Rate {
    pub(crate) seed: u64,
    pub(crate) per_second: u64,
    pub(crate) end_ms: u64,
}

/// An `Idempotency-Key`, and whether its caller leaves.
struct Key<'a> {
    text: &'a str,
    leaves: bool,
}

/// What a reply says.
pub(crate) fn read(reply: Result<Reply, Trouble>) -> End {
    let reply = match reply {
        Ok(reply) if reply.status == 200 => reply,
        Ok(reply) => return End::Status(reply.status),
        Err(trouble) => return End::Nothing(trouble),
    };
    let admitted = reply.data().get("success").and_then(Value::as_bool);
    match admitted.and_then(|admitted| answer(&reply, reply.data(), admitted)) {
        Some(answer) => End::Answered(answer),
        // A success that does not say what it has to say is none.
        None => End::Status(200),
    }
}

/// What a reply says of one limit.
pub(crate) fn answer(reply: &Reply, said: &Value, admitted: bool) -> Option<Answer> {
    let number = |name: &str| said.get(name).and_then(Value::as_u64);
    Some(Answer {
        admitted,
        remaining: number("remaining").unwrap_or(0),
        reset_ms: number("reset")?,
        degraded: said.get("degraded").and_then(Value::as_bool).unwrap_or(false),
        fast: said.get("consistency").and_then(Value::as_str) == Some("fast"),
        in_region: reply.in_region,
        replayed: reply.replayed,
    })
}

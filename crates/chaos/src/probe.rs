//! Looking at the servers: while it lasts, and when everything is over.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::interval;

use crate::clock::Clock;
use crate::history::{End, History, Look, Ready, Seen};
use crate::http::Door;
use crate::judge::{atomic, conservation};
use crate::load::{LIMIT, body, read};
use crate::shape::{Class, NODES, Subject, once};
use crate::world::World;

/// How often every server is looked at.
const EACH: Duration = Duration::from_millis(1_000);
/// How much room is made for a look at a subject that is used up.
const ROOM: u64 = 10;
/// How often it is looked whether everything agrees.
const SETTLE_EACH: Duration = Duration::from_millis(500);
/// Asks every server once a second whether it is ready and what long windows hold; each on its
/// own, so that one that is stopped keeps nobody from the others.
pub(crate) async fn watch(
    world: &Arc<World>,
    clock: &Clock,
    subjects: &[Arc<Subject>],
    end_ms: u64,
) -> History {
    let mut watches = JoinSet::new();
    for node in 0..NODES {
        let (world, clock, subjects) = (Arc::clone(world), clock.clone(), subjects.to_vec());
        watches.spawn(async move { watch_one((&world, node), &clock, &subjects, end_ms).await });
    }
    let mut history = History::default();
    while let Some(watched) = watches.join_next().await {
        let Ok((mut ready, mut looks)) = watched else { continue };
        history.ready.append(&mut ready);
        history.looks.append(&mut looks);
    }
    history
}

/// The same of one server.
async fn watch_one(
    (world, node): (&World, usize),
    clock: &Clock,
    subjects: &[Arc<Subject>],
    end_ms: u64,
) -> (Vec<Ready>, Vec<Look>) {
    let (mut all, mut looks) = (Vec::new(), Vec::new());
    let mut ticks = interval(EACH);
    while clock.now_ms() < end_ms && !clock.is_stopped() {
        ticks.tick().await;
        let Some(door) = world.nodes.get(node).and_then(|server| server.door()) else { continue };
        let from_ms = clock.now_ms();
        let status = door.get("/readyz").await.ok().map(|reply| reply.status);
        all.push(Ready { node, from_ms, to_ms: clock.now_ms(), status });
        for subject in subjects.iter().filter(|subject| subject.class == Class::Long) {
            let question = body(subject, 0);
            let asked = door.post("/v2/tidegate.explain", &question, None).await;
            // A server that started while the database was away does not know the namespace.
            let Ok(reply) = asked else { break };
            let current = reply.data().pointer("/terms/current").and_then(Value::as_u64);
            let Some(current) = current else { continue };
            let (subject, at_ms, life) = (Arc::clone(subject), clock.now_ms(), door.life);
            looks.push(Look { node, life, subject, at_ms, current });
        }
    }
    (all, looks)
}

/// After everything was mended: waits until no server says `degraded` and all agree, for a time,
/// and writes down what they say in the end.
pub(crate) async fn settle(
    world: &World,
    clock: &Clock,
    history: &mut History,
    (subjects, settle_ms): (&[Arc<Subject>], u64),
) {
    let begin_ms = clock.now_ms();
    let end_ms = begin_ms.saturating_add(settle_ms);
    history.healed_ms = vec![None; NODES];
    let mut ticks = interval(SETTLE_EACH);
    let mut turn = 1_000_000_000_u64;
    while clock.now_ms() < end_ms && !clock.is_stopped() {
        ticks.tick().await;
        for (node, server) in world.nodes.iter().enumerate() {
            turn = turn.saturating_add(1);
            // Another subject each time: one that was heard of is not asked about.
            let fresh = once(turn, 0);
            let Some(door) = server.door() else { continue };
            let end = read(door.post(LIMIT, &body(&fresh, 1), None).await);
            let heard = matches!(end, End::Answered(answer) if !answer.degraded);
            let Some(slot) = history.healed_ms.get_mut(node) else { continue };
            if heard && slot.is_none() {
                *slot = Some(clock.now_ms().saturating_sub(begin_ms));
            }
        }
        history.seen = look(world, subjects).await;
        let agreed = conservation::judge(history).broken.is_empty()
            && atomic::judge(history).broken.is_empty();
        if agreed && history.healed_ms.iter().all(Option::is_some) {
            history.settled_ms = Some(clock.now_ms().saturating_sub(begin_ms));
            break;
        }
    }
    // Each was used in one region.
    let mut calls: Vec<Arc<Subject>> = history
        .calls
        .iter()
        .map(|call| &call.subject)
        .filter(|one| one.class == Class::Once)
        .cloned()
        .collect();
    calls.sort();
    calls.dedup();
    let mut last = look(world, &calls).await;
    history.seen.append(&mut last);
}

/// What every server that uses a subject says of it.
async fn look(world: &World, subjects: &[Arc<Subject>]) -> Vec<Seen> {
    let mut seen = Vec::new();
    let lasting = |class: Class| class.lasts() || class == Class::Once;
    for subject in subjects.iter().filter(|subject| lasting(subject.class)) {
        // One process is enough to know how often a call was charged.
        let nodes = if subject.class == Class::Once { 1 } else { NODES };
        for node in subject.nodes.iter().take(nodes) {
            let Some(door) = world.nodes.get(*node).and_then(|server| server.door()) else {
                continue;
            };
            let Some(one) = inspect(&door, subject, *node).await else { continue };
            if subject.class != Class::Once {
                // What is too old is heard anew before somebody is admitted. A denial asks nobody:
                // so there has to be room.
                let used = one.region.saturating_add(one.foreign);
                let mut question = body(subject, 0);
                if let Some(limit) = question.get_mut("limit") {
                    *limit = json!(subject.limit.max(used.saturating_add(ROOM)));
                }
                let _ = door.post(LIMIT, &question, None).await;
            }
            seen.extend(inspect(&door, subject, *node).await);
        }
    }
    seen
}

/// What one server says of a subject; `None` if it does not answer.
pub(crate) async fn inspect(door: &Door, subject: &Arc<Subject>, node: usize) -> Option<Seen> {
    let asked = json!({ "namespace": subject.namespace, "identifier": subject.identifier,
                        "duration": subject.window_ms });
    let reply = door.post("/v2/tidegate.inspect", &asked, None).await.ok()?;
    let number = |path: &str| reply.data().pointer(path).and_then(Value::as_u64);
    let foreign = number("/node/current/foreign").unwrap_or(0);
    let region = number("/node/current/counts")?.saturating_sub(foreign);
    let (subject, sum) = (Arc::clone(subject), number("/region/current/sum"));
    let knows_itself = reply.data().pointer("/regions/own").is_some_and(Value::is_string);
    Some(Seen { subject, node, sum, region, foreign, knows_itself })
}

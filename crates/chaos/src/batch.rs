//! Batches: several limits that are spent together or not at all.
//!
//! Each spends the same of both of a pair, which nobody else uses: what they hold in the end is the
//! same if no batch ever counted by half. Most also spend of a limit that is short, or used up.

use std::sync::Arc;

use serde_json::Value;

use crate::chance::Chance;
use crate::history::{Answer, Call, End, Item};
use crate::http::{Reply, Trouble};
use crate::load::{Load, answer, body};
use crate::options::Planted;
use crate::shape::{Class, NODES, Subject};

const MULTI_LIMIT: &str = "/v2/ratelimit.multiLimit";
/// The largest cost of each of a pair.
const COST_MAX: u64 = 3;
/// Of a hundred batches, how many need something else as well...
const GATED_PERCENT: u64 = 70;
/// ...and how many name one of the pair twice.
const TWICE_PERCENT: u64 = 20;

/// A batch that is to be sent.
#[derive(Debug)]
pub(crate) struct Batch {
    number: u64,
    node: usize,
    /// What is limited, and what it costs.
    items: Vec<(Arc<Subject>, u64)>,
}

/// The next batch.
pub(crate) fn draw(chance: &mut Chance, subjects: &[Arc<Subject>], number: u64) -> Batch {
    let node = chance.index(NODES);
    let pair = Class::Pair(chance.index(2));
    let cost = chance.between(1, COST_MAX);
    let mut items: Vec<(Arc<Subject>, u64)> = Vec::new();
    for subject in subjects.iter().filter(|subject| subject.class == pair) {
        items.push((Arc::clone(subject), cost));
    }
    if chance.percent(TWICE_PERCENT)
        && let Some((subject, cost)) = items.first().cloned()
    {
        // One of them once at twice the cost, the other twice.
        items.iter_mut().skip(1).for_each(|item| item.1 = cost.saturating_mul(2));
        items.push((subject, cost));
    }
    let is_gate = |subject: &&Arc<Subject>| {
        let may = matches!(subject.class, Class::Own | Class::Shared | Class::World | Class::Full);
        may && subject.nodes.contains(&node)
    };
    let gates: Vec<&Arc<Subject>> = subjects.iter().filter(is_gate).collect();
    if chance.percent(GATED_PERCENT)
        && let Some(gate) = gates.get(chance.index(gates.len()))
    {
        items.push((Arc::clone(gate), 1));
    }
    chance.shuffle(&mut items);
    Batch { number, node, items }
}

impl Load {
    /// One batch, each of its items written down.
    pub(crate) async fn batch(&self, batch: Batch) {
        let Batch { number, node, items } = batch;
        let Some(door) = self.world.nodes.get(node).and_then(|node| node.door()) else {
            return self.skip();
        };
        let half = self.planted_now() == Some(Planted::Half);
        // The mistake: the first of a pair is not sent, and is said to be spent all the same.
        let left_out =
            items.iter().position(|(subject, _)| matches!(subject.class, Class::Pair(_)));
        let left_out = left_out.filter(|_| half);
        let sent = items.iter().enumerate().filter(|(at, _)| Some(*at) != left_out);
        let text: Vec<Value> = sent.map(|(_, (subject, cost))| body(subject, *cost)).collect();
        let (sent_ms, sent_us) = (self.clock.now_ms(), self.clock.now_us());
        let reply = door.post(MULTI_LIMIT, &Value::Array(text), None).await;
        let took_us = self.clock.now_us().saturating_sub(sent_us);
        let mut ends = read(&reply, items.len().saturating_sub(usize::from(left_out.is_some())));
        if let (Some(at), Some((end, fits))) = (left_out, ends.first().copied()) {
            let end = match end {
                End::Answered(answer) => End::Answered(Answer { fast: false, ..answer }),
                other => other,
            };
            ends.insert(at, (end, fits));
        }
        let (life, ended_ms) = (door.life, self.clock.now_ms());
        for ((subject, cost), (end, fits)) in items.into_iter().zip(ends) {
            let item = Some(Item { batch: number, fits });
            self.note(Call { subject, item, node, life, cost, sent_ms, ended_ms, took_us, end });
        }
    }
}

/// What a reply says of each item, and whether that fits by itself.
fn read(reply: &Result<Reply, Trouble>, items: usize) -> Vec<(End, bool)> {
    let reply = match reply {
        Ok(reply) if reply.status == 200 => reply,
        Ok(reply) => return vec![(End::Status(reply.status), false); items],
        Err(trouble) => return vec![(End::Nothing(*trouble), false); items],
    };
    let passed = reply.data().get("passed").and_then(Value::as_bool);
    let limits = reply.data().get("limits").and_then(Value::as_array);
    let said = passed.zip(limits).filter(|(_, limits)| limits.len() == items);
    let one = |passed: bool, limit: &Value| {
        let fits = limit.get("passed").and_then(Value::as_bool)?;
        Some((End::Answered(answer(reply, limit, passed)?), fits))
    };
    let all = said.and_then(|(passed, limits)| {
        limits.iter().map(|limit| one(passed, limit)).collect::<Option<Vec<_>>>()
    });
    // A success that does not say what it has to say is none.
    all.unwrap_or_else(|| vec![(End::Status(200), false); items])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::subjects;

    #[test]
    fn a_batch_spends_the_same_of_both_of_a_pair() {
        let (mut chance, subjects) = (Chance::new(7, "load"), subjects(60));
        let (mut gated, mut twice) = (0, 0);
        for number in 0..1_000 {
            let batch = draw(&mut chance, &subjects, number);
            let (mut sums, mut others) = (std::collections::BTreeMap::new(), 0);
            for (subject, cost) in &batch.items {
                assert!(subject.nodes.contains(&batch.node));
                match subject.class {
                    Class::Pair(_) => *sums.entry(subject.name()).or_insert(0) += cost,
                    _ => others += 1,
                }
            }
            let sums: Vec<u64> = sums.into_values().collect();
            assert!(matches!(&sums[..], [one, other] if one == other), "{batch:?}");
            gated += others;
            twice += usize::from(batch.items.len() - others > 2);
        }
        assert!(gated > 500 && twice > 100, "{gated} {twice}");
    }

    #[test]
    fn a_reply_that_does_not_speak_of_all_items_is_none() {
        let reply = |text: &str| {
            let body = serde_json::from_str(text).unwrap();
            Ok(Reply { status: 200, body, in_region: false, replayed: false })
        };
        let item = r#"{ "passed": true, "reset": 5, "remaining": 1, "consistency": "fast" }"#;
        let whole = format!(r#"{{ "data": {{ "passed": false, "limits": [{item}] }} }}"#);
        let read_one = read(&reply(&whole), 1);
        let [(End::Answered(answer), true)] = read_one[..] else { panic!("{read_one:?}") };
        assert_eq!((answer.admitted, answer.fast, answer.reset_ms), (false, true, 5));
        assert_eq!(read(&reply(&whole), 2), vec![(End::Status(200), false); 2]);
        let lost = read(&Err(Trouble::Lost), 2);
        assert_eq!(lost, vec![(End::Nothing(Trouble::Lost), false); 2]);
    }
}

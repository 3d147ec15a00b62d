//! From the moment something is worth publishing to the one at which another region counts it.

use std::collections::BTreeMap;

use tidegate_convergence::{
    Counter, GlobalCall, GlobalError, GlobalReply, GlobeEffect, Post, unpack,
};

use super::super::dense::Dense;
use super::super::world::{World, weigh};

/// Rows are read by everybody within this.
const ROW_LIFE_MS: u64 = 30_000;

/// See the module.
pub(super) struct Latency {
    places: Dense<Saying>,
    /// What each row says, by its nonce.
    rows: BTreeMap<u64, Said>,
    cleaned_ms: u64,
}

/// What a place has to say.
#[derive(Clone, Copy, Debug, Default)]
struct Saying {
    /// When a process last found something worth posting that it has not posted yet.
    found_ms: Option<u64>,
    /// Since when that was news to its region.
    since_ms: Option<u64>,
    /// What was published of which window, and of the one before.
    sequence: u64,
    published: [u64; 2],
}

impl Saying {
    fn roll(&mut self, sequence: u64) {
        if self.sequence != sequence {
            let next = self.sequence + 1 == sequence;
            self.published = [0, if next { self.published[0] } else { 0 }];
            self.sequence = sequence;
        }
    }

    const fn sum(&self, sequence: u64) -> u64 {
        let [current, previous] = self.published;
        if sequence == self.sequence { current } else { previous }
    }

    fn raise(&mut self, sequence: u64, count: u64) {
        let [current, previous] = &mut self.published;
        if sequence == self.sequence {
            *current = count.max(*current);
        } else if sequence + 1 == self.sequence {
            *previous = count.max(*previous);
        }
    }
}

struct Said {
    sent_ms: u64,
    region: usize,
    /// Who, and since when it was worth saying.
    what: Vec<(usize, u64)>,
}

impl Latency {
    pub(super) fn new(places: usize) -> Self {
        let places = (0..places).map(|_| Saying::default()).collect();
        Self { places, rows: BTreeMap::new(), cleaned_ms: 0 }
    }

    /// A process finds something worth posting.
    pub(super) fn found(&mut self, place: usize, ms: u64) {
        self.places.at_mut(place).found_ms.get_or_insert(ms);
    }

    /// A process of a region sends something.
    pub(super) fn sent(&mut self, world: &World, region: usize, effect: &GlobeEffect) {
        match effect {
            GlobeEffect::Board { call, .. } => {
                for post in &call.posts {
                    self.posted(world, region, post);
                }
            }
            GlobeEffect::Global { call: GlobalCall::Publish(batch), .. } if !batch.repeats => {
                let counters = unpack(&batch.payload).unwrap_or_default();
                let said = counters.iter().filter_map(|one| self.published(world, region, one));
                let said = Said { sent_ms: world.ms, region, what: said.collect() };
                self.rows.insert(batch.nonce, said);
                self.clean(world.ms);
            }
            _ => {}
        }
    }

    /// Several processes may post the same: only the first has something new to say.
    fn posted(&mut self, world: &World, region: usize, post: &Post) {
        let fleet = &world.fleet;
        let person = fleet.find(&post.subject);
        let Some(number) = person.and_then(|person| fleet.place(person, region)) else { return };
        let place = fleet.places.at(number);
        let saying = self.places.at_mut(number);
        saying.roll(place.sequence);
        let found_ms = saying.found_ms.take().unwrap_or(world.ms);
        let [current, previous] = [0, 1].map(|at| {
            place.sum(place.sequence - at).saturating_sub(saying.sum(place.sequence - at))
        });
        let rest_ms = post.window_ms - world.unix_ms() % post.window_ms;
        let hidden = current + weigh(previous, rest_ms, post.window_ms);
        if hidden >= post.step {
            saying.since_ms.get_or_insert(found_ms);
        }
    }

    /// Who is spoken of to other regions that want to know, and since when that was worth it.
    fn published(&mut self, world: &World, region: usize, one: &Counter) -> Option<(usize, u64)> {
        let fleet = &world.fleet;
        let person = fleet.find(&one.subject)?;
        let number = fleet.place(person, region)?;
        let saying = self.places.at_mut(number);
        saying.roll(fleet.places.at(number).sequence);
        saying.raise(one.sequence, one.count);
        let since_ms = saying.since_ms.take()?;
        (fleet.people.at(person).regions > 1).then_some((person, since_ms))
    }

    /// A process got an answer: of each region one is looked at.
    pub(super) fn arrived(
        &self,
        world: &mut World,
        (region, rank): (usize, usize),
        answered: &Result<GlobalReply, GlobalError>,
    ) {
        let Ok(GlobalReply::Imported(rows)) = answered else { return };
        if rank > 0 || !world.measures() {
            return;
        }
        // The row that was read last comes along without its payload: it is no news.
        let news = rows.iter().filter(|row| !row.batch.payload.is_empty());
        let others = news.filter_map(|row| self.rows.get(&row.batch.nonce));
        for said in others.filter(|said| said.region != region) {
            for (person, since_ms) in &said.what {
                if world.fleet.place(*person, region).is_some() {
                    world.seen.latency_ms.push((world.ms - since_ms) as f64);
                }
            }
        }
    }

    fn clean(&mut self, now_ms: u64) {
        if now_ms > self.cleaned_ms + ROW_LIFE_MS {
            self.cleaned_ms = now_ms;
            self.rows.retain(|_, said| said.sent_ms + ROW_LIFE_MS > now_ms);
        }
    }
}

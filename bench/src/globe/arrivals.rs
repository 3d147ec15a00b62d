//! When requests come, and how many.

use super::chance::whole;
use super::fleet::Pattern;
use super::world::{Event, Scheme, World, ask, weigh};
use crate::Failure;

/// Requests that come often come together in steps of this.
const STEP_MS: u64 = 10;
/// How soon somebody who does not ask now looks whether to.
const IDLE_MS: u64 = 50;
/// Demands beyond this many requests in a window come in as many lots.
const LOTS: f64 = 100.0;

/// Runs a world until a moment.
pub(crate) fn run(
    world: &mut World,
    scheme: &mut impl Scheme,
    until_ms: u64,
) -> Result<(), Failure> {
    while let Some(event) = world.next(until_ms) {
        match event {
            Event::Arrive(place) => arrive(world, scheme, place)?,
            other => scheme.happen(world, other)?,
        }
    }
    Ok(())
}

/// Lets the requests of all places begin within so long.
pub(crate) fn begin(world: &mut World, within_ms: u64) {
    for place in 0..world.fleet.places.len() {
        let ms = 1 + world.chance.roll() % within_ms.max(1);
        world.at(ms, Event::Arrive(place));
    }
}

fn arrive(world: &mut World, scheme: &mut impl Scheme, place: usize) -> Result<(), Failure> {
    let elapsed_ms = world.roll(place);
    let person = world.fleet.people.at(world.fleet.places.at(place).person);
    match person.pattern {
        Pattern::Quiet(_) | Pattern::Work(_) => work(world, scheme, (place, elapsed_ms)),
        _ => attack(world, scheme, (place, elapsed_ms)),
    }
}

/// Somebody who does not know of regions.
fn work(
    world: &mut World,
    scheme: &mut impl Scheme,
    (number, elapsed_ms): (usize, u64),
) -> Result<(), Failure> {
    let place = world.fleet.places.at(number);
    let (sequence, drawn, person) = (place.sequence, place.drawn, place.person);
    let window_ms = world.fleet.people.at(person).window_ms;
    let (per_ms, lot) = match drawn {
        Some((of, per_ms, lot)) if of == sequence => (per_ms, lot),
        _ => {
            let demand = demand(world, number);
            let lot = (demand / LOTS).floor().max(1.0);
            let per_ms = demand / lot / window_ms as f64;
            if drawn.is_none() {
                // It did not begin to ask when we began to look.
                let before = demand * elapsed_ms as f64 / window_ms as f64;
                ask(world, scheme, number, whole(before))?;
            }
            world.fleet.places.at_mut(number).drawn = Some((sequence, per_ms, whole(lot)));
            (per_ms, whole(lot))
        }
    };
    ask(world, scheme, number, lot)?;
    let gap_ms = (world.chance.exponential() / per_ms).min(window_ms as f64 * 1.5);
    let next_ms = world.ms + whole(gap_ms).max(1);
    world.at(next_ms, Event::Arrive(number));
    Ok(())
}

/// What is asked for at a place in a window.
fn demand(world: &mut World, number: usize) -> f64 {
    let person = world.fleet.people.at(world.fleet.places.at(number).person);
    let (limit, pattern) = (person.limit as f64, person.pattern);
    let all = match pattern {
        Pattern::Work(logarithm) => {
            let mut demand = (logarithm + 0.25 * world.chance.normal()).exp();
            if world.burst > 0.0 && world.chance.happens(world.burst) {
                demand *= 5.0;
            }
            (demand * limit).max(0.3)
        }
        Pattern::Quiet(mean) => (1.0 + mean * world.chance.exponential()).min(limit / 2.0).max(1.0),
        _ => 0.0,
    };
    world.fleet.places.at(number).of_demand(all)
}

/// Somebody who does.
fn attack(
    world: &mut World,
    scheme: &mut impl Scheme,
    (number, elapsed_ms): (usize, u64),
) -> Result<(), Failure> {
    let per_ms = attack_per_ms(world, scheme, (number, elapsed_ms));
    let mean = per_ms * STEP_MS as f64;
    let window_ms = world.fleet.people.at(world.fleet.places.at(number).person).window_ms;
    let next_ms = if per_ms <= 0.0 {
        IDLE_MS
    } else if mean > 0.3 {
        let many = world.chance.poisson(mean);
        let many = careful(world, scheme, number, many);
        ask(world, scheme, number, many)?;
        STEP_MS
    } else {
        ask(world, scheme, number, 1)?;
        whole(world.chance.exponential() / per_ms).clamp(1, window_ms / 4)
    };
    let ms = world.ms + next_ms;
    world.at(ms, Event::Arrive(number));
    Ok(())
}

/// Whether one more would still not be heard of elsewhere.
fn stays_silent(world: &World, scheme: &impl Scheme, number: usize, more: u64) -> bool {
    let place = world.fleet.places.at(number);
    let person = world.fleet.people.at(place.person);
    let rest_ms = person.window_ms - world.unix_ms() % person.window_ms;
    let [current, previous] = place.used;
    let weighted = weigh(previous, rest_ms, person.window_ms) + u64::from(previous > 0);
    scheme.is_silent(person.limit, current + more, weighted)
}

/// The most of so many that a careful attacker dares.
fn careful(world: &World, scheme: &impl Scheme, number: usize, many: u64) -> u64 {
    let place = world.fleet.places.at(number);
    let person = world.fleet.people.at(place.person);
    if !matches!(person.pattern, Pattern::FloorAware) || place.rank + 1 == person.regions {
        return many;
    }
    (0..=many).rev().find(|many| stays_silent(world, scheme, number, *many)).unwrap_or(0)
}

fn attack_per_ms(world: &World, scheme: &impl Scheme, (number, elapsed_ms): (usize, u64)) -> f64 {
    let place = world.fleet.places.at(number);
    let person = world.fleet.people.at(place.person);
    let (limit, window_ms) = (person.limit as f64, person.window_ms as f64);
    let regions = person.regions;
    match person.pattern {
        Pattern::Even(limits) => limits * limit / window_ms / regions as f64,
        Pattern::Sync(limits) => {
            let begins_ms = person.phase * 0.5 * window_ms;
            let begun = elapsed_ms as f64 >= begins_ms;
            if begun { limits * limit / 1_000.0 / regions as f64 } else { 0.0 }
        }
        Pattern::FloorAware if place.rank + 1 == regions => {
            if elapsed_ms * 2 > person.window_ms {
                6.0 * limit / window_ms
            } else {
                0.0
            }
        }
        Pattern::FloorAware => {
            let dares = stays_silent(world, scheme, number, 1);
            if dares { 3.0 * limit / window_ms } else { 0.0 }
        }
        Pattern::Hop(limits, seconds) => {
            let stage = world.ms as f64 / 1_000.0 / seconds + person.phase * 10.0;
            let here = whole(stage) % regions as u64 == place.rank as u64;
            if here { limits * limit / 1_000.0 } else { 0.0 }
        }
        Pattern::Quiet(_) | Pattern::Work(_) => 0.0,
    }
}

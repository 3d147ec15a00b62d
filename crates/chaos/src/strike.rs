//! Doing what a plan says: each fault in a thread of its own, and everything mended afterwards.

use std::time::Duration;

use rustix::process::Signal;
use tidegate_lab::{Result as Lab, eventually};
use tokio::runtime::Handle;

use crate::clock::Clock;
use crate::fault::{Fault, Kind, Struck};
use crate::node::Node;
use crate::probe::inspect;
use crate::shape::{nodes_of, once, region_of};
use crate::world::World;

/// How often a connection is cut, or a command doubled, while such a fault lasts.
const EACH_MS: u64 = 50;
/// Longest delay of an answer. A server waits for 20 ms; both sides of that are of interest.
const DELAY_MS_MAX: u64 = 60;
/// Largest error of a clock. Documents ask for a second at most; counts must survive more.
const CLOCK_MS_MAX: u64 = 5_000;

/// How long a server may take to know its region.
const KNOWN_WITHIN: Duration = Duration::from_secs(45);

/// One fault, from its beginning until it is mended.
///
/// # Errors
/// What could not be started again. That is the end of the run, and no verdict about it.
pub(crate) fn strike(world: &World, clock: &Clock, fault: &Fault) -> Result<Struck, String> {
    let _held = world.hold(fault);
    if matches!(fault.kind, Kind::KillServer | Kind::EndServer | Kind::Clock) {
        await_others(world, clock, fault.node);
    }
    let from_ms = clock.now_ms();
    eprintln!(
        "{:>7.1} s  {:<16} {:<5} {} ms",
        seconds(from_ms),
        fault.kind.word(),
        fault.place(),
        fault.lasts_ms
    );
    match fault.kind {
        Kind::KillServer | Kind::EndServer | Kind::StopServer | Kind::Clock => {
            let node = world.nodes.get(fault.node).ok_or("no such server")?;
            at_server(node, clock, fault)?;
        }
        Kind::StopRedis | Kind::PauseRedis | Kind::KillRedis | Kind::Flush => {
            at_redis(world, clock, fault).map_err(|why| why.to_string())?;
        }
        Kind::StopDatabase | Kind::RestartDatabase | Kind::KillDatabase => {
            at_database(world, clock, fault).map_err(|why| why.to_string())?;
        }
        Kind::PartDatabase | Kind::PartRedis | Kind::Cut | Kind::Delay | Kind::Double => {
            at_network(world, clock, fault);
        }
    }
    Ok(Struck { fault: *fault, from_ms, to_ms: clock.now_ms() })
}

/// Waits, for a time, until another server of the region knows which region it is. One that started
/// while Redis was away does not; if then those who do end and Redis comes back empty, it is a new
/// region beside its former self, whose counts are another's (docs/globe.md). That cannot be told
/// from a mistake here.
fn await_others(world: &World, clock: &Clock, node: usize) {
    let others = || nodes_of(region_of(node)).filter(move |other| *other != node);
    let knows = |other: usize| {
        let door = world.nodes.get(other).and_then(Node::door)?;
        let subject = once(0, region_of(node));
        let asked = Handle::current().block_on(inspect(&door, &subject, other))?;
        asked.knows_itself.then_some(())
    };
    let found = || others().find_map(knows).or_else(|| clock.is_stopped().then_some(()));
    // After that the fault comes nevertheless: the lapse of a name takes half a minute.
    let _ = eventually("another server knows its region", KNOWN_WITHIN, found);
}

#[expect(clippy::cast_precision_loss, reason = "it is shown with one digit")]
pub(crate) fn seconds(ms: u64) -> f64 {
    ms as f64 / 1_000.0
}

fn at_server(node: &Node, clock: &Clock, fault: &Fault) -> Result<(), String> {
    match fault.kind {
        Kind::KillServer => {
            node.kill();
            clock.wait_for(fault.lasts_ms);
            node.start(0)
        }
        Kind::EndServer => {
            retire(node)?;
            clock.wait_for(fault.lasts_ms);
            node.start(0)
        }
        Kind::Clock => {
            let off_ms = i64::try_from(fault.dice % CLOCK_MS_MAX).unwrap_or(0).saturating_add(1);
            retire(node)?;
            node.start(if fault.dice & (1 << 40) == 0 { off_ms } else { -off_ms })?;
            clock.wait_for(fault.lasts_ms);
            retire(node)?;
            node.start(0)
        }
        _ => {
            node.signal(Signal::STOP);
            clock.wait_for(fault.lasts_ms);
            node.signal(Signal::CONT);
            Ok(())
        }
    }
}

fn retire(node: &Node) -> Result<(), String> {
    if node.retire() { Ok(()) } else { Err("a server did not end after SIGTERM".to_owned()) }
}

fn at_redis(world: &World, clock: &Clock, fault: &Fault) -> Lab<()> {
    let Some(mut redis) = world.redis(region_of(fault.node)) else { return Ok(()) };
    match fault.kind {
        Kind::Flush => redis.command(&["FLUSHALL"]).map(|_| ()),
        Kind::PauseRedis => {
            let lasts_ms = fault.lasts_ms.to_string();
            redis.command(&["CLIENT", "PAUSE", &lasts_ms, "ALL"])?;
            clock.wait_for(fault.lasts_ms);
            Ok(())
        }
        Kind::KillRedis => {
            redis.kill_9();
            clock.wait_for(fault.lasts_ms);
            redis.restart()
        }
        _ => {
            redis.pause()?;
            clock.wait_for(fault.lasts_ms);
            redis.resume()
        }
    }
}

fn at_database(world: &World, clock: &Clock, fault: &Fault) -> Lab<()> {
    let mut database = world.database();
    match fault.kind {
        Kind::StopDatabase => {
            database.pause()?;
            clock.wait_for(fault.lasts_ms);
            return database.resume();
        }
        Kind::KillDatabase => database.kill_9(),
        _ => database.stop()?,
    }
    clock.wait_for(fault.lasts_ms);
    database.restart()
}

fn at_network(world: &World, clock: &Clock, fault: &Fault) {
    let refuses = fault.dice & 1 == 0;
    let apart = |ways: &[&tidegate_lab::Proxy]| {
        let set = |on: bool| {
            for way in ways {
                if refuses { way.refuse(on) } else { way.blackhole(on) }
            }
        };
        set(true);
        clock.wait_for(fault.lasts_ms);
        set(false);
    };
    if fault.kind == Kind::PartDatabase {
        let ways = nodes_of(region_of(fault.node)).filter_map(|at| world.database_ways.get(at));
        apart(&ways.collect::<Vec<_>>());
        return;
    }
    let Some(way) = world.redis_ways.get(fault.node) else { return };
    let end_ms = clock.now_ms().saturating_add(fault.lasts_ms);
    match fault.kind {
        Kind::PartRedis => apart(&[way]),
        Kind::Delay => {
            way.delay(Duration::from_millis(fault.dice % DELAY_MS_MAX + 1));
            clock.wait_for(fault.lasts_ms);
            way.delay(Duration::ZERO);
        }
        _ => {
            while clock.now_ms() < end_ms && !clock.is_stopped() {
                if fault.kind == Kind::Cut {
                    way.cut_after(fault.dice % 400)
                } else {
                    way.duplicate()
                }
                clock.wait_for(EACH_MS);
            }
        }
    }
}

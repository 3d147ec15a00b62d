//! Overrides: what they cost must not depend on how many there are. They are set in the database
//! itself: one by one over HTTP would take an hour.

use std::time::Duration;

use tidegate_lab::MariaDbServer;

use super::super::contestants::{KEY, Running, subject};
use super::super::cores::Apart;
use super::super::load::{Loop, Offer};
use super::super::packed::Packed;
use super::super::process::resident_mib;
use super::super::wire::{Post, Protocol};
use super::super::{CONNECTIONS, Kind, LIMIT, Scene, WINDOW_MS};
use super::{ASKED, MEASURED_S, Size, at_full, measure_in, migrate, p999, start};
use crate::Failure;
use crate::figures::{Figures, ratio};
use crate::region::time;

/// How many namespaces there are.
const NAMESPACES: [usize; 4] = [1, 4, 16, 64];
/// Overrides of each namespace, and of a kind of which there are many.
const MANY: usize = 10_000;
/// And of one of which there are few.
const FEW: usize = 10;
/// Most patterns with text between two `*`, as a namespace may have.
const SCANNED: usize = 64;
/// How much more a request may cost with many than with few. Nothing should be more; a machine is
/// never quiet enough for less.
const MORE: f64 = 1.1;
/// Rounds in which the kinds of overrides take turns, and those of each number of namespaces.
const ROUNDS: u32 = 4;
/// How long the server may take to hear of what was set: within two seconds, and it is read for a
/// while.
const HEARD_S: f64 = 6.0;

/// A name, how many, and what they are for.
type Patterns = (&'static str, usize, fn(usize) -> String);

/// Kinds of overrides in one namespace, and which of them is compared with the one before.
const KINDS: [Patterns; 8] = [
    ("none", 0, exact),
    ("10 exact", FEW, exact),
    ("10000 exact", MANY, exact),
    ("10 prefixes", FEW, prefix),
    ("10000 prefixes", MANY, prefix),
    ("10 suffixes", FEW, suffix),
    ("10000 suffixes", MANY, suffix),
    ("64 of *text*", SCANNED, scanned),
];

/// Of nobody who is asked about, like the others: a request that meets one says so, which costs.
/// They begin as those who are, and part from them at the end.
fn exact(at: usize) -> String {
    format!("{}x", subject(at))
}

fn prefix(at: usize) -> String {
    format!("{}x*", subject(at))
}

/// They end as those who are asked about, and part from them at the beginning of their number.
fn suffix(at: usize) -> String {
    format!("*_x{at:07}")
}

fn scanned(at: usize) -> String {
    format!("*nobody_{at}*")
}

/// Half of the overrides are exact, of one in ten who are asked about, and half are patterns with a
/// prefix.
pub(super) async fn namespaces(scene: &Scene) -> Result<Vec<Size>, Failure> {
    let database = MariaDbServer::start()?;
    migrate(scene, &database.url())?;
    let (process, running) = start(scene, &["--database", &database.url()]).await?;
    let (mut sizes, mut known) = (Vec::new(), 0);
    let each = if scene.smoke { MANY / 100 } else { MANY };
    let pattern = |at: usize| if at.is_multiple_of(2) { subject(at * 5) } else { prefix(at) };
    for count in NAMESPACES {
        let offer = asking(&running, |number| number % count)?;
        enter(&offer, count).await?;
        for number in known..count {
            set(&database, number, (0..each).map(pattern))?;
        }
        known = count;
        heard(scene).await;
        let _apart = Apart::begin()?;
        sizes.push(measure_in(scene, (&process, &offer), count.to_string(), ROUNDS).await?);
    }
    Ok(sizes)
}

pub(super) fn add_namespaces(name: &str, sizes: &[Size], figures: &mut Figures) {
    let [few, .., many] = sizes else { return };
    add_grown(name, (few, many), figures);
}

/// Each kind has a namespace of its own, and they take turns.
pub(super) async fn kinds(scene: &Scene) -> Result<Vec<Size>, Failure> {
    let database = MariaDbServer::start()?;
    migrate(scene, &database.url())?;
    let (process, running) = start(scene, &["--database", &database.url()]).await?;
    let mut offers = Vec::new();
    for (number, (_, count, pattern)) in KINDS.into_iter().enumerate() {
        let offer = asking(&running, |_| number)?;
        enter(&offer, 1).await?;
        let count = if scene.smoke { count.min(FEW) } else { count };
        set(&database, number, (0..count).map(pattern))?;
        offers.push(offer);
    }
    heard(scene).await;
    let _apart = Apart::begin()?;
    let loads: Vec<_> = offers.iter().map(|offer| (&process, offer)).collect();
    let best = at_full(scene, &loads, ROUNDS).await?;
    let mut sizes = Vec::new();
    for ((name, ..), (offer, (per_second, cpu_us))) in KINDS.iter().zip(offers.iter().zip(best)) {
        let how = Loop::Open(per_second / 2.0, scene.lasting(MEASURED_S / 2.0));
        let p999_us = p999(&offer.run(how).await?.all_good(name)?);
        let (name, max_us) = ((*name).to_owned(), None);
        let resident_mib = resident_mib(process.pid());
        sizes.push(Size { name, per_second, cpu_us, p999_us, max_us, resident_mib });
    }
    Ok(sizes)
}

pub(super) fn add_kinds(name: &str, sizes: &[Size], figures: &mut Figures) {
    let [none, few_exact, many_exact, few_prefixes, many_prefixes, rest @ ..] = sizes else {
        return;
    };
    let [few_suffixes, many_suffixes, _] = rest else { return };
    add_grown(name, (few_exact, many_exact), figures);
    add_grown(name, (few_prefixes, many_prefixes), figures);
    add_grown(name, (few_suffixes, many_suffixes), figures);
    add_grown(name, (none, many_prefixes), figures);
}

fn add_grown(name: &str, (few, many): (&Size, &Size), figures: &mut Figures) {
    let grown = ratio(many.cpu_us, few.cpu_us);
    let target = format!("CPU with {}, of {} <= {MORE}x", many.name, few.name);
    figures.target(name, target, format!("{grown:.2}x"), grown > 0.0 && grown <= MORE);
}

/// Requests about subjects, each in the namespace with the number that its own stands for.
fn asking(running: &Running, space: impl Fn(usize) -> usize) -> Result<Offer, Failure> {
    let script = (0..ASKED / 10).map(|number| {
        let body = format!(
            "{{\"namespace\":\"space_{}\",\"identifier\":\"{}\",\"limit\":{LIMIT},\
             \"duration\":{WINDOW_MS}}}",
            space(number),
            subject(number)
        );
        Post { path: "/v2/ratelimit.limit", key: KEY, body: &body }.write(Protocol::Http1)
    });
    let script = Packed::of(script)?;
    let offer = running.offer(Kind::Limit, Protocol::Http1, 1)?;
    Ok(Offer { script, connections: CONNECTIONS, ..offer })
}

/// Asks about the first so many, whose namespaces are entered by that.
async fn enter(offer: &Offer, count: usize) -> Result<(), Failure> {
    let how = Loop::Count(u64::try_from(count)?);
    let entering = Offer { connections: 1, ..offer.clone() };
    entering.run(how).await?.all_good("entering").map(drop)
}

async fn heard(scene: &Scene) {
    time::sleep(Duration::from_secs_f64(if scene.smoke { 1.0 } else { HEARD_S })).await;
}

fn set(
    database: &MariaDbServer,
    number: usize,
    patterns: impl Iterator<Item = String>,
) -> Result<(), Failure> {
    let rows = patterns.enumerate().map(|(at, pattern)| {
        let id = format!("rlor_b{number:02}{at:06}");
        format!("('{id}', @id, '{pattern}', {LIMIT}, {WINDOW_MS}, 1, NULL, @revision)")
    });
    let rows: Vec<String> = rows.collect();
    // The command line of the client holds so many.
    for rows in rows.chunks(1_000) {
        database.query(&format!(
            "START TRANSACTION; UPDATE tidegate_revision SET revision = revision + 1; \
             SELECT revision INTO @revision FROM tidegate_revision; \
             SELECT id INTO @id FROM tidegate_namespaces WHERE name = 'space_{number}'; \
             INSERT INTO tidegate_overrides VALUES {}; COMMIT",
            rows.join(",")
        ))?;
    }
    Ok(())
}

//! What is felt when windows end and when memory is full: beside a control to which that does not
//! happen, in turns, so that what else the machine does is felt by both.

use super::super::contestants::{KEY, Running, item, subject};
use super::super::cores::Apart;
use super::super::load::{Loop, Offer};
use super::super::packed::Packed;
use super::super::process::{Process, free_address, resident_mib};
use super::super::wire::{Post, Protocol};
use super::super::{Kind, LIMIT, Scene, WINDOW_MS};
use super::watch::Watch;
use super::{ASKED, MEASURED_S, ROUNDS, Size, at_full, p999, start};
use crate::Failure;
use crate::figures::{Figures, quantile};

/// Turns of half load. A pause of another program in one of them is not the median.
const TURNS: u32 = 5;
/// How long half load goes on in each before anything counts: the windows before have begun, and
/// what is shared is on its way.
const TURN_WARM_S: f64 = 1.0;
/// Seconds of full load that as many requests take as each of those that take turns is asked.
pub(super) const TURNS_FULL_S: f64 = MEASURED_S + TURNS as f64 * (TURN_WARM_S + MEASURED_S) / 2.0;
/// The longest pause that one request in a thousand may see.
const PAUSE_US: f64 = 5_000.0;
/// Subjects of windows that end each second: so few that each was asked about in the window before.
const ROLLED: usize = 5_000;
/// The length of these windows.
const ROLLED_MS: u64 = 1_000;
/// What is counted of subjects that others needed the room of.
const EVICTED: [&str; 1] = ["tidegate_subjects_dropped_total{reason=\"evicted\"}"];

/// One of those that take turns.
pub(super) struct Contender {
    name: String,
    process: Process,
    pub(super) offer: Offer,
}

impl Contender {
    /// A server with more arguments, and what it is asked.
    pub(super) async fn start(
        scene: &Scene,
        name: &str,
        args: &[&str],
        offered: impl FnOnce(&Running) -> Result<Offer, Failure>,
    ) -> Result<Self, Failure> {
        let (process, running) = start(scene, args).await?;
        Ok(Self { name: name.to_owned(), process, offer: offered(&running)? })
    }

    /// One turn at half of what it can do: what one in a thousand exceeds, and the longest of all.
    async fn turn(&self, scene: &Scene, per_second: f64) -> Result<(f64, f64), Failure> {
        let half = |seconds| Loop::Open(per_second / 2.0, scene.lasting(seconds));
        self.offer.run(half(TURN_WARM_S)).await?.all_good(&self.name)?;
        let taken = self.offer.run(half(MEASURED_S)).await?.all_good(&self.name)?;
        Ok((p999(&taken), taken.latencies_us.last().copied().map_or(0.0, f64::from)))
    }
}

/// Full load for the cost, then half of it for the latency, of all in turns.
pub(super) async fn in_turns(scene: &Scene, all: &[Contender]) -> Result<Vec<Size>, Failure> {
    let _apart = Apart::begin()?;
    let loads: Vec<_> = all.iter().map(|one| (&one.process, &one.offer)).collect();
    let full = at_full(scene, &loads, ROUNDS).await?;
    let mut felt = vec![(Vec::new(), 0.0_f64); all.len()];
    for _ in 0..TURNS {
        for ((one, (per_second, _)), (p999_us, max_us)) in all.iter().zip(&full).zip(&mut felt) {
            let (thousandth, longest) = one.turn(scene, *per_second).await?;
            p999_us.push(thousandth);
            *max_us = max_us.max(longest);
        }
    }
    let sizes = all.iter().zip(full).zip(felt);
    let size = |((one, (per_second, cpu_us)), (mut p999_us, max_us)): (_, (Vec<f64>, f64))| {
        let one: &Contender = one;
        p999_us.sort_by(f64::total_cmp);
        let (p999_us, max_us) = (quantile(&p999_us, 0.5), Some(max_us));
        let resident_mib = resident_mib(one.process.pid());
        Size { name: one.name.clone(), per_second, cpu_us, p999_us, max_us, resident_mib }
    };
    Ok(sizes.map(size).collect())
}

/// All but the control, which comes first.
pub(super) fn add(name: &str, sizes: &[Size], figures: &mut Figures) {
    for size in sizes.iter().skip(1) {
        let target = format!("p99.9 <= {PAUSE_US} us");
        let reached = format!("{:.0} us", size.p999_us);
        let case = format!("{name}/{}", size.name);
        let met = size.p999_us > 0.0 && size.p999_us <= PAUSE_US;
        figures.target(&case, target, reached, met);
    }
}

pub(super) async fn rollover(scene: &Scene) -> Result<Vec<Size>, Failure> {
    let of = |window_ms: u64| move |running: &Running| rolled(scene, running, window_ms);
    let all = [
        Contender::start(scene, "windows of 60 s", &[], of(WINDOW_MS)).await?,
        Contender::start(scene, "windows of 1 s", &[], of(ROLLED_MS)).await?,
    ];
    in_turns(scene, &all).await
}

fn rolled(scene: &Scene, running: &Running, window_ms: u64) -> Result<Offer, Failure> {
    let script = (0..if scene.smoke { 100 } else { ROLLED }).map(|number| {
        let (body, window) = (item(&subject(number), LIMIT), format!("\"duration\":{window_ms}"));
        let body = body.replace(&format!("\"duration\":{WINDOW_MS}"), &window);
        Post { path: "/v2/ratelimit.limit", key: KEY, body: &body }.write(Protocol::Http1)
    });
    let offer = running.offer(Kind::Limit, Protocol::Http1, 1)?;
    Ok(Offer { script: Packed::of(script)?, ..offer })
}

/// The script goes through all subjects in turn, so that each is new when it comes again.
pub(super) async fn eviction(scene: &Scene) -> Result<Vec<Size>, Failure> {
    let offered = |running: &Running| running.offer(Kind::Limit, Protocol::Http1, ASKED);
    let admin = free_address()?;
    let few = ["--memory", "2MiB", "--admin-listen", &admin.to_string()];
    let all = [
        Contender::start(scene, "room for all", &["--memory", "256MiB"], offered).await?,
        Contender::start(scene, "memory for 6 %", &few, offered).await?,
    ];
    let evicted = Watch::begin(admin, &EVICTED)?;
    let sizes = in_turns(scene, &all).await?;
    evicted.end(scene)?;
    Ok(sizes)
}

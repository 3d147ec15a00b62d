//! What is offered to a fleet, and what that comes to.

use std::sync::Arc;
use std::time::Duration;

use tidegate::Consistency;

use super::fleet::{ALL, Fleet, REGIONS};
use super::redis::{self, Did, Look};
use crate::Failure;
use crate::decide::keys::{Random, Script};
use crate::figures::{Figures, ratio};
use crate::globe::database::{Database, Work};
use crate::region::Scene;
use crate::region::ours::{Desk, Offered, Terms, offer};
use crate::region::time::Shifted;

/// The window of all limits: the shortest that regions share.
const WINDOW_MS: u64 = 60_000;
/// How far into a window a run begins, how long it goes on before anything is measured, and how
/// long after: one whole window and its boundary.
const BEGINS: Duration = Duration::from_secs(45);
const WARM_S: f64 = 20.0;
const MEASURED_S: f64 = 60.0;
/// Accesses in the script of a process: it repeats after many rounds of all windows.
const ROUNDS: usize = 16;

/// What is offered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// Windows in use.
    pub(super) windows: usize,
    /// For each of them, by the whole fleet.
    pub(super) requests_per_minute: u64,
    pub(super) limit: u64,
    pub(super) consistency: Consistency,
}

/// What it came to.
struct Ran {
    offered: Vec<Offered>,
    did: Did,
    work: Work,
}

impl Load {
    pub(super) async fn run(
        self,
        scene: &Scene,
        database: &Database,
        (name, figures): (&str, &mut Figures),
    ) -> Result<(), Failure> {
        let windows = scene.many(self.windows);
        let fleet = Fleet::start(scene, database, Shifted::at(BEGINS)).await?;
        let empty = redis::memory(&fleet.servers)?;
        let desks = self.desks(&fleet, windows)?;
        let per_second = u64::try_from(windows)? * self.requests_per_minute / 60;
        eprintln!("{name}: {windows} windows, {per_second} requests/s at {ALL} processes");
        self.offer(&desks, per_second, scene.lasting(WARM_S)).await?;
        let (look, status) = (Look::at(&fleet.servers)?, database.status()?);
        let offered = self.offer(&desks, per_second, scene.lasting(MEASURED_S)).await?;
        let did = look.since(&fleet.servers, empty)?;
        let work = database.since(&status)?;
        drop(desks);
        fleet.end().await;
        let ran = Ran { offered, did, work };
        ran.add(figures, name, windows as f64 / 1_000.0);
        Ok(())
    }

    /// One for each process; each asks for all windows, in an order of its own.
    fn desks(self, fleet: &Fleet, windows: usize) -> Result<Vec<Desk>, Failure> {
        let terms = Terms { limit: self.limit, window_ms: WINDOW_MS };
        let desk = |(seed, limiter)| {
            let mut random = Random::new(seed);
            let numbers: Vec<usize> =
                (0..windows * ROUNDS).map(|_| random.below(windows)).collect();
            let script = Arc::new(Script::new(numbers.into_iter()));
            Desk { limiter: Arc::clone(limiter), script, terms, consistency: self.consistency }
        };
        Ok((1..).zip(&fleet.limiters).map(desk).collect())
    }

    /// Everybody gets an equal share, at the same time.
    async fn offer(
        self,
        desks: &[Desk],
        per_second: u64,
        duration: Duration,
    ) -> Result<Vec<Offered>, Failure> {
        let share = per_second / u64::try_from(desks.len().max(1))?;
        let offering = desks.iter().cloned();
        let offering =
            offering.map(|desk| tokio::spawn(async move { offer(&desk, share, duration).await }));
        let mut offered = Vec::new();
        for one in offering.collect::<Vec<_>>() {
            offered.push(one.await?);
        }
        Ok(offered)
    }
}

impl Ran {
    /// Adds the figures, for each `thousands` of windows.
    fn add(&self, figures: &mut Figures, case: &str, thousands: f64) {
        let seconds = self.offered.iter().map(|one| one.took.as_secs_f64()).fold(0.0, f64::max);
        let sum = |get: fn(&Offered) -> u64| self.offered.iter().map(get).sum::<u64>() as f64;
        let asked = sum(|one| one.asked);
        let each = |value: f64| ratio(ratio(value, seconds), thousands);
        let mut add = |who: &str, value: f64, unit: &str| figures.add(case, who, value, unit);
        add("fleet", thousands * 1_000.0, "windows in use");
        add("fleet", each(asked), "requests/s");
        add("fleet", ratio(100.0 * sum(|one| one.admitted), asked), "% admitted");
        add("fleet", ratio(100.0 * sum(|one| one.waited), asked), "% waited for Redis");
        let Did { cpu_us, commands, bytes, keys, memory } = self.did;
        add("each redis", each(commands) / REGIONS as f64, "calls/s");
        add("each redis", each(cpu_us) / REGIONS as f64 / 10_000.0, "% of a core");
        add("each redis", each(bytes) / REGIONS as f64 / 1_000.0, "kB/s");
        add("each redis", ratio(memory, keys), "bytes/key");
        let Work { statements, rows_written, bytes: told, cpu_us, .. } = self.work;
        add("database", each(statements), "statements/s");
        add("database", each(rows_written), "rows written or deleted/s");
        add("database", each(told) / 1_000.0, "kB/s");
        add("database", each(cpu_us) / 10_000.0, "% of a core");
        add("each process", each(bytes + told) / ALL as f64 / 1_000.0, "kB/s to its stores");
    }
}

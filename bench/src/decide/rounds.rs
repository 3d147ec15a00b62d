//! Measuring: contestants take turns within each round, so that whatever disturbs the machine
//! disturbs all of them alike.

use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use super::contestant::{Drive, Stretch, WINDOW_MS};
use super::field;
use super::keys::Script;
use super::workload::Workload;
use crate::{Failure, machine};

/// The numbers of threads.
const THREADS: [usize; 2] = [1, 2];
/// How often a stretch is timed, at most, when others disturb it; the least disturbed counts.
const ATTEMPTS: usize = 2;
/// The share of a stretch that others may have had the core.
const WAITED_MAX: f64 = 0.01;

/// What one contestant took in one case, round by round.
pub(crate) struct Measured {
    /// The workload and the number of threads.
    pub(crate) case: String,
    /// Who.
    pub(crate) contestant: &'static str,
    /// Of what.
    pub(crate) unit: &'static str,
    samples: Vec<f64>,
}

impl Measured {
    /// The best round: what it costs when nothing disturbs.
    pub(crate) fn min(&self) -> f64 {
        self.samples.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// The round in the middle.
    pub(crate) fn median(&self) -> f64 {
        let mut sorted = self.samples.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let upper = sorted.get(middle).copied().unwrap_or(f64::NAN);
        if sorted.len() % 2 == 1 {
            return upper;
        }
        let lower = middle.checked_sub(1).and_then(|at| sorted.get(at)).copied();
        lower.map_or(upper, |lower| f64::midpoint(lower, upper))
    }
}

/// How to measure.
#[derive(Clone, Copy)]
pub(crate) struct Plan<'a> {
    /// How many rounds.
    pub(crate) rounds: usize,
    /// Who takes part; everybody if empty.
    pub(crate) contestants: &'a [String],
}

/// One contestant and what was measured of it, for each number of threads.
struct Entrant {
    name: &'static str,
    drive: Box<dyn Drive>,
    samples: [Vec<f64>; THREADS.len()],
}

/// Runs one workload.
pub(crate) fn measure(workload: &Workload, plan: Plan<'_>) -> Result<Vec<Measured>, Failure> {
    let mut entrants = enter(workload, plan)?;
    if entrants.is_empty() {
        return Ok(Vec::new());
    }
    let script = workload.script();
    let stretches = u64::try_from(plan.rounds * THREADS.len())? + 1;
    let questions_per_ms = (workload.questions * stretches / workload.room_ms()).max(1_024);
    let stretch = Stretch {
        start: 0,
        questions: workload.questions,
        from_ms: workload.begins_ms(),
        questions_per_ms,
    };
    let mut stretch = warm_up(workload, &script, &entrants, stretch)?;
    for round in 0..plan.rounds {
        eprintln!("{}: round {} of {}", workload.name, round + 1, plan.rounds);
        for (at, threads) in THREADS.into_iter().enumerate() {
            let count = entrants.len();
            for turn in 0..count {
                let Some(entrant) = entrants.get_mut((turn + round) % count) else { continue };
                let questions = stretch.questions / field::share(entrant.name);
                let own = Stretch { questions, ..stretch };
                let asked = questions * u64::try_from(threads)?;
                let mut best = Timed::default();
                for _ in 0..ATTEMPTS {
                    let timed = time(&*entrant.drive, &script, own, threads);
                    check(workload, entrant.name, timed.admitted, asked)?;
                    best = if timed.waited < best.waited { timed } else { best };
                    if best.waited <= WAITED_MAX {
                        break;
                    }
                }
                if let Some(samples) = entrant.samples.get_mut(at) {
                    samples.push(best.value);
                }
            }
            stretch.from_ms = stretch.until_ms();
        }
    }
    Ok(collect(workload, entrants))
}

fn enter(workload: &Workload, plan: Plan<'_>) -> Result<Vec<Entrant>, Failure> {
    let mut entrants = Vec::new();
    for name in field::NAMES {
        let wanted = plan.contestants.is_empty() || plan.contestants.iter().any(|one| one == name);
        if !wanted || !field::takes_part(name, workload) {
            continue;
        }
        if let Some(drive) = field::enter(name, workload.setup)? {
            entrants.push(Entrant { name, drive, samples: Default::default() });
        }
    }
    Ok(entrants)
}

/// Asks for every key before the clock starts, then for a tenth of a round.
fn warm_up(
    workload: &Workload,
    script: &Script,
    entrants: &[Entrant],
    stretch: Stretch,
) -> Result<Stretch, Failure> {
    let keys = workload.setup.keys;
    let all = Script::each_once(keys);
    let tenth = stretch.questions / 10;
    for entrant in entrants {
        eprintln!("{}: filling {} with {keys} keys", workload.name, entrant.name);
        let per_question = entrant.drive.keys_per_question();
        let fill = |from_ms: u64| -> Result<(), Failure> {
            let questions = u64::try_from(keys.div_ceil(per_question))?;
            let questions_per_ms = questions;
            entrant.drive.drive(&all, Stretch { start: 0, questions, from_ms, questions_per_ms });
            Ok(())
        };
        if workload.previous {
            // Counts worth weighing, not just one.
            for _ in 0..3 {
                fill(0)?;
            }
            fill(WINDOW_MS)?;
        } else {
            fill(0)?;
        }
        let questions = tenth / field::share(entrant.name);
        entrant.drive.drive(script, Stretch { questions: questions.max(100), ..stretch });
    }
    let from_ms = Stretch { questions: tenth.max(100), ..stretch }.until_ms();
    Ok(Stretch { from_ms, ..stretch })
}

/// One stretch, timed.
#[derive(Clone, Copy)]
struct Timed {
    /// Nanoseconds per question, the mean of the threads'.
    value: f64,
    /// How many questions were admitted.
    admitted: u64,
    /// The share of the time in which a thread could have run but others had its core.
    waited: f64,
}

impl Default for Timed {
    fn default() -> Self {
        Self { value: f64::NAN, admitted: 0, waited: f64::INFINITY }
    }
}

fn time(drive: &dyn Drive, script: &Script, stretch: Stretch, threads: usize) -> Timed {
    let barrier = Barrier::new(threads);
    let run = |thread: usize| {
        let start = script.len() / threads * thread;
        let waited = machine::waited_ns();
        barrier.wait();
        let begin = now();
        let admitted = drive.drive(script, Stretch { start, ..stretch });
        let elapsed = begin.elapsed().as_nanos() as f64;
        let waited = machine::waited_ns().saturating_sub(waited) as f64;
        let value = elapsed / stretch.questions as f64;
        Timed { value, admitted, waited: waited / elapsed }
    };
    let run = &run;
    let results: Vec<Timed> = if threads == 1 {
        vec![run(0)]
    } else {
        thread::scope(|scope| {
            let handles: Vec<_> =
                (0..threads).map(|thread| scope.spawn(move || run(thread))).collect();
            handles.into_iter().filter_map(|handle| handle.join().ok()).collect()
        })
    };
    Timed {
        value: results.iter().map(|one| one.value).sum::<f64>() / threads as f64,
        admitted: results.iter().map(|one| one.admitted).sum(),
        waited: results.iter().map(|one| one.waited).fold(0.0, f64::max),
    }
}

#[expect(clippy::disallowed_methods, reason = "a bench measures real time")]
fn now() -> Instant {
    Instant::now()
}

/// Whoever answers otherwise than the workload means was not measured at what we say.
fn check(workload: &Workload, name: &str, admitted: u64, asked: u64) -> Result<(), Failure> {
    // A denied key regains a little while the clock runs.
    let right = if workload.denied { admitted <= 10 + asked / 1_000 } else { admitted == asked };
    if right {
        return Ok(());
    }
    let expected = if workload.denied { "next to none" } else { "all" };
    let case = workload.name;
    Err(format!("{case}: {name} admitted {admitted} of {asked}, not {expected}").into())
}

fn collect(workload: &Workload, entrants: Vec<Entrant>) -> Vec<Measured> {
    let mut measured = Vec::new();
    for (at, threads) in THREADS.into_iter().enumerate() {
        for entrant in &entrants {
            measured.push(Measured {
                case: format!("{}/{threads}t", workload.name),
                contestant: entrant.name,
                unit: workload.unit(),
                samples: entrant.samples.get(at).cloned().unwrap_or_default(),
            });
        }
    }
    measured
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(samples: &[f64]) -> Measured {
        let case = String::new();
        Measured { case, contestant: "tidegate", unit: "ns", samples: samples.to_vec() }
    }

    #[test]
    fn the_median_is_the_round_in_the_middle() {
        assert!((measured(&[3.0, 1.0, 9.0]).median() - 3.0).abs() < 1e-9);
        assert!((measured(&[4.0, 1.0, 9.0, 2.0]).median() - 3.0).abs() < 1e-9);
        assert!((measured(&[4.0, 1.0, 9.0, 2.0]).min() - 1.0).abs() < 1e-9);
    }
}

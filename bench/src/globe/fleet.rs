//! The RFC's fleet: 10 regions, 33 processes, and who asks for what where.

use std::collections::BTreeMap;

use tidegate_limiter::{Digest, FleetSecret, Part, RequestError, Subject, Window};

use super::chance::{Chance, whole};
use super::dense::Dense;

/// Processes of each region.
pub(crate) const PROCESSES: [usize; 10] = [6, 5, 4, 4, 3, 3, 2, 2, 2, 2];
/// Which part of the subjects each region has.
const TRAFFIC: [f64; 10] = [0.25, 0.18, 0.14, 0.11, 0.09, 0.07, 0.06, 0.04, 0.03, 0.03];
/// Subjects for each active window: not all of them are active at any moment.
const SUBJECTS_PER_ACTIVE: f64 = 1.3;
/// As long as the names that the RFC's deployment sees.
const WORKSPACE: &str = "ws_3ZfQ8rT1kLmNpVxY";
const NAMESPACE: &str = "api.requests";

/// How requests for a subject come.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pattern {
    /// A handful for each window, so many on average.
    Quiet(f64),
    /// Log-normal about this logarithm of limits for each window.
    Work(f64),
    /// So many limits for each window, evenly over all regions.
    Even(f64),
    /// All regions but one stay just below what makes them speak; the last one does not.
    FloorAware,
    /// So many limits a second in all regions at once, from a random moment on.
    Sync(f64),
    /// So many limits a second in one region, for so many seconds, then in the next.
    Hop(f64, f64),
}

/// What the subjects of a fleet are like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mix {
    /// Which part of them is quiet.
    quiet: f64,
    /// The others: the logarithm of the median demand, in limits, and its spread.
    work: (f64, f64),
    /// Which part is used in more than one region.
    overlap: f64,
    /// How often a working subject asks for five times as much.
    pub(crate) burst: f64,
}

impl Mix {
    /// 75 % quiet, 25 % working at a median of 0.55 of the limit.
    pub(crate) const A: Self = Self { quiet: 0.75, work: (-0.6, 0.32), overlap: 0.05, burst: 0.0 };
    /// The same, working at a median of 0.3. The spread is such that it denies about as much.
    pub(crate) const L: Self = Self { work: (-1.2, 0.55), ..Self::A };
    /// All working, at a median of 0.11, and as much denied.
    pub(crate) const B: Self = Self { quiet: 0.0, work: (-2.2, 0.89), ..Self::A };
    /// The RFC's bursts: more overlap, and about a quarter of all requests denied.
    pub(crate) const PEAK: Self = Self { overlap: 0.08, burst: 0.1, ..Self::A };
}

/// Who is limited.
#[derive(Clone, Debug)]
pub(crate) struct Person {
    pub(crate) identifier: String,
    pub(crate) window_ms: u64,
    pub(crate) limit: u64,
    pub(crate) pattern: Pattern,
    /// Its places are this one and those after it.
    pub(crate) first: usize,
    pub(crate) regions: usize,
    /// A random number of its own, from 0 to 1.
    pub(crate) phase: f64,
    /// The current window, what all regions admitted of it and of the one before, and the most that
    /// both ever came to, in limits.
    pub(crate) sequence: u64,
    pub(crate) total: [u64; 2],
    pub(crate) worst: f64,
}

impl Person {
    /// Its name to the limiter.
    pub(crate) fn subject(&self) -> Result<Subject<'_>, RequestError> {
        subject(&self.identifier, self.window_ms)
    }

    /// Its places.
    pub(crate) const fn places(&self) -> std::ops::Range<usize> {
        self.first..self.first + self.regions
    }
}

fn subject(identifier: &str, window_ms: u64) -> Result<Subject<'_>, RequestError> {
    let (workspace, namespace) = (Part::new(WORKSPACE)?, Part::new(NAMESPACE)?);
    let window = Window::from_millis(window_ms)?;
    Ok(Subject::new(workspace, namespace, Part::new(identifier)?, window))
}

/// A subject in one region.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) person: usize,
    pub(crate) region: usize,
    /// The how-manieth of its regions.
    pub(crate) rank: usize,
    /// Which part of its requests comes here.
    share: f64,
    /// What the region recorded of the current window and of the one before.
    pub(crate) sequence: u64,
    pub(crate) used: [u64; 2],
    /// The first of one number for each process of the region.
    pub(crate) first_seat: usize,
    /// In the window for which it was drawn: requests for each ms, and how many come together.
    pub(crate) drawn: Option<(u64, f64, u64)>,
}

impl Place {
    /// What the region recorded of a window.
    pub(crate) const fn sum(&self, sequence: u64) -> u64 {
        let [current, previous] = self.used;
        if self.sequence == sequence {
            current
        } else if self.sequence == sequence + 1 {
            previous
        } else {
            0
        }
    }

    pub(crate) fn of_demand(&self, demand: f64) -> f64 {
        demand * self.share
    }
}

/// Everybody, everywhere.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fleet {
    pub(crate) people: Dense<Person>,
    pub(crate) places: Dense<Place>,
    pub(crate) seats: usize,
    by_digest: BTreeMap<Digest, usize>,
}

impl Fleet {
    /// Workspace and namespace of everybody.
    pub(crate) const NAMES: [&str; 2] = [WORKSPACE, NAMESPACE];

    /// The RFC's fleet, with so many active windows.
    pub(crate) fn rfc(active: usize, mix: Mix, seed: u64) -> Result<Self, RequestError> {
        let (mut fleet, mut chance) = (Self::default(), Chance::new(seed));
        for _ in 0..whole(active as f64 * SUBJECTS_PER_ACTIVE) {
            let window_ms = draw_window_ms(&mut chance);
            let limit = whole((10.0 * (10_000_f64.ln() * chance.unit()).exp()).round());
            let pattern = if chance.happens(mix.quiet) {
                Pattern::Quiet(4.0)
            } else {
                let (median, spread) = mix.work;
                Pattern::Work(median + spread * chance.normal())
            };
            let regions = draw_regions(&mut chance, mix.overlap);
            fleet.add((window_ms, limit), pattern, &regions, chance.unit())?;
        }
        Ok(fleet)
    }

    /// One more subject, used in these regions.
    pub(crate) fn add(
        &mut self,
        (window_ms, limit): (u64, u64),
        pattern: Pattern,
        regions: &[(usize, f64)],
        phase: f64,
    ) -> Result<(), RequestError> {
        let (first, number) = (self.places.len(), self.people.len());
        for (rank, (region, share)) in regions.iter().copied().enumerate() {
            self.places.add(Place {
                person: number,
                region,
                rank,
                share,
                sequence: 0,
                used: [0; 2],
                first_seat: self.seats,
                drawn: None,
            });
            self.seats += PROCESSES.get(region).copied().unwrap_or(1);
        }
        let identifier = format!("user_{number:019}");
        let digest = Digest::of(&subject(&identifier, window_ms)?, &FleetSecret::default());
        self.by_digest.insert(digest, number);
        self.people.add(Person {
            identifier,
            window_ms,
            limit,
            pattern,
            first,
            regions: regions.len(),
            phase,
            sequence: 0,
            total: [0; 2],
            worst: 0.0,
        });
        Ok(())
    }

    /// Who has this name.
    pub(crate) fn find(&self, digest: &Digest) -> Option<usize> {
        self.by_digest.get(digest).copied()
    }

    /// Where somebody is used in a region.
    pub(crate) fn place(&self, person: usize, region: usize) -> Option<usize> {
        self.people.at(person).places().find(|place| self.places.at(*place).region == region)
    }
}

fn draw_window_ms(chance: &mut Chance) -> u64 {
    match chance.unit() {
        part if part < 0.5 => 60_000,
        part if part < 0.65 => 300_000,
        part if part < 0.75 => 600_000,
        part if part < 0.80 => 900_000,
        part if part < 0.85 => 1_800_000,
        _ => 3_600_000,
    }
}

fn draw_region(chance: &mut Chance) -> usize {
    let mut left = chance.unit();
    for (region, part) in TRAFFIC.into_iter().enumerate() {
        if left < part {
            return region;
        }
        left -= part;
    }
    TRAFFIC.len() - 1
}

/// Regions and their shares, which fall as 1, 1/2, 1/3...
fn draw_regions(chance: &mut Chance, overlap: f64) -> Vec<(usize, f64)> {
    let mut regions = vec![draw_region(chance)];
    if chance.happens(overlap) {
        let many = match chance.unit() {
            part if part < 0.7 => 2,
            part if part < 0.85 => 3,
            _ => 4 + chance.below(7),
        };
        while regions.len() < many {
            let region = if regions.len() > 5 { chance.below(10) } else { draw_region(chance) };
            if !regions.contains(&region) {
                regions.push(region);
            }
        }
    }
    let part = |rank: usize| 1.0 / (rank + 1) as f64;
    let all: f64 = (0..regions.len()).map(part).sum();
    regions.into_iter().enumerate().map(|(rank, region)| (region, part(rank) / all)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fleet_is_as_the_rfc_says() {
        let fleet = Fleet::rfc(10_000, Mix::A, 7).unwrap();
        assert_eq!((fleet.people.len(), PROCESSES.iter().sum::<usize>()), (13_000, 33));
        let shared = fleet.people.iter().filter(|person| person.regions > 1).count();
        assert!((500..800).contains(&shared), "{shared}");
        let share: f64 = fleet.places.iter().map(|place| place.share).sum();
        assert!((share - 13_000.0).abs() < 1e-6, "the shares of everybody are 1: {share}");
        let person = fleet.people.at(77);
        let digest = Digest::of(&person.subject().unwrap(), &FleetSecret::default());
        assert_eq!(fleet.find(&digest), Some(77));
    }
}

//! Traces that are made up, for who has no log at hand: the same options and seed make the same
//! trace.
//!
//! A trace is made call by call, so its length takes no memory. All of it is whole numbers: a
//! trace is the same on every machine.

mod call;
mod shape;
mod write;

use tidegate_sim::Chance;

pub use write::{LogFormat, write_log};

use crate::findings::TraceFacts;
use crate::trace::{Fields, Record, Source, TraceError};
use call::{FIELDS, Made};
use shape::Shape;

/// The kinds of made-up traffic. [`Generated`] has an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Traffic {
    /// The same at all times.
    #[default]
    Steady,
    /// More by day than by night.
    Diurnal,
    /// Now and then somebody sends a lot within seconds.
    Burst,
    /// A few send just before and just after a window ends: where two windows are told apart.
    BoundaryHugging,
    /// Everybody's next call comes from another region.
    RegionHopping,
    /// A few addresses try passwords of many users, for half of the time.
    CredentialStuffing,
}

impl Traffic {
    /// All kinds. [`Generated`] has an example.
    pub const ALL: [Self; 6] = [
        Self::Steady,
        Self::Diurnal,
        Self::Burst,
        Self::BoundaryHugging,
        Self::RegionHopping,
        Self::CredentialStuffing,
    ];

    /// What it is called on the command line. [`Generated`] has an example.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Diurnal => "diurnal",
            Self::Burst => "burst",
            Self::BoundaryHugging => "boundary-hugging",
            Self::RegionHopping => "region-hopping",
            Self::CredentialStuffing => "credential-stuffing",
        }
    }

    /// The kind of this name. [`Generated`] has an example.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// What a trace is made with. [`Generated`] has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GenerateOptions {
    /// What kind of traffic.
    pub traffic: Traffic,
    /// How many calls.
    pub requests: u64,
    /// How many callers there are. The last of a long list may not come at all.
    pub identifiers: u64,
    /// How long it lasts.
    pub duration_ms: u64,
    /// The window that is hugged.
    pub window_ms: u64,
    /// How many regions are hopped through.
    pub regions: u64,
    /// When it begins.
    pub start_unix_ms: u64,
    /// Of everything that is left to chance.
    pub seed: u64,
}

impl Default for GenerateOptions {
    /// A hundred thousand calls of a thousand callers in an hour.
    fn default() -> Self {
        Self {
            traffic: Traffic::default(),
            requests: 100_000,
            identifiers: 1_000,
            duration_ms: 3_600_000,
            window_ms: 60_000,
            regions: 3,
            // A midnight, so that a day of it looks like one.
            start_unix_ms: 1_700_006_400_000,
            seed: 1,
        }
    }
}

impl GenerateOptions {
    /// How many calls in how long, of what was said of both: any two of calls, calls a second and
    /// time tell the third.
    ///
    /// ```
    /// use tidegate_trial::GenerateOptions;
    ///
    /// let usual = GenerateOptions::default();
    /// let size = |requests, rate, duration_ms| {
    ///     usual.sized(requests, rate, duration_ms).map(|it| (it.requests, it.duration_ms))
    /// };
    /// assert_eq!(size(Some(100), Some(10), None), Ok((100, 10_000)));
    /// assert_eq!(size(None, Some(10), Some(10_000)), Ok((100, 10_000)));
    /// assert_eq!(size(None, Some(10), None), Ok((36_000, 3_600_000)), "an hour");
    /// assert!(size(Some(1), Some(1), Some(1)).is_err());
    /// ```
    ///
    /// # Errors
    /// When all three are said.
    pub fn sized(
        self,
        requests: Option<u64>,
        rate: Option<u64>,
        duration_ms: Option<u64>,
    ) -> Result<Self, String> {
        let (requests, duration_ms) = match (requests, rate.map(|rate| rate.max(1)), duration_ms) {
            (Some(_), Some(_), Some(_)) => {
                return Err(
                    "say two of --requests, --rate and --duration: they make the third".to_owned()
                );
            }
            (Some(requests), Some(rate), None) => {
                (requests, requests.saturating_mul(1_000).div_ceil(rate))
            }
            (None, Some(rate), duration_ms) => {
                let duration_ms = duration_ms.unwrap_or(self.duration_ms);
                (rate.saturating_mul(duration_ms) / 1_000, duration_ms)
            }
            (requests, None, duration_ms) => {
                (requests.unwrap_or(self.requests), duration_ms.unwrap_or(self.duration_ms))
            }
        };
        Ok(Self { requests, duration_ms: duration_ms.max(1), ..self })
    }
}

/// Makes calls, one after the other.
#[derive(Debug)]
struct Generator {
    options: GenerateOptions,
    shape: Shape,
    chance: Chance,
    made: Made,
    count: u64,
}

impl Generator {
    fn new(options: &GenerateOptions) -> Self {
        let least = |number: u64| number.max(1);
        let window_ms = least(options.window_ms);
        let options = GenerateOptions {
            identifiers: least(options.identifiers),
            duration_ms: least(options.duration_ms),
            regions: least(options.regions),
            window_ms,
            start_unix_ms: match options.traffic {
                // Windows begin at multiples of their length.
                Traffic::BoundaryHugging => options.start_unix_ms.next_multiple_of(window_ms),
                _ => options.start_unix_ms,
            },
            ..*options
        };
        let chance = Chance::new(options.seed, "calls");
        let shape = Shape::new(&options);
        Self { options, shape, chance, made: Made::default(), count: 0 }
    }

    /// The next call, if there is one.
    fn next(&mut self) -> Option<&Made> {
        if self.count >= self.options.requests {
            return None;
        }
        let (after_ms, crowd) = self.shape.next(&mut self.chance)?;
        let at_unix_ms = self.options.start_unix_ms.saturating_add(after_ms);
        self.made.make(&self.options, (self.count, at_unix_ms, crowd), &mut self.chance);
        self.count += 1;
        Some(&self.made)
    }
}

/// A made-up trace.
///
/// ```
/// use tidegate_trial::{Fields, Generated, GenerateOptions, Record, Source, Traffic};
///
/// let traffic = Traffic::of_name("burst").unwrap_or_default();
/// let options = GenerateOptions { traffic, requests: 1_000, ..GenerateOptions::default() };
/// let mut fields = Fields::default();
/// let ip = fields.want("ip");
/// let mut trace = Generated::new(&options, fields)?;
/// let (mut record, mut requests) = (Record::default(), 0);
/// while trace.next(&mut record)? {
///     assert!(record.get(ip).is_some_and(|ip| ip.starts_with("10.")));
///     requests += 1;
/// }
/// assert_eq!(requests, 1_000);
/// assert_eq!(trace.facts().source, Traffic::Burst.name());
/// # Ok::<(), tidegate_trial::TraceError>(())
/// ```
#[derive(Debug)]
pub struct Generated {
    generator: Generator,
    fields: Fields,
    /// Which of our fields each of those asked for is.
    places: Vec<Option<usize>>,
    facts: TraceFacts,
}

impl Generated {
    /// A trace with these fields. The [type](Self) has an example.
    ///
    /// # Errors
    /// When one of them is needed and no made-up call has it.
    pub fn new(options: &GenerateOptions, fields: Fields) -> Result<Self, TraceError> {
        let place = |name: &str| FIELDS.iter().position(|it| *it == name);
        let missing = fields.iter().find(|(name, needed)| *needed && place(name).is_none());
        if let Some((name, _)) = missing {
            let known = FIELDS.join(", ");
            return Err(TraceError(format!(
                "a made-up request has no field `{name}`: it has {known}"
            )));
        }
        let places = fields.iter().map(|(name, _)| place(name)).collect();
        let (source, format) = (options.traffic.name().to_owned(), "generated".to_owned());
        let facts = TraceFacts { source, format, ..TraceFacts::default() };
        Ok(Self { generator: Generator::new(options), fields, places, facts })
    }
}

impl Source for Generated {
    fn next(&mut self, record: &mut Record) -> Result<bool, TraceError> {
        let Some(made) = self.generator.next() else { return Ok(false) };
        record.begin(&self.fields, made.at_unix_ms);
        record.set_origin(Some(made.origin));
        for (field, place) in self.places.iter().enumerate() {
            if let Some(value) = place.and_then(|place| made.get(place)) {
                record.set(field, value);
            }
        }
        if self.facts.requests == 0 {
            self.facts.first_unix_ms = made.at_unix_ms;
        }
        self.facts.last_unix_ms = made.at_unix_ms;
        self.facts.lines += 1;
        self.facts.requests += 1;
        Ok(true)
    }

    fn facts(&self) -> TraceFacts {
        self.facts.clone()
    }
}

#[cfg(test)]
mod tests;

//! The store that regions share: where it is, and what an operator should know about it.
//!
//! Promises: a database that is away or slow is a warning, never an error; a password is never
//! shown.
//! Refuses, before anything is served: an address that cannot be one, a region without a name,
//! tables that are missing or of another version, and a name that another region uses.

mod database;
mod tools;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tidegate::mysql::MysqlConfigError;
use tidegate::{
    Builder, Clock, GlobalError, GlobeCounts, GlobeOptions, GlobeTuning, Limiter, RegionName,
    RegionNameError,
};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use crate::cli::ServeArgs;
use crate::log::{Event, Log, Text};
use crate::metrics::{Skew, StoreCalls, Watched};
pub(crate) use database::Database;
pub use tools::{gc, migrate, regions, show};

#[cfg(test)]
mod tests;

/// How long a start waits for the database at most. One that is away must not keep a process from
/// serving.
const START_WITHIN: Duration = Duration::from_secs(3);
/// How often it is looked whether the name is ours.
const NAME_INTERVAL: Duration = Duration::from_millis(20);
/// How often a running process looks how things stand. Only for the warnings.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// Nothing was heard for this long: that is worth a warning. Imports are made every second.
const AWAY_MS: u64 = 20_000;

/// What is wrong with what was said about the shared store. Nothing that may hold a password is
/// repeated.
///
/// ```
/// use tidegate_server::cli::{GlobeUrl, Output, RegionsArgs};
///
/// let url = GlobeUrl { globe: "postgres://tidegate:secret@db/limits".to_owned() };
/// let why = tidegate_server::globe::regions(&RegionsArgs { url, output: Output::Text });
/// let why = why.unwrap_err().to_string();
/// assert!(why.ends_with("the address must begin with mysql:// or sqlite:."), "{why}");
/// assert!(!why.contains("secret"));
/// ```
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GlobeError {
    /// Neither of the two.
    #[error("the address must begin with mysql:// or sqlite:")]
    Scheme,
    /// A file without a name.
    #[error("the path of the file is missing: sqlite:PATH")]
    Path,
    /// Not the address of a MySQL.
    #[error(transparent)]
    Mysql(#[from] MysqlConfigError),
}

/// Why a process that shares limits with other regions does not start.
///
/// ```
/// use tidegate_server::globe::StartError;
///
/// assert!(StartError::NoName.to_string().contains("set TIDEGATE_REGION or --region"));
/// ```
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// No name was given.
    #[error(
        "a process that shares limits with other regions needs the name of its own: set \
         TIDEGATE_REGION or --region.\nIt is the same for all processes of the region, and no \
         other region has it, such as eu-central-1."
    )]
    NoName,
    /// A name that cannot be one.
    #[error("the name of the region (TIDEGATE_REGION or --region): {0}")]
    BadName(#[from] RegionNameError),
    /// Not an address.
    #[error("the shared store (TIDEGATE_GLOBE or --globe): {0}.")]
    BadUrl(#[from] GlobeError),
    /// The tables are not those we need.
    #[error("{place}: {why}.")]
    Schema {
        /// Where.
        place: String,
        /// What, and what to do.
        why: String,
    },
    /// Another region has the name.
    #[error(
        "the region name `{name}` is in use by another region, {seen}, in {place}.\nEvery region \
         needs a name of its own. Processes of one region share one Redis (--redis); without \
         Redis a region is one process.\nIf the other one has just ended without giving its name \
         back, this works again 30 s after it was last seen."
    )]
    NameTaken {
        /// Which name.
        name: RegionName,
        /// When the other was there.
        seen: String,
        /// Where.
        place: String,
    },
}

impl StartError {
    /// Whether it was said wrongly, as opposed to not possible now.
    pub(crate) const fn is_usage(&self) -> bool {
        !matches!(self, Self::NameTaken { .. })
    }
}

/// The other regions, by the database they share.
#[derive(Clone, Debug)]
pub(crate) struct Globe {
    database: Arc<Database>,
    pub(crate) name: RegionName,
    regions_max: u16,
    calls: Arc<StoreCalls>,
    skew: Arc<Skew>,
}

impl Globe {
    /// Reads what was said. Connects to nothing yet.
    pub(crate) fn parse(args: &ServeArgs) -> Result<Option<Self>, StartError> {
        let Some(url) = &args.globe else { return Ok(None) };
        let database = Arc::new(Database::parse(url)?);
        let name = RegionName::new(args.region.as_deref().ok_or(StartError::NoName)?)?;
        let (calls, skew) = (Arc::default(), Arc::default());
        Ok(Some(Self { database, name, regions_max: args.regions_max, calls, skew }))
    }

    /// Where the regions meet.
    pub(crate) fn database(&self) -> Arc<Database> {
        Arc::clone(&self.database)
    }

    /// Makes the limiter one of this region.
    pub(crate) fn join(&self, builder: Builder) -> Builder {
        let (name, regions_max) = (self.name.clone(), self.regions_max);
        let options = GlobeOptions { name, regions_max, private: false };
        let watched = Watched::new(self.database.store(), Arc::clone(&self.calls));
        builder.globe_tuned(options, Arc::new(watched), GlobeTuning::default())
    }

    /// What came of the calls of the limiter.
    pub(crate) fn calls(&self) -> &StoreCalls {
        &self.calls
    }

    /// How far the clock is from that of the database.
    pub(crate) fn skew(&self) -> &Skew {
        &self.skew
    }

    /// Measures that for as long as the process runs. A file has no clock but ours.
    pub(crate) async fn watch_clock(self, clock: Arc<dyn Clock>) {
        if !self.database.is_file() {
            let ask = || self.database.clock_unix_ms();
            Arc::clone(&self.skew).keep(clock, ask).await;
        }
    }

    /// Whether the tables are there, if the database answers in time.
    pub(crate) async fn check(&self) -> Result<(), StartError> {
        match timeout(START_WITHIN, self.database.check()).await {
            Ok(Err(GlobalError::Schema(why))) => {
                Err(StartError::Schema { place: self.database.to_string(), why })
            }
            // What else there is to say is said by `look`.
            _ => Ok(()),
        }
    }

    /// Whether the name is ours, if the database answers in time.
    pub(crate) async fn confirm(&self, limiter: &Limiter) -> Result<(), StartError> {
        let (end, mut looks) = (Instant::now() + START_WITHIN, interval(NAME_INTERVAL));
        while Instant::now() < end {
            let counts = limiter.globe_counts().unwrap_or_default();
            if counts.name_clashes > 0 {
                return Err(self.name_taken().await);
            }
            if counts.registered > 0 || counts.breakers_open > 0 {
                break;
            }
            looks.tick().await;
        }
        Ok(())
    }

    async fn name_taken(&self) -> StartError {
        let known = timeout(START_WITHIN, self.database.regions()).await;
        let known = known.ok().and_then(Result::ok).unwrap_or_default();
        let other = known.into_iter().find(|region| region.name == self.name.as_str());
        let seen = match other.and_then(|region| Some((region.number.0, region.seen_ms_ago?))) {
            Some((number, ms)) => format!("number {number:08x}, last seen {} s ago", ms / 1_000),
            None => "seen a moment ago".to_owned(),
        };
        let (name, place) = (self.name.clone(), self.database.to_string());
        StartError::NameTaken { name, seen, place }
    }

    /// Looks how things stand for as long as the process runs, and says what changed. Nobody waits
    /// for it.
    pub(crate) async fn look(self, limiter: impl Fn() -> GlobeCounts, log: Log) {
        let mut looks = interval(LOOK_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut before, mut clashes) = (Standing::Fine, 0);
        loop {
            looks.tick().await;
            let counts = limiter();
            let now = Standing::of(&counts, clashes);
            clashes = counts.name_clashes;
            if now != before {
                let why = match now {
                    Standing::Away => self.database.check().await.err(),
                    _ => None,
                };
                log.say(self.changed(now, why.as_ref()));
                before = now;
            }
        }
    }

    /// Things stand otherwise than before.
    fn changed(&self, now: Standing, why: Option<&GlobalError>) -> Event {
        let place = Text::of(&*self.database);
        match now {
            Standing::Fine => Event::GlobeBack { place },
            Standing::Clash => Event::GlobeNameTaken { place, region: Text::of(&self.name) },
            Standing::Away => Event::GlobeAway { place, why: why.map(Text::of) },
        }
    }
}

impl fmt::Display for Globe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, for up to {} regions", self.database, self.regions_max)
    }
}

/// How things stand with the other regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Fine,
    Away,
    /// Another region has the name.
    Clash,
}

impl Standing {
    fn of(counts: &GlobeCounts, clashes_before: u64) -> Self {
        if counts.registered == 0 && counts.name_clashes > clashes_before {
            return Self::Clash;
        }
        if counts.registered == 0 || counts.age_ms > AWAY_MS { Self::Away } else { Self::Fine }
    }
}

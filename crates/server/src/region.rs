//! The region a server is in: where its Redis is, and what an operator should know about it.
//!
//! Promises: a Redis that is away, slow or badly set up is a warning, never an error; a password
//! is never shown.
//! Refuses: an address that cannot be one, before anything is started.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidegate::redis::{Address, ConfigError, RedisConfig, RedisStore, Report, Topology};
use tidegate::{Builder, Clock, RegionCounts, StoreError, Tuning};
use tidegate_limiter::{Digest, FleetSecret, Part, RequestError, Subject, WINDOW_MS_MIN, Window};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::log::{Event, Log, Text};

use crate::metrics::{Skew, StoreCalls, Watched};

#[cfg(test)]
mod tests;

/// How often it is looked how things stand. Only for the log: the limiter itself tries much sooner,
/// and a store that is gone for less is none of an operator's business.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// A region, by its Redis.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    store: Arc<RedisStore>,
    place: String,
    /// Of the secret that the names of subjects are made with.
    fingerprint: [u8; 16],
    calls: Arc<StoreCalls>,
    skew: Arc<Skew>,
}

impl Region {
    /// Reads the address. Connects to nothing yet.
    pub(crate) fn parse(url: &str, secret: Option<[u8; 32]>) -> Result<Self, ConfigError> {
        let config = RedisConfig::parse(url)?;
        let place = place(&config.topology);
        // Without randomness several servers may come back to a Redis in step, which it survives.
        let seed = getrandom::u64().unwrap_or_else(|_| std::process::id().into());
        let store = Arc::new(RedisStore::new(config, seed)?);
        let (calls, skew) = (Arc::default(), Arc::default());
        Ok(Self { store, place, fingerprint: fingerprint(secret), calls, skew })
    }

    /// What its processes share.
    pub(crate) fn store(&self) -> Arc<RedisStore> {
        Arc::clone(&self.store)
    }

    /// Makes the limiter one of this region.
    pub(crate) fn join(&self, builder: Builder) -> Builder {
        let watched = Watched::new(Arc::clone(&self.store), Arc::clone(&self.calls));
        builder.region_tuned(Arc::new(watched), Tuning::default())
    }

    /// What came of the calls of the limiter.
    pub(crate) fn calls(&self) -> &StoreCalls {
        &self.calls
    }

    /// How far the clock is from that of Redis.
    pub(crate) fn skew(&self) -> &Skew {
        &self.skew
    }

    /// Measures that for as long as the process runs.
    pub(crate) async fn watch_clock(self, clock: Arc<dyn Clock>) {
        let ask = || async { self.store.clock_unix_ms().await.ok() };
        Arc::clone(&self.skew).keep(clock, ask).await;
    }

    /// Looks how things stand for as long as the process runs, and says what changed. Nobody waits
    /// for it.
    pub(crate) async fn look(self, counts: impl Fn() -> RegionCounts, log: Log) {
        let mut looks = interval(LOOK_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut standing = Standing::Unknown;
        loop {
            looks.tick().await;
            let breakers_open = counts().breakers_open;
            if standing.is_settled(breakers_open) {
                continue;
            }
            // Also when a breaker is open: it says why, if it does not know it already.
            let looked = self.store.check().await;
            let (next, events) = standing.next(&self, breakers_open, looked.as_ref());
            events.into_iter().for_each(|event| log.say(event));
            if standing.is_new(&next) && matches!(next, Standing::Fine) {
                self.compare_secrets(&log).await;
            }
            standing = next;
        }
    }

    /// Others may have another secret.
    async fn compare_secrets(&self, log: &Log) {
        if let Ok(false) = self.store.agrees_on(self.fingerprint).await {
            log.say(Event::FleetSecretDiffers { place: Text::of(self) });
        }
    }
}

/// How things stand with the region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Unknown,
    Fine,
    Away { since: Instant },
}

impl Standing {
    /// Whether there is nothing to look at.
    const fn is_settled(self, breakers_open: u64) -> bool {
        matches!(self, Self::Fine) && breakers_open == 0
    }

    const fn is_new(self, next: &Self) -> bool {
        !matches!((self, next), (Self::Fine, Self::Fine))
    }

    /// How they stand now, and what is to be said of it.
    fn next(
        self,
        region: &Region,
        breakers_open: u64,
        looked: Result<&Report, &StoreError>,
    ) -> (Self, Vec<Event>) {
        let place = || Text::of(region);
        match (self, looked) {
            (Self::Unknown | Self::Fine, Err(why)) => {
                let why = Some(Text::of(why));
                (Self::away(), vec![Event::RegionAway { place: place(), why, breakers_open }])
            }
            (Self::Fine, Ok(_)) if breakers_open > 0 => {
                let event = Event::RegionAway { place: place(), why: None, breakers_open };
                (Self::away(), vec![event])
            }
            (Self::Away { .. }, Err(_)) => (self, vec![]),
            (Self::Away { .. }, Ok(_)) if breakers_open > 0 => (self, vec![]),
            (_, Ok(report)) => {
                let unfit = |what| Event::RegionUnfit { place: place(), what: Text::of(what) };
                let mut events: Vec<Event> = report.warnings.iter().map(unfit).collect();
                if let Self::Away { since } = self {
                    let away_ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
                    events.insert(0, Event::RegionBack { place: place(), away_ms });
                }
                (Self::Fine, events)
            }
        }
    }

    fn away() -> Self {
        Self::Away { since: Instant::now() }
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place)
    }
}

/// The name that one subject, which nobody can ask about, has under this secret: the same for
/// all who have the same secret, and nothing can be learnt from it.
fn fingerprint(secret: Option<[u8; 32]>) -> [u8; 16] {
    let secret = secret.map_or_else(FleetSecret::default, FleetSecret::from_bytes);
    let subject = || -> Result<_, RequestError> {
        let (workspace, namespace) = (Part::new("tidegate")?, Part::new("fleet secret")?);
        let window = Window::from_millis(WINDOW_MS_MIN)?;
        Ok(Subject::new(workspace, namespace, Part::new("fingerprint")?, window))
    };
    subject().map_or([0; 16], |subject| *Digest::of(&subject, &secret).as_bytes())
}

/// Where it is, in words: hosts and ports only.
fn place(topology: &Topology) -> String {
    match topology {
        Topology::Standalone(address) => format!("redis at {address}"),
        Topology::Sentinel { master, nodes } => {
            format!("redis `{master}` of the sentinels at {}", list(nodes))
        }
        Topology::Cluster { nodes } => format!("redis cluster at {}", list(nodes)),
        _ => "redis".to_owned(),
    }
}

fn list(nodes: &[Address]) -> String {
    nodes.iter().map(Address::to_string).collect::<Vec<_>>().join(", ")
}

//! The region a server is in: where its Redis is, and what an operator should know about it.
//!
//! Promises: a Redis that is away, slow or badly set up is a warning, never an error; a password
//! is never shown.
//! Refuses: an address that cannot be one, before anything is started.

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use tidegate::redis::{Address, ConfigError, RedisConfig, RedisStore, Report, Topology};
use tidegate::{Builder, StoreError, Tuning};
use tidegate_limiter::{Digest, FleetSecret, Part, RequestError, Subject, WINDOW_MS_MIN, Window};
use tokio::time::{MissedTickBehavior, interval};

#[cfg(test)]
mod tests;

/// How often a Redis that has not answered yet is looked at again. Only for the warnings: the
/// limiter itself tries much sooner.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// A region, by its Redis.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    store: Arc<RedisStore>,
    place: String,
    /// Of the secret that the names of subjects are made with.
    fingerprint: [u8; 16],
}

impl Region {
    /// Reads the address. Connects to nothing yet.
    pub(crate) fn parse(url: &str, secret: Option<[u8; 32]>) -> Result<Self, ConfigError> {
        let config = RedisConfig::parse(url)?;
        let place = place(&config.topology);
        // Without randomness several servers may come back to a Redis in step, which it survives.
        let seed = getrandom::u64().unwrap_or_else(|_| std::process::id().into());
        let store = Arc::new(RedisStore::new(config, seed)?);
        Ok(Self { store, place, fingerprint: fingerprint(secret) })
    }

    /// What its processes share.
    pub(crate) fn store(&self) -> Arc<RedisStore> {
        Arc::clone(&self.store)
    }

    /// Makes the limiter one of this region.
    pub(crate) fn join(&self, builder: Builder) -> Builder {
        builder.region_tuned(Arc::clone(&self.store) as _, Tuning::default())
    }

    /// Looks at Redis as soon as it answers, and warns of what should be otherwise. Nobody waits
    /// for it.
    pub(crate) async fn look(self) {
        let mut looks = interval(LOOK_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut was_away = false;
        loop {
            looks.tick().await;
            match self.store.check().await {
                Ok(report) => {
                    warn(&Looked { place: &self.place, report: &report, was_away });
                    if let Ok(false) = self.store.agrees_on(self.fingerprint).await {
                        warn(&OtherSecret { place: &self.place });
                    }
                    return;
                }
                Err(why) if !was_away => {
                    warn(&Away { place: &self.place, why: &why });
                    was_away = true;
                }
                Err(_) => {}
            }
        }
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

/// Redis did not answer.
struct Away<'a> {
    place: &'a str,
    why: &'a StoreError,
}

impl fmt::Display for Away<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, why } = self;
        writeln!(f, "warning: {place}: {why}")?;
        writeln!(f, "  Requests are answered all the same, on what this process alone knows.")
    }
}

/// The other processes have another secret.
struct OtherSecret<'a> {
    place: &'a str,
}

impl fmt::Display for OtherSecret<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "warning: {}: others use another fleet secret.", self.place)?;
        writeln!(
            f,
            "  Nothing is shared with them: TIDEGATE_FLEET_SECRET must be the same for all."
        )
    }
}

/// Redis answered; what is to be said about it.
struct Looked<'a> {
    place: &'a str,
    report: &'a Report,
    was_away: bool,
}

impl fmt::Display for Looked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.was_away {
            writeln!(f, "{} answers now: limits are shared.", self.place)?;
        }
        self.report.warnings.iter().try_for_each(|warning| writeln!(f, "warning: {warning}"))
    }
}

/// Tells whoever reads the log, if anyone does: a closed pipe must not end the server.
fn warn(text: &dyn fmt::Display) {
    let _ = write!(io::stderr().lock(), "{text}");
}

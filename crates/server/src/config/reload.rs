//! Another configuration for a server that runs.
//!
//! Promises: everything is read and checked before anything is changed; counts and connections
//! stay; what changed is said, and what waits for a restart. No request waits for it.
//! Refuses: to change half of it.
//! Fails: with everything as it was, a warning that says where the mistake is, and a metric.

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use tidegate::Clock;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};

use super::changes::{self, Change};
use super::watched::{Fingerprint, Watched};
use super::{Loaded, Mistakes, Source, Status, Value};
use crate::accept::Watch;
use crate::live::Live;
use crate::serve::wire;
use crate::signals::Hangups;
use crate::tls::{Pair, Tls, TlsError};

/// How often files are looked at. A change counts when it is seen twice, so it takes two of these;
/// reading a few small files once a second costs nothing that can be measured.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The parts of a running server that can be changed.
pub(crate) struct Running {
    pub(crate) live: Arc<Live>,
    pub(crate) entrance: Watch,
    pub(crate) tls: Option<Tls>,
    pub(crate) status: Arc<Status>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// Reads the configuration again when it is asked to, and when files change.
pub(crate) struct Reloader {
    source: Source,
    /// What the server runs with, which is not always what it should run with.
    loaded: Loaded,
    running: Running,
    watched: Watched,
}

/// Why nothing was changed.
enum Kept {
    Config(Mistakes),
    Tls(TlsError),
}

/// What a reload came to.
struct Reloaded {
    changed: Vec<Change>,
    waiting: Vec<Change>,
    /// The certificate is another one; when it ends, if it says so.
    certificate: Option<Option<u64>>,
}

impl Reloader {
    /// For a server that was started with what was `read`.
    pub(crate) fn new(source: Source, read: (Loaded, Fingerprint), running: Running) -> Self {
        let (loaded, seen) = read;
        Self { source, loaded, running, watched: Watched::new(seen) }
    }

    /// Goes on until it is dropped.
    pub(crate) async fn keep(mut self, mut hangups: Hangups) {
        let mut looks = interval(LOOK_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            let is_asked = tokio::select! {
                () = hangups.next() => true,
                _ = looks.tick() => false,
            };
            // Disks are not waited for on the threads that answer.
            let done = spawn_blocking(move || {
                self.turn(is_asked);
                self
            });
            match done.await {
                Ok(reloader) => self = reloader,
                // The process ends.
                Err(_) => return,
            }
        }
    }

    fn turn(&mut self, is_asked: bool) {
        let now = Fingerprint::of(&self.loaded.files);
        if !is_asked && !self.watched.look(now) {
            return;
        }
        self.watched.acted_on(now);
        let why = if is_asked { "SIGHUP" } else { "a file changed" };
        match self.reload() {
            Ok(reloaded) => {
                let now_ms = self.running.clock.now().unix_ms();
                self.running.status.succeed(now_ms, reloaded.waiting.len());
                let said = Said { why, reloaded: &reloaded, now_ms };
                let mut out = io::stdout().lock();
                let _ = writeln!(out, "{said}");
                let _ = out.flush();
            }
            Err(kept) => {
                self.running.status.fail();
                let _ = writeln!(io::stderr().lock(), "warning: {kept}");
            }
        }
    }

    /// Reads and checks everything, then changes what can be changed.
    fn reload(&mut self) -> Result<Reloaded, Kept> {
        let (new, seen) = self.source.load_watched().map_err(Kept::Config)?;
        let certificate = self.pair(&new).map_err(Kept::Tls)?;
        let changes = changes::between(&self.loaded.values, &new.values);
        let (waiting, changed): (Vec<_>, Vec<_>) = changes.into_iter().partition(|it| it.restart);
        let certificate = certificate.and_then(|pair| self.certify(pair));
        if !changed.is_empty() {
            self.apply(&new);
        }
        for (runs_with, new) in self.loaded.values.iter_mut().zip(new.values) {
            if !waiting.iter().any(|it| it.is_of(&new)) {
                *runs_with = new;
            }
        }
        self.loaded.files = new.files;
        self.watched.acted_on(seen);
        Ok(Reloaded { changed, waiting, certificate })
    }

    /// The certificate and its key, for a server that has them.
    fn pair(&self, new: &Loaded) -> Result<Option<Pair>, TlsError> {
        let transport = &new.args.transport;
        let files = transport.tls_cert.as_deref().zip(transport.tls_key.as_deref());
        let files = files.filter(|_| self.running.tls.is_some());
        files.map(|(certificate, key)| Pair::load(certificate, key)).transpose()
    }

    fn certify(&self, pair: Pair) -> Option<Option<u64>> {
        let expires = pair.expires_unix_s();
        let is_another = self.running.tls.as_ref()?.take(pair);
        self.running.status.certify(expires);
        is_another.then_some(expires)
    }

    fn apply(&self, new: &Loaded) {
        self.running.live.take(&new.args);
        self.running.entrance.set_limits(wire::limits(&new.args.transport));
    }
}

impl Change {
    fn is_of(&self, value: &Value) -> bool {
        (self.section, self.key) == (value.knob.section, value.knob.key)
    }
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let begin = "the configuration is not taken, and the old one stays";
        match self {
            Self::Config(why) => write!(f, "{begin}: {why}"),
            Self::Tls(why) => write!(f, "{begin}: {why}"),
        }
    }
}

/// A reload in words.
struct Said<'a> {
    why: &'a str,
    reloaded: &'a Reloaded,
    now_ms: u64,
}

impl fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reloaded { changed, waiting, certificate } = self.reloaded;
        write!(f, "configuration read again ({}): ", self.why)?;
        match changed.is_empty() && certificate.is_none() {
            true => write!(f, "nothing changed")?,
            false => write!(f, "{}", changes::listed(changed))?,
        }
        if let Some(expires) = certificate {
            let gap = if changed.is_empty() { "" } else { "; " };
            write!(f, "{gap}server.tls_cert: another certificate")?;
            if let Some(expires_unix_s) = expires {
                let days = expires_unix_s.saturating_sub(self.now_ms / 1_000) / 86_400;
                write!(f, ", for {days} more days")?;
            }
        }
        match waiting.is_empty() {
            true => Ok(()),
            false => write!(f, "; needs a restart: {}", changes::listed(waiting)),
        }
    }
}

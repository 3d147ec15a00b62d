//! Another configuration for a server that runs.
//!
//! Promises: everything is read and checked before anything is changed; counts and connections
//! stay; what changed is said, and what waits for a restart. No request waits for it.
//! Refuses: to change half of it.
//! Fails: with everything as it was, a warning that says where the mistake is, and a metric. Only a
//! renewed certificate in the files that the server runs with is taken all the same: it ends on its
//! day, whatever is wrong elsewhere. What a load lacked is watched, so it goes on when it comes.

use std::fmt;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tidegate::Clock;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};

use super::changes::{self, Change};
use super::watched::Watched;
use super::{Loaded, Mistakes, Seen, Source, Status, Value};
use crate::accept::Watch;
use crate::live::Live;
use crate::log::{CONFIG_CHARS_MAX, Event, Form, Level, Log, Sayable, Text};
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
    pub(crate) log: Log,
}

/// Reads the configuration again when it is asked to, and when files change.
pub(crate) struct Reloader {
    source: Source,
    /// What the server runs with, which is not always what it should run with.
    loaded: Loaded,
    running: Running,
    watched: Watched,
    /// Where the certificate is that is shown, and its key. Not always where the file says.
    shown: Option<(PathBuf, PathBuf)>,
}

/// Why nothing was changed.
enum Why {
    Config(Mistakes),
    Tls(TlsError),
}

/// Nothing was changed, but for the certificate.
struct Kept {
    why: Why,
    certificate: Option<Renewed>,
    now_ms: u64,
}

/// The certificate is another one; when it ends, if it says so.
#[derive(Clone, Copy)]
struct Renewed(Option<u64>);

/// What a reload came to.
struct Reloaded {
    changed: Vec<Change>,
    waiting: Vec<Change>,
    certificate: Option<Renewed>,
    level: Level,
}

impl Reloader {
    /// For a server that was started with what was `read`.
    pub(crate) fn new(source: Source, read: (Loaded, Seen), running: Running) -> Self {
        let (loaded, seen) = read;
        let shown = files(&loaded).filter(|_| running.tls.is_some());
        Self { source, loaded, running, watched: Watched::new(seen), shown }
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
                self.turn_or_fail(is_asked);
                self
            });
            match done.await {
                Ok(reloader) => self = reloader,
                // The process ends.
                Err(_) => return,
            }
        }
    }

    /// A panic is a mistake of ours, not of the file. It is tried again when something changes.
    fn turn_or_fail(&mut self, is_asked: bool) {
        // What a panic leaves half done is compared with the file by the next one.
        if catch_unwind(AssertUnwindSafe(|| self.turn(is_asked))).is_err() {
            self.running.status.fail();
            self.running.log.say(Event::TaskRestarted { task: "reload" });
        }
    }

    fn turn(&mut self, is_asked: bool) {
        if !self.watched.look() && !is_asked {
            return;
        }
        // Before anything is read: what changes meanwhile is a change of these.
        let shown = self.shown.iter().flat_map(|(certificate, key)| [certificate, key]);
        let files = self.source.wanted().into_iter().chain(shown.cloned());
        self.watched.acted_on(Seen::of(files.collect()));
        let why = if is_asked { "SIGHUP" } else { "a file changed" };
        let reloaded = self.reload();
        let now_ms = self.running.clock.now().unix_ms();
        match reloaded {
            Ok(reloaded) => {
                self.running.status.succeed(now_ms, reloaded.waiting.len());
                let said = Said { why, reloaded: &reloaded, now_ms };
                self.running.log.turn_to(reloaded.level, |log| log.say_reload(&said));
            }
            Err(why) => {
                self.running.status.fail();
                let certificate = self.renew();
                self.running.log.say_kept(&Kept { why, certificate, now_ms });
            }
        }
    }

    /// Takes what is in the files of the certificate that is shown, if it is in order.
    fn renew(&self) -> Option<Renewed> {
        let (certificate, key) = self.shown.as_ref()?;
        self.certify(Pair::load(certificate, key).ok()?)
    }

    /// Reads and checks everything, then changes what can be changed.
    fn reload(&mut self) -> Result<Reloaded, Why> {
        let new = self.source.load().map_err(Why::Config)?;
        let named = files(&new).filter(|_| self.shown.is_some());
        let pair = named.as_ref().map(|(certificate, key)| Pair::load(certificate, key));
        let pair = pair.transpose().map_err(Why::Tls)?;
        let changes = changes::between(&self.loaded.values, &new.values);
        let (waiting, changed): (Vec<_>, Vec<_>) = changes.into_iter().partition(|it| it.restart);
        // Without one in the file, which waits for a restart, the one that is shown goes on.
        let certificate = match pair {
            Some(pair) => self.certify(pair),
            None => self.renew(),
        };
        if !changed.is_empty() {
            self.apply(&new);
        }
        let level = new.args.log.settings().level;
        if named.is_some() {
            self.shown = named;
        }
        for (runs_with, new) in self.loaded.values.iter_mut().zip(new.values) {
            if !waiting.iter().any(|it| it.is_of(&new)) {
                *runs_with = new;
            }
        }
        Ok(Reloaded { changed, waiting, certificate, level })
    }

    fn certify(&self, pair: Pair) -> Option<Renewed> {
        let expires = pair.expires_unix_s();
        let is_another = self.running.tls.as_ref()?.take(pair);
        self.running.status.certify(expires);
        is_another.then_some(Renewed(expires))
    }

    fn apply(&self, new: &Loaded) {
        self.running.live.take(&new.args);
        self.running.entrance.set_limits(wire::limits(&new.args.transport, &self.running.log));
    }
}

/// The certificate and its key, if there are any.
fn files(loaded: &Loaded) -> Option<(PathBuf, PathBuf)> {
    let transport = &loaded.args.transport;
    transport.tls_cert.clone().zip(transport.tls_key.clone())
}

impl Log {
    /// People are told on standard output, as of the beginning and the end.
    fn say_reload(&self, said: &Said<'_>) {
        if self.form() == Form::Json {
            let Reloaded { changed, waiting, certificate, .. } = said.reloaded;
            let changed = changed.len().saturating_add(certificate.iter().count());
            let changed = u64::try_from(changed).unwrap_or(u64::MAX);
            let waiting = u64::try_from(waiting.len()).unwrap_or(u64::MAX);
            return self.say(Event::ConfigReloaded { what: Text::of(said), changed, waiting });
        }
        self.tell_people(said.to_string());
    }

    /// A mistake has several lines: people see them as they are.
    fn say_kept(&self, kept: &Kept) {
        match self.form() {
            Form::Json => self.say(Event::ConfigNotTaken { why: Text::of(kept) }),
            Form::Pretty => {
                let _ = writeln!(io::stderr().lock(), "warning: {kept}");
            }
        }
    }
}

/// Keys and values of the table, of secrets only that they are set.
impl Sayable for Said<'_> {
    const CHARS_MAX: usize = CONFIG_CHARS_MAX;
}
/// The same, of a line that cannot be read only its first word, and what is wrong with the files of
/// TLS.
impl Sayable for Kept {
    const CHARS_MAX: usize = CONFIG_CHARS_MAX;
}

impl Change {
    fn is_of(&self, value: &Value) -> bool {
        (self.section, self.key) == (value.knob.section, value.knob.key)
    }
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the configuration is not taken, and the old one stays")?;
        if let Some(renewed) = self.certificate {
            write!(f, ", but with ")?;
            renewed.write(self.now_ms, f)?;
        }
        match &self.why {
            Why::Config(why) => write!(f, ": {why}"),
            Why::Tls(why) => write!(f, ": {why}"),
        }
    }
}

impl Renewed {
    fn write(self, now_ms: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "another certificate")?;
        let Some(expires_unix_s) = self.0 else { return Ok(()) };
        let days = expires_unix_s.saturating_sub(now_ms / 1_000) / 86_400;
        write!(f, ", for {days} more days")
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
        let Reloaded { changed, waiting, certificate, .. } = self.reloaded;
        write!(f, "configuration read again ({}): ", self.why)?;
        match changed.is_empty() && certificate.is_none() {
            true => write!(f, "nothing changed")?,
            false => write!(f, "{}", changes::listed(changed))?,
        }
        if let Some(renewed) = certificate {
            let gap = if changed.is_empty() { "" } else { "; " };
            write!(f, "{gap}server.tls_cert: ")?;
            renewed.write(self.now_ms, f)?;
        }
        match waiting.is_empty() {
            true => Ok(()),
            false => write!(f, "; needs a restart: {}", changes::listed(waiting)),
        }
    }
}

//! `tidegate serve`: builds what is needed, says so, serves, and ends cleanly.

mod admin;
mod error;
mod key_file;
mod keys;
mod sweep;
mod told;
mod welcome;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tidegate::{Clock, Drained, Limiter, Saved, SystemClock};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use crate::accept::{Connections, Entrance};
use crate::cli::{LogArgs, ServeArgs};
use crate::config::{Loaded, Reloader, Running, Seen, Source, Status};
use crate::control::Control;
use crate::counts_file::CountsFile;
use crate::door::Door;
use crate::globe::{Database, Globe};
use crate::idempotency::Idempotency;
use crate::live::Live;
use crate::log::watch::{Sight, watch};
use crate::log::{Event, Form, Log, Text, panics};
use crate::metrics::Metrics;
use crate::place;
use crate::region::Region;
use crate::request_id::RequestIds;
use crate::signals::{Hangups, Signals};
use crate::tls::Tls;
use admin::Admin;
pub use error::ServeError;
use keys::{KeyNews, Opened};
use sweep::sweep;
use told::{tell, tell_if_slow};
use welcome::{Farewell, Welcome};

#[cfg(test)]
mod tests;
pub(crate) mod wire;

/// How long calls whose clients have left are waited for: the sum of what they may wait for.
const APART_DEADLINE: Duration = Duration::from_secs(2);

/// How long requests in flight may take to finish once the process was asked to end, and how long
/// they and the record of what was admitted may take together. Supervisors commonly kill after ten
/// seconds.
const REQUESTS_DEADLINE: Duration = Duration::from_secs(5);
const END_DEADLINE: Duration = Duration::from_secs(8);
/// How long counts may take to be saved after that.
const SAVE_DEADLINE: Duration = Duration::from_millis(1_500);
/// How long the last lines of the log may take. Whoever reads them reads at once, or not at all.
const LOG_DEADLINE: Duration = Duration::from_millis(500);

const _: () = assert!(REQUESTS_DEADLINE.as_secs() < END_DEADLINE.as_secs());

/// Serves until a signal asks for the end.
///
/// ```
/// use std::process::ExitCode;
///
/// use clap::Parser;
/// use tidegate_server::cli::{Cli, Command};
/// use tidegate_server::serve::{ServeError, serve};
///
/// let said = Cli::try_parse_from(["tidegate", "serve", "--root-key", "not a key"])?;
/// let Command::Serve(args) = said.command else { unreachable!() };
/// let why = serve(&args).unwrap_err();
/// assert!(matches!(why, ServeError::InvalidKey(_)));
/// assert_eq!(why.exit_code(), ExitCode::from(2), "it was said wrongly");
/// assert!(!why.to_string().contains("not a key"), "it may be a secret");
/// # Ok::<(), clap::Error>(())
/// ```
///
/// # Errors
/// [`ServeError`], if it cannot begin. Nothing that happens later is an error.
pub fn serve(args: &ServeArgs) -> Result<(), ServeError> {
    args.check_key().map_err(ServeError::InvalidKey)?;
    wire::check(args)?;
    in_runtime(logged(args.log, async |clock, log| run(args, None, clock, log).await))
}

/// The same with what a [`Source`] says, which is read again when it changes. If it cannot be read,
/// `log` says how to say so: as the command line has it.
///
/// ```
/// use clap::{CommandFactory, Parser};
/// use tidegate_server::cli::{Cli, Command};
/// use tidegate_server::config::Source;
/// use tidegate_server::serve::{ServeError, serve_from};
///
/// let line = ["tidegate", "serve", "--config", "/not/there", "--log-format", "pretty"];
/// let said = Cli::command().try_get_matches_from(line)?;
/// let Command::Serve(args) = Cli::try_parse_from(line)?.command else { unreachable!() };
/// let source = Source::new(said.subcommand_matches("serve").unwrap(), []);
/// assert!(matches!(serve_from(&source, args.log), Err(ServeError::Config(_))));
/// # Ok::<(), clap::Error>(())
/// ```
///
/// # Errors
/// As [`serve`] does.
pub fn serve_from(source: &Source, log: LogArgs) -> Result<(), ServeError> {
    in_runtime(async {
        let read = match source.load_watched() {
            Ok(read) => read,
            Err(why) => return logged(log, async |_, _| Err(why.into())).await,
        };
        let args = read.0.args.clone();
        let read = Some((source.clone(), read));
        logged(args.log, async |clock, log| run(&args, read, clock, log).await).await
    })
}

fn in_runtime(serving: impl Future<Output = Result<(), ServeError>>) -> Result<(), ServeError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let served = runtime.block_on(serving);
    // What hangs, a disk or a look-up of a name, must not keep the process from ending.
    runtime.shutdown_background();
    served
}

/// Where the words came from, and what they were, if they can be read again.
type Read = Option<(Source, (Loaded, Seen))>;

/// With a log, in which is said why it does not begin.
async fn logged(
    args: LogArgs,
    serving: impl AsyncFnOnce(Arc<dyn Clock>, &Log) -> Result<(), ServeError>,
) -> Result<(), ServeError> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let log = Log::start(args.settings(), Arc::clone(&clock), io::stderr())?;
    panics::tell(&log);
    let _flushed = Flushed(log.clone());
    serving(clock, &log).await.map_err(|why| match log.form() {
        Form::Pretty => why,
        Form::Json => {
            log.say(Event::NotStarted { why: Text::of(&why) });
            ServeError::Logged(Box::new(why))
        }
    })
}

/// Writes what waits when it goes, also if that is because of a panic.
struct Flushed(Log);

impl Drop for Flushed {
    fn drop(&mut self) {
        self.0.flush(LOG_DEADLINE);
    }
}

async fn run(
    args: &ServeArgs,
    read: Read,
    clock: Arc<dyn Clock>,
    log: &Log,
) -> Result<(), ServeError> {
    // First: whoever starts us may say at once that the file is another.
    let hangups = Hangups::catch(wire::wants_hangups(args))?;
    let tls = wire::tls(&args.transport)?;
    let limits = wire::limits(&args.transport, log);
    // Before anything is made that could not be shown: the first key is.
    let listener = wire::listen(args.listen)?;
    let admin = Admin::listen(args)?;
    let secret = args.fleet_secret_bytes().map_err(ServeError::InvalidFleetSecret)?;
    let region = args.redis.as_deref().map(|url| Region::parse(url, secret)).transpose()?;
    let globe = Globe::parse(args)?;
    if let Some(globe) = &globe {
        globe.check().await?;
    }
    let shared = Shared { region, globe };
    let opened = Opened::new(args, database(args, &shared)?, Arc::clone(&clock)).await?;
    let live = Arc::new(Live::new(args));
    let made = Made {
        clock: Arc::clone(&clock),
        control: Arc::clone(&opened.control),
        live: Arc::clone(&live),
        restored: None,
    };
    let (door, counts) = door_with_counts(args, &shared, made, log).await?;
    let served = Served { door, counts, shared, log: log.clone() };
    // Caught before anyone is told that we run: whoever reads the address may ask us to end.
    let mut signals = Signals::catch()?;
    if let Some(globe) = &served.shared.globe {
        globe.confirm(served.door.limiter()).await?;
    }
    let welcome = Welcome {
        address: listener.local_addr()?,
        encrypted: args.transport.tls_cert.is_some(),
        admin: admin.address()?,
        memory: args.memory,
        subjects_max: served.door.limiter().subjects_max(),
        settings: &opened.place(&served.shared),
        database: &opened.database,
        shared: &served.shared,
        key: &opened.key_news(args, log.form()).await?,
    };
    tell(log, &welcome, || welcome.events());
    let expires = tls.as_ref().and_then(Tls::expires_unix_s);
    let status = Arc::new(Status::new(clock.now().unix_ms(), expires));
    let mut entrance = Entrance::new(listener, Arc::clone(&served.door), limits, tls.clone());
    let metrics = Arc::new(Metrics {
        door: Arc::clone(&served.door),
        watch: entrance.watch(),
        budget_bytes: args.memory,
        started_unix_ms: clock.now().unix_ms(),
        config: Arc::clone(&status),
        log: log.clone(),
        region: served.shared.region.clone(),
        globe: served.shared.globe.clone(),
    });
    let sight = Arc::clone(&metrics);
    let work = served.work(opened, move || sight.sight(), Arc::clone(&clock));
    let (live_too, entered, log_too) = (Arc::clone(&live), entrance.watch(), log.clone());
    let running = Running { live: live_too, entrance: entered, tls, status, clock, log: log_too };
    let reloads = read.map(|(source, read)| Reloader::new(source, read, running));
    let reloads = reloads.map(|reloader| tokio::spawn(reloader.keep(hangups)));
    let admin = admin.begin(metrics);
    entrance.accept_until(signals.next()).await;
    // Who ends takes nothing new.
    reloads.iter().for_each(JoinHandle::abort);
    let hurried = wire::retire(&mut entrance, live.retire_for(), &mut signals, log).await;
    served.end(entrance.stop(), work, hurried, &mut signals).await;
    // Last: whoever watches wants to see the end.
    admin.iter().for_each(JoinHandle::abort);
    Ok(())
}

/// A server that serves.
struct Served {
    door: Arc<Door>,
    counts: Option<Arc<CountsFile>>,
    shared: Shared,
    log: Log,
}

impl Served {
    /// Begins what goes on beside requests.
    fn work<S>(&self, opened: Opened, sight: S, clock: Arc<dyn Clock>) -> Vec<JoinHandle<()>>
    where
        S: Fn() -> Sight + Clone + Send + 'static,
    {
        let (log, opened) = (&self.log, Arc::new(opened));
        let mut work = self.shared.look(&self.door, log);
        work.extend(self.shared.watch_clocks(&clock, log));
        let said = log.clone();
        let look = move || watch(sight.clone(), Arc::clone(&clock), said.clone());
        work.push(panics::keep("watch", log, look));
        let said = log.clone();
        let keep = move || Arc::clone(&opened).keep(said.clone());
        work.push(panics::keep("settings", log, keep));
        let door = Arc::clone(&self.door);
        work.push(panics::keep("sweep", log, move || sweep(Arc::clone(&door))));
        if let Some(counts) = &self.counts {
            let (counts, door) = (Arc::clone(counts), Arc::clone(&self.door));
            let keep = move || Arc::clone(&counts).keep(Arc::clone(&door));
            work.push(panics::keep("counts", log, keep));
        }
        work
    }

    /// Finishes what is in flight, records and keeps what was admitted, and says so.
    async fn end(
        self,
        connections: Connections,
        work: Vec<JoinHandle<()>>,
        mut hurried: bool,
        signals: &mut Signals,
    ) {
        if !hurried {
            let first = match self.shared.is_alone() {
                true => "requests in flight are finished first",
                false => "requests in flight are finished and what was admitted is recorded first",
            };
            let text = format_args!("\nstopping; {first} (Ctrl-C again ends it at once)");
            tell(&self.log, &text, || vec![Event::Stopping { hurried }]);
        }
        let end = Instant::now() + END_DEADLINE;
        let slow = tokio::spawn(tell_if_slow(self.log.clone(), connections.counter()));
        let patience = if hurried { Duration::ZERO } else { REQUESTS_DEADLINE };
        let enough = async { hurried |= timeout(patience, signals.next()).await.is_ok() };
        let open = connections.drain(enough).await;
        if !hurried {
            // Calls whose clients have left: what they admit is to be recorded, too.
            let _ = timeout(APART_DEADLINE, self.door.apart_ended()).await;
        }
        work.iter().for_each(JoinHandle::abort);
        let end = if hurried { Instant::now() } else { end };
        let drained = drain(self.door.limiter(), end, signals).await;
        if let Some(counts) = &self.counts {
            let saved = Arc::clone(counts).save_now(Arc::clone(&self.door));
            // A disk that hangs is not waited for: then the counts are those of seconds ago.
            let saved = timeout(SAVE_DEADLINE, saved);
            tokio::select! {
                _ = saved => {}
                () = signals.next() => {}
            }
        }
        slow.abort();
        let farewell = Farewell { door: &self.door, open, shared: &self.shared, drained };
        tell(&self.log, &farewell, || vec![farewell.event()]);
    }
}

/// With whom limits are shared.
struct Shared {
    region: Option<Region>,
    globe: Option<Globe>,
}

impl Shared {
    const fn is_alone(&self) -> bool {
        self.region.is_none() && self.globe.is_none()
    }

    /// Begins to look how things stand.
    fn look(&self, door: &Arc<Door>, log: &Log) -> Vec<JoinHandle<()>> {
        let region = self.region.clone().map(|region| {
            let (door, said) = (Arc::clone(door), log.clone());
            panics::keep("region", log, move || {
                let door = Arc::clone(&door);
                let counts = move || door.limiter().region_counts().unwrap_or_default();
                region.clone().look(counts, said.clone())
            })
        });
        let globe = self.globe.clone().map(|globe| {
            let (door, said) = (Arc::clone(door), log.clone());
            panics::keep("globe", log, move || {
                let door = Arc::clone(&door);
                let counts = move || door.limiter().globe_counts().unwrap_or_default();
                globe.clone().look(counts, said.clone())
            })
        });
        region.into_iter().chain(globe).collect()
    }
}

impl Shared {
    /// Begins to measure how far our clock is from those of the stores.
    fn watch_clocks(&self, clock: &Arc<dyn Clock>, log: &Log) -> Vec<JoinHandle<()>> {
        let mut work = Vec::new();
        if let Some(region) = self.region.clone() {
            let clock = Arc::clone(clock);
            let watch = move || region.clone().watch_clock(Arc::clone(&clock));
            work.push(panics::keep("region_clock", log, watch));
        }
        if let Some(globe) = self.globe.clone() {
            let clock = Arc::clone(clock);
            let watch = move || globe.clone().watch_clock(Arc::clone(&clock));
            work.push(panics::keep("globe_clock", log, watch));
        }
        work
    }
}

/// Lets the region record what was admitted, until `end` or the next signal.
async fn drain(limiter: &Limiter, end: Instant, signals: &mut Signals) -> Drained {
    let patience = end.saturating_duration_since(Instant::now());
    tokio::select! {
        drained = limiter.drain(patience) => drained,
        () = signals.next() => limiter.drain(Duration::ZERO).await,
    }
}

/// What a door is made of, beside what it is shared with.
struct Made {
    clock: Arc<dyn Clock>,
    control: Arc<Control>,
    live: Arc<Live>,
    restored: Option<Saved>,
}

/// The door, and the file that its counts are kept in, if they are.
async fn door_with_counts(
    args: &ServeArgs,
    shared: &Shared,
    made: Made,
    log: &Log,
) -> Result<(Arc<Door>, Option<Arc<CountsFile>>), ServeError> {
    let counts = counts_file(args, shared, log).await?;
    let restored = counts.as_ref().and_then(|counts| counts.restore());
    let door = Arc::new(door(args, shared, Made { restored, ..made })?);
    if let Some(counts) = &counts {
        // Who it is, before others know of it: if it is killed, its name is its own all the same.
        Arc::clone(counts).save_now(Arc::clone(&door)).await;
    }
    Ok((door, counts))
}

fn door(args: &ServeArgs, shared: &Shared, made: Made) -> Result<Door, ServeError> {
    let Made { clock, control, live, restored } = made;
    let mut builder = Limiter::builder().memory_budget_bytes(args.memory);
    builder = builder.clock(Arc::clone(&clock));
    let secret = args.fleet_secret_bytes().map_err(ServeError::InvalidFleetSecret)?;
    if let Some(secret) = secret {
        builder = builder.fleet_secret(secret);
    }
    if let Some(saved) = restored {
        builder = builder.restore(saved);
    }
    if let Some(region) = &shared.region {
        builder = region.join(builder);
    }
    if let Some(globe) = &shared.globe {
        builder = globe.join(builder);
    }
    let seed = getrandom::u64().map_err(io::Error::other)?;
    let mut idempotency = Idempotency::new(clock, secret, seed);
    if let Some(region) = &shared.region {
        idempotency = idempotency.region(region.store());
    }
    let request_ids = RequestIds::new(getrandom::u64().map_err(io::Error::other)?);
    let limiter = Arc::new(builder.build()?);
    let door = Door::new(limiter, control, idempotency, request_ids, live);
    Ok(door.counting_workspaces(args.transport.metrics_workspaces.map(usize::from)))
}

/// Where the counts of a process on its own outlive it. With Redis, the region remembers.
async fn counts_file(
    args: &ServeArgs,
    shared: &Shared,
    log: &Log,
) -> Result<Option<Arc<CountsFile>>, ServeError> {
    if shared.region.is_some() {
        return Ok(None);
    }
    let region = shared.globe.as_ref().map(|globe| globe.name.as_str());
    let secret = args.fleet_secret_bytes().map_err(ServeError::InvalidFleetSecret)?;
    let directory = match data_dir(args) {
        Ok(directory) => directory,
        // The settings are elsewhere: this is no reason not to serve.
        Err(why) => {
            log.say(Event::CountsNotKept { path: None, why: Text::of(&why) });
            return Ok(None);
        }
    };
    let counts = CountsFile::new(&directory, region, secret).telling(log);
    counts.take().await;
    Ok(Some(Arc::new(counts)))
}

/// The data directory, made if it is missing.
fn data_dir(args: &ServeArgs) -> Result<PathBuf, ServeError> {
    let directory = place::data_dir(args.place.data.as_deref())?;
    place::make(&directory)?;
    Ok(directory)
}

/// Where keys, namespaces and overrides are: where it was said, or where regions meet, or in a
/// file of this user's.
fn database(args: &ServeArgs, shared: &Shared) -> Result<Arc<Database>, ServeError> {
    if let Some(url) = &args.place.database {
        return Ok(Arc::new(Database::parse(url).map_err(ServeError::InvalidDatabase)?));
    }
    if let Some(globe) = &shared.globe {
        return Ok(globe.database());
    }
    let directory = data_dir(args)?;
    let url = place::database_url(&directory);
    Ok(Arc::new(Database::parse(&url).map_err(ServeError::InvalidDatabase)?))
}

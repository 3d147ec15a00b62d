//! `tidegate serve`: builds what is needed, says so, serves, and ends cleanly.

use std::fmt;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tidegate::redis::ConfigError;
use tidegate::{Drained, Limiter, Part};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use crate::accept::Entrance;
use crate::auth::RootKey;
use crate::cli::{DEVELOPMENT_KEY, ServeArgs};
use crate::door::Door;
use crate::globe::{Globe, StartError};
use crate::region::Region;
use crate::request_id::RequestIds;
use crate::signals::Signals;
use crate::tls::TlsError;

#[cfg(test)]
mod tests;
mod wire;

/// The workspace of the one key there is.
pub(crate) const WORKSPACE: &str = "ws_dev";

/// How long requests in flight may take to finish once the process was asked to end, and how long
/// they and the record of what was admitted may take together. Supervisors commonly kill after ten
/// seconds.
const REQUESTS_DEADLINE: Duration = Duration::from_secs(5);
const END_DEADLINE: Duration = Duration::from_secs(8);

const _: () = assert!(REQUESTS_DEADLINE.as_secs() < END_DEADLINE.as_secs());

/// How often memory of expired subjects is given back, and in how many bounded steps. Together
/// some forty thousand subjects a second are looked at, for a few thousandths of one core.
const SWEEP_INTERVAL: Duration = Duration::from_millis(100);
const SWEEP_STEPS: usize = 16;

/// Why the server does not run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The root key cannot be sent in a header. The key itself is not repeated: it is a secret.
    #[error("the root key (TIDEGATE_ROOT_KEY or --root-key) {0}")]
    InvalidKey(&'static str),
    /// The key that everybody knows must not open a door that everybody can reach.
    #[error(
        "{0} can be reached by other machines, and the root key `{DEVELOPMENT_KEY}` is known to \
         everyone.\nSet your own in TIDEGATE_ROOT_KEY (for example from `openssl rand -hex 32`), \
         or listen on 127.0.0.1."
    )]
    DevelopmentKeyExposed(SocketAddr),
    /// Keys must not cross a network in clear text by accident.
    #[error(
        "{0} can be reached by other machines, and without TLS they would send their keys in \
         clear text.\nGive --tls-cert and --tls-key, or say --plain-http if TLS ends in front of \
         it, or listen on 127.0.0.1."
    )]
    PlainHttpExposed(SocketAddr),
    /// TLS, or its files.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Not the address of a Redis. It is not repeated: there may be a password in it.
    #[error(
        "the regional store (TIDEGATE_REDIS or --redis): {0}.\nExpected \
         redis://[[user]:password@]host[:port][/database], with several hosts \
         redis://host,host/?sentinel=<name> or redis://host,host/?cluster=true."
    )]
    InvalidRedis(#[from] ConfigError),
    /// Not a fleet secret.
    #[error(
        "the fleet secret (TIDEGATE_FLEET_SECRET or --fleet-secret) {0}, such as \
         `openssl rand -hex 32` prints."
    )]
    InvalidFleetSecret(&'static str),
    /// The other regions.
    #[error(transparent)]
    Globe(#[from] StartError),
    /// Someone else listens there.
    #[error(
        "{0} is already in use.\nStop the process that listens there, or choose another address: \
         `--listen 127.0.0.1:0` takes any free port."
    )]
    AddressInUse(SocketAddr),
    /// The address cannot be listened on.
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, #[source] io::Error),
    /// The limiter could not be built.
    #[error("cannot build the limiter: {0}")]
    Build(#[from] tidegate::BuildError),
    /// The operating system refused something else.
    #[error("cannot start: {0}")]
    Start(#[from] io::Error),
}

impl ServeError {
    /// 2 if it was said wrongly, 1 if it could not be done.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::InvalidKey(_)
            | Self::DevelopmentKeyExposed(_)
            | Self::PlainHttpExposed(_)
            | Self::Tls(_)
            | Self::InvalidRedis(_)
            | Self::InvalidFleetSecret(_) => ExitCode::from(2),
            Self::Globe(why) if why.is_usage() => ExitCode::from(2),
            _ => ExitCode::from(1),
        }
    }
}

/// Serves until a signal asks for the end.
///
/// # Errors
/// [`ServeError`], if it cannot begin. Nothing that happens later is an error.
pub fn serve(args: &ServeArgs) -> Result<(), ServeError> {
    check_key(args)?;
    wire::check(args)?;
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(run(args))
}

fn check_key(args: &ServeArgs) -> Result<(), ServeError> {
    args.check_key().map_err(ServeError::InvalidKey)?;
    if args.has_development_key() && !args.listen.ip().is_loopback() {
        return Err(ServeError::DevelopmentKeyExposed(args.listen));
    }
    Ok(())
}

async fn run(args: &ServeArgs) -> Result<(), ServeError> {
    let tls = wire::tls(&args.transport)?;
    let limits = wire::limits(&args.transport);
    let secret = args.fleet_secret_bytes().map_err(ServeError::InvalidFleetSecret)?;
    let region = args.redis.as_deref().map(|url| Region::parse(url, secret)).transpose()?;
    let globe = Globe::parse(args)?;
    if let Some(globe) = &globe {
        globe.check().await?;
    }
    let shared = Shared { region, globe };
    let door = Arc::new(door(args, &shared)?);
    // Caught before anyone is told that we run: whoever reads the address may ask us to end.
    let mut signals = Signals::catch()?;
    let listener = wire::listen(args.listen)?;
    if let Some(globe) = &shared.globe {
        globe.confirm(door.limiter()).await?;
    }
    let address = listener.local_addr()?;
    let key_in_environment = args.has_key_in_environment();
    let subjects_max = door.limiter().subjects_max();
    say(&Welcome { address, args, shared: &shared, key_in_environment, subjects_max });
    let looks = shared.look(&door);

    let sweeper = tokio::spawn(sweep(Arc::clone(&door)));
    let mut entrance = Entrance::new(listener, Arc::clone(&door), limits, tls);
    entrance.accept_until(signals.next()).await;
    let mut hurried = wire::retire(&mut entrance, args.transport.retire_for, &mut signals).await;
    let connections = entrance.stop();
    if !hurried {
        let first = match shared.is_alone() {
            true => "requests in flight are finished first",
            false => "requests in flight are finished and what was admitted is recorded first",
        };
        say(&format_args!("\nstopping; {first} (Ctrl-C again ends it at once)"));
    }
    let end = Instant::now() + END_DEADLINE;
    let patience = if hurried { Duration::ZERO } else { REQUESTS_DEADLINE };
    let enough = async { hurried |= timeout(patience, signals.next()).await.is_ok() };
    let open = connections.drain(enough).await;
    sweeper.abort();
    looks.iter().for_each(JoinHandle::abort);
    let end = if hurried { Instant::now() } else { end };
    let drained = drain(door.limiter(), end, &mut signals).await;
    say(&Farewell { door: &door, open, shared: &shared, drained });
    Ok(())
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
    fn look(&self, door: &Arc<Door>) -> Vec<JoinHandle<()>> {
        let region = self.region.clone().map(|region| tokio::spawn(region.look()));
        let globe = self.globe.clone().map(|globe| {
            let door = Arc::clone(door);
            let counts = move || door.limiter().globe_counts().unwrap_or_default();
            tokio::spawn(globe.look(counts))
        });
        region.into_iter().chain(globe).collect()
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

fn door(args: &ServeArgs, shared: &Shared) -> Result<Door, ServeError> {
    let mut builder = Limiter::builder().memory_budget_bytes(args.memory);
    if let Some(secret) = args.fleet_secret_bytes().map_err(ServeError::InvalidFleetSecret)? {
        builder = builder.fleet_secret(secret);
    }
    if let Some(region) = &shared.region {
        builder = region.join(builder);
    }
    if let Some(globe) = &shared.globe {
        builder = globe.join(builder);
    }
    let workspace = Part::new(WORKSPACE).map_err(io::Error::other)?;
    let request_ids = RequestIds::new(getrandom::u64().map_err(io::Error::other)?);
    Ok(Door::new(builder.build()?, RootKey::new(args.root_key.clone(), workspace), request_ids))
}

/// Gives memory back, a little at a time.
async fn sweep(door: Arc<Door>) {
    let mut ticks = interval(SWEEP_INTERVAL);
    // After a pause the steps that were missed are not made up for: that would be a long step.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        for _ in 0..SWEEP_STEPS {
            door.limiter().sweep();
        }
    }
}

/// Tells whoever watches. Nobody may be watching: a closed terminal must not end the server.
fn say(text: &dyn fmt::Display) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{text}");
    // Whoever reads us through a pipe waits for the address.
    let _ = out.flush();
}

struct Welcome<'a> {
    address: SocketAddr,
    args: &'a ServeArgs,
    shared: &'a Shared,
    key_in_environment: bool,
    subjects_max: usize,
}

impl fmt::Display for Welcome<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.args.transport.tls_cert.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{}", reachable(self.address));
        let (memory_mib, subjects) = (self.args.memory >> 20, grouped(self.subjects_max));
        // A secret does not belong on a screen or into a log.
        let (key, header) = if self.args.has_development_key() {
            (
                format!("{DEVELOPMENT_KEY} (known to everyone: for this machine only)"),
                format!("'Authorization: Bearer {DEVELOPMENT_KEY}'"),
            )
        } else {
            (
                "as given; the line below takes it from TIDEGATE_ROOT_KEY".to_owned(),
                "\"Authorization: Bearer $TIDEGATE_ROOT_KEY\"".to_owned(),
            )
        };
        let has_to_be_set = !self.args.has_development_key() && !self.key_in_environment;
        let body = r#"{"namespace":"demo","identifier":"you","limit":3,"duration":60000}"#;
        writeln!(f, "tidegate {} listens on {url}\n", env!("CARGO_PKG_VERSION"))?;
        writeln!(f, "  memory    {memory_mib} MiB, about {subjects} subjects")?;
        write!(f, "{}", self.shared)?;
        writeln!(f, "  root key  {key}\n")?;
        writeln!(f, "Try it; of four in a minute the last is denied:\n")?;
        if has_to_be_set {
            writeln!(f, "  export TIDEGATE_ROOT_KEY=<your key>")?;
        }
        writeln!(f, "  curl -sw '\\n' {url}/v2/ratelimit.limit -H {header} -d '{body}'\n")?;
        write!(f, "Ctrl-C stops it.")
    }
}

impl fmt::Display for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.globe, &self.region) {
            (None, None) => {}
            (None, Some(region)) => writeln!(f, "  region    {region}")?,
            (Some(Globe { name, .. }), None) => {
                writeln!(f, "  region    {name}, this process alone")?;
            }
            (Some(Globe { name, .. }), Some(region)) => {
                writeln!(f, "  region    {name}, {region}")?;
            }
        }
        self.globe.iter().try_for_each(|globe| writeln!(f, "  globe     {globe}"))
    }
}

struct Farewell<'a> {
    door: &'a Door,
    open: usize,
    shared: &'a Shared,
    drained: Drained,
}

impl fmt::Display for Farewell<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.door.limiter().counts();
        let denied = counts.denied_local + counts.denied_reserved + counts.denied_memory;
        let (refused, subjects) = (self.door.refused(), self.door.limiter().subjects());
        write!(f, "stopped: {} admitted, {denied} denied, ", counts.admitted_local)?;
        write!(f, "{refused} refused (bad requests); subjects in memory: {subjects}")?;
        if self.open > 0 {
            write!(f, "; connections cut off: {}", self.open)?;
        }
        if self.shared.region.is_some() {
            match self.drained {
                Drained { unreplayed_cost: 0, .. } => {
                    write!(f, "\n0 of the admitted cost is unrecorded")?;
                }
                Drained { unreplayed_cost, subjects, .. } => write!(
                    f,
                    "\n{unreplayed_cost} units of {subjects} subjects were not recorded: \
                     Redis did not answer"
                )?,
            }
        }
        match (&self.shared.globe, self.drained.unpublished) {
            (None, _) => Ok(()),
            (Some(_), 0) => write!(f, "\nother regions were told what they should know"),
            (Some(_), unpublished) => write!(
                f,
                "\nof {unpublished} totals other regions were not told: the database did not \
                 answer"
            ),
        }
    }
}

/// An address that can be called: an unspecified one is every address of this machine.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Digits in groups of three.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

//! `tidegate serve`: builds what is needed, says so, serves, and ends cleanly.

use std::fmt;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tidegate::{Limiter, Part};
use tokio::net::TcpListener;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::accept::accept_until;
use crate::auth::RootKey;
use crate::cli::{DEVELOPMENT_KEY, ServeArgs};
use crate::door::Door;
use crate::request_id::RequestIds;
use crate::signals::Signals;

#[cfg(test)]
mod tests;

/// The workspace of the one key there is.
const WORKSPACE: &str = "ws_dev";

/// How long requests in flight may take to finish once the process was asked to end. Supervisors
/// commonly kill after ten seconds.
const DRAIN_DEADLINE: Duration = Duration::from_secs(5);

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
            Self::InvalidKey(_) | Self::DevelopmentKeyExposed(_) => ExitCode::from(2),
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
    let door = Arc::new(door(args)?);
    // Caught before anyone is told that we run: whoever reads the address may ask us to end.
    let mut signals = Signals::catch()?;
    let listener = listen(args.listen).await?;
    let address = listener.local_addr()?;
    let key_in_environment = args.has_key_in_environment();
    let subjects_max = door.limiter().subjects_max();
    say(&Welcome { address, args, key_in_environment, subjects_max });

    let sweeper = tokio::spawn(sweep(Arc::clone(&door)));
    let connections = accept_until(signals.next(), listener, &door).await;
    say(&"\nstopping; requests in flight are finished first (Ctrl-C again ends it at once)");
    let enough = async {
        let _ = timeout(DRAIN_DEADLINE, signals.next()).await;
    };
    let open = connections.drain(enough).await;
    sweeper.abort();
    say(&Farewell { door: &door, open });
    Ok(())
}

fn door(args: &ServeArgs) -> Result<Door, ServeError> {
    let limiter = Limiter::builder().memory_budget_bytes(args.memory).build()?;
    let workspace = Part::new(WORKSPACE).map_err(io::Error::other)?;
    let request_ids = RequestIds::new(getrandom::u64().map_err(io::Error::other)?);
    Ok(Door::new(limiter, RootKey::new(args.root_key.clone(), workspace), request_ids))
}

async fn listen(address: SocketAddr) -> Result<TcpListener, ServeError> {
    TcpListener::bind(address).await.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => ServeError::AddressInUse(address),
        _ => ServeError::Listen(address, error),
    })
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
    key_in_environment: bool,
    subjects_max: usize,
}

impl fmt::Display for Welcome<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = format!("http://{}", reachable(self.address));
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
        writeln!(f, "  root key  {key}\n")?;
        writeln!(f, "Try it; of four in a minute the last is denied:\n")?;
        if has_to_be_set {
            writeln!(f, "  export TIDEGATE_ROOT_KEY=<your key>")?;
        }
        writeln!(f, "  curl -sw '\\n' {url}/v2/ratelimit.limit -H {header} -d '{body}'\n")?;
        write!(f, "Ctrl-C stops it.")
    }
}

struct Farewell<'a> {
    door: &'a Door,
    open: usize,
}

impl fmt::Display for Farewell<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.door.limiter().counts();
        let denied = counts.denied_local + counts.denied_reserved + counts.denied_memory;
        let (refused, subjects) = (self.door.refused(), self.door.limiter().subjects());
        write!(f, "stopped: {} admitted, {denied} denied, ", counts.admitted_local)?;
        write!(f, "{refused} refused (bad requests); subjects in memory: {subjects}")?;
        match self.open {
            0 => Ok(()),
            open => write!(f, "; connections cut off: {open}"),
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

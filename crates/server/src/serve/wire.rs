//! What `serve` does about sockets: whether they may be plain, how many there are, and how the
//! end of them begins.

use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket};
use tokio::time::timeout;

use super::ServeError;
use super::told::tell;
use crate::accept::{Entrance, Limits, files};
use crate::cli::{ServeArgs, TransportArgs};
use crate::log::{Event, Log};
use crate::signals::Signals;
use crate::tls::{Pair, Tls};

/// Clients that may wait to be taken in. One more would be dropped and try again after a second, so
/// a crowd that comes at once should fit. The system holds it to its own bound, 4,096 on Linux.
const BACKLOG: u32 = 4_096;

/// Everything about sockets that can be wrong before there are any.
pub(super) fn check(args: &ServeArgs) -> Result<(), ServeError> {
    check_tls(&args.transport)?;
    check_plain(args)?;
    check_admin(&args.transport)
}

/// A certificate and its key are one thing, and it is not plain HTTP.
pub(crate) fn check_tls(args: &TransportArgs) -> Result<(), ServeError> {
    match (args.tls_cert.is_some(), args.tls_key.is_some()) {
        (true, false) => Err(ServeError::HalfTls("--tls-key")),
        (false, true) => Err(ServeError::HalfTls("--tls-cert")),
        (true, true) if args.plain_http => Err(ServeError::PlainTls),
        _ => Ok(()),
    }
}

/// Keys must not cross a network in clear text by accident.
pub(crate) fn check_plain(args: &ServeArgs) -> Result<(), ServeError> {
    let wire = &args.transport;
    let in_clear_text = wire.tls_cert.is_none() && wire.tls_key.is_none() && !wire.plain_http;
    match in_clear_text && !args.listen.ip().is_loopback() {
        true => Err(ServeError::PlainHttpExposed(args.listen)),
        false => Ok(()),
    }
}

/// Whether callers are served with TLS or not says nothing about who may look.
pub(crate) fn check_admin(args: &TransportArgs) -> Result<(), ServeError> {
    let is_exposed = |address: &SocketAddr| !args.admin_exposed && !address.ip().is_loopback();
    match args.admin_listen.filter(is_exposed) {
        Some(address) => Err(ServeError::AdminExposed(address)),
        None => Ok(()),
    }
}

/// TLS, if it was asked for.
pub(crate) fn tls(args: &TransportArgs) -> Result<Option<Tls>, ServeError> {
    let files = args.tls_cert.as_deref().zip(args.tls_key.as_deref());
    let load = |(certificate, key)| Tls::new(Pair::load(certificate, key)?);
    Ok(files.map(load).transpose()?)
}

/// How many connections there may be. Warns if that is less than was asked for.
pub(crate) fn limits(args: &TransportArgs, log: &Log) -> Limits {
    let limits = args.limits(files::allow(args.connections_max));
    if limits.connections_max < args.connections_max {
        log.say(Event::FilesFew { connections_max: limits.connections_max.into() });
    }
    limits
}

/// Whether SIGHUP is ours. If there is nothing to be read again and a terminal started us, it means
/// that the terminal is gone.
pub(super) fn wants_hangups(args: &ServeArgs) -> bool {
    let can_reload = args.config.is_some() || args.transport.tls_cert.is_some();
    can_reload || !io::stdin().is_terminal()
}

/// Listens there.
pub(super) fn listen(address: SocketAddr) -> Result<TcpListener, ServeError> {
    bind(address).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => ServeError::AddressInUse(address),
        _ => ServeError::Listen(address, error),
    })
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A restart must not wait for what is left of old connections. (Elsewhere this would let two
    // processes listen at one address.)
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Sends clients elsewhere for a while, and answers those who come nevertheless. Says whether a
/// signal asked for more haste.
pub(super) async fn retire(
    entrance: &mut Entrance,
    time: Duration,
    signals: &mut Signals,
    log: &Log,
) -> bool {
    entrance.retire();
    if time.is_zero() {
        return false;
    }
    let text = format_args!(
        "\nretiring: /readyz says 503 and clients are sent elsewhere, for {} s (Ctrl-C again ends \
         it at once)",
        time.as_secs_f64()
    );
    let for_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    tell(log, &text, || vec![Event::Retiring { for_ms }]);
    let mut hurried = false;
    let enough = async { hurried = timeout(time, signals.next()).await.is_ok() };
    entrance.accept_until(enough).await;
    hurried
}

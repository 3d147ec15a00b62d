//! What `serve` does about sockets: whether they may be plain, how many there are, and how the
//! end of them begins.

use std::io;
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
use crate::tls::Tls;

/// Clients that may wait to be taken in. One more would be dropped and try again after a second, so
/// a crowd that comes at once should fit. The system holds it to its own bound, 4,096 on Linux.
const BACKLOG: u32 = 4_096;

/// Keys must not cross a network in clear text by accident.
pub(super) fn check(args: &ServeArgs) -> Result<(), ServeError> {
    let wire = &args.transport;
    let in_clear_text = wire.tls_cert.is_none() && !wire.plain_http;
    if in_clear_text && !args.listen.ip().is_loopback() {
        return Err(ServeError::PlainHttpExposed(args.listen));
    }
    // Whether callers are served with TLS or not says nothing about who may look.
    let is_exposed = |address: &SocketAddr| !wire.admin_exposed && !address.ip().is_loopback();
    if let Some(address) = wire.admin_listen.filter(is_exposed) {
        return Err(ServeError::AdminExposed(address));
    }
    Ok(())
}

/// TLS, if it was asked for.
pub(super) fn tls(args: &TransportArgs) -> Result<Option<Tls>, ServeError> {
    let files = args.tls_cert.as_deref().zip(args.tls_key.as_deref());
    let load = |(certificate, key)| Tls::load(certificate, key);
    Ok(files.map(load).transpose()?)
}

/// How many connections there may be. Warns if that is less than was asked for.
pub(super) fn limits(args: &TransportArgs, log: &Log) -> Limits {
    let limits = args.limits(files::allow(args.connections_max));
    if limits.connections_max < args.connections_max {
        log.say(Event::FilesFew { connections_max: limits.connections_max.into() });
    }
    limits
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

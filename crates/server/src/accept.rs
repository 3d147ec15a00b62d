//! Connections: taken in, bounded in number and time, and finished before the process ends.
//!
//! An own loop instead of a framework's, because every wait on a client needs a deadline: for the
//! head of a request (here), for its body (`body`), for taking the reply (`stall`), and for the
//! end (here).

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::door::Door;

mod stall;
#[cfg(test)]
mod tests;

use stall::Impatient;

/// Most connections at a time; more wait in the kernel's queue. With the buffers of each (a head,
/// a small body) this bounds what clients can take from the machine to some 200 MiB.
const CONNECTIONS_MAX: usize = 4_096;

/// How long the head of a request may take, and how long a connection may be idle before the next
/// one: the clock starts with the wait. Whoever dribbles bytes is cut off here.
const HEAD_DEADLINE: Duration = Duration::from_secs(5);

/// Largest head of a request, several times what a browser sends. Given to hyper twice: the size of
/// its buffer alone lets through a head that ends in the same read that exceeds it.
const HEAD_BYTES_MAX: usize = 32 << 10;

/// How long accepting rests after a failure that concerns no single client, such as too many open
/// files. Without a rest the loop would spin until the cause is gone.
const ACCEPT_REST: Duration = Duration::from_millis(50);

/// The connections that are open.
#[derive(Debug)]
pub struct Connections {
    open: GracefulShutdown,
    places: Arc<Semaphore>,
}

impl Connections {
    /// Waits until every request in flight is answered, or until it is `enough`. Says how many
    /// connections are still open then.
    ///
    /// # Cancel safety
    /// Dropping it early leaves the connections as they are.
    pub async fn drain(self, enough: impl Future<Output = ()>) -> usize {
        let Self { open, places } = self;
        tokio::select! {
            () = open.shutdown() => {}
            () = enough => {}
        }
        CONNECTIONS_MAX.saturating_sub(places.available_permits())
    }
}

/// Takes connections in until `stop` is ready, and answers what comes over them.
pub async fn accept_until(
    stop: impl Future<Output = ()>,
    listener: TcpListener,
    door: &Arc<Door>,
) -> Connections {
    let connections = Connections {
        open: GracefulShutdown::new(),
        places: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
    };
    let mut stop = pin!(stop);
    loop {
        let next = next_connection(&listener, &connections.places);
        let accepted = tokio::select! {
            accepted = next => accepted,
            () = &mut stop => return connections,
        };
        match accepted {
            Ok((stream, place)) => {
                let watcher = connections.open.watcher();
                tokio::spawn(serve_connection(stream, Arc::clone(door), watcher, place));
            }
            Err(error) if concerns_one_client(&error) => {}
            Err(_) => {
                if timeout(ACCEPT_REST, &mut stop).await.is_ok() {
                    return connections;
                }
            }
        }
    }
}

/// Waits for a place first, then for a client: whoever comes when all places are taken waits in
/// the kernel's queue.
async fn next_connection(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    // Replies are small and whole: waiting to fill a packet would only delay them.
    stream.set_nodelay(true)?;
    Ok((stream, place))
}

/// Failures of a connection that ended before it was taken in.
fn concerns_one_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, InvalidInput, NotConnected};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | InvalidInput | NotConnected)
}

/// Serves one client until it leaves, is too slow, or the drain begins.
async fn serve_connection<T>(
    stream: T,
    door: Arc<Door>,
    watcher: Watcher,
    place: OwnedSemaphorePermit,
) where
    T: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let service = service_fn(|request| {
        let door = Arc::clone(&door);
        async move { Ok::<_, Infallible>(door.answer(request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_DEADLINE)
        .max_header_size(HEAD_BYTES_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(Impatient::new(stream)), service);
    // A client that breaks off or breaks the protocol is its own affair.
    let _ = watcher.watch(connection).await;
    drop(place);
}

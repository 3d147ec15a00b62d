//! Connections: taken in, bounded in number and time, and finished before the process ends.
//!
//! An own loop instead of a framework's, because every wait on a client needs a deadline: for its
//! first byte, a TLS handshake and which protocol it speaks (`connection`), for the rest of a head,
//! the next request and the end (`patient`), for a body (`body`), and for taking a reply
//! (`stall`).
//!
//! Promises: whoever only sits there locks nobody out (`places`); a request that has arrived whole
//! is answered.
//! Refuses: more connections from one address than it may have, by closing them.
//! Fails: when nothing more can be opened, by ending who stands lowest, and resting.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::door::Door;
use crate::tls::Tls;

mod activity;
mod bodies;
mod connection;
pub(crate) mod files;
mod frames;
mod noted;
mod patient;
mod peer;
mod places;
mod stall;
mod tally;
#[cfg(test)]
mod tests;

use activity::Order;
pub(crate) use activity::Protocol;
use connection::House;
use peer::Peer;
pub use places::Limits;
use places::{Place, Places};
use tally::Fate;
pub(crate) use tally::TallySeen;

/// How long accepting rests after a failure that concerns no single client, such as too many open
/// files. Without a rest the loop would spin until the cause is gone.
const ACCEPT_REST: Duration = Duration::from_millis(50);

/// Where clients come in.
#[derive(Debug)]
pub(crate) struct Entrance {
    listener: TcpListener,
    house: Arc<House>,
    places: Arc<Places>,
    /// A client that waits for a place.
    waiting: Option<(TcpStream, Peer)>,
}

impl Entrance {
    pub(crate) fn new(
        listener: TcpListener,
        door: Arc<Door>,
        limits: Limits,
        tls: Option<Tls>,
    ) -> Self {
        let house = House { door, tls, retiring: AtomicBool::new(false) };
        let (house, places) = (Arc::new(house), Arc::new(Places::new(limits)));
        Self { listener, house, places, waiting: None }
    }

    /// For whoever watches.
    pub(crate) fn watch(&self) -> Watch {
        Watch { house: Arc::clone(&self.house), places: Arc::clone(&self.places) }
    }

    /// Takes connections in until `enough` is ready, and answers what comes over them.
    pub(crate) async fn accept_until(&mut self, enough: impl Future<Output = ()>) {
        let mut enough = pin!(enough);
        loop {
            let accepted = tokio::select! {
                accepted = self.next_client() => accepted,
                () = &mut enough => return,
            };
            match accepted {
                Ok(Some((stream, place))) => {
                    tokio::spawn(connection::serve(stream, Arc::clone(&self.house), place));
                }
                Ok(None) => {}
                Err(error) if concerns_one_client(&error) => {}
                Err(_) => {
                    self.places.tally().note(Fate::NotAccepted);
                    self.places.evict();
                    if timeout(ACCEPT_REST, &mut enough).await.is_ok() {
                        return;
                    }
                }
            }
        }
    }

    /// The next client with its place; `None` if it was refused.
    ///
    /// # Cancel safety
    /// A client that was taken in and has no place yet is the next one.
    async fn next_client(&mut self) -> io::Result<Option<(TcpStream, Place)>> {
        if self.waiting.is_none() {
            let (stream, address) = self.listener.accept().await?;
            // Replies are small and whole: waiting to fill a packet would only delay them.
            stream.set_nodelay(true)?;
            self.waiting = Some((stream, Peer::of(address.ip())));
        }
        let Some((_, peer)) = &self.waiting else { return Ok(None) };
        let place = self.places.claim(*peer).await;
        let waiting = self.waiting.take();
        Ok(waiting.zip(place).map(|((stream, _), place)| (stream, place)))
    }

    /// From here on no one is kept: the server is not ready, replies of HTTP/1.1 close their
    /// connection, clients of HTTP/2 are told to go. Whoever comes is still answered.
    pub(crate) fn retire(&self) {
        // ORDER: relaxed, with `House::is_retiring`.
        self.house.retiring.store(true, Ordering::Relaxed);
        self.places.order_all(Order::Retire);
    }

    /// Closes the listener. What is in flight goes on.
    pub(crate) fn stop(self) -> Connections {
        self.retire();
        self.places.order_all(Order::Stop);
        Connections { places: self.places }
    }
}

/// How the entrance stands, for whoever watches.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    house: Arc<House>,
    places: Arc<Places>,
}

impl Watch {
    /// How many connections are open.
    pub(crate) fn open(&self) -> usize {
        self.places.open()
    }

    /// How many there may be.
    pub(crate) fn limits(&self) -> Limits {
        self.places.limits()
    }

    /// How connections ended.
    pub(crate) fn tally(&self) -> TallySeen {
        self.places.tally().seen()
    }

    /// From here on there may be as many. Whoever has a place keeps it as long as it can.
    pub(crate) fn set_limits(&self, limits: Limits) {
        self.places.set_limits(limits);
    }

    /// Whether clients are told to go elsewhere.
    pub(crate) fn is_retiring(&self) -> bool {
        self.house.is_retiring()
    }
}

/// The connections that are still open when no more are taken in.
#[derive(Debug)]
pub(crate) struct Connections {
    places: Arc<Places>,
}

impl Connections {
    /// Counts those that are open, for as long as anybody asks.
    pub(crate) fn counter(&self) -> impl Fn() -> usize + Send + 'static {
        let places = Arc::clone(&self.places);
        move || places.open()
    }

    /// Waits until every request in flight is answered, or until it is `enough`. Says how many
    /// connections are still open then.
    ///
    /// # Cancel safety
    /// Dropping it early leaves the connections as they are.
    pub(crate) async fn drain(self, enough: impl Future<Output = ()>) -> usize {
        tokio::select! {
            () = self.places.empty() => {}
            () = enough => {}
        }
        self.places.open()
    }
}

/// Failures of a connection that ended before it was taken in.
fn concerns_one_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, InvalidInput, NotConnected};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | InvalidInput | NotConnected)
}

//! A network between a client and a server that can be made bad, one way at a time.
//!
//! It reads the Redis protocol in both directions, so that it knows which answer belongs to which
//! command: "after the server executed it" is a fact here, not a guess about time. In front of
//! other servers it is [blind](Proxy::blind).

mod pump;

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::{Error, Result};

/// A proxy on loopback. Ends when dropped.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    switches: Arc<Switches>,
}

/// What is wrong with the network at the moment.
///
/// All accesses are sequentially consistent: a test that turned a switch must see it turned, and
/// nothing here is hot.
#[derive(Debug, Default)]
struct Switches {
    /// The bytes are of another protocol, and are not read.
    blind: bool,
    delay_ms: AtomicU64,
    /// How many more bytes of answers pass; 0 is "as many as come".
    cut_after: AtomicU64,
    duplicates: AtomicU64,
    blackhole: AtomicBool,
    refuse: AtomicBool,
    ended: AtomicBool,
    accepted: AtomicU64,
    cuts: AtomicU64,
    dropped: AtomicU64,
    open: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    /// A proxy in front of a server on loopback; at first the network is good.
    ///
    /// # Errors
    /// When there is no port left.
    pub fn start(server: u16) -> Result<Self> {
        Self::start_with(server, Switches::default())
    }

    /// A proxy in front of a server that speaks anything, such as a database. It passes bytes as
    /// they come: it can be late, cut, swallow and refuse, and what it is told to double it does
    /// not.
    ///
    /// # Errors
    /// As [`Proxy::start`].
    pub fn blind(server: u16) -> Result<Self> {
        Self::start_with(server, Switches { blind: true, ..Switches::default() })
    }

    fn start_with(server: u16, switches: Switches) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(Error::because("a proxy"))?;
        let port = listener.local_addr().map_err(Error::because("a proxy"))?.port();
        let switches = Arc::new(switches);
        let shared = Arc::clone(&switches);
        thread::spawn(move || accept(&listener, server, &shared));
        Ok(Self { port, switches })
    }

    /// Its port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// `redis://127.0.0.1:port`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Every answer is that much later.
    pub fn delay(&self, delay: Duration) {
        let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        self.switches.delay_ms.store(delay_ms, Ordering::SeqCst);
    }

    /// Cuts the connection as soon as the server has answered that many more bytes (at least 1).
    /// What was answered in the same breath is lost: the server executed, the client never knows.
    pub fn cut_after(&self, bytes: u64) {
        self.switches.cut_after.store(bytes.max(1), Ordering::SeqCst);
    }

    /// Sends the next commands twice, and swallows the answers to the second ones. Commands that
    /// arrive together are repeated together.
    pub fn duplicate(&self) {
        self.switches.duplicates.fetch_add(1, Ordering::SeqCst);
    }

    /// Swallows every byte, in both directions. Connections are still taken. One of which a byte
    /// was swallowed stays silent for good, because no network loses bytes out of the middle.
    pub fn blackhole(&self, on: bool) {
        self.switches.blackhole.store(on, Ordering::SeqCst);
    }

    /// Ends every connection, and each new one at once.
    pub fn refuse(&self, on: bool) {
        self.switches.refuse.store(on, Ordering::SeqCst);
        if on {
            self.switches.end_all();
        }
    }

    /// How many connections were made.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.switches.accepted.load(Ordering::SeqCst)
    }

    /// How many connections [`Proxy::cut_after`] has cut.
    #[must_use]
    pub fn cuts(&self) -> u64 {
        self.switches.cuts.load(Ordering::SeqCst)
    }

    /// How many answers to repeated commands were swallowed.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.switches.dropped.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.switches.ended.store(true, Ordering::SeqCst);
        self.switches.end_all();
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl Switches {
    fn end_all(&self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        for stream in open.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn keep(&self, stream: &TcpStream) -> io::Result<()> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.push(stream.try_clone()?);
        Ok(())
    }
}

/// Takes connections until the proxy ends.
fn accept(listener: &TcpListener, server: u16, switches: &Arc<Switches>) {
    for client in listener.incoming() {
        if switches.ended.load(Ordering::SeqCst) {
            return;
        }
        let Ok(client) = client else { continue };
        switches.accepted.fetch_add(1, Ordering::SeqCst);
        if !switches.refuse.load(Ordering::SeqCst) {
            // A server that is not there shows as a connection that ends at once.
            let _ = join(client, server, switches);
        }
    }
}

/// Joins a client and the server with two threads.
fn join(client: TcpStream, server: u16, switches: &Arc<Switches>) -> io::Result<()> {
    let server = TcpStream::connect(("127.0.0.1", server))?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    switches.keep(&client)?;
    switches.keep(&server)?;
    let (there, back) = pump::pair(client, server, switches)?;
    thread::spawn(move || there.run());
    thread::spawn(move || back.run());
    // A switch that was turned while we joined must not miss this connection.
    if switches.refuse.load(Ordering::SeqCst) || switches.ended.load(Ordering::SeqCst) {
        switches.end_all();
    }
    Ok(())
}

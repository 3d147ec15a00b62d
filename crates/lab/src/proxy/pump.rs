//! The two directions of one connection.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::Switches;
use crate::resp;

/// How much is read at once.
const CHUNK: usize = 64 * 1024;

/// What one direction tells the other.
#[derive(Debug, Default)]
struct Ledger {
    /// How many commands went to the server.
    sent: u64,
    /// Which answers, by number, the client must not see.
    hidden: VecDeque<Range<u64>>,
    /// Bytes of this connection were swallowed: none may follow, or they would be taken for them.
    dead: bool,
}

impl Ledger {
    /// Whether what was just read is to be swallowed.
    fn swallows(ledger: &Mutex<Self>, switches: &Switches) -> bool {
        let mut ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
        ledger.dead |= switches.blackhole.load(Ordering::SeqCst);
        ledger.dead
    }
}

/// From the client to the server.
pub(super) struct There {
    from: TcpStream,
    to: TcpStream,
    ledger: Arc<Mutex<Ledger>>,
    switches: Arc<Switches>,
}

/// From the server to the client.
pub(super) struct Back {
    from: TcpStream,
    to: TcpStream,
    ledger: Arc<Mutex<Ledger>>,
    switches: Arc<Switches>,
    answered: u64,
}

/// Both directions of one connection.
pub(super) fn pair(
    client: TcpStream,
    server: TcpStream,
    switches: &Arc<Switches>,
) -> io::Result<(There, Back)> {
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    let there = There {
        from: client.try_clone()?,
        to: server.try_clone()?,
        ledger: Arc::clone(&ledger),
        switches: Arc::clone(switches),
    };
    let switches = Arc::clone(switches);
    Ok((there, Back { from: server, to: client, ledger, switches, answered: 0 }))
}

impl There {
    pub(super) fn run(mut self) {
        let _ = self.pass();
        let _ = self.to.shutdown(Shutdown::Both);
        let _ = self.from.shutdown(Shutdown::Both);
    }

    fn pass(&mut self) -> io::Result<()> {
        let mut held = Vec::new();
        while read_more(&mut self.from, &mut held)? {
            if Ledger::swallows(&self.ledger, &self.switches) {
                held.clear();
                continue;
            }
            if self.switches.blind {
                self.to.write_all(&held)?;
                held.clear();
                continue;
            }
            let ends = ends(&held)?;
            let Some(end) = ends.last().copied() else { continue };
            let commands: Vec<u8> = held.drain(..end).collect();
            let count = u64::try_from(ends.len()).unwrap_or(u64::MAX);
            let twice = take_one(&self.switches.duplicates);
            // Told before it is sent: the answer may come at once.
            self.note(count, twice);
            self.to.write_all(&commands)?;
            if twice {
                self.to.write_all(&commands)?;
            }
        }
        Ok(())
    }

    fn note(&self, count: u64, twice: bool) {
        let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        ledger.sent = ledger.sent.saturating_add(count);
        if twice {
            let hidden = ledger.sent..ledger.sent.saturating_add(count);
            ledger.sent = hidden.end;
            ledger.hidden.push_back(hidden);
        }
    }
}

impl Back {
    pub(super) fn run(mut self) {
        let _ = self.pass();
        let _ = self.to.shutdown(Shutdown::Both);
        let _ = self.from.shutdown(Shutdown::Both);
    }

    fn pass(&mut self) -> io::Result<()> {
        let mut held = Vec::new();
        loop {
            let before = held.len();
            if !read_more(&mut self.from, &mut held)? {
                return Ok(());
            }
            if Ledger::swallows(&self.ledger, &self.switches) {
                held.clear();
                continue;
            }
            if self.must_cut(held.len().saturating_sub(before)) {
                return Ok(());
            }
            if self.switches.blind {
                self.wait();
                self.to.write_all(&held)?;
                held.clear();
                continue;
            }
            let ends = ends(&held)?;
            let mut passed = Vec::new();
            let mut start = 0;
            for end in &ends {
                if !self.is_hidden() {
                    passed.extend_from_slice(held.get(start..*end).unwrap_or_default());
                }
                start = *end;
            }
            held.drain(..start);
            self.wait();
            self.to.write_all(&passed)?;
        }
    }

    /// Whether so many more bytes are more than may pass.
    fn must_cut(&self, bytes: usize) -> bool {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let left = self.switches.cut_after.load(Ordering::SeqCst);
        if left == 0 {
            return false;
        }
        let cut = left <= bytes;
        self.switches.cut_after.store(left.saturating_sub(bytes), Ordering::SeqCst);
        if cut {
            self.switches.cuts.fetch_add(1, Ordering::SeqCst);
        }
        cut
    }

    /// Counts one answer and says whether it answers the second copy of a command.
    fn is_hidden(&mut self) -> bool {
        let number = self.answered;
        self.answered = self.answered.saturating_add(1);
        let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        while ledger.hidden.front().is_some_and(|range| range.end <= number) {
            ledger.hidden.pop_front();
        }
        let hidden = ledger.hidden.front().is_some_and(|range| range.contains(&number));
        if hidden {
            self.switches.dropped.fetch_add(1, Ordering::SeqCst);
        }
        hidden
    }

    #[expect(clippy::disallowed_methods, reason = "a slow network is what this imitates")]
    fn wait(&self) {
        let delay_ms = self.switches.delay_ms.load(Ordering::SeqCst);
        if delay_ms > 0 {
            std::thread::sleep(Duration::from_millis(delay_ms));
        }
    }
}

/// Takes one from a counter, if there is one.
fn take_one(counter: &std::sync::atomic::AtomicU64) -> bool {
    let less = |count: u64| count.checked_sub(1);
    counter.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
}

/// Reads what there is; `false` at the end.
fn read_more(stream: &mut TcpStream, held: &mut Vec<u8>) -> io::Result<bool> {
    let mut chunk = vec![0; CHUNK];
    let read = stream.read(&mut chunk)?;
    held.extend_from_slice(chunk.get(..read).unwrap_or_default());
    Ok(read > 0)
}

/// Where the complete values of some bytes end.
fn ends(bytes: &[u8]) -> io::Result<Vec<usize>> {
    let (mut found, mut at) = (Vec::new(), 0_usize);
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        let Some((_, used)) = resp::parse(rest).map_err(io::Error::other)? else {
            return Ok(found);
        };
        at = at.saturating_add(used);
        found.push(at);
    }
}

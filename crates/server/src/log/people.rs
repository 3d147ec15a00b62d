//! Words for people, on standard output: the welcome, the farewell, and what changed between them.
//!
//! Promises: whoever tells them something never waits, and a reader that stalls does not keep the
//! process from ending. A thread of its own writes.
//! Fails: what finds no room is lost. Nobody reads it.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// Texts that may wait. A server says a handful in its life, and one for each reload.
const TEXTS_MAX: usize = 64;

/// See the module.
pub(super) struct People {
    to: SyncSender<Said>,
}

enum Said {
    Text(String),
    /// Whoever waits for all before it.
    Wait(SyncSender<()>),
}

impl People {
    /// Those who read `out`.
    pub(super) fn start(out: impl Write + Send + 'static) -> io::Result<Self> {
        let (to, from) = sync_channel(TEXTS_MAX);
        let write = move || write_all(&from, out);
        thread::Builder::new().name("tidegate-people".to_owned()).spawn(write)?;
        Ok(Self { to })
    }

    pub(super) fn tell(&self, text: String) {
        let _ = self.to.try_send(Said::Text(text));
    }

    /// Waits until everything is written, or until it took too long.
    pub(super) fn flush(&self, within: Duration) {
        let (done, wait) = sync_channel(1);
        // No room: whoever reads has stalled long ago.
        if self.to.try_send(Said::Wait(done)).is_ok() {
            let _ = wait.recv_timeout(within);
        }
    }
}

/// Nobody may be watching: a closed terminal must not end the server.
fn write_all(from: &Receiver<Said>, mut out: impl Write) {
    for said in from {
        match said {
            Said::Text(text) => {
                let _ = writeln!(out, "{text}");
                // Whoever reads us through a pipe waits for the address.
                let _ = out.flush();
            }
            Said::Wait(done) => drop(done.try_send(())),
        }
    }
}

//! How far it is, on a terminal.

use std::cell::Cell;
use std::io::{self, IsTerminal, Write};
use std::rc::Rc;
use std::time::Duration;

use tokio::time::Instant;

/// How often the line is written.
const EVERY: Duration = Duration::from_millis(200);
/// Characters of the bar.
const BAR: u64 = 30;

/// A line that is written over while it runs.
pub(super) struct Progress {
    read: Rc<Cell<u64>>,
    /// All there is to read, if it is known.
    bytes: Option<u64>,
    /// `None` if nobody watches.
    begun: Option<Instant>,
    told: Instant,
}

impl Progress {
    pub(super) fn new(read: Rc<Cell<u64>>, bytes: Option<u64>) -> Self {
        let now = Instant::now();
        Self { read, bytes, begun: io::stderr().is_terminal().then_some(now), told: now }
    }

    pub(super) fn tell(&mut self, requests: u64) {
        let Some(begun) = self.begun else { return };
        let now = Instant::now();
        if now.duration_since(self.told) < EVERY {
            return;
        }
        self.told = now;
        let line = line((self.read.get(), self.bytes), requests, now.duration_since(begun));
        write(&line);
    }

    pub(super) fn end(&self) {
        if self.begun.is_some() {
            write("");
        }
    }
}

fn line((read, bytes): (u64, Option<u64>), requests: u64, time: Duration) -> String {
    let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1);
    let rate = requests.saturating_mul(1_000) / ms;
    let done = match bytes.filter(|bytes| *bytes > 0) {
        Some(bytes) => {
            let share = |whole: u64| read.min(bytes).saturating_mul(whole) / bytes;
            let bar = (0..BAR).map(|at| if at < share(BAR) { '█' } else { '·' });
            let bar: String = bar.collect();
            format!("{bar} {:3} %", share(100))
        }
        None => format!("{} MiB", read >> 20),
    };
    format!("{done}  {requests} requests, {rate}/s")
}

fn write(line: &str) {
    let mut out = io::stderr().lock();
    // Nobody may be watching.
    let _ = write!(out, "\r\u{1b}[K{line}");
    let _ = out.flush();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_it_is_and_how_fast() {
        let second = Duration::from_secs(1);
        let half = line((50, Some(100)), 7, second);
        assert_eq!(half, format!("{}{}  50 %  7 requests, 7/s", "█".repeat(15), "·".repeat(15)));
        assert_eq!(line((3 << 20, None), 9, second * 3), "3 MiB  9 requests, 3/s");
        assert!(line((5, Some(0)), 0, Duration::ZERO).starts_with("0 MiB"));
        assert!(line((500, Some(100)), 0, second).contains("100 %"));
    }
}

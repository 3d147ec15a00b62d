//! Counts that come back after a restart, and those that are to be saved for the next one.
//!
//! What was saved waits here until its subject is taken into the table. Its cells then begin with
//! it, as something that *peers* have used: what this process admits itself is counted apart, so
//! nothing that was saved is ever told to anybody a second time as its own.
//!
//! If the clock is behind what was saved, subjects come back before their windows do. Then the
//! sweep looks at those that are in the table, again and again, and they get what was saved of
//! their windows some seconds after the clock got there.

use std::sync::Arc;

use crate::cells::{CellHandle, Ticket};
use crate::key::{Digest, FleetSecret};
use crate::ledger::Ledger;
use crate::request::Subject;
use crate::saved::{KEPT_MS, SAVED_WINDOW_MS_MIN, SavedSubject, SavedSubjects};
use crate::sync::{AtomicBool, Ordering, RwLock, RwLockReadGuard};
use crate::time::Now;

use super::Table;

/// Times a subject is read again because its window turned meanwhile: it takes a window to turn
/// once more.
const TURNS_MAX: usize = 2;

/// What was saved, until an hour after it has expired: a clock that is ahead for a while takes
/// nothing away.
#[derive(Debug)]
pub(crate) struct Restored {
    gone_ms: u64,
    latest_ms: u64,
    /// The clock was seen to be behind what was saved.
    behind: AtomicBool,
    /// Read by whoever takes in a subject, in all shards at once; written once, at the end.
    saved: RwLock<Option<Arc<SavedSubjects>>>,
}

impl Restored {
    pub(crate) fn new(saved: SavedSubjects) -> Self {
        Self {
            gone_ms: saved.expires_ms().saturating_add(KEPT_MS),
            latest_ms: saved.latest_ms(),
            behind: AtomicBool::new(false),
            saved: RwLock::new(Some(Arc::new(saved))),
        }
    }

    /// What there is, if it may still count.
    fn get(&self, now: Now) -> Option<Arc<SavedSubjects>> {
        if self.gone_ms <= now.unix_ms() { None } else { self.read().clone() }
    }

    /// Gives the memory back if all of it expired long ago, and looks whether the clock is behind.
    pub(crate) fn sweep(&self, now: Now) {
        // ORDER: relaxed, here and below. A sweep that does not see it yet is followed by another.
        if now.unix_ms() < self.latest_ms {
            self.behind.store(true, Ordering::Relaxed);
        }
        if self.gone_ms <= now.unix_ms() && self.read().is_some() {
            *self.saved.write().unwrap_or_else(std::sync::PoisonError::into_inner) = None;
        }
    }

    /// Whether subjects may have come back before their windows did.
    pub(crate) fn was_early(&self) -> bool {
        self.behind.load(Ordering::Relaxed)
    }

    fn read(&self) -> RwLockReadGuard<'_, Option<Arc<SavedSubjects>>> {
        self.saved.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Gives both cells of a ledger what was saved of them. Once more changes nothing.
    pub(crate) fn seat(&self, ledger: Ledger<'_>, era: u64, now: Now) {
        if self.gone_ms <= now.unix_ms() {
            return;
        }
        let all = self.read();
        let Some(saved) = all.as_deref() else { return };
        let digest = Digest::from_words(ledger.digest());
        let sequence = ledger.position().sequence();
        let both = [Some(sequence), sequence.checked_sub(1)];
        for sequence in both.into_iter().flatten() {
            let count = saved.count(digest, sequence);
            if count > 0
                && let Some(cell) = CellHandle::new(ledger, era, sequence)
            {
                cell.restore(count);
            }
        }
    }
}

impl Table {
    /// What was restored of a window of a subject.
    /// [`Options::with_saved`](crate::Options::with_saved) has an example.
    #[must_use]
    pub fn restored(&self, subject: Digest, sequence: u64, now: Now) -> u64 {
        let saved = self.restored.as_ref().and_then(|restored| restored.get(now));
        saved.map_or(0, |saved| saved.count(subject, sequence))
    }

    /// Everything that was restored and still counts, seated or not. A save that left it out would
    /// forget those who have not come back yet. [`Options::with_saved`](crate::Options::with_saved)
    /// has an example.
    #[must_use]
    pub fn all_restored(&self, now: Now) -> Option<Arc<SavedSubjects>> {
        self.restored.as_ref().and_then(|restored| restored.get(now))
    }

    /// What has to be saved of a subject: what this process and its peers have admitted, never what
    /// is only reserved and never what other regions have. `None` if there is nothing.
    /// [`Options::with_saved`](crate::Options::with_saved) has an example.
    #[must_use]
    pub fn to_save(&self, subject: Ticket, now: Now) -> Option<SavedSubject> {
        for _ in 0..TURNS_MAX {
            let cells = self.cells(subject)?;
            if cells.window_ms < SAVED_WINDOW_MS_MIN {
                return None;
            }
            let admitted = |cell: CellHandle<'_>| cell.mine().saturating_add(cell.peers());
            let (current, previous) = (admitted(cells.current), admitted(cells.previous));
            // Afterwards: a cell that passed while it was read reads as nothing.
            if self.cells(subject)?.sequence != cells.sequence {
                continue;
            }
            let window_ms = u32::try_from(cells.window_ms).ok()?;
            let (subject, sequence) = (cells.current.digest(), cells.sequence);
            let saved = SavedSubject { subject, window_ms, sequence, current, previous };
            return (current.max(previous) > 0 && saved.is_live(now)).then_some(saved);
        }
        None
    }

    /// The name of a subject outside this process.
    /// [`Options::with_saved`](crate::Options::with_saved) has an example.
    #[must_use]
    pub fn digest_of(&self, subject: &Subject<'_>) -> Digest {
        Digest::of(subject, &self.secret)
    }

    /// The secret that names are made with.
    ///
    /// ```
    /// use tidegate_limiter::{FleetSecret, Options, Seed, Table};
    ///
    /// let options = Options::default().with_fleet_secret(FleetSecret::from_bytes([1; 32]));
    /// let fingerprint = options.secret_fingerprint();
    /// let table = Table::new(options, Seed::from_bytes([7; 32]));
    /// assert_eq!(table.fleet_secret().fingerprint(), fingerprint);
    /// ```
    #[must_use]
    pub const fn fleet_secret(&self) -> &FleetSecret {
        &self.secret
    }
}

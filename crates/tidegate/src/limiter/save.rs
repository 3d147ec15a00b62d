//! Saving what was admitted, in steps, while decisions go on.

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;

use tidegate_limiter::{SavedSubject, SavedSubjects, Walk};

use super::Limiter;
use crate::saved::Writer;

/// Ledgers looked at in one step: few enough that others get their turn in between, and at most
/// 45 kB of text.
const STEP: usize = 1_024;

/// What was saved: see [`Limiter::save`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SavedCounts {
    /// Subjects that are in memory.
    pub subjects: u64,
    /// Subjects that were restored, saved once more: some of them may be in memory too.
    pub again: u64,
    /// Subjects for which there was no room.
    pub left_out: u64,
}

/// A save under way: see [`Limiter::saving`].
pub struct Saving<'a> {
    limiter: &'a Limiter,
    phase: Phase,
    counts: SavedCounts,
    /// What one step has found; kept for its memory.
    found: Vec<SavedSubject>,
}

enum Phase {
    Begin,
    Walk(Writer, Walk),
    /// What was restored, and how much of it was written.
    Again(Writer, Arc<SavedSubjects>, usize),
    End(Writer),
    Over,
}

impl Limiter {
    /// Writes what was admitted to windows of a minute and longer, for the next life of this
    /// process: see [`Saved`](crate::Saved). It never blocks a check, but it takes a while: about
    /// half a second for a million subjects. On a runtime, use [`saving`](Self::saving) or a thread
    /// of its own.
    ///
    /// With a regional store nothing is written but the frame: the store remembers.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn save(&self, out: &mut impl Write) -> io::Result<SavedCounts> {
        let (mut saving, mut bytes) = (self.saving(), Vec::new());
        loop {
            let more = saving.step(&mut bytes);
            out.write_all(&bytes)?;
            bytes.clear();
            if !more {
                return Ok(saving.counts());
            }
        }
    }

    /// The same in steps, for those who have to do something in between. A step looks at a
    /// thousand subjects at most, holds no lock meanwhile, and appends at most 45 kB.
    ///
    /// ```
    /// # let limiter = tidegate::Limiter::builder().build()?;
    /// let (mut saving, mut bytes) = (limiter.saving(), Vec::new());
    /// while saving.step(&mut bytes) {
    ///     // Write what there is, or let others run.
    /// }
    /// assert!(tidegate::Saved::read(bytes.as_slice(), None).is_ok());
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub fn saving(&self) -> Saving<'_> {
        let (phase, counts) = (Phase::Begin, SavedCounts::default());
        Saving { limiter: self, phase, counts, found: Vec::with_capacity(STEP) }
    }

    /// Whether there is something to save even if nothing was admitted: the identity by which
    /// other regions know this process, or knew it. Without it the next life would be another
    /// region, and its name would be taken. See [`is_saved_here`](Self::is_saved_here).
    #[must_use]
    pub const fn has_identity(&self) -> bool {
        self.identity.is_some()
    }

    /// Whether [`save`](Self::save) has anything to save: not if a regional store remembers.
    ///
    /// ```
    /// # let limiter = tidegate::Limiter::builder().build()?;
    /// assert!(limiter.is_saved_here() && !limiter.has_identity());
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    #[must_use]
    pub const fn is_saved_here(&self) -> bool {
        #[cfg(feature = "region")]
        if let Some(region) = &self.region {
            return region.private_identity().is_some();
        }
        true
    }
}

impl Saving<'_> {
    /// Takes one step and appends what it came to. Returns whether there is more to do. See
    /// [`Limiter::saving`].
    pub fn step(&mut self, out: &mut Vec<u8>) -> bool {
        let (table, now) = (&self.limiter.table, self.limiter.clock.now());
        self.phase = match std::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Begin => {
                let fingerprint = table.fleet_secret().fingerprint();
                let identity = self.limiter.identity;
                let writer = Writer::begin(fingerprint, identity, now.unix_ms(), out);
                match self.limiter.is_saved_here() {
                    true => Phase::Walk(writer, Walk::default()),
                    false => Phase::End(writer),
                }
            }
            Phase::Walk(mut writer, mut walk) => {
                self.found.clear();
                let found = &mut self.found;
                let more = table.walk(&mut walk, STEP, |subject| {
                    found.extend(table.to_save(subject, now));
                });
                self.counts.subjects += self.append(&mut writer, out);
                match (more, table.all_restored(now)) {
                    (true, _) => Phase::Walk(writer, walk),
                    (false, Some(restored)) => Phase::Again(writer, restored, 0),
                    (false, None) => Phase::End(writer),
                }
            }
            Phase::Again(mut writer, restored, from) => {
                let rest = restored.as_slice().get(from..).unwrap_or_default();
                let live = rest.iter().take(STEP).filter(|saved| saved.is_live(now));
                self.found.clear();
                self.found.extend(live);
                self.counts.again += self.append(&mut writer, out);
                match rest.len() > STEP {
                    true => Phase::Again(writer, restored, from + STEP),
                    false => Phase::End(writer),
                }
            }
            Phase::End(mut writer) => {
                writer.end(out);
                Phase::Over
            }
            Phase::Over => Phase::Over,
        };
        !matches!(self.phase, Phase::Over)
    }

    /// What was saved so far. See [`Limiter::saving`].
    #[must_use]
    pub const fn counts(&self) -> SavedCounts {
        self.counts
    }

    fn append(&mut self, writer: &mut Writer, out: &mut Vec<u8>) -> u64 {
        let taken = writer.append(&self.found, out);
        self.counts.left_out += self.found.len() as u64 - taken;
        taken
    }
}

impl fmt::Debug for Saving<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Saving").field("counts", &self.counts).finish_non_exhaustive()
    }
}

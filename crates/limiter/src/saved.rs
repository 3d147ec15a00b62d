//! What outlives a process that has no regional store: the counts of long windows.
//!
//! Promises: a count that was saved is found by the subject's [`Digest`] and the number of its
//! window, whatever else was saved, in whatever order and however often; the largest stands. A
//! clock that is wrong for a while loses nothing: what it takes for the future is kept.
//! Refuses: short windows, and windows that ended long ago. Nothing here is ever changed: it is
//! read when a subject is taken into the table.

use std::cmp::Reverse;

use crate::key::Digest;
use crate::request::WINDOW_MS_MAX;
use crate::time::Now;

/// Shortest window that is saved: as with what regions tell each other. A process that is away for
/// seconds has forgotten little of a shorter one. [`SavedSubject`] has an example.
pub const SAVED_WINDOW_MS_MIN: u64 = 60_000;

/// How long it is kept after it has expired. A clock may be ahead for a while, and that must not
/// cost what it then takes for the past. Longer, and the lists of many restarts would add up.
pub(crate) const KEPT_MS: u64 = 3_600_000;

const _: () = assert!(SAVED_WINDOW_MS_MIN < WINDOW_MS_MAX);
const _: () = assert!(WINDOW_MS_MAX <= u32::MAX as u64);

/// What is saved of one subject: what its region, which is one process, admitted to two windows.
///
/// ```
/// use tidegate_limiter::{Digest, Now, SAVED_WINDOW_MS_MIN, SavedSubject};
///
/// let subject = Digest::from_bytes([7; 16]);
/// let saved = SavedSubject { subject, window_ms: 60_000, sequence: 9, current: 4, previous: 2 };
/// assert_eq!((saved.starts_ms(), saved.expires_ms()), (540_000, 660_000));
/// assert!(saved.is_live(Now::new(0, 0)), "the clock is behind");
/// assert!(!saved.is_live(Now::new(660_000 + 3_600_000, 0)), "an hour after it expired");
/// assert_eq!(u64::from(saved.window_ms), SAVED_WINDOW_MS_MIN);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedSubject {
    /// The subject.
    pub subject: Digest,
    /// The length of its windows.
    pub window_ms: u32,
    /// The number of the later window.
    pub sequence: u64,
    /// What was admitted to it.
    pub current: u64,
    /// What was admitted to the one before it.
    pub previous: u64,
}

impl SavedSubject {
    /// When neither window counts any more, by the wall clock. The [type](Self) has an example.
    #[must_use]
    pub fn expires_ms(&self) -> u64 {
        self.sequence.saturating_add(2).saturating_mul(self.window_ms.into())
    }

    /// When the later window begins, by the wall clock. The [type](Self) has an example.
    #[must_use]
    pub fn starts_ms(&self) -> u64 {
        self.sequence.saturating_mul(self.window_ms.into())
    }

    /// Whether it may still matter: a window of at least a minute that has not expired, or less
    /// than an hour ago. One that has not begun may: it is the clock that is behind. The
    /// [type](Self) has an example.
    #[must_use]
    pub fn is_live(&self, now: Now) -> bool {
        (SAVED_WINDOW_MS_MIN..=WINDOW_MS_MAX).contains(&self.window_ms.into())
            && self.expires_ms().saturating_add(KEPT_MS) > now.unix_ms()
    }

    /// What was admitted to the window of that number.
    const fn count(&self, sequence: u64) -> u64 {
        if sequence == self.sequence {
            self.current
        } else if sequence.wrapping_add(1) == self.sequence {
            self.previous
        } else {
            0
        }
    }

    /// Takes in what else was saved of the same subject, no later than this, if one record can
    /// hold both. Says whether the other is of no more use.
    fn merge(&mut self, other: &Self) -> bool {
        if other.window_ms != self.window_ms {
            // A digest is of one window only: it makes no sense.
            return true;
        }
        if self.sequence.saturating_sub(other.sequence) > 1 {
            return false;
        }
        let largest = |sequence| self.count(sequence).max(other.count(sequence));
        let current = largest(self.sequence);
        let previous = self.sequence.checked_sub(1).map_or(0, largest);
        (self.current, self.previous) = (current, previous);
        true
    }
}

/// Everything that was saved, to be looked up.
///
/// ```
/// use tidegate_limiter::{Digest, Now, SavedSubject, SavedSubjects};
///
/// let subject = Digest::from_bytes([7; 16]);
/// let saved = SavedSubject { subject, window_ms: 60_000, sequence: 9, current: 4, previous: 2 };
/// let late = SavedSubject { current: 3, ..saved };
/// let all = SavedSubjects::new(vec![saved, late]);
/// assert_eq!((all.count(subject, 9), all.count(subject, 8), all.count(subject, 7)), (4, 2, 0));
/// assert_eq!(all.as_slice(), [saved], "the largest stands");
/// assert_eq!((all.latest_ms(), all.expires_ms()), (540_000, 660_000));
/// assert!(all.live(Now::new(86_400_000, 0)).as_slice().is_empty(), "a day later");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedSubjects {
    /// By digest, the latest first: a third of what a map would take. Each once, or twice if a
    /// clock jumped: what it says now, and what it says is still to come.
    subjects: Box<[SavedSubject]>,
    /// Where those begin whose digests begin with each number of [`bits`](bits_for) bits, and at
    /// last where all end. A search in the whole list would wait for memory twenty times.
    starts: Box<[u32]>,
    expires_ms: u64,
    latest_ms: u64,
}

/// Bits of a digest that say where to look: some eight subjects are left then.
fn bits_for(subjects: usize) -> u32 {
    subjects.checked_ilog2().unwrap_or(0).saturating_sub(3).min(24)
}

/// The number that a digest begins with.
fn prefix(subject: Digest, bits: u32) -> usize {
    let [high, _] = subject.to_words();
    let first = high.checked_shr(u64::BITS.saturating_sub(bits)).unwrap_or(0);
    usize::try_from(first).unwrap_or(usize::MAX)
}

/// Where the digests with each prefix begin in a list that is in their order.
fn starts_of(subjects: &[SavedSubject]) -> Box<[u32]> {
    let bits = bits_for(subjects.len());
    let mut starts = vec![0_u32; (1_usize << bits).saturating_add(1)];
    for saved in subjects {
        // How many there are, each behind its place...
        if let Some(count) = starts.get_mut(prefix(saved.subject, bits).saturating_add(1)) {
            *count = count.saturating_add(1);
        }
    }
    // ...and so where the next begin.
    let mut sum = 0_u32;
    for start in &mut starts {
        sum = sum.saturating_add(*start);
        *start = sum;
    }
    starts.into_boxed_slice()
}

/// Keeps the two latest of each subject, so that jumps of a clock do not add up. If one of them is
/// from the future, the other is of now.
fn keep_two(subjects: &mut Vec<SavedSubject>) {
    let (mut last, mut times) = (None, 0_u32);
    subjects.retain(|saved| {
        times = if last == Some(saved.subject) { times.saturating_add(1) } else { 1 };
        last = Some(saved.subject);
        times <= 2
    });
}

impl SavedSubjects {
    /// Of what was saved, the largest counts. The [type](Self) has an example.
    #[must_use]
    pub fn new(mut subjects: Vec<SavedSubject>) -> Self {
        let order =
            |saved: &SavedSubject| (saved.subject, Reverse(saved.sequence), saved.window_ms);
        subjects.sort_unstable_by_key(order);
        subjects.dedup_by(|older, first| older.subject == first.subject && first.merge(older));
        keep_two(&mut subjects);
        let expires_ms = subjects.iter().map(SavedSubject::expires_ms).max().unwrap_or(0);
        let latest_ms = subjects.iter().map(SavedSubject::starts_ms).max().unwrap_or(0);
        let starts = starts_of(&subjects);
        Self { subjects: subjects.into_boxed_slice(), starts, expires_ms, latest_ms }
    }

    /// Only what may still matter. The [type](Self) has an example.
    #[must_use]
    pub fn live(self, now: Now) -> Self {
        let subjects = self.subjects.into_vec().into_iter();
        Self::new(subjects.filter(|saved| saved.is_live(now)).collect())
    }

    /// What was admitted to a window of a subject. The [type](Self) has an example.
    #[must_use]
    pub fn count(&self, subject: Digest, sequence: u64) -> u64 {
        let near = self.near(subject).unwrap_or_default();
        let from = near.partition_point(|saved| saved.subject < subject);
        let all = near.get(from..).unwrap_or_default().iter();
        let its = all.take_while(|saved| saved.subject == subject);
        its.map(|saved| saved.count(sequence)).max().unwrap_or(0)
    }

    /// The few among which a subject is, if it is there.
    fn near(&self, subject: Digest) -> Option<&[SavedSubject]> {
        let at = prefix(subject, bits_for(self.subjects.len()));
        let begin = usize::try_from(*self.starts.get(at)?).ok()?;
        let end = usize::try_from(*self.starts.get(at.checked_add(1)?)?).ok()?;
        self.subjects.get(begin..end)
    }

    /// Everything, by digest. The [type](Self) has an example.
    #[must_use]
    pub fn as_slice(&self) -> &[SavedSubject] {
        &self.subjects
    }

    /// When nothing of it counts any more, by the wall clock. The [type](Self) has an example.
    #[must_use]
    pub const fn expires_ms(&self) -> u64 {
        self.expires_ms
    }

    /// When the latest window of all begins, by the wall clock. One that says less is behind the
    /// clock that they were saved by. The [type](Self) has an example.
    #[must_use]
    pub const fn latest_ms(&self) -> u64 {
        self.latest_ms
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    fn saved(subject: u8, sequence: u64, current: u64, previous: u64) -> SavedSubject {
        let subject = Digest::from_bytes([subject; 16]);
        SavedSubject { subject, window_ms: 60_000, sequence, current, previous }
    }

    fn counts(all: &SavedSubjects, subject: u8) -> [u64; 4] {
        [10, 9, 8, 7].map(|sequence| all.count(Digest::from_bytes([subject; 16]), sequence))
    }

    #[test]
    fn of_what_was_saved_twice_the_largest_stands() {
        let one = [saved(1, 9, 4, 7), saved(1, 9, 6, 2), saved(2, 8, 1, 1)];
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
            let all = SavedSubjects::new(order.map(|at: usize| one[at]).to_vec());
            assert_eq!((counts(&all, 1), counts(&all, 2)), ([0, 6, 7, 0], [0, 0, 1, 1]));
            assert_eq!(all.as_slice().len(), 2);
        }
    }

    #[test]
    fn what_was_saved_a_window_earlier_is_the_previous_one() {
        let all = SavedSubjects::new(vec![saved(1, 8, 5, 3), saved(1, 9, 1, 4)]);
        assert_eq!(counts(&all, 1), [0, 1, 5, 0]);
    }

    #[test]
    fn what_a_jump_of_the_clock_lies_between_is_kept_apart() {
        let all = [saved(1, 10, 1, 0), saved(1, 7, 9, 9), saved(1, 7, 2, 12), saved(2, 9, 5, 5)];
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]] {
            let all = SavedSubjects::new(order.map(|at: usize| all[at]).to_vec());
            assert_eq!(counts(&all, 1), [1, 0, 0, 9]);
            assert_eq!((all.count(Digest::from_bytes([1; 16]), 6), counts(&all, 2)[1]), (12, 5));
            assert_eq!(all, SavedSubjects::new(all.as_slice().to_vec()), "once is enough");
            assert_eq!(all.latest_ms(), 10 * 60_000);
        }
        let jumps = (0..50).map(|jump| saved(1, 3 * jump, 1, 0)).collect();
        let sequences = SavedSubjects::new(jumps).as_slice().to_vec();
        let sequences: Vec<u64> = sequences.iter().map(|saved| saved.sequence).collect();
        assert_eq!(sequences, [147, 144], "jumps do not add up");
    }

    #[test]
    fn each_of_many_is_found_and_nobody_else() {
        for many in [0_u64, 1, 7, 8, 9, 15, 16, 17, 1_000, 5_000] {
            let digest = |number: u64| {
                // Spread like those of subjects; the last of them has all bits set.
                let high = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let high = if number == 3 { u64::MAX } else { high };
                Digest::from_words([high, number])
            };
            let one = |number| SavedSubject {
                subject: digest(number),
                current: number + 1,
                ..saved(0, 9, 0, 0)
            };
            let all = SavedSubjects::new((0..many).map(one).collect());
            for number in 0..many + 100 {
                let expected = if number < many { number + 1 } else { 0 };
                assert_eq!(all.count(digest(number), 9), expected, "{number} of {many}");
            }
        }
    }

    #[test]
    fn what_cannot_matter_is_left_out() {
        let at = |unix_ms| Now::new(unix_ms, 0);
        let one = saved(1, 9, 4, 7);
        let over_ms = 11 * 60_000 + KEPT_MS;
        assert!(one.is_live(at(over_ms - 1)) && !one.is_live(at(over_ms)));
        assert!(one.is_live(at(0)), "a clock that is behind");
        assert!(SavedSubject { sequence: u64::MAX, ..one }.is_live(at(u64::MAX - 1)));
        assert!(!SavedSubject { window_ms: 59_999, ..one }.is_live(at(9 * 59_999)));
        let all = SavedSubjects::new(vec![one, saved(2, 2, 1, 1)]).live(at(over_ms - 1));
        assert_eq!((all.as_slice().len(), all.expires_ms()), (1, 11 * 60_000));
    }
}

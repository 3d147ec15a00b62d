//! What is known of a subject beyond the own region, for those who ask.

use tidegate_limiter::{Digest, Now};

use crate::global::RegionNumber;

use super::Globe;

/// What the regions have published of one cell, as far as this process has heard. [`Globe`] has an
/// example.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PublishedCell {
    /// Which window it is.
    pub sequence: u64,
    /// What the own region has published.
    pub own: u64,
    /// What each of the others has.
    pub others: Vec<(RegionNumber, u64)>,
}

/// What the regions have published of a subject, as far as this process has heard. [`Globe`] has an
/// example.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GlobeView {
    /// The own region's number, once it has its name.
    pub number: Option<RegionNumber>,
    /// How long ago everything was known that had been published by then.
    pub age_ms: u64,
    /// The current cell.
    pub current: PublishedCell,
    /// The one before it.
    pub previous: PublishedCell,
}

impl Globe {
    /// Under which identity the region publishes. The [type](Self) has an example.
    #[must_use]
    pub const fn identity(&self) -> u128 {
        self.name.identity()
    }

    /// Goes on as the region that had this identity, whose counts this process has restored: what
    /// it published then is its own, not another region's. Only for a region that is one process,
    /// before it has begun.
    ///
    /// ```
    /// use tidegate_convergence::{Globe, GlobeOptions, GlobeTuning, RegionName};
    ///
    /// let name = RegionName::new("eu")?;
    /// let options = GlobeOptions { name, regions_max: 3, private: true };
    /// let globe = Globe::new(GlobeTuning::default(), options, 1 << 64, 1).resuming(7);
    /// assert_eq!(globe.identity(), 7);
    /// # Ok::<(), tidegate_convergence::RegionNameError>(())
    /// ```
    #[must_use]
    pub fn resuming(mut self, identity: u128) -> Self {
        self.name = super::Name::new(identity);
        self
    }

    /// What the regions have published of the cell with this sequence and of the one before it. The
    /// [type](Self) has an example.
    #[must_use]
    pub fn known(&self, (subject, window_ms): (Digest, u64), sequence: u64, now: Now) -> GlobeView {
        let number = self.name.number();
        let cell = |sequence: u64| {
            let all = self.values.all(window_ms, sequence, subject);
            let own = all.iter().find(|(of, _)| Some(*of) == number).map_or(0, |(_, own)| *own);
            let others = all.into_iter().filter(|(of, _)| Some(*of) != number).collect();
            PublishedCell { sequence, own, others }
        };
        GlobeView {
            number,
            age_ms: now.monotonic_ms().saturating_sub(self.feed.heard_ms()),
            current: cell(sequence),
            previous: sequence.checked_sub(1).map(cell).unwrap_or_default(),
        }
    }
}

//! Numbers that look random and are a function of a seed.

/// A stream of numbers. Each concern of a simulation has its own, so that changing one does not
/// reshuffle the others.
///
/// ```
/// use tidegate_sim::Chance;
///
/// let (mut a, mut b) = (Chance::new(7, "network"), Chance::new(7, "network"));
/// assert_eq!(a.below(100), b.below(100));
/// ```
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// The stream of one concern under one seed.
    #[must_use]
    pub fn new(seed: u64, concern: &str) -> Self {
        let mixed = concern
            .bytes()
            .fold(mix(seed), |mixed, byte| mix(mixed.rotate_left(9) ^ u64::from(byte)));
        Self(mixed)
    }

    /// Any number.
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `bound`; 0 if that is 0. The bias is below 2^-40 for the small bounds used
    /// here.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.any() % bound.max(1)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// A number from `low` to `high`, mostly small: each doubling is as likely as the next.
    pub fn skewed(&mut self, low: u64, high: u64) -> u64 {
        let doublings = u64::from((high / low.max(1)).max(1).ilog2());
        let top = low.saturating_mul(1 << self.between(0, doublings).min(62)).clamp(low, high);
        self.between(low, top)
    }

    /// True in `percent` of a hundred cases.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of several.
    pub fn of<T: Copy>(&mut self, choices: &[T]) -> Option<T> {
        choices.get(self.index(choices.len())).copied()
    }

    /// A place in something of that length.
    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or(0)
    }
}

/// The finaliser of SplitMix64: every input bit changes about half of the output bits.
pub(crate) const fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

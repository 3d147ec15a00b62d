//! Numbers that look random and are a function of a seed.

/// A stream of numbers. Each concern has its own, so that changing one does not reshuffle the
/// others.
#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    /// The stream of one concern under one seed.
    pub(crate) fn new(seed: u64, concern: &str) -> Self {
        let fold = |mixed: u64, byte: u8| mix(mixed.rotate_left(9) ^ u64::from(byte));
        Self(concern.bytes().fold(mix(seed), fold))
    }

    /// Any number.
    pub(crate) fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `bound`; 0 if that is 0. The bias does not matter for bounds this small.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.any() % bound.max(1)
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low.saturating_add(self.below(high.saturating_sub(low).saturating_add(1)))
    }

    /// True in `percent` of a hundred cases.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// A place in something of that length.
    pub(crate) fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(u64::try_from(length).unwrap_or(1))).unwrap_or(0)
    }

    /// The same things in another order.
    pub(crate) fn shuffle<T>(&mut self, things: &mut [T]) {
        for at in (1..things.len()).rev() {
            let other = self.index(at.saturating_add(1));
            things.swap(at, other);
        }
    }
}

/// The finaliser of SplitMix64: every input bit changes about half of the output bits.
const fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

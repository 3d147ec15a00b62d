//! Chance for whatever must not happen in step: differs from process to process, and is the same
//! in every run of the simulator.

/// The generator `SplitMix64`.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    /// Seeded by the identity of a process.
    pub(crate) fn new(incarnation: u128) -> Self {
        let [high, low] = [incarnation >> 64, incarnation]
            .map(|word| u64::try_from(word & u128::from(u64::MAX)).unwrap_or(0));
        Self(high ^ low.rotate_left(32))
    }

    pub(crate) const fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From four fifths to six fifths of a time: what started together does not stay together.
    pub(crate) fn jitter(&mut self, ms: u64) -> u64 {
        let fifth = ms / 5;
        (fifth * 4).saturating_add(self.roll() % (2 * fifth).saturating_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_stays_within_a_fifth() {
        let mut dice = Dice::new(7);
        let all: Vec<u64> = (0..1_000).map(|_| dice.jitter(1_000)).collect();
        assert!(all.iter().all(|ms| (800..=1_200).contains(ms)));
        assert!(all.iter().min() < Some(&820) && all.iter().max() > Some(&1_180));
        assert_eq!(dice.jitter(0), 0);
    }
}

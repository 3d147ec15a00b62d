//! Chance that is the same in every run.

/// The generator `SplitMix64`, and what the workloads draw from it.
#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) const fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.roll() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Whether something of this likelihood happens.
    pub(crate) fn happens(&mut self, likelihood: f64) -> bool {
        self.unit() < likelihood
    }

    /// One of so many.
    pub(crate) fn below(&mut self, many: usize) -> usize {
        usize::try_from(self.roll() % (many.max(1) as u64)).unwrap_or(0)
    }

    /// Exponential, of mean 1.
    pub(crate) fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }

    /// Normal, of mean 0 and deviation 1.
    pub(crate) fn normal(&mut self) -> f64 {
        let length = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        length * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// How many of something happen that happens so often on average.
    pub(crate) fn poisson(&mut self, mean: f64) -> u64 {
        if mean > 50.0 {
            return whole((mean + mean.sqrt() * self.normal()).round());
        }
        let (mut left, mut many) = (self.unit(), 0);
        while left > (-mean).exp() {
            left *= self.unit();
            many += 1;
        }
        many
    }

    /// From four fifths to six fifths of a time.
    pub(crate) fn jitter(&mut self, ms: u64) -> u64 {
        whole(ms as f64 * (0.8 + 0.4 * self.unit())).max(1)
    }
}

/// The whole part; 0 for what is negative.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "held at the ends of the range"
)]
pub(crate) const fn whole(value: f64) -> u64 {
    value as u64
}

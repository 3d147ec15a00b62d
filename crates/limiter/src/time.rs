//! One reading of the clock, taken by the caller and used throughout a decision.

/// The two clocks of one reading, in milliseconds.
///
/// The wall clock says which cell a request belongs to. The monotonic clock says how much time
/// has really passed, so that a wall clock that jumps can neither refill a budget nor age a
/// subject: see [`Table`](crate::Table).
///
/// ```
/// use tidegate_limiter::Now;
///
/// let now = Now::new(1_700_000_000_000, 5_000);
/// assert_eq!((now.unix_ms(), now.monotonic_ms()), (1_700_000_000_000, 5_000));
/// assert_eq!(now.after_ms(250), Now::new(1_700_000_000_250, 5_250));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    unix_ms: u64,
    monotonic_ms: u64,
}

/// Both clocks are held below this (the year 10889): times and sequences then fit beside a turn in
/// one word.
const MS_MAX: u64 = (1 << 48) - 1;

impl Now {
    /// A reading of both clocks. A time beyond the year 10889 is held there. The [type](Self) has
    /// an example.
    #[must_use]
    pub const fn new(unix_ms: u64, monotonic_ms: u64) -> Self {
        let unix_ms = if unix_ms > MS_MAX { MS_MAX } else { unix_ms };
        let monotonic_ms = if monotonic_ms > MS_MAX { MS_MAX } else { monotonic_ms };
        Self { unix_ms, monotonic_ms }
    }

    /// Milliseconds since the Unix epoch. The [type](Self) has an example.
    #[must_use]
    pub const fn unix_ms(self) -> u64 {
        self.unix_ms
    }

    /// Milliseconds since an arbitrary moment; never goes back. The [type](Self) has an example.
    #[must_use]
    pub const fn monotonic_ms(self) -> u64 {
        self.monotonic_ms
    }

    /// The reading that both clocks would give `ms` later. The [type](Self) has an example.
    #[must_use]
    pub const fn after_ms(self, ms: u64) -> Self {
        Self::new(self.unix_ms.saturating_add(ms), self.monotonic_ms.saturating_add(ms))
    }
}

//! A part of a whole, rounded once, for the terminal and for the page alike.

/// How many of `of` a part is, rounded to the nearest. What is not all is never all of it.
///
/// ```
/// use tidegate_trial::share_of;
///
/// assert_eq!((share_of(2, 3, 1_000), share_of(1_999, 2_000, 1_000)), (667, 999));
/// ```
#[must_use]
pub fn share_of(part: u64, whole: u64, of: u64) -> u64 {
    if whole == 0 || part >= whole {
        return if whole == 0 { 0 } else { of };
    }
    let (part, whole) = (u128::from(part), u128::from(whole));
    // Below 2^128 - 2^64: both are below 2^64.
    let rounded = part.saturating_mul(of.into()).saturating_add(whole / 2) / whole;
    u64::try_from(rounded).unwrap_or(of).min(of.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_rounded_to_the_nearest_and_once() {
        assert_eq!([0, 1, 3, 4, 7, 8].map(|part| share_of(part, 8, 4)), [0, 1, 2, 2, 3, 4]);
        // 24.645 % is 24.6 %, though 24.65 % would be 24.7 %.
        assert_eq!(
            (share_of(24_645, 100_000, 1_000), share_of(24_645, 100_000, 10_000)),
            (246, 2_465)
        );
        assert_eq!((share_of(5, 0, 9), share_of(0, 5, 9), share_of(6, 5, 9)), (0, 0, 9));
        assert_eq!(share_of(u64::MAX - 1, u64::MAX, u64::MAX), u64::MAX - 1);
        assert_eq!(share_of(999_999, 1_000_000, 1_000), 999);
    }
}

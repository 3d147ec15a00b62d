//! The arithmetic of a sliding window over two fixed cells: integers only, exact.
//!
//! `effective = current + floor(previous · (window − elapsed) / window) + cost`, and a request
//! fits if `effective <= limit`: equality passes.

use crate::request::{Cost, Limit, Window};

/// What two neighbouring cells hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct View {
    /// Everything known of the current cell.
    pub(crate) current: u64,
    /// Everything known of the previous cell, before it is weighted.
    pub(crate) previous: u64,
}

/// The share of `previous` that still lies in the sliding window, rounded down.
pub(crate) fn weigh(previous: u64, window: Window, elapsed_ms: u64) -> u64 {
    let window_ms = window.as_millis();
    let rest_ms = window_ms.saturating_sub(elapsed_ms);
    #[cfg(feature = "planted")]
    if crate::planted::is(crate::planted::Planted::FloatWeights) {
        return crate::planted::float_weight(previous, window_ms, rest_ms);
    }
    // 64 bits nearly always suffice, and a 128-bit division costs several times as much.
    let weighted = match previous.checked_mul(rest_ms) {
        Some(product) => product / window_ms,
        None => {
            let product = u128::from(previous) * u128::from(rest_ms);
            // At most `previous`, because `rest_ms <= window_ms`.
            u64::try_from(product / u128::from(window_ms)).unwrap_or(previous)
        }
    };
    debug_assert!(weighted <= previous, "a weight is at most one");
    weighted
}

impl View {
    /// What the sliding window holds without this request.
    pub(crate) fn used(self, window: Window, elapsed_ms: u64) -> u64 {
        let weighted =
            if self.previous == 0 { 0 } else { weigh(self.previous, window, elapsed_ms) };
        self.current.saturating_add(weighted)
    }
}

/// What a sliding window holds of two neighbouring cells: all of the current one, and of the
/// previous one the share that still lies in it, rounded down. A [`Table`](crate::Table) decides
/// by this.
///
/// ```
/// use tidegate_limiter::{Window, sliding_use};
///
/// let minute = Window::from_millis(60_000)?;
/// assert_eq!(sliding_use(2, 9, minute, 20_000), 8, "two thirds of nine are left");
/// # Ok::<(), tidegate_limiter::RequestError>(())
/// ```
#[must_use]
pub fn sliding_use(current: u64, previous: u64, window: Window, elapsed_ms: u64) -> u64 {
    View { current, previous }.used(window, elapsed_ms)
}

/// Whether `cost` fits beside what is `used`. A limit of 0 denies everything, even a cost of 0.
pub(crate) fn fits(used: u64, cost: Cost, limit: Limit) -> bool {
    limit.get() > 0 && used.saturating_add(cost.get()) <= limit.get()
}

/// When `cost` would fit if nothing else happened: milliseconds after the start of the current
/// cell, or `None` if never. Before that moment it does not fit, from it on it does.
pub(crate) fn earliest_fit_ms(view: View, window: Window, cost: u64, limit: Limit) -> Option<u64> {
    let room = limit.get().checked_sub(cost).filter(|_| limit.get() > 0)?;
    let window_ms = window.as_millis();
    // In this cell: the current count stays, the previous one fades.
    if let Some(room) = room.checked_sub(view.current) {
        let elapsed_ms = faded_to(view.previous, room, window_ms);
        if elapsed_ms < window_ms {
            return Some(elapsed_ms);
        }
    }
    // In the next cell: what is current now fades in turn. One window later nothing is left.
    Some(window_ms.saturating_add(faded_to(view.current, room, window_ms)))
}

/// The first `elapsed` at which `floor(count · (window − elapsed) / window) <= room`.
fn faded_to(count: u64, room: u64, window_ms: u64) -> u64 {
    if count <= room {
        return 0;
    }
    // floor(count · rest / window) <= room  ⟺  count · rest < (room + 1) · window
    //                                       ⟺  rest <= ceil((room + 1) · window / count) − 1.
    let rest = (u128::from(room) + 1) * u128::from(window_ms);
    let rest = rest.div_ceil(u128::from(count)).saturating_sub(1);
    window_ms.saturating_sub(u64::try_from(rest).unwrap_or(window_ms))
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests;

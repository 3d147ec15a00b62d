use proptest::prelude::*;

use super::*;
use crate::request::{COST_MAX, LIMIT_MAX, WINDOW_MS_MAX, WINDOW_MS_MIN};

fn window(window_ms: u64) -> Window {
    Window::from_millis(window_ms).unwrap()
}

/// SW1..SW7 of the contract: limit 10, window 60 s. Negative values cannot be represented.
#[test]
fn sliding_window_table() {
    // (name, current, previous, elapsed in 1/100, cost, remaining if it fits)
    let table = [
        ("SW1 empty", 0, 0, 0, 1, Some(9)),
        ("SW2 the last unit", 9, 0, 0, 1, Some(0)),
        ("SW3 cost 0 at the limit", 10, 0, 0, 0, Some(0)),
        ("SW4 above the limit", 10, 0, 0, 1, None),
        ("SW5 half of the previous cell", 5, 10, 50, 1, None),
        ("SW6 a hundredth of it", 5, 10, 99, 1, Some(4)),
        ("SW7 cost above the limit", 0, 0, 0, 100, None),
    ];
    for (name, current, previous, elapsed, cost, remaining) in table {
        let view = View { current, previous };
        let used = view.used(window(60_000), 600 * elapsed);
        let (cost, limit) = (Cost::new(cost).unwrap(), Limit::new(10));
        let found = fits(used, cost, limit).then(|| limit.get() - used - cost.get());
        assert_eq!(found, remaining, "{name}");
    }
}

/// Where the reference's floating point comes out one too low, the weight is exact.
#[test]
fn weight_is_exact_where_doubles_are_not() {
    assert_eq!(weigh(10, window(60_000), 54_000), 1);
    assert_eq!(weigh(100, window(60_000), 54_000), 10);
    assert_eq!(weigh(COUNT, window(WINDOW_MS_MAX), 0), COUNT);
    assert_eq!(weigh(COUNT, window(WINDOW_MS_MAX), WINDOW_MS_MAX), 0);
}

const COUNT: u64 = 1 << 53;

#[test]
fn limit_zero_denies_even_a_question() {
    let zero = Cost::new(0).unwrap();
    assert!(!fits(0, zero, Limit::new(0)));
    assert_eq!(
        earliest_fit_ms(View { current: 0, previous: 0 }, window(1_000), 0, Limit::new(0)),
        None
    );
}

#[test]
fn a_cost_above_the_limit_never_fits() {
    let view = View { current: 0, previous: 0 };
    let cost = Cost::new(11).unwrap();
    assert_eq!(earliest_fit_ms(view, window(1_000), cost.get(), Limit::new(10)), None);
}

fn any_window() -> impl Strategy<Value = Window> {
    prop_oneof![
        Just(WINDOW_MS_MIN),
        Just(60_000),
        Just(WINDOW_MS_MAX),
        WINDOW_MS_MIN..=WINDOW_MS_MAX,
        WINDOW_MS_MIN..=2_000,
    ]
    .prop_map(window)
}

fn any_count() -> impl Strategy<Value = u64> {
    prop_oneof![0..=20_u64, 0..=10_000_u64, 0..=LIMIT_MAX, Just(LIMIT_MAX)]
}

fn any_cost() -> impl Strategy<Value = Cost> {
    prop_oneof![0..=3_u64, 0..=10_000_u64, 0..=COST_MAX].prop_map(|cost| Cost::new(cost).unwrap())
}

/// Whether the cost fits `at_ms` after the start of the current cell if nothing happens.
fn fits_at(view: View, window: Window, cost: Cost, limit: Limit, at_ms: u64) -> bool {
    let window_ms = window.as_millis();
    let view = match at_ms / window_ms {
        0 => view,
        1 => View { current: 0, previous: view.current },
        _ => View { current: 0, previous: 0 },
    };
    fits(view.used(window, at_ms % window_ms), cost, limit)
}

proptest! {
    #![proptest_config(crate::cases(4_000))]

    /// INV-5: the weight is the floor of the rational product.
    #[test]
    fn weight_equals_rational_arithmetic(
        previous in any_count(),
        window in any_window(),
        point in any::<u64>(),
    ) {
        let elapsed_ms = point % window.as_millis();
        let weighted = u128::from(weigh(previous, window, elapsed_ms));
        let product = u128::from(previous) * u128::from(window.as_millis() - elapsed_ms);
        // floor(a / b) is the largest number whose product with b does not exceed a.
        prop_assert!(weighted * u128::from(window.as_millis()) <= product);
        prop_assert!((weighted + 1) * u128::from(window.as_millis()) > product);
    }

    /// Waiting exactly that long admits; one millisecond less denies.
    #[test]
    fn retry_time_is_exact(
        current in any_count(),
        previous in any_count(),
        window in any_window(),
        cost in any_cost(),
        limit in any_count(),
    ) {
        let (view, limit) = (View { current, previous }, Limit::new(limit));
        match earliest_fit_ms(view, window, cost.get(), limit) {
            None => prop_assert!(limit.get() == 0 || cost.get() > limit.get()),
            Some(at_ms) => {
                prop_assert!(fits_at(view, window, cost, limit, at_ms));
                prop_assert!(at_ms == 0 || !fits_at(view, window, cost, limit, at_ms - 1));
            }
        }
    }

    /// Nothing panics or wraps at the edges, and a cost above the limit never fits.
    #[test]
    fn a_cost_above_the_limit_is_denied(
        used in any::<u64>(),
        cost in any_cost(),
        limit in any_count(),
    ) {
        let limit = Limit::new(limit);
        if cost.get() > limit.get() {
            prop_assert!(!fits(used, cost, limit));
        }
    }
}

/// Exhaustively for small numbers: two cells let at most two limits through in any true
/// window, and that much is reached.
#[test]
fn at_most_two_limits_in_any_true_window() {
    let mut worst = 0;
    for limit in 1..=6_u64 {
        // One client that takes all it can at two moments, for every pair of moments.
        for (first, second) in
            (0..2_000).step_by(50).flat_map(|a| (a..a + 1_000).step_by(50).map(move |b| (a, b)))
        {
            let window = window(1_000);
            let mut cells = [0_u64; 4];
            let mut taken = 0;
            for at in [first, second] {
                let cell = at / 1_000;
                let previous = if cell == 0 { 0 } else { cells[cell - 1] };
                let view = View { current: cells[cell], previous };
                let used = view.used(window, (at % 1_000) as u64);
                let take = limit.saturating_sub(used);
                cells[cell] += take;
                taken += take;
            }
            assert!(taken <= 2 * limit, "limit {limit}, at {first} and {second}: {taken}");
            worst = worst.max(taken * 100 / limit);
        }
    }
    assert!(worst > 150, "the search must come near the bound, it reached {worst} %");
}

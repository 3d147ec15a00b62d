use proptest::prelude::*;
use tidegate_limiter::{FleetSecret, Part, Subject, Window};

use super::*;

fn cell(sequence: u64) -> CellName {
    let part = |text| Part::new(text).unwrap();
    let window = Window::from_millis(1_000).unwrap();
    let subject = Subject::new(part("w"), part("n"), part("i"), window);
    CellName { subject: Digest::of(&subject, &FleetSecret::default()), sequence }
}

fn component(name: (u8, u8)) -> Component {
    Component { incarnation: name.0.into(), life: name.1.into() }
}

#[test]
fn expired_cells_are_forgotten() {
    let mut region = MemoryRegion::default();
    region.record(cell(1), component((0, 0)), 5);
    region.record(cell(2), component((0, 0)), 6);
    region.expire(|cell| cell.sequence < 2);
    assert_eq!((region.sum(cell(1)), region.sum(cell(2))), (0, 6));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// INV-12: whatever the order and repetition, the sum is that of the largest totals.
    #[test]
    fn any_delivery_comes_to_the_same(
        sent in proptest::collection::vec(((0..3_u8, 0..2_u8), 0..100_u64), 1..30),
        again in proptest::collection::vec(0..30_usize, 0..30),
    ) {
        let mut largest = BTreeMap::new();
        for (name, total) in &sent {
            let held = largest.entry(*name).or_insert(0);
            *held = *total.max(held);
        }
        let mut region = MemoryRegion::default();
        let repeated = again.iter().filter_map(|at| sent.get(*at));
        for (name, total) in sent.iter().rev().chain(repeated).chain(&sent) {
            let answer = region.record(cell(1), component(*name), *total);
            prop_assert!(answer.recorded >= *total && answer.sum >= answer.recorded);
        }
        prop_assert_eq!(region.sum(cell(1)), largest.values().sum::<u64>());
        let answer = region.record(cell(1), component((0, 0)), 0);
        prop_assert_eq!(answer.recorded, largest.get(&(0, 0)).copied().unwrap_or(0));
    }
}

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// Some that differ in their last bits only, and some that differ at once.
fn digest() -> impl Strategy<Value = Digest> {
    let near = (0..200_u128).prop_map(|last| 7 << 120 | last);
    let far = (0..200_u128).prop_map(|first| first << 120 | first);
    prop_oneof![near, far].prop_map(|number| Digest::from_bytes(number.to_be_bytes()))
}

fn all(digests: &Digests<u64>, from: Digest) -> Vec<(Digest, u64)> {
    let mut all = Vec::new();
    digests.walk(from, |digest, number| {
        all.push((digest, *number));
        true
    });
    all
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn they_are_what_an_ordered_map_is(
        steps in prop::collection::vec((digest(), 0..8_u64), 0..600),
        from in digest(),
    ) {
        let (mut digests, mut model) = (Digests::new(), BTreeMap::new());
        for (digest, number) in steps {
            if number == 0 {
                digests.remove(digest);
                model.remove(&digest);
            } else {
                digests.insert(digest, number);
                model.insert(digest, number);
            }
            prop_assert_eq!(digests.get(digest), model.get(&digest));
        }
        let expected: Vec<_> = model.range(from..).map(|(of, number)| (*of, *number)).collect();
        prop_assert_eq!(all(&digests, from), expected);
        let mut next = Some(Digest::from_bytes([0; 16]));
        while let Some(from) = next {
            next = digests.retain_some(from, 7, |number| number % 2 == 0);
        }
        model.retain(|_, number| *number % 2 == 0);
        let mut left: Vec<(Digest, u64)> = Vec::new();
        prop_assert_eq!(digests.len(), model.len());
        loop {
            let some = digests.take_some();
            if some.is_empty() {
                break;
            }
            left.extend(some);
        }
        prop_assert_eq!(left, model.into_iter().collect::<Vec<_>>());
        prop_assert_eq!(digests.len(), 0);
    }
}

#[test]
fn what_is_not_given_is_not_kept() {
    let (mut digests, one) = (Digests::<u64>::new(), Digest::from_bytes([1; 16]));
    assert!(digests.meet(one, |held| (None, held.is_none())));
    assert_eq!((digests.len(), digests.get(one)), (0, None));
    digests.insert(one, 5);
    let held = digests.meet(one, |held| (Some(9), held.copied()));
    assert_eq!((held, digests.get(one)), (Some(5), Some(&5)));
}

#[test]
fn where_as_many_come_as_go_it_stays_as_large() {
    fn room(node: &Node<u64>) -> usize {
        match node {
            Node::Fork(ways) => ways.iter().map(room).sum(),
            Node::List(list) => list.0.capacity(),
        }
    }
    let (mut digests, present) = (Digests::new(), 2_000);
    // As good as random.
    let of = |number: u64| {
        let half = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Digest::from_bytes((u128::from(half) << 64 | u128::from(number)).to_be_bytes())
    };
    for number in 0..50 * present {
        assert!(digests.insert(of(number), number) && !digests.insert(of(number), number));
        if number >= present {
            digests.remove(of(number - present));
        }
    }
    let (len, room) = (digests.len(), room(&digests.root));
    assert!(len == 2_000 && room <= 2 * len, "{room} for {len}");
    for number in 49 * present..50 * present {
        digests.remove(of(number));
    }
    assert!(digests.root.is_empty(), "nothing is left to be walked over");
}

#[test]
fn a_walk_ends_when_it_is_told_to() {
    let mut digests = Digests::new();
    for number in 0..100 {
        digests.insert(Digest::from_bytes([number; 16]), number);
    }
    let mut seen = Vec::new();
    digests.walk(Digest::from_bytes([40; 16]), |_, number| {
        seen.push(*number);
        seen.len() < 3
    });
    assert_eq!(seen, [40, 41, 42]);
}

use proptest::prelude::*;

use super::*;

const LEASE_MS: u64 = 3_000;

fn post(sequence: u64, step: u64) -> Post {
    Post { subject: Digest::from_bytes([7; 16]), window_ms: 1_000, sequence, step }
}

/// A call that posts nothing and wants nothing.
fn call(who: u128) -> BoardCall {
    BoardCall {
        who,
        identity: who,
        sure: false,
        posts: vec![],
        within_ms: 0,
        lease_ms: 0,
        take_max: 1_000,
        hurry: false,
    }
}

fn posting(posts: &[Post], within_ms: u64) -> BoardCall {
    BoardCall { posts: posts.to_vec(), within_ms, ..call(9) }
}

fn leading(who: u128) -> BoardCall {
    BoardCall { lease_ms: LEASE_MS, ..call(who) }
}

#[test]
fn one_leads_until_it_lapses_or_gives_up() {
    let mut board = Board::default();
    let mut leads = |call: BoardCall, now_ms| board.call(&call, now_ms).leads;
    assert!(leads(leading(1), 0));
    assert!(!leads(leading(2), LEASE_MS - 1));
    assert!(leads(leading(1), LEASE_MS - 1), "it renews");
    assert!(!leads(leading(2), 2 * LEASE_MS - 2));
    assert!(leads(leading(2), 2 * LEASE_MS - 1), "it lapsed");
    assert!(!leads(leading(1), 2 * LEASE_MS));
    assert!(!leads(call(1), 2 * LEASE_MS), "it has nothing to give up");
    assert!(!leads(leading(1), 2 * LEASE_MS));
    assert!(!leads(call(2), 2 * LEASE_MS), "it gives up");
    assert!(leads(leading(1), 2 * LEASE_MS));
}

#[test]
fn a_guess_yields_to_who_is_sure() {
    let mut board = Board::default();
    let mut identity =
        |identity, sure| board.call(&BoardCall { identity, sure, ..call(1) }, 0).identity;
    assert_eq!(identity(1, false), 1);
    assert_eq!(identity(2, false), 1, "the first guess stands");
    assert_eq!(identity(3, true), 3);
    assert_eq!(identity(4, false), 3);
}

#[test]
fn what_is_posted_is_taken_when_the_first_is_due() {
    let mut board = Board::default();
    let reply = board.call(&posting(&[post(1, 5)], 500), 0);
    assert_eq!((reply.leads, reply.due_in_ms), (false, Some(500)));
    let reply = board.call(&posting(&[post(2, 6), post(1, 7)], 100), 50);
    assert_eq!(reply.due_in_ms, Some(100), "the first of all");
    assert_eq!(board.call(&posting(&[post(1, 4)], 900), 60).due_in_ms, Some(90));
    let early = board.call(&leading(1), 149);
    assert_eq!((early.leads, early.taken, early.due_in_ms), (true, vec![], Some(1)));
    let other = board.call(&leading(2), 150);
    assert_eq!((other.taken, other.due_in_ms), (vec![], Some(0)), "another leads");
    let reply = board.call(&leading(1), 150);
    assert_eq!(reply.taken, [post(1, 4), post(2, 6)], "the smallest step stands");
    assert_eq!(reply.due_in_ms, None);
    assert_eq!(board.call(&leading(1), 151).taken, []);
}

#[test]
fn who_hurries_takes_what_is_not_due() {
    let mut board = Board::default();
    board.call(&posting(&[post(1, 5)], 500), 0);
    let hurry = BoardCall { hurry: true, ..leading(1) };
    assert_eq!(board.call(&hurry, 0).taken, [post(1, 5)]);
    assert_eq!(board.call(&hurry, 0).taken, []);
}

#[test]
fn what_is_not_taken_stays_due() {
    let mut board = Board::default();
    let posts: Vec<Post> = (0..5).map(|sequence| post(sequence, 1)).collect();
    board.call(&posting(&posts, 0), 0);
    let mut taken = vec![];
    for (left, take_max) in [(5, 0), (3, 2), (1, 2), (0, 2)] {
        let reply = board.call(&BoardCall { take_max, ..leading(1) }, 0);
        taken.extend(reply.taken);
        assert_eq!(taken.len(), 5 - left);
        assert_eq!(reply.due_in_ms, (left > 0).then_some(0));
    }
    taken.sort_unstable();
    assert_eq!(taken, posts);
}

#[test]
fn posts_that_nobody_takes_end_together() {
    let mut board = Board::default();
    board.call(&posting(&[post(1, 1)], 0), 0);
    board.call(&posting(&[post(2, 1)], 0), POSTS_LIFE_MS - 1);
    let reply = board.clone().call(&leading(1), 2 * POSTS_LIFE_MS - 2);
    assert_eq!(reply.taken, [post(1, 1), post(2, 1)], "the last post keeps the others");
    let reply = board.call(&leading(1), 2 * POSTS_LIFE_MS - 1);
    assert_eq!((reply.taken, reply.due_in_ms), (vec![], None));
}

#[test]
fn a_full_board_keeps_what_it_has() {
    let mut board = Board::default();
    let all: Vec<Post> = (0..POSTS_MAX as u64 + 1).map(|sequence| post(sequence, 5)).collect();
    board.call(&posting(&all, 0), 0);
    board.call(&posting(&[post(0, 3), post(u64::MAX, 3)], 0), 0);
    let taken = board.call(&BoardCall { take_max: usize::MAX, ..leading(1) }, 0).taken;
    assert_eq!((taken.len(), taken.first()), (POSTS_MAX, Some(&post(0, 3))));
    assert_eq!(taken.last(), Some(&post(POSTS_MAX as u64 - 1, 5)));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Nothing that fits is lost, and nothing is taken twice.
    #[test]
    fn whatever_is_posted_is_taken_once(
        calls in proptest::collection::vec(
            (0..3_u128, proptest::collection::vec((0..20_u64, 1..9_u64), 0..6), 0..5_usize),
            1..40,
        ),
    ) {
        let mut board = Board::default();
        let mut there = BTreeMap::new();
        for (who, posts, take_max) in calls {
            for (sequence, step) in &posts {
                let held = there.entry(*sequence).or_insert(*step);
                *held = (*held).min(*step);
            }
            let posts = posts.into_iter().map(|(sequence, step)| post(sequence, step)).collect();
            let reply = board.call(&BoardCall { posts, take_max, ..leading(who) }, 0);
            let took = if reply.leads { take_max.min(there.len()) } else { 0 };
            prop_assert_eq!(reply.taken.len(), took);
            for post in reply.taken {
                prop_assert_eq!(there.remove(&post.sequence), Some(post.step));
            }
            prop_assert_eq!(reply.due_in_ms.is_some(), !there.is_empty());
        }
    }
}

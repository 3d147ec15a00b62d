//! That nothing is done without end, or in too small steps.

use tidegate_limiter::Digest;

use super::*;
use crate::dice::Dice;
use crate::store::{CellReply, Reply, ShardReply, Token};

/// Answers what a process reads from its region, many times at one moment; says how often it asked,
/// and about how many cells.
fn read(world: &mut World, posts: Vec<Post>, reply: Option<Reply>) -> (usize, usize) {
    let now = world.now;
    let Process { table, globe, .. } = &mut world.processes[0];
    globe.leader.take(posts);
    let (mut calls, mut cells) = (0, 0);
    for _ in 0..1_000 {
        globe.tick(table, now);
        let mut effects = vec![];
        globe.take_effects(&mut effects);
        for effect in effects {
            if let GlobeEffect::Region { id, call, .. } = effect {
                (calls, cells) = (calls + 1, cells + call.records.len());
                let replies = vec![reply; call.records.len()];
                let reply = ShardReply {
                    token: Token(1),
                    server: None,
                    present: None,
                    replies,
                    asked: None,
                };
                globe.region_replied(table, id, Ok(reply), now);
            }
        }
    }
    (calls, cells)
}

fn post(subject: [u8; 16], sequence: u64) -> Post {
    Post { subject: Digest::from_bytes(subject), window_ms: WINDOW_MS, sequence, step: 1 }
}

#[test]
fn a_cell_that_cannot_be_read_is_not_read_without_end() {
    let mut world = World::new(&[1]);
    let sequence = world.now.unix_ms() / WINDOW_MS;
    assert_eq!(read(&mut world, vec![post([3; 16], sequence)], None), (1, 1));
    assert_eq!(read(&mut world, vec![post([3; 16], 1)], None), (0, 0), "it has expired");
}

#[test]
fn cells_of_a_shard_are_read_together() {
    let mut world = World::new(&[1]);
    let sequence = world.now.unix_ms() / WINDOW_MS;
    world.processes[0].globe.shards = 3;
    world.processes[0].globe.leader = Leader::new(&GlobeTuning::default(), 3);
    let mut dice = Dice::new(5);
    let posts = (0..512).map(|_| {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&dice.roll().to_be_bytes());
        post(bytes, sequence)
    });
    let empty = CellReply::default();
    let reply = Some(Reply { current: empty, previous: empty });
    let (calls, cells) = read(&mut world, posts.collect(), reply);
    // As many as 512 cells of three shards take at 32 in a call.
    assert!(cells == 512 && calls <= 18, "{calls} calls for {cells} cells");
}

/// A store that accepts nothing at all, for want of rights or room, is left alone.
#[test]
fn a_store_that_refuses_everything_is_left_alone() {
    let mut world = World::new(&[1]);
    world.refuses = Some(|call| {
        let publishes = matches!(call, GlobalCall::Publish(_));
        publishes.then(|| GlobalError::Refused("no".to_owned()))
    });
    for n in 0..500 {
        assert!(world.check(0, &request(&format!("user-{n}"), 10, 5)).admitted());
    }
    let before = world.calls.len();
    world.run_ms(10_000);
    let publishes = |call: &&GlobalCall| matches!(call, GlobalCall::Publish(_));
    let publishes = world.calls[before..].iter().filter(publishes).count();
    assert!(publishes < 50, "{publishes} in 10 s");
    world.refuses = None;
    world.run_ms(30_000);
    assert_eq!((world.written().len(), world.counts(0).unpublished), (500, 0));
}

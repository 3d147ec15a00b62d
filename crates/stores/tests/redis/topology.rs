//! Sentinels and clusters: calls go on after a failover, and the failover is noticed.

use std::collections::BTreeMap;

use tidegate_convergence::{
    BoardCall, BoardReply, Record, RegionalStore, Shard, ShardCall, ShardReply,
};
use tidegate_lab::{DEADLINE, RedisCluster, RedisServer, Sentinel, eventually as wait};
use tidegate_stores::RedisStore;

use crate::support::{
    PATIENCE, board_key, call, call_until_answered, eventually, leading, post, posting, record,
    store, subject,
};

fn watched(sentinel: &Sentinel) -> RedisStore {
    let nodes = sentinel.addresses().join(",");
    store(&format!("redis://{nodes}/?sentinel={}", Sentinel::MASTER))
}

fn clustered(cluster: &RedisCluster) -> RedisStore {
    store(&format!("redis://{}/?cluster=true", cluster.addresses().join(",")))
}

/// Until the replica has what its master has.
pub(crate) fn replicated(servers: &[RedisServer; 2]) {
    let offset = |server: &RedisServer| server.info("replication", "master_repl_offset").ok();
    wait("the replica has it all", DEADLINE, || {
        let [master, replica] = servers;
        (offset(master)? == offset(replica)?).then_some(())
    })
    .unwrap();
}

async fn follows_the_master(fail_over: impl FnOnce(&mut Sentinel)) {
    let mut sentinel = Sentinel::start().unwrap();
    let store = watched(&sentinel);
    let before = store.call(&call(vec![record(1, 5)])).await.unwrap();
    let posted = store.board(&posting(&[post(1, 5)], 3_600_000)).await.unwrap();
    replicated(sentinel.servers());
    fail_over(&mut sentinel);
    // The old master may still answer for a moment; then the other does.
    let other = async || {
        let reply = call_until_answered(&store, &[record(1, 6)]).await;
        (reply.server != before.server).then_some(reply)
    };
    let after = eventually("another server answers", other).await;
    let cell = after.replies[0].unwrap().current;
    assert_eq!((cell.sum, cell.components), (6, 1), "nothing was lost");
    assert_eq!(after.token, before.token);
    let taken = board_in_time(&store, &leading(1)).await;
    assert_eq!((taken.identity, taken.taken), (posted.identity, vec![post(1, 5)]));
}

/// The reply of the board, as soon as there is one.
async fn board_in_time(store: &RedisStore, call: &BoardCall) -> BoardReply {
    let answer = async || tokio::time::timeout(PATIENCE, store.board(call)).await.ok()?.ok();
    eventually("the board answers", answer).await
}

#[tokio::test]
async fn a_failover_by_the_sentinels_is_followed() {
    follows_the_master(|sentinel| sentinel.fail_over().unwrap()).await;
}

#[tokio::test]
async fn a_failover_after_a_crash_is_followed() {
    follows_the_master(|sentinel| {
        let before = sentinel.master_port().unwrap();
        sentinel.servers_mut()[0].kill_9();
        sentinel.wait_for_other_master(before).unwrap();
    })
    .await;
}

/// A record for every shard.
fn one_for_each_shard() -> BTreeMap<Shard, Record> {
    let mut found = BTreeMap::new();
    for number in 0.. {
        let subject = subject(number);
        found.entry(Shard::of(subject, 64)).or_insert(Record { subject, ..record(1, 1) });
        if found.len() == 64 {
            return found;
        }
    }
    found
}

async fn call_shard(store: &RedisStore, shard: Shard, record: Record) -> Option<ShardReply> {
    let call = ShardCall { shard, ..call(vec![record]) };
    tokio::time::timeout(PATIENCE, store.call(&call)).await.ok()?.ok()
}

/// Calls every shard until all have answered with a sum.
async fn call_all(store: &RedisStore, total: u64) -> BTreeMap<Shard, ShardReply> {
    let mut replies = BTreeMap::new();
    for (shard, record) in one_for_each_shard() {
        let record = Record { total, ..record };
        let answer = async || call_shard(store, shard, record).await;
        let reply = eventually("the shard answers", answer).await;
        assert_eq!(reply.replies[0].unwrap().current.sum, total, "{shard:?}");
        replies.insert(shard, reply);
    }
    replies
}

#[tokio::test]
async fn every_shard_of_a_cluster_is_served_without_detours() {
    let cluster = RedisCluster::start(3).unwrap();
    let store = clustered(&cluster);
    assert_eq!(store.shards(), 64);
    let replies = call_all(&store, 1).await;
    let mut servers: Vec<_> = replies.values().map(|reply| reply.server).collect();
    servers.sort_unstable();
    servers.dedup();
    assert_eq!(servers.len(), 3, "each node has its number");
    for node in cluster.nodes() {
        let errors = node.command(&["INFO", "errorstats"]).unwrap().text();
        assert!(!errors.contains("MOVED"), "{errors}");
    }
    let report = store.check().await.unwrap();
    assert_eq!((report.nodes.len(), report.warnings), (3, vec![]));
}

#[tokio::test]
async fn the_board_of_a_cluster_is_on_one_node() {
    let cluster = RedisCluster::start(3).unwrap();
    let store = clustered(&cluster);
    for n in 0..3 {
        for node in cluster.nodes() {
            node.command(&["SCRIPT", "FLUSH"]).unwrap();
        }
        store.board(&posting(&[post(n, 5)], 3_600_000)).await.unwrap();
        let reply = store.board(&leading(1)).await.unwrap();
        assert_eq!((reply.identity, reply.taken), (99, vec![post(n, 5)]));
    }
    for node in cluster.nodes() {
        let errors = node.command(&["INFO", "errorstats"]).unwrap().text();
        assert!(!errors.contains("MOVED") && !errors.contains("CROSSSLOT"), "{errors}");
    }
}

#[tokio::test]
async fn a_failover_of_the_board_of_a_cluster_is_followed() {
    let cluster = RedisCluster::start_with(3, 1).unwrap();
    let store = clustered(&cluster);
    store.board(&posting(&[post(1, 5)], 3_600_000)).await.unwrap();
    let owner = owner_of_board(&cluster);
    cluster.fail_over(3 + owner).unwrap();
    let reply = board_in_time(&store, &leading(1)).await;
    assert_eq!((reply.identity, reply.taken), (99, vec![post(1, 5)]));
    assert_eq!(owner_of_board(&cluster), 3 + owner);
}

/// The node that has the slot of the board.
fn owner_of_board(cluster: &RedisCluster) -> usize {
    let key = board_key("posts");
    let slot = cluster.nodes()[0].command(&["CLUSTER", "KEYSLOT", &key]).unwrap();
    cluster.owner(u16::try_from(slot.int().unwrap()).unwrap()).unwrap()
}

#[tokio::test]
async fn a_failover_in_a_cluster_concerns_its_own_shards_only() {
    let cluster = RedisCluster::start_with(3, 1).unwrap();
    let store = clustered(&cluster);
    let before = call_all(&store, 1).await;
    cluster.fail_over(3).unwrap();
    let after = call_all(&store, 2).await;
    let changed: Vec<Shard> = before
        .keys()
        .copied()
        .filter(|shard| before[shard].server != after[shard].server)
        .collect();
    assert_eq!(changed.len(), 21, "the shards of the first node of three");
    for (shard, reply) in &after {
        assert_eq!(reply.token, before[shard].token, "nothing was lost");
    }
}

#[tokio::test]
async fn a_node_that_dies_does_not_hold_up_the_others() {
    let mut cluster = RedisCluster::start_with(3, 1).unwrap();
    let store = clustered(&cluster);
    let before = call_all(&store, 1).await;
    cluster.nodes_mut()[0].kill_9();
    let mut served = 0;
    for (shard, record) in one_for_each_shard() {
        served += u32::from(call_shard(&store, shard, record).await.is_some());
    }
    assert!(served >= 43, "the shards of two nodes of three: {served}");
    cluster.wait_for_owner(3).unwrap();
    let after = call_all(&store, 2).await;
    let changed = before.keys().filter(|shard| before[shard].server != after[shard].server);
    assert_eq!(changed.count(), 21);
}

#[tokio::test]
async fn a_shard_that_moved_is_followed_at_once() {
    let cluster = RedisCluster::start(2).unwrap();
    let store = clustered(&cluster);
    let (shard, record) = one_for_each_shard().into_iter().next().unwrap();
    let before = call_shard(&store, shard, record).await.unwrap();
    store.board(&posting(&[post(1, 5)], 3_600_000)).await.unwrap();
    let nodes = cluster.nodes();
    let key = format!("{{{}}}", shard.0);
    let slot = nodes[0].command(&["CLUSTER", "KEYSLOT", &key]).unwrap().int().unwrap();
    let slot = u16::try_from(slot).unwrap();
    let from = cluster.owner(slot).unwrap();
    move_slot(nodes, from, slot);
    let after = call_shard(&store, shard, Record { total: 2, ..record }).await.unwrap();
    assert_eq!((after.token, after.replies[0].unwrap().current.had), (before.token, 1));
    assert_ne!(after.server, before.server);
    let slot = nodes[0].command(&["CLUSTER", "KEYSLOT", &board_key("posts")]).unwrap();
    move_slot(nodes, owner_of_board(&cluster), u16::try_from(slot.int().unwrap()).unwrap());
    let reply = store.board(&leading(1)).await.unwrap();
    assert_eq!((reply.identity, reply.taken), (99, vec![post(1, 5)]));
}

/// Moves a slot and its keys to the other of two nodes.
pub(crate) fn move_slot(nodes: &[RedisServer], from: usize, slot: u16) {
    let (old, new) = (&nodes[from], &nodes[1 - from]);
    let name = |node: &RedisServer| node.command(&["CLUSTER", "MYID"]).unwrap().text();
    let (old_name, new_name, slot) = (name(old), name(new), slot.to_string());
    new.command(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &old_name]).unwrap();
    old.command(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &new_name]).unwrap();
    let keys = old.command(&["CLUSTER", "GETKEYSINSLOT", &slot, "100"]).unwrap();
    for key in keys.items() {
        let port = new.port().to_string();
        let moved = old.command(&["MIGRATE", "127.0.0.1", &port, &key.text(), "0", "5000"]);
        assert_eq!(moved.unwrap().text(), "OK");
    }
    for node in [new, old] {
        let told = node.command(&["CLUSTER", "SETSLOT", &slot, "NODE", &new_name]).unwrap();
        assert_eq!(told.text(), "OK");
    }
}

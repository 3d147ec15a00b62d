//! Redis in its other shapes: a cluster, and a master with replicas and sentinels.

use tidegate_lab::{RedisCluster, Sentinel};

use crate::support::{Load, fleet, last, p99, recorded, until};

const LARGE: u64 = 1_000_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_of_three() {
    let cluster = RedisCluster::start(3).unwrap();
    let fleet = fleet(&format!("redis://{}/?cluster=true", cluster.addresses().join(",")), 3);
    let load = Load::start(&fleet, 60, LARGE);
    last(2_000).await;
    let (admitted, times) = load.stop().await;
    let took =
        until("Redis holds what was admitted", || recorded(cluster.nodes()) == admitted).await;
    println!("cluster: whole after {took:?}, p99 {:?}", p99(&times));
    let used = cluster.nodes().iter().filter(|node| crate::support::recorded_in(node) > 0).count();
    assert_eq!(used, 3, "all of them have a part");
    // One of them loses everything.
    cluster.nodes()[1].command(&["FLUSHALL"]).unwrap();
    let took = until("the cluster is whole again", || recorded(cluster.nodes()) == admitted).await;
    println!("cluster: whole {took:?} after one node was flushed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sentinel_failover() {
    let sentinel = Sentinel::start().unwrap();
    let before = sentinel.master_port().unwrap();
    let nodes = sentinel.addresses().join(",");
    let fleet = fleet(&format!("redis://{nodes}/?sentinel={}", Sentinel::MASTER), 3);
    let load = Load::start(&fleet, 20, LARGE);
    last(500).await;
    sentinel.fail_over().unwrap();
    assert_ne!(sentinel.master_port().unwrap(), before);
    last(1_000).await;
    let (admitted, times) = load.stop().await;
    let master = || {
        let port = sentinel.master_port().ok()?;
        sentinel.servers().iter().find(|server| server.port() == port)
    };
    let whole = || master().is_some_and(|server| crate::support::recorded_in(server) == admitted);
    let took = until("the new master holds what was admitted", whole).await;
    println!("failover: whole after {took:?}, p99 {:?}, worst {:?}", p99(&times), times.last());
}

//! A private Redis Cluster.

use crate::redis::{RedisOptions, RedisServer};
use crate::resp::Value;
use crate::wait::{DEADLINE, eventually};
use crate::{Error, Result};

/// How many slots a cluster has.
const SLOTS: usize = 16_384;
/// After this long without an answer a node is taken for dead, and its replica asks to follow.
const NODE_TIMEOUT_MS: &str = "1500";

/// Some masters that share the slots evenly, each with the same number of replicas.
#[derive(Debug)]
pub struct RedisCluster {
    /// The masters first, then their replicas in the same order.
    nodes: Vec<RedisServer>,
    masters: usize,
}

impl RedisCluster {
    /// So many masters, no replicas.
    ///
    /// # Errors
    /// When a server or the cluster does not get ready.
    pub fn start(masters: usize) -> Result<Self> {
        Self::start_with(masters, 0)
    }

    /// So many masters, each with so many replicas.
    ///
    /// # Errors
    /// When a server or the cluster does not get ready.
    pub fn start_with(masters: usize, replicas: usize) -> Result<Self> {
        let options = RedisOptions::new()
            .set("cluster-enabled", "yes")
            .set("cluster-node-timeout", NODE_TIMEOUT_MS)
            .set("cluster-replica-validity-factor", "0")
            // The default waits five seconds for more replicas to come.
            .set("repl-diskless-sync-delay", "0");
        let count = masters.saturating_mul(replicas.saturating_add(1));
        let nodes: Result<Vec<_>> = (0..count).map(|_| RedisServer::start_with(&options)).collect();
        let cluster = Self { nodes: nodes?, masters };
        cluster.assign()?;
        cluster.meet()?;
        cluster.follow()?;
        cluster.wait()?;
        Ok(cluster)
    }

    /// The masters of the start, then the replicas.
    #[must_use]
    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    /// The same, to break them.
    pub fn nodes_mut(&mut self) -> &mut [RedisServer] {
        &mut self.nodes
    }

    /// The addresses of all nodes.
    #[must_use]
    pub fn addresses(&self) -> Vec<String> {
        self.nodes.iter().map(RedisServer::address).collect()
    }

    /// Which of the nodes owns a slot, as the node asked sees it.
    ///
    /// # Errors
    /// When no node answers, or none owns the slot.
    pub fn owner(&self, slot: u16) -> Result<usize> {
        let mut last = Error::new("the cluster has no nodes");
        for node in &self.nodes {
            match node.command(&["CLUSTER", "SLOTS"]) {
                Ok(slots) => return self.owner_in(&slots, slot),
                Err(why) => last = why,
            }
        }
        Err(last)
    }

    /// Makes a replica take the place of its master, without loss, and waits until all agree.
    ///
    /// # Errors
    /// When it does not happen.
    pub fn fail_over(&self, replica: usize) -> Result<()> {
        let node = self.nodes.get(replica).ok_or_else(|| Error::new("no such node"))?;
        expect_ok(&node.command(&["CLUSTER", "FAILOVER"])?)?;
        self.wait_for_owner(replica)
    }

    /// Until every node that answers says that this one is a master that owns slots.
    ///
    /// # Errors
    /// When it does not happen.
    pub fn wait_for_owner(&self, node: usize) -> Result<()> {
        let port = self.nodes.get(node).map_or(0, RedisServer::port);
        eventually("the cluster agrees on a new master", DEADLINE, || {
            let mut all =
                self.nodes.iter().filter_map(|node| node.command(&["CLUSTER", "SLOTS"]).ok());
            let owns = |slots: Value| slots.items().iter().any(|range| owner_port(range) == port);
            all.all(owns).then_some(())
        })
    }

    fn owner_in(&self, slots: &Value, slot: u16) -> Result<usize> {
        let covers = |range: &&Value| {
            let bound = |at: usize| range.items().get(at).and_then(Value::int);
            let (low, high) = (bound(0).unwrap_or(i64::MAX), bound(1).unwrap_or(i64::MIN));
            (low..=high).contains(&slot.into())
        };
        let port = slots.items().iter().find(covers).map_or(0, owner_port);
        let found = self.nodes.iter().position(|node| node.port() == port);
        found.ok_or_else(|| Error::new(format!("nobody owns slot {slot}")))
    }

    /// Gives each master its share of the slots, and an epoch of its own so that they need not
    /// settle who is first.
    fn assign(&self) -> Result<()> {
        for (index, node) in self.nodes.iter().enumerate() {
            let epoch = index.saturating_add(1).to_string();
            expect_ok(&node.command(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch])?)?;
            if index < self.masters {
                let low = SLOTS.saturating_mul(index) / self.masters;
                let next = SLOTS.saturating_mul(index.saturating_add(1)) / self.masters;
                let (low, high) = (low.to_string(), next.saturating_sub(1).to_string());
                expect_ok(&node.command(&["CLUSTER", "ADDSLOTSRANGE", &low, &high])?)?;
            }
        }
        Ok(())
    }

    fn meet(&self) -> Result<()> {
        let Some((first, others)) = self.nodes.split_first() else { return Ok(()) };
        for node in others {
            let port = node.port().to_string();
            expect_ok(&first.command(&["CLUSTER", "MEET", "127.0.0.1", &port])?)?;
        }
        eventually("the nodes of the cluster know each other", DEADLINE, || {
            let known = |node: &RedisServer| {
                let text = node.command(&["CLUSTER", "INFO"]).ok()?.text();
                text.contains(&format!("cluster_known_nodes:{}\r", self.nodes.len())).then_some(())
            };
            self.nodes.iter().map(known).collect::<Option<()>>()
        })
    }

    /// Makes the nodes after the masters their replicas.
    fn follow(&self) -> Result<()> {
        let (masters, replicas) = self.nodes.split_at(self.masters.min(self.nodes.len()));
        for (replica, master) in replicas.iter().zip(masters.iter().cycle()) {
            let name = master.command(&["CLUSTER", "MYID"])?.text();
            eventually("the replica knows its master", DEADLINE, || {
                let told = replica.command(&["CLUSTER", "REPLICATE", &name]);
                told.is_ok_and(|answer| !answer.is_error()).then_some(())
            })?;
        }
        Ok(())
    }

    fn wait(&self) -> Result<()> {
        let replicas = self.nodes.get(self.masters..).unwrap_or_default();
        eventually("the cluster serves every slot", DEADLINE, || {
            let ok = |node: &RedisServer| {
                let state = node.command(&["CLUSTER", "INFO"]).ok()?.text();
                // Each range names its bounds, its master and its replicas. A master that does not
                // know a replica yet would not vote for it.
                let slots = node.command(&["CLUSTER", "SLOTS"]).ok()?;
                let known: usize =
                    slots.items().iter().map(|range| range.items().len().saturating_sub(2)).sum();
                let whole = state.contains("cluster_state:ok") && known == self.nodes.len();
                whole.then_some(())
            };
            let follows = |node: &RedisServer| {
                let link = node.info("replication", "master_link_status").ok()?;
                (link == "up").then_some(())
            };
            self.nodes.iter().map(ok).chain(replicas.iter().map(follows)).collect::<Option<()>>()
        })
    }
}

/// The port of the master in one range of `CLUSTER SLOTS`.
fn owner_port(range: &Value) -> u16 {
    let port = range.items().get(2).and_then(|master| master.items().get(1)?.int());
    port.and_then(|port| u16::try_from(port).ok()).unwrap_or(0)
}

fn expect_ok(answer: &Value) -> Result<()> {
    if answer.is_error() { Err(Error::new(answer.text())) } else { Ok(()) }
}

//! The stores, the network and the servers of one run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_lab::{MariaDbServer, Proxy, RedisServer};

use crate::clock::Clock;
use crate::fault::{Fault, Hold};
use crate::http::KEY;
use crate::node::{Node, Spec};
use crate::shape::{NODES, REGIONS, node_name, region_of};

/// Everything that runs. Ends when dropped; servers first, or they would complain.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) nodes: Vec<Node>,
    /// Between each server and its Redis.
    pub(crate) redis_ways: Vec<Proxy>,
    /// Between each server and the database.
    pub(crate) database_ways: Vec<Proxy>,
    program: PathBuf,
    redis: Vec<Mutex<RedisServer>>,
    database: Mutex<MariaDbServer>,
    holds: BTreeMap<(Hold, usize), Mutex<()>>,
}

/// What faults are held with.
pub(crate) type Held<'a> = Vec<MutexGuard<'a, ()>>;

impl World {
    /// Starts the stores and the servers.
    pub(crate) fn start(program: &Path, home: &Path, clock: &Clock) -> Result<Self, String> {
        let database = MariaDbServer::start().map_err(|why| why.to_string())?;
        tidegate(program, &["migrate", "--globe", &database.url()])?;
        let (mut redis, mut nodes) = (Vec::new(), Vec::new());
        let (mut redis_ways, mut database_ways) = (Vec::new(), Vec::new());
        for _ in 0..REGIONS {
            redis.push(RedisServer::start().map_err(|why| why.to_string())?);
        }
        for index in 0..NODES {
            let port = redis.get(region_of(index)).map_or(0, RedisServer::port);
            let redis_way = Proxy::start(port).map_err(|why| why.to_string())?;
            let way = Proxy::blind(database.port()).map_err(|why| why.to_string())?;
            let spec = Spec {
                program: PathBuf::from(program),
                redis: redis_way.url(),
                globe: format!("mysql://root@127.0.0.1:{}/tidegate", way.port()),
                home: PathBuf::from(home),
            };
            // Left by a run that was kept at the same place: this fleet is another one.
            let _ = std::fs::remove_dir_all(home.join(node_name(index)));
            let node = Node::new(index, spec, clock);
            node.start(0)?;
            nodes.push(node);
            redis_ways.push(redis_way);
            database_ways.push(way);
        }
        let kinds = [Hold::Servers, Hold::Redis, Hold::Net, Hold::Way, Hold::Database];
        let places = kinds.iter().flat_map(|kind| (0..NODES).map(move |place| (*kind, place)));
        let holds = places.map(|place| (place, Mutex::default())).collect();
        let redis = redis.into_iter().map(Mutex::new).collect();
        let database = Mutex::new(database);
        let program = PathBuf::from(program);
        Ok(Self { nodes, redis_ways, database_ways, program, redis, database, holds })
    }

    /// Tells the servers that a namespace is decided by the rule `fast`. They notice in a while.
    pub(crate) fn make_fast(&self, namespace: &str) -> Result<(), String> {
        let url = self.database().url();
        let words = ["namespace", "set", namespace, "--consistency", "fast", "--database", &url];
        tidegate(&self.program, &words)
    }

    /// Waits until nothing else does to that place what this fault does.
    pub(crate) fn hold(&self, fault: &Fault) -> Held<'_> {
        let place = |hold: &Hold| match hold {
            Hold::Net => fault.node,
            Hold::Database => 0,
            Hold::Servers | Hold::Redis | Hold::Way => region_of(fault.node),
        };
        let wanted = fault.kind.holds().iter().map(|hold| (*hold, place(hold)));
        let locks = wanted.filter_map(|at| self.holds.get(&at));
        locks.map(|lock| lock.lock().unwrap_or_else(PoisonError::into_inner)).collect()
    }

    /// The Redis of a region.
    pub(crate) fn redis(&self, region: usize) -> Option<MutexGuard<'_, RedisServer>> {
        let redis = self.redis.get(region)?;
        Some(redis.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The database.
    pub(crate) fn database(&self) -> MutexGuard<'_, MariaDbServer> {
        self.database.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs a command of the server's own program.
fn tidegate(program: &Path, words: &[&str]) -> Result<(), String> {
    let mut command = Command::new(program);
    command.args(words).env_clear().env("TIDEGATE_ROOT_KEY", KEY);
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|why| format!("{}: {why}", program.display()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("tidegate {}: {}", words.first().unwrap_or(&""), said.trim()))
}

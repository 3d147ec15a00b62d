//! Processes in regions.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tidegate_lab::{MariaDbServer, RedisServer};
use tokio::time::Instant;

use crate::support::{KEY, LIMIT, Reply, Server, ask, eventually, tidegate};

/// By when a region knows what another has published, at the latest: 2 s until it is recorded, 5 s
/// until it is published, 1.2 s until it is imported. Ten times that is waited for.
const BOUND: Duration = Duration::from_millis(8_200);
pub(super) const PATIENCE: Duration = Duration::from_millis(82_000);

/// A file of a database that goes away with its owner.
pub(crate) struct File {
    directory: PathBuf,
}

impl File {
    pub(crate) fn new(name: &str) -> Self {
        let name = format!("tidegate-wire-{}-{name}", std::process::id());
        // In memory where that is possible: a disk that others write to may take longer than a
        // process waits at its end (15 s for 20 small writes were seen).
        let memory = PathBuf::from("/dev/shm");
        let directory = if memory.is_dir() { memory } else { std::env::temp_dir() }.join(name);
        std::fs::create_dir_all(&directory).unwrap();
        Self { directory }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.directory
    }

    pub(super) fn url(&self) -> String {
        format!("sqlite:{}", self.directory.join("limits.db").display())
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Runs a command that ends by itself, and says what it said.
pub(super) fn run(args: &[&str], code: i32) -> String {
    let (ended_with, said) = Server::run_to_end(&mut tidegate(args));
    assert_eq!(ended_with, Some(code), "{args:?}: {said}");
    said
}

pub(super) fn migrate(url: &str) {
    run(&["migrate", "--globe", url], 0);
}

/// A process of a region, with a Redis or alone.
pub(super) fn join(globe: &str, name: &str, redis: Option<&str>) -> Server {
    let mut args = vec!["serve", "--listen", "127.0.0.1:0", "--globe", globe, "--region", name];
    args.extend(redis.iter().flat_map(|url| ["--redis", url]));
    Server::start_with(&mut tidegate(&args), KEY)
}

/// Two regions of two processes.
pub(super) struct Fleet {
    pub(super) database: MariaDbServer,
    /// Of each region.
    pub(super) redis: [RedisServer; 2],
    /// The first two are one region, the others the other.
    pub(super) processes: [Server; 4],
}

impl Fleet {
    pub(super) fn start() -> Self {
        let database = MariaDbServer::start().unwrap();
        migrate(&database.url());
        let redis = [RedisServer::start().unwrap(), RedisServer::start().unwrap()];
        let urls = [redis[0].url(), redis[1].url()];
        let places = [("eu", &urls[0]), ("eu", &urls[0]), ("us", &urls[1]), ("us", &urls[1])];
        let join = |(name, redis): (&str, &String)| join(&database.url(), name, Some(redis));
        let processes = places.map(join);
        Self { database, redis, processes }
    }
}

/// Spends, or tries to. A new connection each time: one that is not used is closed.
pub(super) fn spend(server: &Server, identifier: &str, limit: u64, cost: u64) -> Reply {
    server.client().post(LIMIT, &ask(identifier, limit, cost))
}

/// What is left of a subject, without spending.
pub(super) fn left(server: &Server, identifier: &str, limit: u64) -> u64 {
    spend(server, identifier, limit, 0).data()["remaining"].as_u64().unwrap()
}

/// Waits until so much is left, and says how long that took.
pub(super) fn until_left(server: &Server, identifier: &str, limit: u64, expected: u64) {
    let start = Instant::now();
    eventually(PATIENCE, || (left(server, identifier, limit) == expected).then_some(()));
    let (took, name) = (start.elapsed(), identifier.chars().take(20).collect::<String>());
    println!("{name:?}: {expected} left after {took:?}, bound {BOUND:?}");
}

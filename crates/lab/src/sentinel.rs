//! A master and its replica, watched by three Sentinels.

use crate::place::{Directory, free_port};
use crate::process::Process;
use crate::redis::{RedisOptions, RedisServer, STARTS};
use crate::resp::{self, Value};
use crate::wait::{DEADLINE, eventually};
use crate::{Error, Result};

/// How many Sentinels watch; two of them make a quorum.
const SENTINELS: usize = 3;
/// After this long without an answer a Sentinel takes a server for dead.
const DOWN_AFTER_MS: u32 = 1_000;
/// How long a failover may take before another Sentinel tries.
const FAILOVER_MS: u32 = 5_000;

/// Two servers and their Sentinels.
#[derive(Debug)]
pub struct Sentinel {
    servers: [RedisServer; 2],
    sentinels: Vec<Watcher>,
}

#[derive(Debug)]
struct Watcher {
    // Declared first: the process must be gone before its directory is.
    _process: Process,
    port: u16,
    _home: Directory,
}

impl Sentinel {
    /// The name under which the Sentinels know the master.
    pub const MASTER: &str = "tidegate";

    /// Starts everything and waits until all know of each other.
    ///
    /// # Errors
    /// When that does not happen.
    pub fn start() -> Result<Self> {
        // The default waits five seconds for more replicas to come.
        let options = RedisOptions::new().set("repl-diskless-sync-delay", "0");
        let master = RedisServer::start_with(&options)?;
        let follow = format!("127.0.0.1 {}", master.port());
        let replica = RedisServer::start_with(&options.clone().set("replicaof", &follow))?;
        let program = options.program_name();
        let watch = |_| Watcher::start(&program, master.port());
        let sentinels = (0..SENTINELS).map(watch).collect::<Result<Vec<_>>>()?;
        let all = Self { servers: [master, replica], sentinels };
        all.wait()?;
        Ok(all)
    }

    /// The addresses of the Sentinels.
    #[must_use]
    pub fn addresses(&self) -> Vec<String> {
        self.sentinels.iter().map(|watcher| format!("127.0.0.1:{}", watcher.port)).collect()
    }

    /// The two servers: the master of the start, and its replica.
    pub const fn servers_mut(&mut self) -> &mut [RedisServer; 2] {
        &mut self.servers
    }

    /// The two servers: the master of the start, and its replica.
    #[must_use]
    pub const fn servers(&self) -> &[RedisServer; 2] {
        &self.servers
    }

    /// The port of the master, as the first Sentinel sees it.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn master_port(&self) -> Result<u16> {
        let port = self.sentinels.first().map_or(0, |watcher| watcher.port);
        let master = resp::ask(port, &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", Self::MASTER])?;
        let port = master.items().get(1).and_then(Value::int);
        port.and_then(|port| u16::try_from(port).ok())
            .ok_or_else(|| Error::new(format!("no master: {}", master.text())))
    }

    /// Tells the Sentinels to fail over, and waits until the other server is the master.
    ///
    /// # Errors
    /// When that does not happen.
    pub fn fail_over(&self) -> Result<()> {
        let before = self.master_port()?;
        let port = self.sentinels.first().map_or(0, |watcher| watcher.port);
        eventually("the Sentinels agree to fail over", DEADLINE, || {
            let told = resp::ask(port, &["SENTINEL", "FAILOVER", Self::MASTER]);
            told.is_ok_and(|answer| !answer.is_error()).then_some(())
        })?;
        self.wait_for_other_master(before)
    }

    /// Until the Sentinels name another master than this one, and it says the same.
    ///
    /// # Errors
    /// When that does not happen.
    pub fn wait_for_other_master(&self, before: u16) -> Result<()> {
        eventually("another server is the master", DEADLINE, || {
            let port = self.master_port().ok().filter(|port| *port != before)?;
            let role = resp::ask(port, &["ROLE"]).ok()?;
            (role.items().first()?.text() == "master").then_some(())
        })
    }

    fn wait(&self) -> Result<()> {
        let [_, replica] = &self.servers;
        eventually("the Sentinels know each other and the replica", DEADLINE, || {
            let link = replica.info("replication", "master_link_status").ok()?;
            let knows = |watcher: &Watcher| {
                let state = resp::ask(watcher.port, &["SENTINEL", "MASTER", Self::MASTER]).ok()?;
                let field = |name: &str| {
                    let at = state.items().iter().position(|item| item.text() == name)?;
                    state.items().get(at.saturating_add(1))?.int()
                };
                let ready =
                    field("num-other-sentinels") == Some(2) && field("num-slaves") == Some(1);
                ready.then_some(())
            };
            let all = self.sentinels.iter().map(knows).collect::<Option<()>>();
            all.filter(|()| link == "up")
        })
    }
}

impl Watcher {
    fn start(program: &str, master: u16) -> Result<Self> {
        for _ in 0..STARTS {
            let (home, port) = (Directory::new()?, free_port()?);
            let file = home.write("sentinel.conf", &config(&home, port, master))?;
            let mut process = Process::start(program, vec![file, "--sentinel".to_owned()])?;
            if process.answers(port)? {
                return Ok(Self { _process: process, port, _home: home });
            }
        }
        Err(Error::new("a Sentinel ended at its start"))
    }
}

fn config(home: &Directory, port: u16, master: u16) -> String {
    let (name, dir) = (Sentinel::MASTER, home.path().display());
    let log = home.path().join("log");
    format!(
        "port {port}\nbind 127.0.0.1\ndir {dir}\nlogfile {}\n\
         sentinel monitor {name} 127.0.0.1 {master} 2\n\
         sentinel down-after-milliseconds {name} {DOWN_AFTER_MS}\n\
         sentinel failover-timeout {name} {FAILOVER_MS}\n",
        log.display()
    )
}

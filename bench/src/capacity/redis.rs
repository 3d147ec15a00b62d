//! What the Redises of a fleet did, together.

use tidegate_lab::RedisServer;

use crate::Failure;
use crate::region::Work;

/// What they have done since they began.
pub(super) struct Look {
    works: Vec<Work>,
    bytes: f64,
}

/// What they did between two moments, and hold at the second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Did {
    /// Processor time in microseconds.
    pub(super) cpu_us: f64,
    /// Commands that came over the network: executions of scripts, mostly.
    pub(super) commands: f64,
    /// In and out.
    pub(super) bytes: f64,
    /// Of the longest-lived kind of key, which most are.
    pub(super) keys: f64,
    /// What they hold in memory, beyond what an empty one holds.
    pub(super) memory: f64,
}

/// What an empty server holds, all of them together.
pub(super) fn memory(servers: &[RedisServer]) -> Result<f64, Failure> {
    servers.iter().map(|server| number(server, "memory", "used_memory")).sum()
}

impl Look {
    pub(super) fn at(servers: &[RedisServer]) -> Result<Self, Failure> {
        let works = servers.iter().map(Work::of).collect::<Result<_, _>>()?;
        Ok(Self { works, bytes: bytes(servers)? })
    }

    /// What was done since, by servers that held `empty` at the start.
    pub(super) fn since(&self, servers: &[RedisServer], empty: f64) -> Result<Did, Failure> {
        let bytes = bytes(servers)? - self.bytes;
        let mut did = Did { bytes, memory: memory(servers)? - empty, ..Did::default() };
        for (server, before) in servers.iter().zip(&self.works) {
            let work = Work::since(server, before)?;
            did.cpu_us += work.cpu_us;
            did.commands += work.calls("evalsha") + work.calls("eval");
            did.keys += server.command(&["DBSIZE"])?.text().trim().parse::<f64>()?;
        }
        Ok(did)
    }
}

fn bytes(servers: &[RedisServer]) -> Result<f64, Failure> {
    let both = |server| -> Result<f64, Failure> {
        let sent = number(server, "stats", "total_net_output_bytes")?;
        Ok(number(server, "stats", "total_net_input_bytes")? + sent)
    };
    servers.iter().map(both).sum()
}

fn number(server: &RedisServer, section: &str, field: &str) -> Result<f64, Failure> {
    Ok(server.info(section, field)?.trim().parse()?)
}

//! A private Redis, and what it says of its own work.

use std::collections::BTreeMap;

use tidegate_lab::{RedisOptions, RedisServer};

use crate::Failure;

/// Starts servers; each contestant of each case gets one of its own.
#[derive(Clone, Default)]
pub(crate) struct Lab {
    program: Option<String>,
}

impl Lab {
    /// `program` instead of `redis-server`.
    pub(crate) fn new(program: Option<String>) -> Self {
        Self { program }
    }

    /// A server that ends with its owner.
    pub(crate) fn start(&self) -> Result<RedisServer, Failure> {
        let options = RedisOptions::new();
        let options = match &self.program {
            Some(program) => options.program(program),
            None => options,
        };
        Ok(RedisServer::start_with(&options)?)
    }
}

/// What a server has done since its start.
#[derive(Clone, Debug, Default)]
pub(crate) struct Work {
    /// Processor time in microseconds, as user and in the kernel.
    pub(crate) cpu_us: f64,
    /// By command: how often it ran, and for how many microseconds.
    commands: BTreeMap<String, (f64, f64)>,
}

impl Work {
    /// Asks the server.
    pub(crate) fn of(server: &RedisServer) -> Result<Self, Failure> {
        let text = server.command(&["INFO", "commandstats"])?.text();
        let commands = text.lines().filter_map(command).collect();
        let seconds = |field: &str| -> Result<f64, Failure> {
            Ok(server.info("cpu", field)?.trim().parse::<f64>()?)
        };
        let cpu_us = 1e6 * (seconds("used_cpu_user")? + seconds("used_cpu_sys")?);
        Ok(Self { cpu_us, commands })
    }

    /// What was done since then.
    pub(crate) fn since(server: &RedisServer, before: &Self) -> Result<Self, Failure> {
        let mut work = Self::of(server)?;
        work.cpu_us -= before.cpu_us;
        for (name, (calls, us)) in &mut work.commands {
            let (calls_before, us_before) = before.command(name);
            *calls -= calls_before;
            *us -= us_before;
        }
        Ok(work)
    }

    /// How often a command ran, and for how many microseconds.
    pub(crate) fn command(&self, name: &str) -> (f64, f64) {
        self.commands.get(name).copied().unwrap_or_default()
    }

    /// How often a command ran.
    pub(crate) fn calls(&self, name: &str) -> f64 {
        self.command(name).0
    }

    /// How many operations there were, with those inside scripts, without our own questions.
    pub(crate) fn operations(&self) -> f64 {
        let ours = |name: &str| name.starts_with("info") || name.starts_with("ping");
        self.commands.iter().filter(|(name, _)| !ours(name)).map(|(_, (calls, _))| calls).sum()
    }
}

/// Reads `cmdstat_get:calls=7,usec=21,...`.
fn command(line: &str) -> Option<(String, (f64, f64))> {
    let (name, fields) = line.trim().strip_prefix("cmdstat_")?.split_once(':')?;
    let field = |wanted: &str| {
        let mut pairs = fields.split(',').filter_map(|pair| pair.split_once('='));
        pairs.find(|(name, _)| *name == wanted)?.1.parse::<f64>().ok()
    };
    Some((name.to_owned(), (field("calls")?, field("usec")?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_commandstats_is_read() {
        let line = "cmdstat_evalsha:calls=7,usec=21,usec_per_call=3.00,rejected_calls=0\r";
        assert_eq!(command(line), Some(("evalsha".to_owned(), (7.0, 21.0))));
        assert_eq!(command("# Commandstats"), None);
    }
}

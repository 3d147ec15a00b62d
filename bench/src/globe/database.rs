//! A private MariaDB, and what it did for whom.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use tidegate_lab::{MariaDbOptions, MariaDbServer};

use super::time;
use crate::Failure;

/// How long it is watched doing nothing.
const IDLE: Duration = Duration::from_secs(4);
/// The same when nothing is measured.
const IDLE_SMOKE: Duration = Duration::from_millis(100);
/// What `/proc` counts processor time in.
const TICK_US: f64 = 10_000.0;

/// A server with its tables in memory and its log on the disk.
pub(crate) struct Database {
    pub(crate) server: MariaDbServer,
    pub(crate) runtime: tokio::runtime::Runtime,
    /// What it uses when nobody asks it anything, as a part of a core.
    idle: f64,
}

/// What it has done since it began.
#[derive(Clone, Debug)]
pub(crate) struct Status {
    counts: BTreeMap<String, f64>,
    cpu_us: f64,
    at: std::time::Instant,
}

/// What it did between two moments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(crate) cpu_us: f64,
    pub(crate) statements: f64,
    pub(crate) bytes: f64,
    pub(crate) rows_read: f64,
    pub(crate) rows_sent: f64,
    pub(crate) rows_written: f64,
}

impl Database {
    pub(crate) fn start(smoke: bool) -> Result<Self, Failure> {
        let options = MariaDbOptions::new().set("innodb-buffer-pool-size", "512M");
        let server = MariaDbServer::start_with(&options)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut database = Self { server, runtime, idle: 0.0 };
        let (before, start) = (database.cpu_us()?, time::now());
        let idle = if smoke { IDLE_SMOKE } else { IDLE };
        database.runtime.block_on(time::sleep(idle));
        let spent_us = database.cpu_us()? - before;
        database.idle = spent_us / start.elapsed().as_micros().max(1) as f64;
        Ok(database)
    }

    /// What it has done so far.
    pub(crate) fn status(&self) -> Result<Status, Failure> {
        let rows = self.server.query("SHOW GLOBAL STATUS")?;
        let counts = rows.into_iter().filter_map(|row| match row.as_slice() {
            [name, value] => Some((name.clone(), value.parse().ok()?)),
            _ => None,
        });
        Ok(Status { counts: counts.collect(), cpu_us: self.cpu_us()?, at: time::now() })
    }

    /// The processor time it has used so far.
    fn cpu_us(&self) -> Result<f64, Failure> {
        let pid = self.server.pid().unwrap_or(0);
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        let ticks = fields.split_whitespace().skip(11).take(2);
        Ok(ticks.filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() * TICK_US)
    }

    /// What it has done since then, beyond what it does anyway.
    pub(crate) fn since(&self, before: &Status) -> Result<Work, Failure> {
        let after = self.status()?;
        let sum = |names: &[&str]| -> f64 {
            let get = |status: &Status, name: &str| status.counts.get(name).copied().unwrap_or(0.0);
            names.iter().map(|name| get(&after, name) - get(before, name)).sum()
        };
        let real_us = after.at.duration_since(before.at).as_micros() as f64;
        Ok(Work {
            cpu_us: (after.cpu_us - before.cpu_us - self.idle * real_us).max(0.0),
            statements: sum(&["Questions"]),
            bytes: sum(&["Bytes_sent", "Bytes_received"]),
            rows_read: sum(&[
                "Handler_read_first",
                "Handler_read_key",
                "Handler_read_last",
                "Handler_read_next",
                "Handler_read_prev",
                "Handler_read_rnd_next",
            ]),
            rows_sent: sum(&["Rows_sent"]),
            rows_written: sum(&["Handler_write", "Handler_update", "Handler_delete"]),
        })
    }
}

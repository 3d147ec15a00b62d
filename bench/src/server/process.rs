//! A server that is measured: a process of its own that ends with its owner.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::load::{Loop, Offer};
use crate::Failure;
use crate::region::time;

/// How long a server may take to answer. Under valgrind everything takes fifty times as long.
const START_WITHIN: Duration = Duration::from_secs(60);
/// How long between two attempts: short beside a start of milliseconds.
const AGAIN: Duration = Duration::from_millis(1);
/// How long a server may take to end when it is asked to.
const END_WITHIN: Duration = Duration::from_secs(60);
/// What `/proc` counts processor time in.
const TICK_US: f64 = 10_000.0;

/// See the module.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    /// When it was about to be started.
    begun: Instant,
    /// What it keeps files in, if it does.
    _home: Option<Home>,
}

impl Process {
    /// Starts a program that says nothing.
    pub(crate) fn start(command: &mut Command, home: Option<Home>) -> Result<Self, Failure> {
        let silent = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let begun = time::now();
        let started = silent.spawn();
        let program = command.get_program().display();
        let child = started.map_err(|why| format!("`{program}` does not start: {why}"))?;
        Ok(Self { child, begun, _home: home })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it answers this request as it should, and says how long after its start.
    pub(crate) async fn answers(&mut self, offer: &Offer) -> Result<Duration, Failure> {
        let late = format!("no answer on {} in time", offer.address);
        let answered = tokio::time::timeout(START_WITHIN, self.first_answer(offer)).await;
        answered.map_err(|_| late)?
    }

    async fn first_answer(&mut self, offer: &Offer) -> Result<Duration, Failure> {
        let offer = Offer { connections: 1, ..offer.clone() };
        loop {
            let first = offer.run(Loop::Count(1)).await;
            if first.and_then(|taken| taken.all_good("start")).is_ok() {
                return Ok(self.begun.elapsed());
            }
            if let Some(status) = self.child.try_wait()? {
                return Err(format!("a server ended at its start ({status})").into());
            }
            time::sleep(AGAIN).await;
        }
    }

    /// Asks it to end, and waits until it has.
    pub(crate) async fn stop(mut self) -> Result<(), Failure> {
        let line = format!("kill -TERM {}", self.pid());
        // The shell's own `kill`: the standard library only knows SIGKILL.
        Command::new("sh").args(["-c", &line]).status()?;
        let start = time::now();
        while self.child.try_wait()?.is_none() {
            if start.elapsed() > END_WITHIN {
                return Err("a server does not end".into());
            }
            time::sleep(AGAIN).await;
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The processor time that a process has used, as user and in the kernel, in microseconds.
pub(crate) fn cpu_us(pid: u32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks = fields.split_whitespace().skip(11).take(2);
    ticks.filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() * TICK_US
}

/// The memory that a process has, in MiB.
pub(crate) fn resident_mib(pid: u32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1_024.0
}

/// A port on loopback that is free now.
pub(crate) fn free_address() -> Result<SocketAddr, Failure> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// A directory of its own, gone with its owner.
#[derive(Debug)]
pub(crate) struct Home(PathBuf);

impl Home {
    pub(crate) fn new() -> Result<Self, Failure> {
        static TAKEN: AtomicU32 = AtomicU32::new(0);
        // ORDER: relaxed, a counter that orders nothing.
        let number = TAKEN.fetch_add(1, Ordering::Relaxed);
        let name = format!("tidegate-bench-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

//! One server: a process of the real binary, over all its lives.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tidegate_lab::eventually;

use crate::clock::Clock;
use crate::history::Life;
use crate::http::{Door, KEY};
use crate::shape::{node_name, region_name, region_of};

/// How long a start may take, with all that a supervisor would try again: a region whose name
/// has not lapsed is refused for half a minute.
const START_WITHIN: Duration = Duration::from_secs(60);
/// How long a server that is asked to end goes on answering.
const RETIRE_FOR: &str = "2s";
/// How long callers go on calling it: a load balancer takes a moment to notice. The rest of the
/// time is for calls that were sent by then, on a busy machine.
const CALLED_MS: u64 = 1_000;
/// How long a server may take from SIGTERM to its end: it promises 8 s after the two above.
const END_WITHIN: Duration = Duration::from_secs(30);

/// Where a server finds its stores.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    pub(crate) program: PathBuf,
    pub(crate) redis: String,
    pub(crate) globe: String,
    pub(crate) home: PathBuf,
}

/// One server. Killed when dropped.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) index: usize,
    spec: Spec,
    clock: Clock,
    child: Mutex<Option<Child>>,
    door: Mutex<Option<Arc<Door>>>,
    lives: Mutex<Vec<Life>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Node {
    pub(crate) fn new(index: usize, spec: Spec, clock: &Clock) -> Self {
        let (child, door, lives) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { index, spec, clock: clock.clone(), child, door, lives }
    }

    /// Where it answers, while it does.
    pub(crate) fn door(&self) -> Option<Arc<Door>> {
        locked(&self.door).clone()
    }

    /// All lives so far.
    pub(crate) fn lives(&self) -> Vec<Life> {
        locked(&self.lives).clone()
    }

    /// Starts it, with a clock that is wrong by so much, and waits until it answers.
    pub(crate) fn start(&self, clock_offset_ms: i64) -> Result<(), String> {
        let life = u32::try_from(locked(&self.lives).len()).unwrap_or(u32::MAX);
        let log = self.spec.home.join(format!("{}-{life}.log", node_name(self.index)));
        let mut last = String::new();
        let started = eventually("a server starts", START_WITHIN, || {
            match self.try_start(&log, clock_offset_ms) {
                Ok(address) => Some(address),
                Err(why) => {
                    last = why;
                    self.clock.is_stopped().then_some(None)
                }
            }
        });
        let address = started.map_err(|why| format!("{why}: {last}"))?.ok_or("stopped")?;
        locked(&self.lives).push(Life { node: self.index, life, ended: None, gone_ms: None });
        *locked(&self.door) = Some(Arc::new(Door::new(address, life)));
        Ok(())
    }

    /// One try. `Ok(None)` cannot be: an address is there, or a reason.
    fn try_start(&self, log: &Path, offset_ms: i64) -> Result<Option<SocketAddr>, String> {
        let name = node_name(self.index);
        let file = File::create(log).map_err(|why| format!("{}: {why}", log.display()))?;
        let errors = file.try_clone().map_err(|why| format!("{}: {why}", log.display()))?;
        let mut command = Command::new(&self.spec.program);
        command.args(["serve", "--listen", "127.0.0.1:0", "--retire-for", RETIRE_FOR]);
        // An environment of ours says nothing about other stores.
        command.env_clear().env("TIDEGATE_ROOT_KEY", KEY);
        // The address is read from what people read.
        command.env("TIDEGATE_LOG_FORMAT", "pretty");
        command.env("TIDEGATE_DATA", self.spec.home.join(&name));
        command.env("TIDEGATE_REDIS", &self.spec.redis).env("TIDEGATE_GLOBE", &self.spec.globe);
        command.env("TIDEGATE_REGION", region_name(region_of(self.index)));
        if offset_ms != 0 {
            let library = faketime().ok_or("libfaketime is not there")?;
            let (sign, whole) = (if offset_ms < 0 { "-" } else { "+" }, offset_ms.unsigned_abs());
            let offset = format!("{sign}{}.{:03}s", whole / 1_000, whole % 1_000);
            command.env("LD_PRELOAD", library).env("FAKETIME", offset);
            // The wall clock names cells; what really passed stays true.
            command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("DONT_FAKE_MONOTONIC", "1");
        }
        command.stdin(Stdio::null()).stdout(file).stderr(errors);
        let child = command.spawn().map_err(|why| format!("the server: {why}"))?;
        let mut held = locked(&self.child);
        let mut child = held.insert(child);
        let said = || fs::read_to_string(log).unwrap_or_default();
        let found = eventually("a server says where it listens", END_WITHIN, || {
            let ended = !matches!(child.try_wait(), Ok(None));
            let text = said();
            let line = text.lines().find(|line| line.contains("listens on http"));
            let address = line.and_then(|line| line.rsplit('/').next()?.trim().parse().ok());
            address.map(Some).or_else(|| ended.then_some(None))
        });
        match found {
            Ok(Some(address)) => Ok(Some(address)),
            Ok(None) => Err(said().lines().last().unwrap_or("it said nothing").to_owned()),
            Err(why) => {
                end(&mut child);
                Err(why.to_string())
            }
        }
    }

    /// Sends a signal, if there is a process.
    pub(crate) fn signal(&self, signal: Signal) {
        let held = locked(&self.child);
        let id = held.as_ref().and_then(|child| i32::try_from(child.id()).ok());
        if let Some(pid) = id.and_then(Pid::from_raw) {
            // One that has ended needs no signal.
            let _ = kill_process(pid, signal);
        }
    }

    /// Ends it as a crash does.
    pub(crate) fn kill(&self) {
        self.note_end(true);
        if let Some(child) = locked(&self.child).as_mut() {
            end(&mut &mut *child);
        }
        self.note_gone();
    }

    /// Asks it to end, as one would behind a load balancer, and waits until it has. `false` if it
    /// did not in time, and was killed.
    pub(crate) fn retire(&self) -> bool {
        self.note_end(false);
        self.signal(Signal::TERM);
        self.clock.wait_for(CALLED_MS);
        *locked(&self.door) = None;
        let ended = eventually("a server ends", END_WITHIN, || {
            let mut held = locked(&self.child);
            let child = held.as_mut()?;
            (!matches!(child.try_wait(), Ok(None))).then_some(())
        });
        if ended.is_err() {
            self.kill();
        }
        self.note_gone();
        ended.is_ok()
    }

    fn note_end(&self, killed: bool) {
        let now_ms = self.clock.now_ms();
        if let Some(life) = locked(&self.lives).last_mut() {
            life.ended = Some((now_ms, killed));
        }
    }

    fn note_gone(&self) {
        *locked(&self.door) = None;
        if let Some(life) = locked(&self.lives).last_mut() {
            life.gone_ms = Some(self.clock.now_ms());
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(child) = locked(&self.child).as_mut() {
            end(&mut &mut *child);
        }
    }
}

/// Ends a child that may have ended.
fn end(child: &mut &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// The library that gives a process another time, where Debian puts it.
pub(crate) fn faketime() -> Option<PathBuf> {
    let places = fs::read_dir("/usr/lib").ok()?.flatten();
    let library = |place: PathBuf| place.join("faketime/libfaketimeMT.so.1");
    places.map(|place| library(place.path())).find(|path| path.is_file())
}

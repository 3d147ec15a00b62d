//! A process that we started, and that ends with its owner.

use std::fs;
use std::process::{Child, Command, Stdio};

use crate::resp::{self, Value};
use crate::wait::{DEADLINE, eventually};
use crate::{Error, Result};

/// One process. Killed by its own number when dropped.
#[derive(Debug)]
pub(crate) struct Process {
    program: String,
    args: Vec<String>,
    child: Option<Child>,
}

impl Process {
    /// Starts a program.
    pub(crate) fn start(program: &str, args: Vec<String>) -> Result<Self> {
        let mut process = Self { program: program.to_owned(), args, child: None };
        process.start_again()?;
        Ok(process)
    }

    /// Starts the same program with the same arguments; ends the old one first.
    pub(crate) fn start_again(&mut self) -> Result<()> {
        self.kill();
        let mut command = Command::new(&self.program);
        command.args(&self.args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(|why| {
            let program = &self.program;
            Error::new(format!("`{program}` does not start ({why}); run `cargo xtask setup`"))
        })?;
        self.child = Some(child);
        Ok(())
    }

    /// Its number, if it was not ended by us.
    pub(crate) fn id(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Waits until it answers on that port; `false` when it ended instead. Somebody else may answer
    /// there who took the port at the same moment, so the one who answers has to say who it is.
    pub(crate) fn answers(&mut self, port: u16) -> Result<bool> {
        eventually("the server answers", DEADLINE, || {
            if !self.is_alive() {
                return Some(false);
            }
            let ready = |value: &Value| !value.text().starts_with("LOADING");
            resp::ask(port, &["PING"]).ok().filter(ready)?;
            let about = resp::ask(port, &["INFO", "server"]).ok()?;
            let line = format!("process_id:{}\r", self.id()?);
            // A server that lets nobody in says nothing; then being alive must do.
            (about.is_error() || about.text().contains(&line)).then_some(true)
        })
    }

    /// Whether it has not ended.
    pub(crate) fn is_alive(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Sends a signal: `TERM`, `STOP`, `CONT`.
    pub(crate) fn signal(&self, name: &str) -> Result<()> {
        let child = self.child.as_ref().ok_or_else(|| Error::new("the process has ended"))?;
        // The shell's own `kill`: the standard library only knows SIGKILL.
        let line = format!("kill -{name} {}", child.id());
        let status = Command::new("sh").args(["-c", &line]).status();
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(Error::new(format!("{line}: {status}"))),
            Err(why) => Err(Error::new(format!("{line}: {why}"))),
        }
    }

    /// Stops it in its tracks, and waits until each of its threads stands still: the signal is on
    /// its way when `kill` returns, and a thread that has not met it yet may still answer.
    pub(crate) fn pause(&self) -> Result<()> {
        self.signal("STOP")?;
        let id = self.id();
        let still = || id.is_none_or(stands_still).then_some(());
        eventually("the process stands still", DEADLINE, still)
    }

    /// Lets it go on.
    pub(crate) fn resume(&self) -> Result<()> {
        self.signal("CONT")
    }

    /// Asks it to end, and waits until it has.
    pub(crate) fn stop(&mut self) -> Result<()> {
        self.signal("TERM")?;
        eventually("the process ends", DEADLINE, || (!self.is_alive()).then_some(()))?;
        self.child = None;
        Ok(())
    }

    /// Ends it as a crash does.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Whether the system says of every thread of a process that it is stopped. One that has no such
/// list is believed to be quick.
fn stands_still(id: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{id}/task")) else { return true };
    // The state follows the name, which is in brackets and may itself contain some. A thread that
    // ended has another one, or no file.
    let is_stopped =
        |stat: String| stat.rsplit_once(") ").is_none_or(|(_, on)| on.starts_with(['T', 'Z']));
    let stats = threads.flatten().map(|thread| fs::read_to_string(thread.path().join("stat")));
    stats.flatten().all(is_stopped)
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

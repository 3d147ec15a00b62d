//! Who runs where while it is measured how long something takes. A load that shares its core with a
//! server is held up by it for a slice of the scheduler, milliseconds now and then, and whom that
//! hits is chance. So the load has the last core for itself, and all servers and stores have the
//! others. It does not sleep there: to wake a thread on another core takes a server as long as a
//! fifth of a request, and only those would pay for it that keep the load waiting.

use std::fs;

use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tokio::task::{AbortHandle, yield_now};

use crate::Failure;

/// This thread has a core of its own until it is dropped, and is awake. What it starts meanwhile is
/// there too.
pub(super) struct Apart {
    before: CpuSet,
    awake: AbortHandle,
}

impl Apart {
    /// Parts this thread, which has a runtime of its own, from all that this process has started,
    /// if there are two cores.
    pub(super) fn begin() -> Result<Option<Self>, Failure> {
        let before = sched_getaffinity(None)?;
        let Some((own, others)) = parted(&before) else { return Ok(None) };
        for process in children()? {
            for thread in numbers(&format!("/proc/{process}/task"))? {
                match sched_setaffinity(Pid::from_raw(thread), &others) {
                    // One that has ended meanwhile needs no core.
                    Ok(()) | Err(Errno::SRCH) => {}
                    Err(why) => return Err(why.into()),
                }
            }
        }
        sched_setaffinity(None, &own)?;
        // A runtime that has something to do looks for what has come and does not wait for it.
        let awake = tokio::spawn(async {
            loop {
                yield_now().await;
            }
        });
        Ok(Some(Self { before, awake: awake.abort_handle() }))
    }
}

/// What this thread starts until it is dropped is on the cores of servers from its beginning, and
/// takes these for all there are: a server that has one core has one thread for it. Those that are
/// parted later have as many threads as the machine has cores, which take turns on fewer.
pub(super) struct Elsewhere {
    before: CpuSet,
}

impl Elsewhere {
    /// Leaves the core of the load, if there are two.
    pub(super) fn begin() -> Result<Option<Self>, Failure> {
        let before = sched_getaffinity(None)?;
        let Some((_, others)) = parted(&before) else { return Ok(None) };
        sched_setaffinity(None, &others)?;
        Ok(Some(Self { before }))
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        let _ = sched_setaffinity(None, &self.before);
    }
}

/// The processes that this one has started.
fn children() -> Result<Vec<i32>, Failure> {
    let own = std::process::id().to_string();
    let is_child = |process: &i32| {
        let text = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        // After the name, which may hold anything: the state, and the parent.
        let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields);
        fields.split_whitespace().nth(1) == Some(&own)
    };
    Ok(numbers("/proc")?.into_iter().filter(is_child).collect())
}

/// The entries of a directory that are numbers.
fn numbers(directory: &str) -> Result<Vec<i32>, Failure> {
    let names =
        fs::read_dir(directory)?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    Ok(names.filter_map(|name| name.parse().ok()).collect())
}

impl Drop for Apart {
    fn drop(&mut self) {
        self.awake.abort();
        let _ = sched_setaffinity(None, &self.before);
    }
}

/// The last core, and all others.
fn parted(all: &CpuSet) -> Option<(CpuSet, CpuSet)> {
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| all.is_set(*core)).collect();
    let (last, rest) = cores.split_last()?;
    let (mut own, mut others) = (CpuSet::new(), CpuSet::new());
    own.set(*last);
    rest.iter().for_each(|core| others.set(*core));
    (!rest.is_empty()).then_some((own, others))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn what_was_started_is_a_child_until_it_has_ended() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let number = i32::try_from(child.id()).unwrap();
        assert!(children().unwrap().contains(&number));
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
        assert!(!children().unwrap().contains(&number));
    }

    #[test]
    fn the_load_has_the_last_core_and_the_others_have_the_rest() {
        let mut all = CpuSet::new();
        assert!(parted(&all).is_none());
        all.set(3);
        assert!(parted(&all).is_none(), "one core is everybody's");
        [0, 2].into_iter().for_each(|core| all.set(core));
        let (own, others) = parted(&all).unwrap();
        assert_eq!((own.count(), others.count()), (1, 2));
        assert!(own.is_set(3) && others.is_set(0) && others.is_set(2));
    }
}

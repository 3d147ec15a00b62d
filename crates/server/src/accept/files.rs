//! How many files the process may have open: each connection is one.

/// Files for what is not a client: stores, the log, the listener. Without them a crowd of clients
/// would keep us from reconnecting to Redis.
const RESERVE: u64 = 128;

/// How many of the `wanted` connections the process can have. Raises its limit as far as it may:
/// shells and supervisors commonly start a process with 1,024 files and allow more.
#[cfg(unix)]
pub(crate) fn allow(wanted: u32) -> u32 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let needed = u64::from(wanted).saturating_add(RESERVE);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // None is no limit.
    let Some(current) = current.filter(|current| *current < needed) else { return wanted };
    let raised = maximum.map_or(needed, |maximum| maximum.min(needed));
    let set = setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum });
    possible(wanted, if set.is_ok() { raised } else { current })
}

/// There is no such limit.
#[cfg(not(unix))]
pub(crate) const fn allow(wanted: u32) -> u32 {
    wanted
}

/// How many connections so many files are enough for; half of them if they are very few.
fn possible(wanted: u32, files: u64) -> u32 {
    let connections = files.saturating_sub(RESERVE).max(files / 2).max(1);
    u32::try_from(connections).unwrap_or(u32::MAX).min(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_files_are_left_for_the_stores() {
        for (wanted, files, expected) in
            [(4_096, 10_000, 4_096), (4_096, 1_024, 896), (4_096, 64, 32), (10, 64, 10), (9, 1, 1)]
        {
            assert_eq!(possible(wanted, files), expected, "{wanted} with {files} files");
        }
    }
}

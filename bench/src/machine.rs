//! What the figures were measured on, and how much of it others were using meanwhile.

use std::fs;

/// One line about the processor, the memory and the system.
pub(crate) fn describe() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or("unknown processor", |(_, name)| name.trim());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let gib = kilobytes(&memory, "MemTotal:").unwrap_or(0) / (1024 * 1024);
    let system = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let system = system
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))
        .map_or("unknown system", |name| name.trim_matches('"'));
    format!("{model}, {cores} cores, {gib} GiB, {system}")
}

/// Resident memory of this process in bytes.
pub(crate) fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    Some(kilobytes(&status, "VmRSS:")? * 1024)
}

/// The most memory of this process that was resident at a time, in bytes.
pub(crate) fn peak_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    Some(kilobytes(&status, "VmHWM:")? * 1024)
}

/// Nanoseconds that this thread could have run while others had the core; 0 where the kernel
/// does not say.
pub(crate) fn waited_ns() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|field| field.parse().ok()).unwrap_or(0)
}

/// Nanoseconds that this thread ran; 0 where the kernel does not say.
pub(crate) fn ran_ns() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|field| field.parse().ok()).unwrap_or(0)
}

/// Processor time of this process in microseconds, without that of its children; 0 where the kernel
/// does not say. Counted in ticks of 10 ms.
pub(crate) fn own_cpu_us() -> f64 {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks = fields.split_whitespace().skip(11).take(2);
    ticks.filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() * 10_000.0
}

fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Ticks of processor time, since the machine or the process started.
#[derive(Clone, Copy)]
pub(crate) struct Usage {
    /// All there was, on all cores.
    total: u64,
    /// Spent by anyone, the hypervisor's theft included.
    busy: u64,
    /// Spent by this process and those it started.
    own: u64,
}

impl Usage {
    /// What was used until now; `None` where `/proc` does not say.
    pub(crate) fn read() -> Option<Self> {
        let stat = fs::read_to_string("/proc/stat").ok()?;
        let ticks: Vec<u64> = stat
            .lines()
            .next()?
            .split_whitespace()
            .skip(1)
            .take(8)
            .map_while(|field| field.parse().ok())
            .collect();
        let total = ticks.iter().sum::<u64>();
        let idle = ticks.iter().skip(3).take(2).sum::<u64>();
        let own = fs::read_to_string("/proc/self/stat").ok()?;
        // The name, in brackets, may hold spaces; fields 14 to 17 are this process's time and its
        // children's, as user and in the kernel.
        let (_, fields) = own.rsplit_once(')')?;
        let own = fields
            .split_whitespace()
            .skip(11)
            .take(4)
            .map_while(|field| field.parse::<u64>().ok())
            .sum();
        Some(Self { total, busy: total - idle, own })
    }

    /// Percent of the machine that others used since `self`.
    pub(crate) fn others_since(self) -> Option<f64> {
        let now = Self::read()?;
        let total = now.total.checked_sub(self.total).filter(|&total| total > 0)?;
        let busy = now.busy.saturating_sub(self.busy);
        let others = busy.saturating_sub(now.own.saturating_sub(self.own));
        Some(100.0 * others as f64 / total as f64)
    }
}

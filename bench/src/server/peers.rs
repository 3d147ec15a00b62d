//! Another limiter's server, as its authors publish it, over HTTP with JSON.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use super::WINDOW_MS;
use super::process::Process;
use super::wire::{Post, Protocol, Written};
use crate::Failure;

/// Starts it from the directory that it was installed in; `None` if it is not there.
pub(super) fn start(
    directory: Option<&Path>,
    address: SocketAddr,
) -> Result<Option<Process>, Failure> {
    let program = directory.map(|at| at.join("bin").join("throttlecrab-server"));
    let Some(program) = program.filter(|program| program.exists()) else {
        eprintln!("throttlecrab-server: not installed, left out");
        return Ok(None);
    };
    let mut command = Command::new(program);
    let (host, port) = (address.ip().to_string(), address.port().to_string());
    command.args(["--http", "--http-host", &host, "--http-port", &port, "--log-level", "error"]);
    Process::start(&mut command, None).map(Some)
}

/// A burst of less denies nobody: its tolerance would be nothing.
const BURST_MIN: u64 = 2;

/// What it is asked: as much at once as in the window, which is as near as it comes to ours.
pub(super) fn request(
    identifier: &str,
    limit: u64,
    protocol: Protocol,
) -> Result<Written, Failure> {
    let (seconds, burst) = (WINDOW_MS / 1_000, limit.max(BURST_MIN));
    let body = format!(
        "{{\"key\":\"bench:{identifier}\",\"max_burst\":{burst},\"count_per_period\":{limit},\
         \"period\":{seconds},\"quantity\":1}}"
    );
    Post { path: "/throttle", key: "", body: &body }.write(protocol)
}

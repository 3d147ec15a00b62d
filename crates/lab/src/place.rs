//! Where a server lives: a directory of its own and ports that nobody else has.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::{Error, Result};

/// The ports we choose from: below those that the kernel hands to outgoing connections, and so
/// low that a cluster's bus port, 10,000 above, exists and is free of them as well.
const PORTS: std::ops::Range<u32> = 11_000..21_000;
/// A step that visits every port of the range, far from the last: processes that start at the
/// same time part quickly.
const STEP: u32 = 7_919;
/// Where processes with neighbouring numbers begin: far apart, or they would take the same ports.
const APART: u32 = 2_654_435_761;
/// More than this many taken ports in a row means that something else is wrong.
const TRIES: u32 = 1_000;

/// Counts what this process has taken.
static TAKEN: AtomicU32 = AtomicU32::new(0);

/// A port that is free now, with its bus port.
pub(crate) fn free_port() -> Result<u16> {
    let span = PORTS.end.saturating_sub(PORTS.start);
    for _ in 0..TRIES {
        // ORDER: relaxed, a counter that orders nothing.
        let turn = TAKEN.fetch_add(1, Ordering::Relaxed);
        let offset = std::process::id().wrapping_mul(APART).wrapping_add(turn.wrapping_mul(STEP));
        let port = PORTS.start.saturating_add(offset % span);
        let Ok(port) = u16::try_from(port) else { continue };
        let free = |port| TcpListener::bind(("127.0.0.1", port)).is_ok();
        if free(port) && free(port.saturating_add(10_000)) {
            return Ok(port);
        }
    }
    Err(Error::new("no free port on loopback"))
}

/// A directory that ends with its owner.
#[derive(Debug)]
pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn new() -> Result<Self> {
        // ORDER: relaxed, a counter that orders nothing.
        let turn = TAKEN.fetch_add(1, Ordering::Relaxed);
        let name = format!("tidegate-lab-{}-{turn}", std::process::id());
        let path = std::env::temp_dir().join(name);
        // Left by a process of the same number that was killed.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).map_err(Error::because("a temporary directory"))?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file and says where it is.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<String> {
        let path = self.0.join(name);
        fs::write(&path, text).map_err(Error::because(name))?;
        Ok(path.display().to_string())
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

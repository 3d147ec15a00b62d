//! Whether what a case is about went on while it was measured: by what the server itself counts.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::super::Scene;
use crate::Failure;

/// How long a page of metrics may take.
const PAGE_WITHIN: Duration = Duration::from_secs(5);

/// What a count grows by at least, if what it counts goes on: fewer are chance.
const MORE_MIN: f64 = 100.0;

/// Counts of a server, and what they were when this began.
pub(super) struct Watch<'a> {
    admin: SocketAddr,
    names: &'a [&'a str],
    before: Vec<f64>,
}

impl<'a> Watch<'a> {
    pub(super) fn begin(admin: SocketAddr, names: &'a [&'a str]) -> Result<Self, Failure> {
        Ok(Self { admin, names, before: read(admin, names)? })
    }

    /// An error if one of these counts is about what it was: then what was measured is not what it
    /// is called.
    pub(super) fn end(&self, scene: &Scene) -> Result<(), Failure> {
        let after = read(self.admin, self.names)?;
        for (name, (before, after)) in self.names.iter().zip(self.before.iter().zip(after)) {
            let more = after - before;
            eprintln!("{name} {more} more");
            // A moment is too short for anything to be worth publishing.
            if more < MORE_MIN && !scene.smoke {
                return Err(format!("{name} grew by {more} only").into());
            }
        }
        Ok(())
    }
}

fn read(admin: SocketAddr, names: &[&str]) -> Result<Vec<f64>, Failure> {
    let page = metrics(admin)?;
    let value = |name: &&str| {
        let line = page.lines().find_map(|line| line.strip_prefix(*name)?.strip_prefix(' '));
        let value = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        value.ok_or_else(|| format!("there is no metric {name}").into())
    };
    names.iter().map(value).collect()
}

fn metrics(admin: SocketAddr) -> Result<String, Failure> {
    let mut stream = TcpStream::connect(admin)?;
    stream.set_read_timeout(Some(PAGE_WITHIN))?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
    let mut page = Vec::new();
    stream.read_to_end(&mut page)?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}

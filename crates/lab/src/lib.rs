//! Real servers and a bad network, for tests only.
//!
//! Promises: every server is private (its own port on loopback, its own directory), is ready when
//! `start` returns, and ends with the value that owns it. Every wait has a deadline.
//! Refuses: to use a server that it did not start.
//! Fails: with an [`Error`] that says what to do, such as `cargo xtask setup`.
//!
//! ```
//! let server = tidegate_lab::RedisServer::start()?;
//! assert_eq!(server.command(&["PING"])?.text(), "PONG");
//! # Ok::<(), tidegate_lab::Error>(())
//! ```

mod certificate;
mod cluster;
mod mariadb;
mod place;
mod process;
mod proxy;
mod redis;
mod resp;
mod sentinel;
mod wait;

pub use certificate::Certificate;
pub use cluster::RedisCluster;
pub use mariadb::{MariaDbOptions, MariaDbServer};
pub use proxy::Proxy;
pub use redis::{RedisOptions, RedisServer};
pub use resp::Value;
pub use sentinel::Sentinel;
pub use wait::{DEADLINE, eventually};

/// Why something in the lab did not work, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(String);

/// What everything here returns.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// For `map_err`: what was tried, and why it failed.
    pub(crate) fn because<E: std::fmt::Display>(tried: &str) -> impl FnOnce(E) -> Self {
        move |why| Self(format!("{tried}: {why}"))
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

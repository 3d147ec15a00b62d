//! Why a server does not run, in words for whoever started it.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use thiserror::Error;
use tidegate::GlobalError;
use tidegate::redis::ConfigError;

use crate::config::Mistakes;
use crate::globe::{GlobeError, StartError};
use crate::place::PlaceError;
use crate::tls::TlsError;

/// Why the server does not run. [`serve`](super::serve) has an example.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The root key cannot be sent in a header. The key itself is not repeated: it is a secret.
    #[error("the root key (TIDEGATE_ROOT_KEY or --root-key) {0}")]
    InvalidKey(&'static str),
    /// There is nobody who could call.
    #[error(
        "there is no root key in {0} yet.\nMake one with `tidegate key create`, or give one in \
         TIDEGATE_ROOT_KEY."
    )]
    NoKey(String),
    /// No place for the data.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// Not the address of a database.
    #[error("the database of keys and overrides (TIDEGATE_DATABASE or --database): {0}.")]
    InvalidDatabase(GlobeError),
    /// The database of keys and overrides does not answer.
    #[error(
        "{0}: {1}.\nWithout its keys nobody could call. A server that is given one in \
         TIDEGATE_ROOT_KEY starts all the same."
    )]
    Database(String, GlobalError),
    /// It answers, and its tables are not those that this program needs.
    #[error("{0}: {1}.")]
    Tables(String, GlobalError),
    /// The first key could not be put where it would be found.
    #[error("the first root key cannot be written to {}: {why}", path.display())]
    KeyFile {
        /// Where.
        path: PathBuf,
        /// Why not.
        why: io::Error,
    },
    /// Something else, that is in the log already.
    #[error(transparent)]
    Logged(Box<ServeError>),
    /// Keys must not cross a network in clear text by accident.
    #[error(
        "{0} can be reached by other machines, and without TLS they would send their keys in \
         clear text.\nGive --tls-cert and --tls-key, or say --plain-http if TLS ends in front of \
         it, or listen on 127.0.0.1."
    )]
    PlainHttpExposed(SocketAddr),
    /// Neither must what is for operators.
    #[error(
        "{0} (TIDEGATE_ADMIN_LISTEN or --admin-listen) can be reached by other machines, and what \
         it says needs no key and is not encrypted.\nSay --admin-exposed if they are trusted, or \
         listen on 127.0.0.1."
    )]
    AdminExposed(SocketAddr),
    /// One without the other.
    #[error("--tls-cert and --tls-key go together: {0} is missing.")]
    HalfTls(&'static str),
    /// Both at once.
    #[error("--plain-http (without TLS) and --tls-cert (with TLS) exclude each other.")]
    PlainTls,
    /// What was said, in a file or elsewhere.
    #[error(transparent)]
    Config(#[from] Mistakes),
    /// TLS, or its files.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Not the address of a Redis. It is not repeated: there may be a password in it.
    #[error(
        "the regional store (TIDEGATE_REDIS or --redis): {0}.\nExpected \
         redis://[[user]:password@]host[:port][/database], with several hosts \
         redis://host,host/?sentinel=<name> or redis://host,host/?cluster=true."
    )]
    InvalidRedis(#[from] ConfigError),
    /// Not a fleet secret.
    #[error(
        "the fleet secret (TIDEGATE_FLEET_SECRET or --fleet-secret) {0}, such as \
         `openssl rand -hex 32` prints."
    )]
    InvalidFleetSecret(&'static str),
    /// The other regions.
    #[error(transparent)]
    Globe(#[from] StartError),
    /// Someone else listens there.
    #[error(
        "{0} is already in use.\nStop the process that listens there, or choose another address: \
         `--listen 127.0.0.1:0` takes any free port."
    )]
    AddressInUse(SocketAddr),
    /// The address cannot be listened on.
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, #[source] io::Error),
    /// The limiter could not be built.
    #[error("cannot build the limiter: {0}")]
    Build(#[from] tidegate::BuildError),
    /// The operating system refused something else.
    #[error("cannot start: {0}")]
    Start(#[from] io::Error),
}

impl ServeError {
    /// 2 if it was said wrongly, 1 if it could not be done. [`serve`](super::serve) has an example.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::InvalidKey(_)
            | Self::NoKey(_)
            | Self::Place(_)
            | Self::InvalidDatabase(_)
            | Self::Tables(..)
            | Self::PlainHttpExposed(_)
            | Self::AdminExposed(_)
            | Self::HalfTls(_)
            | Self::PlainTls
            | Self::Config(_)
            | Self::Tls(_)
            | Self::InvalidRedis(_)
            | Self::InvalidFleetSecret(_) => ExitCode::from(2),
            Self::Logged(why) => why.exit_code(),
            Self::Globe(why) if why.is_usage() => ExitCode::from(2),
            _ => ExitCode::from(1),
        }
    }
}

//! TLS towards clients, in a build with the feature `tls`.
//!
//! Promises: TLS 1.2 and 1.3, and HTTP/2 or HTTP/1.1 as client and server agree (ALPN).
//! Refuses: a certificate and a key that do not belong together, at the start and later.
//! Fails: with a [`TlsError`] that names the file, never with what is in it.

use std::path::PathBuf;

use thiserror::Error;

/// Why there is no TLS.
///
/// ```
/// use tidegate_server::tls::TlsError;
///
/// assert!(TlsError::NotBuilt.to_string().contains("cargo build --release --features tls"));
/// ```
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TlsError {
    /// Left out when it was built.
    #[error(
        "this build has no TLS.\nBuild one with `cargo build --release --features tls`, or let \
         TLS end in front of it and leave --tls-cert and --tls-key out."
    )]
    NotBuilt,
    /// A file that cannot be read, or that holds something else.
    #[error("{option} {}: {why}", path.display())]
    File {
        /// How it was named.
        option: &'static str,
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// They cannot be used together.
    #[error("--tls-cert and --tls-key cannot be used together: {0}")]
    Pair(String),
}

#[cfg(feature = "tls")]
mod expiry;
#[cfg(feature = "tls")]
mod with_rustls;
#[cfg(feature = "tls")]
pub(crate) use with_rustls::{Pair, Tls};

#[cfg(not(feature = "tls"))]
mod without;
#[cfg(not(feature = "tls"))]
pub(crate) use without::{Pair, Tls};

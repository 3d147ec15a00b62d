//! A certificate that signs itself, for servers on loopback.

use std::fs;
use std::process::{Command, Stdio};

use crate::place::Directory;
use crate::{Error, Result};

/// A certificate for `127.0.0.1` and `localhost`, and its key.
#[derive(Clone, Debug)]
pub struct Certificate {
    pem: String,
    key_pem: String,
}

impl Certificate {
    /// Makes a new one with the `openssl` program of the system.
    ///
    /// # Errors
    /// When that is missing or fails.
    pub fn new() -> Result<Self> {
        let home = Directory::new()?;
        let (key, certificate) = (home.path().join("key"), home.path().join("certificate"));
        let mut command = Command::new("openssl");
        command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]);
        command.args(["-nodes", "-days", "2", "-subj", "/CN=localhost"]);
        command.args(["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]);
        // A certificate that is its own authority, and that webpki still takes for a server.
        command.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
        command.arg("-keyout").arg(&key).arg("-out").arg(&certificate);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let status = command.status().map_err(Error::because("openssl"))?;
        if !status.success() {
            return Err(Error::new(format!("openssl: {status}")));
        }
        let read = |path| fs::read_to_string(path).map_err(Error::because("openssl's output"));
        Ok(Self { pem: read(&certificate)?, key_pem: read(&key)? })
    }

    /// The certificate, to trust.
    #[must_use]
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Its key, to serve with.
    #[must_use]
    pub fn key_pem(&self) -> &str {
        &self.key_pem
    }
}

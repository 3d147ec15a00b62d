//! What stands for TLS in a build without it: there is none, so nothing can be asked of it.

use std::io;
use std::path::Path;

use super::TlsError;
use crate::accept::Protocol;

/// Never there.
#[derive(Debug)]
pub(crate) enum Tls {}

impl Tls {
    pub(crate) const fn load(_certificate: &Path, _key: &Path) -> Result<Self, TlsError> {
        Err(TlsError::NotBuilt)
    }

    pub(crate) async fn accept<T>(&self, _stream: T) -> io::Result<(T, Option<Protocol>)> {
        match *self {}
    }
}

//! What stands for TLS in a build without it: there is none, so nothing can be asked of it.

use std::io;
use std::path::Path;

use super::TlsError;
use crate::accept::Protocol;

/// Never there.
#[derive(Clone, Debug)]
pub(crate) enum Tls {}

/// Never there.
#[derive(Debug)]
pub(crate) enum Pair {}

impl Pair {
    pub(crate) const fn load(_certificate: &Path, _key: &Path) -> Result<Self, TlsError> {
        Err(TlsError::NotBuilt)
    }

    pub(crate) const fn expires_unix_s(&self) -> Option<u64> {
        match *self {}
    }
}

impl Tls {
    pub(crate) const fn new(pair: Pair) -> Result<Self, TlsError> {
        match pair {}
    }

    pub(crate) const fn take(&self, _pair: Pair) -> bool {
        match *self {}
    }

    pub(crate) const fn expires_unix_s(&self) -> Option<u64> {
        match *self {}
    }

    pub(crate) async fn accept<T>(&self, _stream: T) -> io::Result<(T, Option<Protocol>)> {
        match *self {}
    }
}

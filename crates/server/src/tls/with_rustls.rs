//! TLS with rustls.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::{TlsError, expiry};
use crate::accept::Protocol;

#[cfg(test)]
mod tests;

/// The names of HTTP/2 and HTTP/1.1 in a handshake; the first is preferred.
const HTTP_2: &[u8] = b"h2";
const HTTP_1: &[u8] = b"http/1.1";

/// A certificate, with those that signed it, and its key.
pub(crate) struct Pair(Arc<CertifiedKey>);

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key is a secret.
        f.debug_struct("Pair").finish_non_exhaustive()
    }
}

impl Pair {
    /// Reads a chain of certificates, the server's first, and its key, both PEM.
    pub(crate) fn load(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let chain = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect);
        let chain: Vec<_> = chain.map_err(wrong("--tls-cert", certificate))?;
        if chain.is_empty() {
            return Err(wrong("--tls-cert", certificate)(pem::Error::NoItemsFound));
        }
        let key = PrivateKeyDer::from_pem_file(key).map_err(wrong("--tls-key", key))?;
        let pair = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider());
        Ok(Self(Arc::new(pair.map_err(|why| TlsError::Pair(why.to_string()))?)))
    }

    /// When the certificate ends, if it says so in a way that we can read.
    pub(crate) fn expires_unix_s(&self) -> Option<u64> {
        expires_unix_s(&self.0)
    }
}

fn expires_unix_s(pair: &CertifiedKey) -> Option<u64> {
    expiry::not_after_unix_s(pair.end_entity_cert().ok()?)
}

/// The pair that is shown to the next client.
struct Shown(ArcSwap<CertifiedKey>);

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shown").finish_non_exhaustive()
    }
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, _client: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

/// A certificate, its key, and what may be spoken.
#[derive(Clone)]
pub(crate) struct Tls {
    acceptor: TlsAcceptor,
    shown: Arc<Shown>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key is a secret.
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

impl Tls {
    /// Shows that certificate.
    pub(crate) fn new(pair: Pair) -> Result<Self, TlsError> {
        let shown = Arc::new(Shown(ArcSwap::new(pair.0)));
        // Named, not taken from the process: who else sets one there is not ours to know.
        let mut config = ServerConfig::builder_with_provider(aws_lc_rs::default_provider().into())
            .with_safe_default_protocol_versions()
            .map_err(|why| TlsError::Pair(why.to_string()))?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&shown) as _);
        config.alpn_protocols = vec![HTTP_2.to_vec(), HTTP_1.to_vec()];
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), shown })
    }

    /// Shows another one from here on; connections that there are go on. Says whether it is
    /// another.
    pub(crate) fn take(&self, pair: Pair) -> bool {
        let old = self.shown.0.swap(Arc::clone(&pair.0));
        old.cert != pair.0.cert
    }

    /// When the certificate that is shown ends, if it says so.
    pub(crate) fn expires_unix_s(&self) -> Option<u64> {
        expires_unix_s(&self.shown.0.load())
    }

    /// The handshake. Says which protocol was agreed on, if any was.
    pub(crate) async fn accept<T>(&self, stream: T) -> io::Result<(TlsStream<T>, Option<Protocol>)>
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        let stream = self.acceptor.accept(stream).await?;
        let agreed = match stream.get_ref().1.alpn_protocol() {
            Some(HTTP_2) => Some(Protocol::Http2),
            Some(_) => Some(Protocol::Http1),
            None => None,
        };
        Ok((stream, agreed))
    }
}

/// What is wrong with a file, in words.
fn wrong(option: &'static str, path: &Path) -> impl FnOnce(pem::Error) -> TlsError {
    move |error| {
        let why = match error {
            pem::Error::Io(error) => error.to_string(),
            pem::Error::NoItemsFound => match option {
                "--tls-key" => "there is no private key in it (PEM is expected)".to_owned(),
                _ => "there is no certificate in it (PEM is expected)".to_owned(),
            },
            // The words of the others repeat what stands in the file.
            _ => "not PEM".to_owned(),
        };
        TlsError::File { option, path: path.to_owned(), why }
    }
}

//! TLS with rustls.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::TlsError;
use crate::accept::Protocol;

#[cfg(test)]
mod tests;

/// The names of HTTP/2 and HTTP/1.1 in a handshake; the first is preferred.
const HTTP_2: &[u8] = b"h2";
const HTTP_1: &[u8] = b"http/1.1";

/// A certificate, its key, and what may be spoken.
#[derive(Clone)]
pub(crate) struct Tls(TlsAcceptor);

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key is a secret.
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads a chain of certificates, the server's first, and its key, both PEM.
    pub(crate) fn load(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let chain = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect);
        let chain: Vec<_> = chain.map_err(wrong("--tls-cert", certificate))?;
        if chain.is_empty() {
            return Err(wrong("--tls-cert", certificate)(pem::Error::NoItemsFound));
        }
        let key = PrivateKeyDer::from_pem_file(key).map_err(wrong("--tls-key", key))?;
        // Named, not taken from the process: who else sets one there is not ours to know.
        let mut config = ServerConfig::builder_with_provider(aws_lc_rs::default_provider().into())
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
            .map_err(|why| TlsError::Pair(why.to_string()))?;
        config.alpn_protocols = vec![HTTP_2.to_vec(), HTTP_1.to_vec()];
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }

    /// The handshake. Says which protocol was agreed on, if any was.
    pub(crate) async fn accept<T>(&self, stream: T) -> io::Result<(TlsStream<T>, Option<Protocol>)>
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        let stream = self.0.accept(stream).await?;
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

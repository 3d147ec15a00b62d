//! Encrypted connections to servers.

use std::io;
use std::sync::{Arc, OnceLock};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Encrypts connections. The authorities are those of the system, or of `SSL_CERT_FILE`; they are
/// read once, when the first connection is made.
#[derive(Default)]
pub(super) struct Encrypter {
    authorities: OnceLock<Arc<RootCertStore>>,
}

impl Encrypter {
    /// Encrypts a connection over which one protocol is spoken.
    pub(super) async fn encrypt(
        &self,
        stream: TcpStream,
        host: &str,
        http2: bool,
    ) -> io::Result<TlsStream<TcpStream>> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions().map_err(io::Error::other)?;
        let config = config.with_root_certificates(self.authorities()?);
        let mut config = config.with_no_client_auth();
        // A server that also speaks the other must know that we do not.
        let protocol: &[u8] = if http2 { b"h2" } else { b"http/1.1" };
        config.alpn_protocols = vec![protocol.to_vec()];
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    fn authorities(&self) -> io::Result<Arc<RootCertStore>> {
        if let Some(known) = self.authorities.get() {
            return Ok(Arc::clone(known));
        }
        let mut authorities = RootCertStore::empty();
        let (known, _) =
            authorities.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if known == 0 {
            let why =
                "this system has no certificate authorities; SSL_CERT_FILE names a file of them";
            return Err(io::Error::other(why));
        }
        Ok(Arc::clone(self.authorities.get_or_init(|| Arc::new(authorities))))
    }
}

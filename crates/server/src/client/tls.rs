//! Encrypted connections to servers.

use std::io;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Encrypts a connection. The authorities are those of the system, or of `SSL_CERT_FILE`.
pub(super) async fn encrypt(stream: TcpStream, host: &str) -> io::Result<TlsStream<TcpStream>> {
    let mut authorities = RootCertStore::empty();
    let (known, _) =
        authorities.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if known == 0 {
        let why = "this system has no certificate authorities; SSL_CERT_FILE names a file of them";
        return Err(io::Error::other(why));
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions().map_err(io::Error::other)?;
    let mut config = config.with_root_certificates(authorities).with_no_client_auth();
    // A server that also speaks HTTP/2 must know that we do not.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

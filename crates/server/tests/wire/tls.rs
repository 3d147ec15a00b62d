//! TLS towards clients.

use crate::support::{Server, tidegate};

/// What is said by a server that does not start, which is told so.
fn refused(args: &[&str]) -> String {
    let args = [&["serve", "--listen", "127.0.0.1:0"], args].concat();
    let (code, said) = Server::run_to_end(&mut tidegate(&args));
    assert_eq!(code, Some(2), "{said}");
    said
}

#[cfg(not(feature = "tls"))]
#[test]
fn a_build_without_tls_says_which_one_is_needed() {
    let said = refused(&["--tls-cert", "c.pem", "--tls-key", "k.pem"]);
    assert!(said.contains("--features tls"), "{said}");
}

#[cfg(feature = "tls")]
mod built {
    use std::path::PathBuf;
    use std::sync::Arc;

    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, ServerName};
    use rustls::{ClientConfig, RootCertStore};
    use tidegate_lab::Certificate;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use tokio::time::timeout;
    use tokio_rustls::TlsConnector;
    use tokio_rustls::client::TlsStream;

    use super::*;
    use crate::metrics::{admin_of, scrape, value};
    use crate::support::{DEADLINE, Http2, KEY, LIMIT, MULTI_LIMIT, ask, received};

    /// A certificate in files that go with it.
    struct Files {
        certificate: Certificate,
        home: PathBuf,
    }

    impl Files {
        fn new(name: &str) -> Self {
            let name = format!("wire-tls-{}-{name}", std::process::id());
            let home = std::env::temp_dir().join(name);
            std::fs::create_dir_all(&home).unwrap();
            let certificate = Certificate::new().unwrap();
            std::fs::write(home.join("cert.pem"), certificate.pem()).unwrap();
            std::fs::write(home.join("key.pem"), certificate.key_pem()).unwrap();
            Self { certificate, home }
        }

        fn path(&self, name: &str) -> String {
            self.home.join(name).to_str().unwrap().to_owned()
        }

        fn start(&self) -> Server {
            self.start_saying(&[])
        }

        fn start_saying(&self, more: &[&str]) -> Server {
            let (cert, key) = (self.path("cert.pem"), self.path("key.pem"));
            Server::start_saying(&[&["--tls-cert", &cert, "--tls-key", &key], more].concat())
        }

        /// A client that trusts the certificate and offers `protocols`.
        async fn connect(&self, server: &Server, protocols: &[&str]) -> TlsStream<TcpStream> {
            let mut roots = RootCertStore::empty();
            let pem = self.certificate.pem().as_bytes();
            roots.add(CertificateDer::from_pem_slice(pem).unwrap()).unwrap();
            let provider = rustls::crypto::aws_lc_rs::default_provider();
            let mut config = ClientConfig::builder_with_provider(provider.into())
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_root_certificates(roots)
                .with_no_client_auth();
            config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
            let stream = TcpStream::connect(server.address).await.unwrap();
            let name = ServerName::try_from("localhost").unwrap();
            let connected = TlsConnector::from(Arc::new(config)).connect(name, stream);
            timeout(DEADLINE, connected).await.unwrap().unwrap()
        }
    }

    impl Drop for Files {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.home);
        }
    }

    #[tokio::test]
    async fn both_protocols_are_spoken_as_agreed() {
        let files = Files::new("both");
        let server = files.start();
        assert!(server.said().iter().any(|line| line.contains("listens on https://")));
        let stream = files.connect(&server, &["h2", "http/1.1"]).await;
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let client = Http2::over(stream).await;
        assert_eq!(client.post(LIMIT, &ask("a", 9, 1)).await.0, 200);
        let batch = serde_json::json!([ask("a", 9, 1)]);
        assert_eq!(client.post(MULTI_LIMIT, &batch).await.0, 200);

        for protocols in [&["http/1.1"][..], &[]] {
            let mut stream = files.connect(&server, protocols).await;
            let request = b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
            stream.write_all(request).await.unwrap();
            let mut reply = String::new();
            // The end may come without a word of TLS about it.
            let _ = timeout(DEADLINE, stream.read_to_string(&mut reply)).await.unwrap();
            assert!(reply.starts_with("HTTP/1.1 200"), "{protocols:?}: {reply}");
        }
    }

    #[test]
    fn a_load_is_sent_encrypted_over_both_protocols() {
        let files = Files::new("load");
        let server = files.start();
        let url = format!("https://localhost:{}", server.address.port());
        let load = ["bench", "--rate", "max", "--for", "200ms", "--warm-up", "0s", "--url", &url];
        let said = [&load[..], &["--connections", "2", "--output", "json"]].concat();
        for more in [&[][..], &["--http2"]] {
            let mut command = tidegate(&[&said[..], more].concat());
            command.env("SSL_CERT_FILE", files.path("cert.pem"));
            let (code, out) = Server::run_to_end(&mut command);
            assert_eq!(code, Some(0), "{out}");
            let report: serde_json::Value = serde_json::from_str(&out).unwrap();
            assert!(report["sent"].as_u64() > Some(0), "{report}");
            assert_eq!(report["sent"], report["admitted"], "{report}");
        }
    }

    #[tokio::test]
    async fn whoever_does_not_get_through_the_handshake_is_cut_off() {
        let files = Files::new("handshake");
        let server = files.start();
        // Nothing; the beginning of a handshake; and what is none.
        for begin in [&b""[..], &[0x16, 3, 1, 2, 0, 1], b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"] {
            let mut stream = TcpStream::connect(server.address).await.unwrap();
            stream.write_all(begin).await.unwrap();
            let mut rest = Vec::new();
            // However it is closed: an alert may come first, or a reset.
            let _ = timeout(DEADLINE, stream.read_to_end(&mut rest)).await.unwrap();
            assert!(!rest.starts_with(b"HTTP"), "{}", rest.escape_ascii());
        }
        let client = Http2::over(files.connect(&server, &["h2"]).await).await;
        assert_eq!(client.post(LIMIT, &ask("a", 9, 1)).await.0, 200);
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_request_in_flight_is_still_answered_over_tls() {
        let files = Files::new("end");
        let mut server = files.start();
        let client = Http2::over(files.connect(&server, &["h2"]).await).await;
        let (reply, mut sender) = client.begin(LIMIT).await;
        // Answered over the same connection, so the one before it has arrived.
        assert_eq!(client.post(LIMIT, &ask("a", 9, 1)).await.0, 200);
        server.signal("TERM");
        server.wait_for_line("stopping");
        sender.send_data(ask("a", 9, 1).to_string().into(), true).unwrap();
        assert_eq!(received(reply).await.1["data"]["remaining"], 7);
        assert_eq!(server.wait_for_end().code(), Some(0));
    }

    #[tokio::test]
    async fn another_certificate_is_shown_to_new_clients_and_old_ones_go_on() {
        let (files, other) = (Files::new("swap"), Files::new("swapped"));
        let server = files.start_saying(&["--admin-listen", "127.0.0.1:0"]);
        let admin = admin_of(&server);
        let expires = "tidegate_tls_certificate_expires_seconds";
        assert!(value(&scrape(admin), expires) > 1.7e9, "it is known when it ends");
        let client = Http2::over(files.connect(&server, &["h2"]).await).await;
        assert_eq!(client.post(LIMIT, &ask("a", 9, 1)).await.1["data"]["remaining"], 8);

        // Half of it is no pair: nothing changes.
        std::fs::copy(other.path("cert.pem"), files.path("cert.pem")).unwrap();
        server.wait_for_warning("cannot be used together");
        assert_eq!(value(&scrape(admin), "tidegate_config_reload_success"), 0.0);
        let same = Http2::over(files.connect(&server, &["h2"]).await).await;
        assert_eq!(same.post(LIMIT, &ask("a", 9, 1)).await.1["data"]["remaining"], 7);

        std::fs::copy(other.path("key.pem"), files.path("key.pem")).unwrap();
        server.wait_for_line("(a file changed): server.tls_cert: another certificate, for 1 more");
        assert_eq!(value(&scrape(admin), "tidegate_config_reload_success"), 1.0);
        let new = Http2::over(other.connect(&server, &["h2"]).await).await;
        assert_eq!(new.post(LIMIT, &ask("a", 9, 1)).await.1["data"]["remaining"], 6);
        assert_eq!(client.post(LIMIT, &ask("a", 9, 1)).await.1["data"]["remaining"], 5);
    }

    #[tokio::test]
    async fn a_certificate_is_renewed_whatever_the_file_says() {
        let (files, second, third) = (Files::new("one"), Files::new("two"), Files::new("three"));
        let path = files.path("t.toml");
        let write = |more: &str| {
            let listen = "[admin]\nlisten = \"127.0.0.1:0\"\n[server]\nlisten = \"127.0.0.1:0\"\n";
            std::fs::write(files.path("new"), format!("{listen}{more}")).unwrap();
            std::fs::rename(files.path("new"), &path).unwrap();
        };
        let take = |other: &Files| {
            for name in ["cert.pem", "key.pem"] {
                std::fs::copy(other.path(name), files.path(name)).unwrap();
            }
        };
        let (cert, key) = (files.path("cert.pem"), files.path("key.pem"));
        let tls = format!("tls_cert = {cert:?}\ntls_key = {key:?}\n");
        write(&tls);
        let server = Server::start_with(&mut tidegate(&["serve", "--config", &path]), KEY);
        let gauge = |name: &str| value(&scrape(admin_of(&server)), name);

        write(&format!("{tls}memroy = 1\n"));
        server.wait_for_warning("the old one stays: ");
        take(&second);
        server.wait_for_warning("the old one stays, but with another certificate, for 1 more");
        assert_eq!(gauge("tidegate_config_reload_success"), 0.0);
        let client = Http2::over(second.connect(&server, &["h2"]).await).await;
        assert_eq!(client.post(LIMIT, &ask("a", 9, 1)).await.0, 200);

        // A server that has TLS goes on with it until it is started again.
        write("");
        server.wait_for_line("needs a restart: server.tls_cert: ");
        assert_eq!(gauge("tidegate_config_pending_restart"), 2.0);
        take(&third);
        server.wait_for_line("server.tls_cert: another certificate, for 1 more");
        let client = Http2::over(third.connect(&server, &["h2"]).await).await;
        assert_eq!(client.post(LIMIT, &ask("a", 9, 1)).await.0, 200);
    }

    #[test]
    fn files_that_do_not_serve_are_named_before_anything_starts() {
        let (files, other) = (Files::new("files"), Files::new("other"));
        let (cert, key) = (files.path("cert.pem"), files.path("key.pem"));
        let missing = files.path("missing.pem");
        for (cert, key, expected) in [
            (&missing, &key, "missing.pem"),
            (&cert, &missing, "missing.pem"),
            (&key, &key, "no certificate"),
            (&cert, &cert, "no private key"),
            (&cert, &other.path("key.pem"), "cannot be used together"),
        ] {
            let said = refused(&["--tls-cert", cert, "--tls-key", key]);
            assert!(said.contains(expected), "{expected}: {said}");
        }
        let said = refused(&["--tls-cert", &cert]);
        assert!(said.contains("--tls-key"), "{said}");
    }
}

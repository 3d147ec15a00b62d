//! Encrypted connections.

use tidegate_convergence::{RegionalStore, StoreError};
use tidegate_lab::{Certificate, RedisOptions, RedisServer};
use tidegate_stores::redis::Tls;
use tidegate_stores::{RedisConfig, RedisStore};

use crate::support::{call, call_until_answered, record};

#[tokio::test]
async fn a_trusted_certificate_is_needed_and_enough() {
    let certificate = Certificate::new().unwrap();
    let server = RedisServer::start_with(&RedisOptions::new().tls(&certificate)).unwrap();
    let url = format!("rediss://127.0.0.1:{}", server.tls_port().unwrap());
    let mut config = RedisConfig::parse(&url).unwrap();
    let stranger = RedisStore::new(config.clone(), 1).unwrap();
    let refused = stranger.call(&call(vec![])).await;
    assert!(matches!(refused, Err(StoreError::Unreachable(_))), "{refused:?}");
    let authorities = Some(certificate.pem().as_bytes().to_vec());
    config.tls = Some(Tls { authorities });
    let friend = RedisStore::new(config, 1).unwrap();
    // A handshake may take longer than it should on a busy machine.
    let reply = call_until_answered(&friend, &[record(1, 5)]).await;
    assert_eq!(reply.replies[0].unwrap().current.sum, 5);
}

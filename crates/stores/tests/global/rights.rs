//! The least a user needs, and how one gets in.

use sqlx::{Connection, MySqlConnection};
use tidegate_convergence::{GlobalCall, GlobalError, GlobalStore};
use tidegate_lab::{Certificate, MariaDbOptions, MariaDbServer};
use tidegate_limiter::{Consistency, Outage};
use tidegate_stores::control::{Change, ControlStore, Mode};
use tidegate_stores::global::{GC_GRANTS, GRANTS, MIGRATE_GRANTS};
use tidegate_stores::{MysqlConfig, MysqlStore};

use crate::support::{batch, import, mysql, publish, register, rows};

fn url(server: &MariaDbServer, user: &str) -> String {
    server.url().replace("root@", &format!("{user}:secret@"))
}

/// A server that encrypts: MySQL takes a password in no other way.
fn encrypting() -> (MariaDbServer, Certificate) {
    let certificate = Certificate::new().unwrap();
    let options = MariaDbOptions::new().tls(&certificate);
    (MariaDbServer::start_with(&options).unwrap(), certificate)
}

/// A store for a user with a password.
fn encrypted(server: &MariaDbServer, certificate: &Certificate, user: &str) -> MysqlStore {
    let mut config = MysqlConfig::parse(&format!("{}?tls=true", url(server, user))).unwrap();
    let authorities = Some(certificate.pem().as_bytes().to_vec());
    config.tls = Some(tidegate_stores::redis::Tls { authorities });
    MysqlStore::new(config).unwrap()
}

fn users(server: &MariaDbServer) {
    for user in ["tidegate", "tidegate_migrate", "tidegate_gc"] {
        server.query(&format!("CREATE USER '{user}'@'%' IDENTIFIED BY 'secret'")).unwrap();
    }
}

/// Makes every kind of change, and reads what came of it.
async fn change(store: &MysqlStore) {
    let text = |text: &str| text.to_owned();
    let (ws, key, ns) = (|| text("ws"), || text("key_1"), || text("rlns_1"));
    let (digest, permissions) = ([7; 32], vec![text("ratelimit.*.limit")]);
    let (workspace, name, expires_ms) = (ws(), text("one"), None);
    for change in [
        Change::AddWorkspace { id: ws(), name: text("acme") },
        Change::SetWorkspace { id: ws(), enabled: None, requests_per_minute: Some(Some(9)) },
        Change::AddKey { id: key(), workspace, name, digest, permissions, expires_ms },
        Change::SetKey { id: key(), enabled: false },
        Change::RevokeKey { id: key() },
        Change::AddNamespaces { workspace: ws(), names: vec![(ns(), text("email"))] },
        Change::SetNamespace {
            id: ns(),
            mode: Some(Mode::Shadow),
            consistency: Some(Some(Consistency::Bounded)),
            outage: Some(Some(Outage::Deny)),
        },
        Change::DeleteNamespace { id: ns() },
        Change::RestoreNamespace { id: ns() },
        Change::SetOverride {
            id: text("rlor_1"),
            namespace: ns(),
            pattern: text("*"),
            limit: 1,
            window_ms: 1_000,
        },
        Change::DeleteOverride { namespace: ns(), pattern: text("*") },
    ] {
        store.apply(&change, "cli", 1).await.unwrap();
    }
    assert_eq!(store.changes(0).await.unwrap().revision, 11);
    assert_eq!(store.audit(None, None, 100).await.unwrap().len(), 13, "three of one change");
}

#[tokio::test]
async fn the_documented_users_can_do_all_we_do_and_nothing_else() {
    let (server, certificate) = encrypting();
    users(&server);
    server.query(MIGRATE_GRANTS).unwrap();
    for _ in 0..2 {
        encrypted(&server, &certificate, "tidegate_migrate").migrate().await.unwrap();
    }
    let store = encrypted(&server, &certificate, "tidegate");
    let refused = store.check().await;
    assert!(matches!(refused, Err(GlobalError::Unreachable(_))), "{refused:?}");
    server.query(GRANTS).unwrap();
    store.check().await.unwrap();
    store.call(&register("eu", 1)).await.unwrap();
    let region = tidegate_convergence::RegionName::new("eu").unwrap();
    store.call(&GlobalCall::Release { name: region, identity: 1 }).await.unwrap();
    store.call(&register("eu", 2)).await.unwrap();
    publish(&store, batch(1, b"x")).await.unwrap();
    assert_eq!(rows(store.call(&import(0, &[])).await).len(), 1);
    let collect = GlobalCall::Collect { expired_before_ms: 99, rows_max: 9 };
    store.call(&collect).await.unwrap();
    change(&store).await;
    let refused = store.forget_audit(2, 100).await;
    assert!(matches!(refused, Err(GlobalError::Unreachable(_))), "{refused:?}");
    server.query(GC_GRANTS).unwrap();
    let collector = encrypted(&server, &certificate, "tidegate_gc");
    collector.call(&collect).await.unwrap();
    assert_eq!(collector.forget_audit(2, 100).await.unwrap().rows, 13);
    let refused = store.migrate().await;
    assert!(matches!(refused, Err(GlobalError::Unreachable(_))), "{refused:?}");
    for (user, statement) in [
        ("tidegate", "DELETE FROM tidegate_keys"),
        ("tidegate", "DELETE FROM tidegate_overrides"),
        ("tidegate", "DELETE FROM tidegate_revision"),
        ("tidegate", "UPDATE tidegate_audit SET actor = 'nobody'"),
        ("tidegate", "DELETE FROM tidegate_audit"),
        ("tidegate_migrate", "UPDATE tidegate_keys SET enabled = 1"),
        ("tidegate", "DROP TABLE tidegate_feed"),
        ("tidegate", "UPDATE tidegate_feed SET region = 2"),
        ("tidegate", "DELETE FROM tidegate_regions"),
        ("tidegate", "SELECT * FROM mysql.user"),
        ("tidegate_gc", "UPDATE tidegate_audit SET actor = 'nobody'"),
        ("tidegate_gc", "INSERT INTO tidegate_feed SELECT * FROM tidegate_feed"),
        ("tidegate_gc", "SELECT * FROM tidegate_keys"),
        ("tidegate_migrate", "DROP TABLE tidegate_feed"),
        ("tidegate_migrate", "DELETE FROM tidegate_feed"),
    ] {
        let url = format!("{}?ssl-mode=required", url(&server, user));
        let mut session = MySqlConnection::connect(&url).await.unwrap();
        let done = sqlx::raw_sql(statement).execute(&mut session).await;
        assert!(done.is_err(), "{user}: {statement}");
    }
}

#[tokio::test]
async fn a_server_that_only_reads_is_busy_until_it_writes() {
    let (server, certificate) = encrypting();
    let root = mysql(&server.url());
    root.migrate().await.unwrap();
    users(&server);
    server.query(GRANTS).unwrap();
    let store = encrypted(&server, &certificate, "tidegate");
    publish(&store, batch(1, b"x")).await.unwrap();
    server.query("SET GLOBAL read_only = 1").unwrap();
    let busy = publish(&store, batch(1, b"x")).await;
    assert!(matches!(busy, Err(GlobalError::Busy(_))), "{busy:?}");
    assert_eq!(rows(store.call(&import(0, &[])).await).len(), 1);
    server.query("SET GLOBAL read_only = 0").unwrap();
    assert_eq!(
        publish(&store, batch(1, b"x")).await,
        publish(&root, batch(1, b"x")).await.map(|id| id - 1)
    );
}

#[tokio::test]
async fn a_wrong_password_is_an_error_that_does_not_show_it() {
    let server = MariaDbServer::start().unwrap();
    users(&server);
    let store = mysql(&url(&server, "tidegate").replace("secret", "hunter2"));
    let refused = store.check().await;
    assert!(matches!(refused, Err(GlobalError::Unreachable(_))), "{refused:?}");
    assert!(!format!("{refused:?} {store:?}").contains("hunter2"));
}

#[tokio::test]
async fn a_socket_is_enough() {
    let server = MariaDbServer::start().unwrap();
    let socket = server.socket().display();
    let store = mysql(&format!("mysql://root@nowhere.invalid:1/tidegate?socket={socket}"));
    store.migrate().await.unwrap();
    assert_eq!(publish(&store, batch(1, b"x")).await, Ok(1));
}

#[tokio::test]
async fn a_trusted_certificate_is_needed_and_enough() {
    let (server, certificate) = encrypting();
    users(&server);
    server.query(MIGRATE_GRANTS).unwrap();
    server.query("ALTER USER 'tidegate_migrate'@'%' REQUIRE SSL").unwrap();
    let plain = mysql(&url(&server, "tidegate_migrate")).check().await;
    assert!(matches!(&plain, Err(GlobalError::Unreachable(why)) if why.contains("?tls=true")));
    let stranger = mysql(&format!("{}?tls=true", url(&server, "tidegate_migrate")));
    let stranger = stranger.check().await;
    assert!(matches!(stranger, Err(GlobalError::Unreachable(_))), "{stranger:?}");
    let friend = encrypted(&server, &certificate, "tidegate_migrate");
    friend.migrate().await.unwrap();
    friend.check().await.unwrap();
}

#[tokio::test]
async fn a_socket_is_encrypted_if_asked() {
    let (server, certificate) = encrypting();
    let socket = server.socket().display();
    users(&server);
    server.query(MIGRATE_GRANTS).unwrap();
    server.query("ALTER USER 'tidegate_migrate'@'%' REQUIRE SSL").unwrap();
    let url = format!("mysql://tidegate_migrate:secret@localhost:1/tidegate?socket={socket}");
    let plain = mysql(&url).check().await;
    assert!(matches!(&plain, Err(GlobalError::Unreachable(why)) if why.contains("?tls=true")));
    let strange = mysql(&format!("{url}&tls=true")).check().await;
    assert!(matches!(strange, Err(GlobalError::Unreachable(_))), "nobody whom Mozilla trusts");
    let lost = mysql(&format!("{url}&tls=true&ca=/nowhere.pem")).check().await;
    assert!(
        matches!(&lost, Err(GlobalError::Unreachable(why)) if why.contains("`ca`")),
        "{lost:?}"
    );
    let file = server.socket().with_file_name("server.crt");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), certificate.pem());
    mysql(&format!("{url}&tls=true&ca={}", file.display())).migrate().await.unwrap();
}

//! What the tests have in common.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, MySqlConnection, SqliteConnection};
use tidegate_convergence::{
    Batch, GlobalCall, GlobalError, GlobalReply, GlobalStore, Import, RegionName, RegionNumber, Row,
};
use tidegate_lab::{DEADLINE, MariaDbServer};
use tidegate_stores::{MysqlConfig, MysqlStore, SqliteStore};

/// Where the tables are.
pub(crate) enum Place {
    Server(MariaDbServer),
    File(PathBuf),
}

/// A store in such a place.
#[derive(Debug)]
pub(crate) enum Store {
    Mysql(MysqlStore),
    Sqlite(SqliteStore),
}

impl Place {
    /// One of each kind, without tables.
    pub(crate) fn all() -> [Self; 2] {
        [Self::Server(MariaDbServer::start().unwrap()), Self::file()]
    }

    fn file() -> Self {
        static TAKEN: AtomicU64 = AtomicU64::new(0);
        let turn = TAKEN.fetch_add(1, Ordering::Relaxed);
        let name = format!("tidegate-global-{}-{turn}.db", std::process::id());
        Self::File(std::env::temp_dir().join(name))
    }

    /// A new store; others may be in the same place.
    pub(crate) fn store(&self) -> Store {
        match self {
            Self::Server(server) => Store::Mysql(mysql(&server.url())),
            Self::File(path) => Store::Sqlite(SqliteStore::open(path)),
        }
    }

    /// Runs statements behind the store's back.
    pub(crate) async fn sql(&self, sql: &str) {
        match self {
            Self::Server(server) => drop(server.query(sql).unwrap()),
            Self::File(path) => {
                let url = format!("sqlite://{}", path.display());
                let mut file = SqliteConnection::connect(&url).await.unwrap();
                sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut file).await.unwrap();
                file.close().await.unwrap();
            }
        }
    }

    /// Empties the tables; ids begin again.
    pub(crate) async fn clear(&self) {
        self.sql(match self {
            Self::Server(_) => "TRUNCATE tidegate_feed; TRUNCATE tidegate_regions",
            Self::File(_) => {
                "DELETE FROM tidegate_feed; DELETE FROM tidegate_regions; \
                 DELETE FROM sqlite_sequence"
            }
        })
        .await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Self::File(path) = self else { return };
        for more in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{more}", path.display()));
        }
    }
}

impl Store {
    pub(crate) async fn migrate(&self) -> Result<(), GlobalError> {
        match self {
            Self::Mysql(store) => store.migrate().await.map(drop),
            Self::Sqlite(store) => store.migrate().await.map(drop),
        }
    }

    pub(crate) async fn check(&self) -> Result<(), GlobalError> {
        match self {
            Self::Mysql(store) => store.check().await,
            Self::Sqlite(store) => store.check().await,
        }
    }

    pub(crate) async fn call(&self, call: &GlobalCall) -> Result<GlobalReply, GlobalError> {
        match self {
            Self::Mysql(store) => store.call(call).await,
            Self::Sqlite(store) => store.call(call).await,
        }
    }
}

pub(crate) fn mysql(url: &str) -> MysqlStore {
    MysqlStore::new(MysqlConfig::parse(url).unwrap()).unwrap()
}

/// A server with tables, and a store.
pub(crate) async fn server() -> (MariaDbServer, MysqlStore) {
    let server = MariaDbServer::start().unwrap();
    let store = mysql(&server.url());
    store.migrate().await.unwrap();
    (server, store)
}

/// A connection of our own.
pub(crate) async fn connect(server: &MariaDbServer) -> MySqlConnection {
    MySqlConnection::connect(&server.url()).await.unwrap()
}

pub(crate) fn batch(region: u32, payload: &[u8]) -> Batch {
    let payload = payload.to_vec();
    let region = RegionNumber(region);
    Batch { region, repeats: false, nonce: 1, written_ms: 10, expires_ms: 20, payload }
}

pub(crate) fn register(name: &str, identity: u128) -> GlobalCall {
    GlobalCall::Register { name: RegionName::new(name).unwrap(), identity }
}

pub(crate) fn import(from: u64, gaps: &[u64]) -> GlobalCall {
    let gaps = gaps.to_vec();
    GlobalCall::Import(Import { from, gaps, repeats: true, rows_max: 10_000 })
}

pub(crate) async fn publish(store: &MysqlStore, batch: Batch) -> Result<u64, GlobalError> {
    match store.call(&GlobalCall::Publish(batch)).await? {
        GlobalReply::Published { id } => Ok(id),
        other => unreachable!("{other:?}"),
    }
}

pub(crate) fn rows(reply: Result<GlobalReply, GlobalError>) -> Vec<Row> {
    match reply {
        Ok(GlobalReply::Imported(rows)) => rows,
        other => unreachable!("{other:?}"),
    }
}

/// Looks until the condition gives a value.
pub(crate) async fn eventually<T>(what: &str, mut condition: impl AsyncFnMut() -> Option<T>) -> T {
    let start = tokio::time::Instant::now();
    let mut looks = tokio::time::interval(Duration::from_millis(5));
    loop {
        if let Some(value) = condition().await {
            return value;
        }
        assert!(start.elapsed() < DEADLINE, "{what}: not within {DEADLINE:?}");
        looks.tick().await;
    }
}

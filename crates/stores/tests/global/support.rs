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

/// Most rows of one statement: it is an argument of a command.
const INSERT_ROWS_MAX: usize = 500;

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

    /// Appends the same row so many times.
    pub(crate) async fn insert(&self, batch: &Batch, count: usize) {
        let Batch { region, repeats, nonce, written_ms, expires_ms, payload } = batch;
        // A file has signed numbers; the store keeps their bits.
        let number = |number: u64| match self {
            Self::Server(_) => number.to_string(),
            Self::File(_) => number.cast_signed().to_string(),
        };
        let payload: String = payload.iter().map(|byte| format!("{byte:02x}")).collect();
        let row = format!(
            "({}, {}, {}, {}, {}, x'{payload}')",
            region.0,
            u8::from(*repeats),
            number(*nonce),
            number(*written_ms),
            number(*expires_ms)
        );
        let columns = "region, repeats, nonce, written_at, expires_at, payload";
        let all = vec![row; count];
        for some in all.chunks(INSERT_ROWS_MAX) {
            let rows = some.join(", ");
            self.sql(&format!("INSERT INTO tidegate_feed ({columns}) VALUES {rows}")).await;
        }
    }

    /// Keeps a copy of everything that is visible, as a replica does.
    pub(crate) async fn follow(&self) {
        // Rows that others have begun are neither seen nor waited for.
        let isolation = match self {
            Self::Server(_) => "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; ",
            Self::File(_) => "",
        };
        let copy = |name: &str| {
            format!(
                "DROP TABLE IF EXISTS followed_{name}; \
                 CREATE TABLE followed_{name} AS SELECT * FROM tidegate_{name}; "
            )
        };
        self.sql(&format!("{isolation}{}{}", copy("feed"), copy("regions"))).await;
    }

    /// Puts that copy in the place of the tables. The next row gets that id.
    pub(crate) async fn take_over(&self, next_id: u64) {
        let back = |name: &str| {
            format!(
                "DELETE FROM tidegate_{name}; \
                 INSERT INTO tidegate_{name} SELECT * FROM followed_{name}; "
            )
        };
        let id = match self {
            Self::Server(_) => format!("ALTER TABLE tidegate_feed AUTO_INCREMENT = {next_id}"),
            Self::File(_) => format!(
                "DELETE FROM sqlite_sequence; \
                 INSERT INTO sqlite_sequence VALUES ('tidegate_feed', {next_id} - 1)"
            ),
        };
        self.sql(&format!("{}{}{id}", back("feed"), back("regions"))).await;
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

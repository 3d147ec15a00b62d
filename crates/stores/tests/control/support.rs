//! What the tests have in common.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, SqliteConnection};
use tidegate_convergence::GlobalError;
use tidegate_lab::{DEADLINE, MariaDbServer};
use tidegate_stores::control::{Applied, Change, Changes, ControlError, ControlStore};
use tidegate_stores::{MysqlConfig, MysqlStore, SqliteStore};

/// Who changes things here.
pub(crate) const ACTOR: &str = "key_test";

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
        let name = format!("tidegate-control-{}-{turn}.db", std::process::id());
        Self::File(std::env::temp_dir().join(name))
    }

    /// One of each kind, with tables, and a store in it.
    pub(crate) async fn ready() -> Vec<(Self, Store)> {
        let mut ready = Vec::new();
        for place in Self::all() {
            let store = place.store();
            store.migrate().await.unwrap();
            ready.push((place, store));
        }
        ready
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

    /// Statements that differ: those of a server, and those of a file.
    pub(crate) async fn either(&self, server: &str, file: &str) {
        match self {
            Self::Server(_) => self.sql(server).await,
            Self::File(_) => self.sql(file).await,
        }
    }

    /// Empties the tables; revisions begin again.
    pub(crate) async fn clear(&self) {
        let tables = ["workspaces", "keys", "namespaces", "overrides", "audit"];
        let empty = tables.map(|table| format!("DELETE FROM tidegate_{table};")).concat();
        self.sql(&format!("{empty} UPDATE tidegate_revision SET revision = 0")).await;
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

    pub(crate) fn control(&self) -> &dyn ControlStore {
        match self {
            Self::Mysql(store) => store,
            Self::Sqlite(store) => store,
        }
    }

    /// A change at a time that does not matter.
    pub(crate) async fn apply(&self, change: &Change) -> Result<Applied, ControlError> {
        self.control().apply(change, ACTOR, 1_000).await
    }

    /// The same; it must be made.
    pub(crate) async fn make(&self, change: &Change) -> Changes {
        self.apply(change).await.unwrap().changes
    }

    /// All rows, by id.
    pub(crate) async fn all(&self) -> Changes {
        sorted(self.control().changes(0).await.unwrap())
    }

    /// The events of the audit, oldest first.
    pub(crate) async fn events(&self) -> Vec<String> {
        let rows = self.control().audit(None, None, 1_000).await.unwrap();
        rows.into_iter().rev().map(|row| row.event).collect()
    }
}

/// In an order that does not depend on who came first.
pub(crate) fn sorted(mut changes: Changes) -> Changes {
    changes.workspaces.sort_by(|a, b| a.id.cmp(&b.id));
    changes.keys.sort_by(|a, b| a.id.cmp(&b.id));
    changes.namespaces.sort_by(|a, b| a.id.cmp(&b.id));
    changes.overrides.sort_by(|a, b| a.id.cmp(&b.id));
    changes
}

pub(crate) fn mysql(url: &str) -> MysqlStore {
    MysqlStore::new(MysqlConfig::parse(url).unwrap()).unwrap()
}

pub(crate) fn add_workspace(id: &str) -> Change {
    Change::AddWorkspace { id: id.to_owned(), name: format!("name of {id}") }
}

pub(crate) fn add_key(id: &str, workspace: &str, digest: u8) -> Change {
    Change::AddKey {
        id: id.to_owned(),
        workspace: workspace.to_owned(),
        name: String::new(),
        digest: [digest; 32],
        permissions: vec!["ratelimit.*.limit".to_owned(), "tidegate.*.read".to_owned()],
        expires_ms: None,
    }
}

/// Namespaces of the workspace `ws`, whose ids are made of their names.
pub(crate) fn add_namespaces(names: &[&str]) -> Change {
    let names = names.iter().map(|name| (format!("rlns_{name}"), (*name).to_owned())).collect();
    Change::AddNamespaces { workspace: "ws".to_owned(), names }
}

pub(crate) fn set_override(id: &str, namespace: &str, pattern: &str, limit: u64) -> Change {
    let (id, namespace, pattern) = (id.to_owned(), namespace.to_owned(), pattern.to_owned());
    Change::SetOverride { id, namespace, pattern, limit, window_ms: 60_000 }
}

pub(crate) fn delete_override(namespace: &str, pattern: &str) -> Change {
    Change::DeleteOverride { namespace: namespace.to_owned(), pattern: pattern.to_owned() }
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

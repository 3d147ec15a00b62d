//! A MySQL or a file, by its address.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate::mysql::{KnownRegion, MysqlConfig, MysqlStore};
use tidegate::sqlite::SqliteStore;
use tidegate::{GlobalError, GlobalStore};
use tidegate_convergence::{GlobalCall, GlobalReply};
use tidegate_stores::control::ControlStore;
use tidegate_stores::global::Migrated;

use super::GlobeError;

/// See the module.
#[derive(Debug)]
pub(crate) enum Database {
    Mysql { store: Arc<MysqlStore>, place: String },
    Sqlite { store: Arc<SqliteStore>, path: PathBuf },
}

impl Database {
    /// Reads an address. Connects to nothing yet.
    pub(crate) fn parse(url: &str) -> Result<Self, GlobeError> {
        if let Some(path) = url.strip_prefix("sqlite:") {
            let path = Path::new(path.strip_prefix("//").unwrap_or(path));
            if path.as_os_str().is_empty() {
                return Err(GlobeError::Path);
            }
            let store = Arc::new(SqliteStore::open(path));
            return Ok(Self::Sqlite { store, path: path.to_owned() });
        }
        if !url.starts_with("mysql://") {
            return Err(GlobeError::Scheme);
        }
        let config = MysqlConfig::parse(url)?;
        let server = match &config.socket {
            Some(socket) => socket.display().to_string(),
            None => config.address.to_string(),
        };
        let place = format!("mysql database `{}` at {server}", config.database);
        Ok(Self::Mysql { store: Arc::new(MysqlStore::new(config)?), place })
    }

    /// Whether it is a file of this machine.
    pub(crate) const fn is_file(&self) -> bool {
        matches!(self, Self::Sqlite { .. })
    }

    /// What the control plane speaks with.
    pub(crate) fn control(&self) -> Arc<dyn ControlStore> {
        match self {
            Self::Mysql { store, .. } => Arc::clone(store) as _,
            Self::Sqlite { store, .. } => Arc::clone(store) as _,
        }
    }

    /// What a limiter speaks with.
    pub(super) fn store(&self) -> Arc<dyn GlobalStore> {
        match self {
            Self::Mysql { store, .. } => Arc::clone(store) as _,
            Self::Sqlite { store, .. } => Arc::clone(store) as _,
        }
    }

    pub(crate) async fn check(&self) -> Result<(), GlobalError> {
        match self {
            Self::Mysql { store, .. } => store.check().await,
            Self::Sqlite { store, .. } => store.check().await,
        }
    }

    pub(crate) async fn migrate(&self) -> Result<Migrated, GlobalError> {
        match self {
            Self::Mysql { store, .. } => store.migrate().await,
            Self::Sqlite { store, .. } => store.migrate().await,
        }
    }

    pub(super) async fn regions(&self) -> Result<Vec<KnownRegion>, GlobalError> {
        match self {
            Self::Mysql { store, .. } => store.regions().await,
            Self::Sqlite { store, .. } => store.regions().await,
        }
    }

    /// What time it is there; `None` if it does not say, or is a file.
    pub(super) async fn clock_unix_ms(&self) -> Option<u64> {
        match self {
            Self::Mysql { store, .. } => store.clock_unix_ms().await.ok(),
            Self::Sqlite { .. } => None,
        }
    }

    pub(super) async fn call(&self, call: &GlobalCall) -> Result<GlobalReply, GlobalError> {
        self.store().call(call).await
    }
}

impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mysql { place, .. } => f.write_str(place),
            Self::Sqlite { path, .. } => write!(f, "sqlite file {}", path.display()),
        }
    }
}

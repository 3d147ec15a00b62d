//! The feed in a file of SQLite: for regions that share a machine, and for trying things out.

mod errors;
mod statements;
mod tables;

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::query::Query;
use sqlx::sqlite::{
    SqliteArguments, SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteRow,
    SqliteSynchronous,
};
use sqlx::{ConnectOptions, Connection, Row, Sqlite};
use tidegate_convergence::{GlobalCall, GlobalCalling, GlobalError, GlobalStore};
use tokio::time::interval;

use super::pool::Pool;
use super::regions::{KnownRegion, Regions};
use super::schema::{Check, Migrate, Migrated};
use super::session::{
    Field, Opener, Record, Session, Statements, Trouble, Value, Written, foreign,
};
use crate::control::Pooled;
use errors::trouble;

/// How long a statement waits for another process that writes.
const BUSY_WITHIN: Duration = Duration::from_secs(3);
/// How often and for how long tables are tried to be made while others do the same: ten seconds.
const MIGRATE_AGAIN: Duration = Duration::from_millis(50);
const MIGRATE_TRIES: u32 = 200;

/// A global store in a file. Several processes of one machine may use it; a file system of several
/// machines is no place for it.
///
/// Nothing is opened before the first call. Must be used inside a tokio runtime.
///
/// ```
/// use tidegate_convergence::{GlobalCall, GlobalReply, GlobalStore, RegionName};
/// use tidegate_stores::SqliteStore;
///
/// # let path = std::env::temp_dir().join(format!("tidegate-doc-{}.db", std::process::id()));
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let store = SqliteStore::open(&path);
/// store.migrate().await?;
/// store.check().await?;
/// let call = GlobalCall::Register { name: RegionName::new("eu")?, identity: 7 };
/// let registered = GlobalReply::Registered { regions: 1 };
/// assert_eq!(store.call(&call).await?, registered);
/// assert_eq!(store.regions().await?[0].name, "eu");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # for more in ["", "-wal", "-shm"] {
/// #     let _ = std::fs::remove_file(format!("{}{more}", path.display()));
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    pool: Pool<File>,
}

impl SqliteStore {
    /// A store in that file. [`migrate`](Self::migrate) makes it if it is missing. The [type](Self)
    /// has an example.
    #[must_use]
    pub fn open(path: &Path) -> Self {
        Self { path: path.to_owned(), pool: Pool::new(File(path.to_owned())) }
    }

    /// Makes the tables, or brings them up to date, and says what it did. May be done again, and by
    /// several at once. The [type](Self) has an example.
    ///
    /// # Errors
    /// As any call; [`GlobalError::Schema`] when the tables are newer than this build.
    pub async fn migrate(&self) -> Result<Migrated, GlobalError> {
        // Only here: who mistypes the name of a file must not get another one.
        let mut made = OpenOptions::new();
        // For this user only: there are digests of keys in it.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut made, 0o600);
        let made = made.create(true).append(true).open(&self.path);
        made.map_err(|why| GlobalError::Unreachable(why.to_string()))?;
        // Two that make a file ready at the same moment do not wait for each other: SQLite has no
        // patience for that.
        let mut tries = interval(MIGRATE_AGAIN);
        for _ in 0..MIGRATE_TRIES {
            tries.tick().await;
            match self.pool.run(&Migrate).await {
                Err(GlobalError::Busy(_)) => {}
                done => return done,
            }
        }
        self.pool.run(&Migrate).await
    }

    /// Whether the file can be opened and has the tables that this build works with. The
    /// [type](Self) has an example.
    ///
    /// # Errors
    /// As any call; [`GlobalError::Schema`] says what to do about the tables.
    pub async fn check(&self) -> Result<(), GlobalError> {
        self.pool.run(&Check).await
    }

    /// The regions that ever were there, by name. The [type](Self) has an example.
    ///
    /// # Errors
    /// As any call.
    pub async fn regions(&self) -> Result<Vec<KnownRegion>, GlobalError> {
        self.pool.run(&Regions).await
    }
}

impl Pooled for SqliteStore {
    type Opener = File;

    fn pool(&self) -> &Pool<File> {
        &self.pool
    }
}

impl GlobalStore for SqliteStore {
    fn call<'a>(&'a self, call: &'a GlobalCall) -> GlobalCalling<'a> {
        Box::pin(self.pool.run(call))
    }
}

/// Where it is.
#[derive(Debug)]
pub(crate) struct File(PathBuf);

impl Opener for File {
    type Session = SqliteConnection;

    /// One that writes and one that reads; each is a thread.
    const SESSIONS_MAX: usize = 2;

    async fn open(&self) -> Result<SqliteConnection, Trouble> {
        if !self.0.exists() {
            let why = "the file does not exist: `tidegate migrate` makes it";
            return Err(Trouble::Lost(GlobalError::Schema(why.to_owned())));
        }
        let options = SqliteConnectOptions::new()
            .filename(&self.0)
            // Who reads and who writes do not wait for each other.
            .journal_mode(SqliteJournalMode::Wal)
            // What is acknowledged survives a power cut, as in the other databases.
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(BUSY_WITHIN)
            .disable_statement_logging();
        options.connect().await.map_err(|why| trouble(&why))
    }
}

impl Session for SqliteConnection {
    const STATEMENTS: &'static Statements = &statements::STATEMENTS;

    async fn read(
        &mut self,
        sql: &'static str,
        values: &[Value<'_>],
    ) -> Result<Vec<Record>, Trouble> {
        let rows = bound(sql, values).fetch_all(self).await.map_err(|why| trouble(&why))?;
        rows.iter().map(record).collect()
    }

    async fn write(&mut self, sql: &'static str, values: &[Value<'_>]) -> Result<Written, Trouble> {
        let done = bound(sql, values).execute(self).await.map_err(|why| trouble(&why))?;
        let id = done.last_insert_rowid().cast_unsigned();
        Ok(Written { rows: done.rows_affected(), id })
    }

    async fn close(self) {
        let _ = Connection::close(self).await;
    }
}

/// Its numbers have a sign: the bits are kept, and the statements compare them as if it had none.
fn bound(sql: &'static str, values: &[Value<'_>]) -> Query<'static, Sqlite, SqliteArguments> {
    values.iter().fold(sqlx::query(sql), |query, value| match *value {
        Value::Number(number) => query.bind(number.cast_signed()),
        Value::Place(number) => query.bind(i64::try_from(number).unwrap_or(i64::MAX)),
        Value::Bytes(bytes) => query.bind(bytes.to_vec()),
        Value::Null => query.bind(None::<i64>),
    })
}

fn record(row: &SqliteRow) -> Result<Record, Trouble> {
    let field = |index| {
        let number = row.try_get(index).map(|found: Option<i64>| match found {
            Some(number) => Field::Number(number.cast_unsigned()),
            None => Field::Null,
        });
        number.or_else(|_| row.try_get(index).map(Field::Bytes)).map_err(|_| foreign())
    };
    (0..row.len()).map(field).collect::<Result<Vec<Field>, Trouble>>().map(Record::new)
}

#[cfg(test)]
mod tests;

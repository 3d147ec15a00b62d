//! The feed in MySQL 8 or newer, or MariaDB 10.11 or newer.

mod errors;
mod statements;
mod tables;

use std::fmt;
use std::fs::File;
use std::path::PathBuf;

use sqlx::mysql::{MySqlArguments, MySqlConnectOptions, MySqlConnection, MySqlRow, MySqlSslMode};
use sqlx::query::Query;
use sqlx::{ConnectOptions, Connection, MySql, Row};
use tidegate_convergence::{GlobalCall, GlobalCalling, GlobalError, GlobalStore};

use super::config::{MysqlConfig, MysqlConfigError};
use super::pool::Pool;
use super::regions::{Clock, KnownRegion, Regions};
use super::schema::{Check, Migrate, Migrated};
use super::session::{
    Field, Opener, Record, Session, Statements, Trouble, Value, Written, foreign,
};
use crate::control::Pooled;
use errors::{advise, trouble};

/// What the user needs that `tidegate serve` logs in as, in the database `tidegate`. Tables must be
/// there before rights to them can be given: migrate first. [`GC_GRANTS`] has an example.
pub const GRANTS: &str = "\
GRANT SELECT ON tidegate.tidegate_schema TO 'tidegate'@'%';
GRANT SELECT, INSERT, UPDATE ON tidegate.tidegate_regions TO 'tidegate'@'%';
GRANT SELECT, INSERT, DELETE ON tidegate.tidegate_feed TO 'tidegate'@'%';
GRANT SELECT, UPDATE ON tidegate.tidegate_revision TO 'tidegate'@'%';
GRANT SELECT, INSERT, UPDATE ON tidegate.tidegate_workspaces TO 'tidegate'@'%';
GRANT SELECT, INSERT, UPDATE ON tidegate.tidegate_keys TO 'tidegate'@'%';
GRANT SELECT, INSERT, UPDATE ON tidegate.tidegate_namespaces TO 'tidegate'@'%';
GRANT SELECT, INSERT, UPDATE ON tidegate.tidegate_overrides TO 'tidegate'@'%';
GRANT SELECT, INSERT ON tidegate.tidegate_audit TO 'tidegate'@'%';";

/// What the user needs that `tidegate gc --audit-older-than` logs in as. A server cannot delete
/// what it has written into the audit.
///
/// ```
/// use tidegate_stores::global::{GC_GRANTS, GRANTS, MIGRATE_GRANTS};
///
/// let on_audit = |grants: &str| grants.lines().any(|line| {
///     line.contains("DELETE") && line.contains("tidegate_audit")
/// });
/// assert!(on_audit(GC_GRANTS) && !on_audit(GRANTS) && !on_audit(MIGRATE_GRANTS));
/// ```
pub const GC_GRANTS: &str = "\
GRANT SELECT, DELETE ON tidegate.tidegate_feed TO 'tidegate_gc'@'%';
GRANT SELECT, DELETE ON tidegate.tidegate_audit TO 'tidegate_gc'@'%';";

/// What the user needs that `tidegate migrate` logs in as. [`GC_GRANTS`] has an example.
pub const MIGRATE_GRANTS: &str = "\
GRANT CREATE, ALTER, SELECT, INSERT ON tidegate.* TO 'tidegate_migrate'@'%';";

/// How every session begins. Times are of one zone, or the hour that a change of clocks repeats
/// would free the names of regions that are in use. A lock is waited for much shorter than a
/// statement may take, or nobody would hear of it. A machine that vanished without a word keeps its
/// locks no longer than the wait, which is longer than the pool lets a connection be idle.
const SET: &str = "SET SESSION autocommit = 1, time_zone = '+00:00', \
     innodb_lock_wait_timeout = 3, lock_wait_timeout = 3, wait_timeout = 90, \
     sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'";
/// A statement sees what is committed when it begins, and locks no gaps.
const ISOLATION: &str = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
/// A caller who gives up cannot tell the server; this ends what he left behind. The first is
/// MariaDB's, in seconds, which can also end a transaction in which nothing happens; the second
/// MySQL's, in milliseconds and only for what reads.
const LIMITS: [&str; 2] = [
    "SET SESSION max_statement_time = 10, idle_transaction_timeout = 20",
    "SET SESSION max_execution_time = 10000",
];

/// A global store in MySQL or MariaDB.
///
/// Nothing is connected before the first call. Must be used inside a tokio runtime.
///
/// ```
/// use tidegate_convergence::{GlobalCall, GlobalReply, GlobalStore, RegionName};
/// use tidegate_stores::{MysqlConfig, MysqlStore};
///
/// # let server = tidegate_lab::MariaDbServer::start()?;
/// # let url = server.url();
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let store = MysqlStore::new(MysqlConfig::parse(&url)?)?;
/// assert!(store.check().await.is_err(), "the tables are missing");
/// let done = store.migrate().await?;
/// assert_eq!((done.found, done.additions), (0, vec!["tidegate_namespaces.outage"]));
/// store.check().await?;
/// let call = GlobalCall::Register { name: RegionName::new("eu")?, identity: 7 };
/// let registered = GlobalReply::Registered { regions: 1 };
/// assert_eq!(store.call(&call).await?, registered);
/// assert_eq!(store.regions().await?[0].name, "eu");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct MysqlStore {
    pool: Pool<Mysql>,
}

impl MysqlStore {
    /// A store that is not connected yet. The [type](Self) has an example.
    ///
    /// # Errors
    /// When the configuration makes no sense.
    pub fn new(config: MysqlConfig) -> Result<Self, MysqlConfigError> {
        config.check()?;
        Ok(Self { pool: Pool::new(Mysql::new(&config)) })
    }

    /// Makes the tables, or brings them up to date, and says what it did. May be done again, and by
    /// several at once. The [type](Self) has an example.
    ///
    /// # Errors
    /// As any call; [`GlobalError::Schema`] when the tables are newer than this build.
    pub async fn migrate(&self) -> Result<Migrated, GlobalError> {
        self.pool.run(&Migrate).await
    }

    /// Whether the server can be reached and has the tables that this build works with. The
    /// [type](Self) has an example.
    ///
    /// # Errors
    /// As any call; [`GlobalError::Schema`] says what to do about the tables.
    pub async fn check(&self) -> Result<(), GlobalError> {
        self.pool.run(&Check).await
    }

    /// The server's clock, in ms since 1970. The [type](Self) has an example of other calls.
    ///
    /// # Errors
    /// As any call.
    pub async fn clock_unix_ms(&self) -> Result<u64, GlobalError> {
        self.pool.run(&Clock).await
    }

    /// The regions that ever were there, by name. The [type](Self) has an example.
    ///
    /// # Errors
    /// As any call.
    pub async fn regions(&self) -> Result<Vec<KnownRegion>, GlobalError> {
        self.pool.run(&Regions).await
    }
}

impl Pooled for MysqlStore {
    type Opener = Mysql;

    fn pool(&self) -> &Pool<Mysql> {
        &self.pool
    }
}

impl GlobalStore for MysqlStore {
    fn call<'a>(&'a self, call: &'a GlobalCall) -> GlobalCalling<'a> {
        Box::pin(self.pool.run(call))
    }
}

/// How to get in.
pub(crate) struct Mysql {
    options: MySqlConnectOptions,
    /// There is a password, and nothing to encrypt it with.
    plain_password: bool,
    /// The file of authorities.
    ca: Option<PathBuf>,
}

impl Mysql {
    fn new(config: &MysqlConfig) -> Self {
        let plain_password = config.password.is_some() && config.tls.is_none();
        Self { options: options(config), plain_password, ca: config.ca.clone() }
    }

    /// Why nobody could get in, in words that say what to do.
    fn explain(&self, why: Trouble) -> Trouble {
        let unreadable = self.ca.as_ref().and_then(|file| File::open(file).err());
        match unreadable {
            Some(error) => {
                let why = format!("the file that `ca` names: {error}");
                Trouble::Lost(GlobalError::Unreachable(why))
            }
            None if self.plain_password => advise(why),
            None => why,
        }
    }
}

impl fmt::Debug for Mysql {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The options would show the password.
        f.debug_tuple("Mysql").field(&self.options.get_host()).finish_non_exhaustive()
    }
}

fn options(config: &MysqlConfig) -> MySqlConnectOptions {
    let mut options = MySqlConnectOptions::new()
        .host(&config.address.host)
        .port(config.address.port)
        .username(&config.user)
        .database(&config.database)
        // What a session begins with is ours to say, in one statement.
        .pipes_as_concat(false)
        .no_engine_substitution(false)
        .timezone(None)
        .set_names(false)
        .disable_statement_logging();
    if let Some(password) = &config.password {
        options = options.password(password.reveal());
    }
    if let Some(socket) = &config.socket {
        options = options.socket(socket);
    }
    match &config.tls {
        None => options.ssl_mode(MySqlSslMode::Disabled),
        Some(tls) => {
            let options = options.ssl_mode(MySqlSslMode::VerifyIdentity);
            match (&tls.authorities, &config.ca) {
                (Some(pem), _) => options.ssl_ca_from_pem(pem.clone()),
                (None, Some(file)) => options.ssl_ca(file),
                (None, None) => options,
            }
        }
    }
}

impl Opener for Mysql {
    type Session = MySqlConnection;

    /// A region makes a call or two at a time.
    const SESSIONS_MAX: usize = 4;

    async fn open(&self) -> Result<MySqlConnection, Trouble> {
        let connected = self.options.connect().await;
        let mut session = connected.map_err(|why| self.explain(trouble(&why)))?;
        for statement in [SET, ISOLATION] {
            session.write(statement, &[]).await?;
        }
        for limit in LIMITS {
            match session.write(limit, &[]).await {
                Ok(_) => break,
                // The other's; or neither's, and then there is no limit.
                Err(Trouble::Said(_)) => {}
                Err(why) => return Err(why),
            }
        }
        Ok(session)
    }
}

impl Session for MySqlConnection {
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
        let done = match values {
            // Some statements cannot be prepared.
            [] => sqlx::raw_sql(sql).execute(self).await,
            _ => bound(sql, values).execute(self).await,
        };
        let done = done.map_err(|why| trouble(&why))?;
        Ok(Written { rows: done.rows_affected(), id: done.last_insert_id() })
    }

    async fn close(self) {
        let _ = Connection::close(self).await;
    }
}

fn bound<'q>(sql: &'static str, values: &[Value<'q>]) -> Query<'q, MySql, MySqlArguments> {
    values.iter().fold(sqlx::query(sql), |query, value| match *value {
        Value::Number(number) | Value::Place(number) => query.bind(number),
        Value::Bytes(bytes) => query.bind(bytes),
        Value::Null => query.bind(None::<u64>),
    })
}

fn record(row: &MySqlRow) -> Result<Record, Trouble> {
    let field = |index| {
        let number = row.try_get(index).map(|found: Option<u64>| match found {
            Some(number) => Field::Number(number),
            None => Field::Null,
        });
        number.or_else(|_| row.try_get(index).map(Field::Bytes)).map_err(|_| foreign())
    };
    (0..row.len()).map(field).collect::<Result<Vec<Field>, Trouble>>().map(Record::new)
}

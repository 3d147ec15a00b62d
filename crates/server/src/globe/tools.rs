//! The commands that look after the shared store. Each ends by itself.

mod gc;
mod look;

use std::io;
use std::process::ExitCode;

use serde_json::json;
use thiserror::Error;
use tidegate::mysql::SCHEMA_VERSION;
use tidegate::{GlobalError, RequestError};

use super::GlobeError;
use super::database::Database;
use crate::cli::output::{say, say_json};
use crate::cli::{MigrateArgs, Output};
use crate::place::{self, PlaceError};
pub use gc::gc;
pub use look::{regions, show};

/// Why a command came to nothing.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ToolError {
    /// Not an address.
    #[error("the shared store (TIDEGATE_GLOBE or --globe): {0}.")]
    BadUrl(#[from] GlobeError),
    /// The same of the other one.
    #[error("the database (TIDEGATE_DATABASE or --database): {0}.")]
    BadDatabase(GlobeError),
    /// Not a subject.
    #[error("{0}")]
    BadSubject(#[from] RequestError),
    /// Not a fleet secret.
    #[error("the fleet secret (TIDEGATE_FLEET_SECRET or --fleet-secret) {0}.")]
    BadSecret(&'static str),
    /// No place for the data.
    #[error("{0}")]
    Place(#[from] PlaceError),
    /// The database said no, or nothing.
    #[error("{0}: {1}")]
    Store(String, GlobalError),
    /// The operating system refused something.
    #[error("{0}")]
    System(#[from] io::Error),
}

impl ToolError {
    /// 2 if it was said wrongly or the tables are not those we know, 1 if it could not be done.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Store(_, GlobalError::Schema(_)) => ExitCode::from(2),
            Self::Place(PlaceError::Make { .. }) | Self::Store(..) | Self::System(_) => {
                ExitCode::from(1)
            }
            _ => ExitCode::from(2),
        }
    }
}

/// What a command is made of.
type Done = Result<ExitCode, ToolError>;

/// `tidegate migrate`: makes the tables, or brings them up to date: of the shared store, of the
/// database of the control plane, or of both. If none is named, of the one in the data directory.
///
/// ```
/// use std::process::ExitCode;
///
/// use tidegate_server::cli::{
///     DatabaseArgs, GcArgs, GlobeUrl, MigrateArgs, Output, RegionsArgs, ShowArgs,
/// };
/// use tidegate_server::globe::{gc, migrate, regions, show};
///
/// # let path = std::env::temp_dir().join(format!("tidegate-globe-{}.db", std::process::id()));
/// let globe = format!("sqlite:{}", path.display());
/// let (url, output) = (GlobeUrl { globe: globe.clone() }, Output::Text);
/// let place = DatabaseArgs { database: None, data: None };
/// # std::fs::File::create(&path)?;
/// let too_early = regions(&RegionsArgs { url: url.clone(), output }).unwrap_err();
/// assert_eq!(too_early.exit_code(), ExitCode::from(2), "the tables are missing");
///
/// let done = migrate(&MigrateArgs { globe: Some(globe.clone()), place: place.clone(), output })?;
/// assert_eq!(done, ExitCode::SUCCESS);
/// assert_eq!(regions(&RegionsArgs { url: url.clone(), output })?, ExitCode::SUCCESS);
/// let subject = ShowArgs {
///     url,
///     workspace: "ws_default".to_owned(),
///     namespace: "email".to_owned(),
///     identifier: "user-1".to_owned(),
///     window: 3_600_000,
///     fleet_secret: None,
///     output,
/// };
/// assert_eq!(show(&subject)?, ExitCode::SUCCESS);
/// let all = GcArgs {
///     globe: Some(globe),
///     place,
///     audit_older_than: None,
///     batch: 1_000,
///     max_batches: 1,
///     output,
/// };
/// assert_eq!(gc(&all)?, ExitCode::SUCCESS, "nothing is left");
/// # for more in ["", "-wal", "-shm"] {
/// #     let _ = std::fs::remove_file(format!("{}{more}", path.display()));
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// What was wrong: the address, the database, or the tables.
pub fn migrate(args: &MigrateArgs) -> Done {
    if let Some(url) = &args.place.database {
        Database::parse(url).map_err(ToolError::BadDatabase)?;
    }
    let mut urls: Vec<String> = args.globe.iter().chain(&args.place.database).cloned().collect();
    if urls.is_empty() {
        let dir = place::data_dir(args.place.data.as_deref())?;
        place::make(&dir)?;
        urls.push(place::database_url(&dir));
    }
    urls.dedup();
    let mut migrated = Vec::new();
    let done = urls.iter().try_for_each(|url| {
        migrated.push(with(url, Migrated::make)?);
        Ok(())
    });
    // What was done is said, even if not all of it was.
    match args.output {
        Output::Text => migrated.iter().for_each(Migrated::say),
        Output::Json if migrated.is_empty() => {}
        Output::Json => say_json(&migrated.iter().map(Migrated::json).collect::<Vec<_>>()),
    }
    done.map(|()| ExitCode::SUCCESS)
}

/// What became of the tables of a database.
struct Migrated {
    database: String,
    /// The version was another one.
    changed: bool,
    /// What was added.
    additions: Vec<&'static str>,
}

impl Migrated {
    async fn make(database: &Database) -> Result<Self, ToolError> {
        let (mut changed, mut additions) = (false, Vec::new());
        if database.check().await.is_err() {
            let done = database.migrate().await.map_err(|why| at(database, why))?;
            (changed, additions) = (done.found != done.version, done.additions);
        }
        Ok(Self { database: database.to_string(), changed, additions })
    }

    fn say(&self) {
        let Self { database, changed, additions } = self;
        match changed {
            true => {
                say(&format_args!("{database}: the tables are now of version {SCHEMA_VERSION}"))
            }
            false => {
                say(&format_args!(
                    "{database}: the tables are of version {SCHEMA_VERSION} already"
                ));
            }
        }
        for addition in additions {
            say(&format_args!("{database}: added `{addition}`, which older builds do without"));
        }
    }

    fn json(&self) -> serde_json::Value {
        let Self { database, changed, additions } = self;
        let changed = *changed || !additions.is_empty();
        json!({
            "database": database, "version": SCHEMA_VERSION, "changed": changed,
            "additions": additions,
        })
    }
}

fn with<T>(
    url: &str,
    job: impl AsyncFnOnce(&Database) -> Result<T, ToolError>,
) -> Result<T, ToolError> {
    let database = Database::parse(url)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(job(&database))
}

fn at(database: &Database, why: GlobalError) -> ToolError {
    ToolError::Store(database.to_string(), why)
}

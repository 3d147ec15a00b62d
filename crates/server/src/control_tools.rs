//! The commands that look after workspaces, keys, namespaces and the audit.
//!
//! Promises: they work on the database itself, so no server has to run; running ones notice within
//! two seconds; a key is printed once, to whoever made it, and never again. Names of others cannot
//! move the cursor of the terminal.
//! Refuses: what is missing, and to make tables anywhere but in the data directory.
//! Fails: with exit code 2 if it was said wrongly or the tables are not those we know, 1 if it
//! could not be done.
//!
//! ```
//! use std::process::ExitCode;
//!
//! use tidegate_server::cli::{
//!     AuditArgs, ControlArgs, DatabaseArgs, InWorkspace, KeyArgs, KeyCommand, NamespaceCommand,
//!     Output, WorkspaceArgs, WorkspaceCommand,
//! };
//! use tidegate_server::control_tools::{self, ControlToolError};
//!
//! # let data = std::env::temp_dir().join(format!("tidegate-tools-{}", std::process::id()));
//! let place = DatabaseArgs { database: None, data: Some(data.clone()) };
//! let control = ControlArgs { place, globe: None, output: Output::Text };
//! let acme = WorkspaceArgs { name: "acme".to_owned(), control: control.clone() };
//! control_tools::workspace(&WorkspaceCommand::Create(acme))?;
//!
//! let of = InWorkspace { workspace: "acme".to_owned(), control: control.clone() };
//! control_tools::namespace(&NamespaceCommand::List(of))?;
//! let last = AuditArgs { workspace: Some("acme".to_owned()), last: 10, control: control.clone() };
//! control_tools::audit(&last)?;
//!
//! let unknown = KeyArgs { id: "key_unknown".to_owned(), control };
//! let why = control_tools::key(&KeyCommand::Revoke(unknown)).unwrap_err();
//! assert!(matches!(why, ControlToolError::NotFound { what: "key", .. }));
//! assert_eq!(why.exit_code(), ExitCode::from(2));
//! # std::fs::remove_dir_all(&data)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod keys;
mod namespaces;
mod show;
mod workspaces;

use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use thiserror::Error;
use tidegate::{Clock, GlobalError, SystemClock};
use tidegate_stores::control::{Change, Changes, ControlError, ControlStore, WorkspaceRow};

use crate::cli::{AuditArgs, ControlArgs, DatabaseArgs};
use crate::globe::{Database, GlobeError};
use crate::place::{self, PlaceError};
pub use keys::key;
pub use namespaces::namespace;
pub use workspaces::workspace;

/// The id of the workspace that is there without being made. [`default_workspace`] has an example.
pub const DEFAULT_ID: &str = "ws_default";
/// Its name. [`default_workspace`] has an example.
pub const DEFAULT_NAME: &str = "default";
/// Who changes things from a command line.
const ACTOR: &str = "cli";
/// Lines of the audit read at a time.
const AUDIT_AT_ONCE: usize = 1_000;

/// Why a command came to nothing. The [module](self) has an example.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ControlToolError {
    /// Not an address.
    #[error("the database (TIDEGATE_DATABASE or --database): {0}.")]
    BadUrl(#[from] GlobeError),
    /// The same of the one that regions share.
    #[error("the shared store (TIDEGATE_GLOBE or --globe): {0}.")]
    BadGlobe(GlobeError),
    /// No place for the data.
    #[error("{0}")]
    Place(#[from] PlaceError),
    /// There is no such thing.
    #[error("there is no {what} {name:?}")]
    NotFound {
        /// What was looked for.
        what: &'static str,
        /// By which id or name.
        name: String,
    },
    /// The database said no, or nothing.
    #[error("{0}: {1}")]
    Store(String, ControlError),
    /// The operating system refused something.
    #[error("{0}")]
    System(#[from] io::Error),
}

impl ControlToolError {
    /// 2 if it was said wrongly or the tables are not those we know, 1 if it could not be done. The
    /// [module](crate::control_tools) has an example.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::BadUrl(_)
            | Self::BadGlobe(_)
            | Self::NotFound { .. }
            | Self::Place(PlaceError::NoHome)
            | Self::Store(
                _,
                ControlError::NotFound(_)
                | ControlError::Store(GlobalError::Schema(_) | GlobalError::Refused(_)),
            ) => ExitCode::from(2),
            _ => ExitCode::from(1),
        }
    }
}

/// What a command is made of.
type Done = Result<(), ControlToolError>;

/// Whether a command may make the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Making {
    /// It is the first thing somebody does: the one in the data directory is made.
    Allowed,
    /// There is nothing to see in a database that was just made.
    Pointless,
}

/// A database that is open, and the time of day.
struct Control {
    store: Arc<dyn ControlStore>,
    place: String,
    now_ms: u64,
}

impl Control {
    /// The database that was said, or where regions meet, or the file of this user: as a server
    /// that is told the same.
    async fn open(args: &ControlArgs, making: Making) -> Result<Self, ControlToolError> {
        let database = match (&args.place.database, &args.globe) {
            (Some(url), _) => Database::parse(url)?,
            (None, Some(url)) => Database::parse(url).map_err(ControlToolError::BadGlobe)?,
            (None, None) => own(&args.place, making).await?,
        };
        let (place, now_ms) = (database.to_string(), SystemClock::new().now().unix_ms());
        Ok(Self { store: database.control(), place, now_ms })
    }

    async fn apply(&self, change: &Change) -> Result<Changes, ControlToolError> {
        let applied = self.store.apply(change, ACTOR, self.now_ms).await;
        applied.map(|applied| applied.changes).map_err(|why| at(&self.place, why))
    }

    /// Everything there is.
    async fn all(&self) -> Result<Changes, ControlToolError> {
        self.store.changes(0).await.map_err(|why| at(&self.place, why.into()))
    }

    /// A workspace by its id or name. The default one is made if it is missing.
    async fn workspace(&self, name: &str) -> Result<WorkspaceRow, ControlToolError> {
        if is_default(name) {
            let made = default_workspace(&*self.store, self.now_ms).await;
            return made.map_err(|why| at(&self.place, why));
        }
        find_workspace(self.all().await?.workspaces, name)
    }
}

/// The database in the data directory.
async fn own(args: &DatabaseArgs, making: Making) -> Result<Database, ControlToolError> {
    let dir = place::data_dir(args.data.as_deref())?;
    let database = Database::parse(&place::database_url(&dir))?;
    if making == Making::Allowed {
        place::make(&dir)?;
        database.migrate().await.map_err(|why| at(&database.to_string(), why.into()))?;
    }
    Ok(database)
}

/// The default workspace, made if it is missing.
///
/// ```
/// use tidegate_server::control_tools::{DEFAULT_ID, DEFAULT_NAME, default_workspace};
/// use tidegate_stores::control::ControlStore;
///
/// # let path = std::env::temp_dir().join(format!("tidegate-default-{}.db", std::process::id()));
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let store = tidegate_stores::SqliteStore::open(&path);
/// store.migrate().await?;
/// let made = default_workspace(&store, 1_700_000_000_000).await?;
/// assert_eq!((made.id.as_str(), made.name.as_str()), (DEFAULT_ID, DEFAULT_NAME));
/// assert_eq!(default_workspace(&store, 1_700_000_000_001).await?, made);
/// assert_eq!(store.revision().await?, 1, "it was made once");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # for more in ["", "-wal", "-shm"] {
/// #     let _ = std::fs::remove_file(format!("{}{more}", path.display()));
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As any change.
pub async fn default_workspace(
    store: &dyn ControlStore,
    now_ms: u64,
) -> Result<WorkspaceRow, ControlError> {
    let (id, name) = (DEFAULT_ID.to_owned(), DEFAULT_NAME.to_owned());
    let applied = store.apply(&Change::AddWorkspace { id, name }, ACTOR, now_ms).await?;
    applied.changes.workspaces.into_iter().next().ok_or(ControlError::NotFound("workspace"))
}

/// `tidegate audit`: who changed what. The [module](self) has an example.
///
/// # Errors
/// What was wrong: the address, the database, or the workspace.
pub fn audit(args: &AuditArgs) -> Done {
    run(async {
        let control = Control::open(&args.control, Making::Pointless).await?;
        let of = match &args.workspace {
            Some(name) => Some(workspace_id(control.all().await?.workspaces, name)?),
            None => None,
        };
        let wanted = usize::try_from(args.last).unwrap_or(usize::MAX);
        let (mut rows, mut before) = (Vec::new(), None);
        while rows.len() < wanted {
            let most = AUDIT_AT_ONCE.min(wanted - rows.len());
            let page = control.store.audit(of.as_deref(), before, most).await;
            let page = page.map_err(|why| at(&control.place, why.into()))?;
            before = page.last().map(|row| row.number);
            let ended = page.len() < most;
            rows.extend(page);
            if ended {
                break;
            }
        }
        show::audit(args.control.output, &rows);
        Ok(())
    })
}

/// By id, else by name: ids are unique, and no name can hide one.
fn find_workspace(rows: Vec<WorkspaceRow>, name: &str) -> Result<WorkspaceRow, ControlToolError> {
    let by_id = rows.iter().position(|row| row.id == name);
    let found = by_id.or_else(|| rows.iter().position(|row| row.name == name));
    let found = found.and_then(|index| rows.into_iter().nth(index));
    found.ok_or_else(|| missing("workspace", name))
}

/// The same, but its id. The default one is there before anybody has made it.
fn workspace_id(rows: Vec<WorkspaceRow>, name: &str) -> Result<String, ControlToolError> {
    match find_workspace(rows, name) {
        Err(_) if is_default(name) => Ok(DEFAULT_ID.to_owned()),
        found => found.map(|row| row.id),
    }
}

fn is_default(name: &str) -> bool {
    matches!(name, DEFAULT_ID | DEFAULT_NAME)
}

fn missing(what: &'static str, name: &str) -> ControlToolError {
    ControlToolError::NotFound { what, name: name.to_owned() }
}

fn at(place: &str, why: ControlError) -> ControlToolError {
    ControlToolError::Store(place.to_owned(), why)
}

fn run(job: impl Future<Output = Done>) -> Done {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(job)
}

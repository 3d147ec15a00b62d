//! What can be changed, and what comes of it.

use thiserror::Error;
use tidegate_convergence::GlobalError;
use tidegate_limiter::{Consistency, Outage};

use super::rows::{KeyRow, Mode, NamespaceRow, OverrideRow, WorkspaceRow};
use super::{ID_BYTES_MAX, NAME_BYTES_MAX, NAMESPACES_AT_ONCE_MAX, PERMISSIONS_BYTES_MAX};

/// One change. Ids are given by the caller, so that he can send it again.
///
/// A change that finds everything as it should be changes nothing: no revision, no audit.
///
/// ```
/// use tidegate_stores::control::{Change, ControlError, ControlStore, Mode};
/// # #[cfg(feature = "sqlite")] {
/// # let path = std::env::temp_dir().join(format!("tidegate-change-{}.db", std::process::id()));
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// # let store = tidegate_stores::SqliteStore::open(&path);
/// # store.migrate().await?;
/// # let add = Change::AddWorkspace { id: "ws_1".to_owned(), name: "acme".to_owned() };
/// # store.apply(&add, "cli", 1).await?;
/// let names = vec![("ns_1".to_owned(), "email".to_owned())];
/// let add = Change::AddNamespaces { workspace: "ws_1".to_owned(), names };
/// let made = store.apply(&add, "cli", 1_700_000_000_000).await?.changes;
/// assert_eq!((made.namespaces[0].id.as_str(), made.namespaces[0].mode), ("ns_1", Mode::Enforce));
/// assert_eq!(store.apply(&add, "cli", 1_700_000_000_001).await?.changes, made, "sent again");
///
/// let set = Change::SetOverride {
///     id: "rlor_1".to_owned(),
///     namespace: "ns_1".to_owned(),
///     pattern: "vip-*".to_owned(),
///     limit: 100,
///     window_ms: 60_000,
/// };
/// store.apply(&set, "cli", 1_700_000_000_002).await?;
/// assert_eq!(store.changes(made.revision).await?.overrides[0].pattern, "vip-*");
///
/// let end = Change::RevokeKey { id: "key_1".to_owned() };
/// let no_such_key = ControlError::NotFound("key");
/// assert_eq!(store.apply(&end, "cli", 1_700_000_000_003).await, Err(no_such_key));
/// let back = Change::RestoreNamespace { id: "ns_1".to_owned() };
/// let actor = "x".repeat(tidegate_stores::control::ID_BYTES_MAX + 1);
/// assert!(matches!(store.apply(&back, &actor, 0).await, Err(ControlError::Store(_))));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # for more in ["", "-wal", "-shm"] {
/// #     let _ = std::fs::remove_file(format!("{}{more}", path.display()));
/// # }
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Makes a workspace. One with the same id and name is found, not an error.
    AddWorkspace {
        /// Its id.
        id: String,
        /// Its name; no two workspaces have the same.
        name: String,
    },
    /// Changes what is given.
    SetWorkspace {
        /// Which one.
        id: String,
        /// Whether its keys work.
        enabled: Option<bool>,
        /// The calls it may make in a minute; `Some(None)` is as many as it likes.
        requests_per_minute: Option<Option<u64>>,
    },
    /// Makes a key. One with the same id and digest is found, not an error.
    AddKey {
        /// Its id.
        id: String,
        /// The id of its workspace.
        workspace: String,
        /// What people call it.
        name: String,
        /// The digest of the key itself.
        digest: [u8; 32],
        /// What it may do.
        permissions: Vec<String>,
        /// When it ends, if ever.
        expires_ms: Option<u64>,
    },
    /// Lets a key work, or not for now. One that was revoked is not found.
    SetKey {
        /// Which one.
        id: String,
        /// Whether it works.
        enabled: bool,
    },
    /// Ends a key for ever.
    RevokeKey {
        /// Which one.
        id: String,
    },
    /// Makes the namespaces that are missing. The others are given as they are, also deleted ones,
    /// and all in the order of the names.
    AddNamespaces {
        /// The id of their workspace.
        workspace: String,
        /// The id that each would get, and its name.
        names: Vec<(String, String)>,
    },
    /// Changes what is given of a namespace. One that was deleted is not found.
    SetNamespace {
        /// Which one.
        id: String,
        /// What it does from now on.
        mode: Option<Mode>,
        /// What its admissions are worth from now on; `Some(None)` is what servers say.
        consistency: Option<Option<Consistency>>,
        /// What becomes of its requests when the region cannot be asked, from now on; `Some(None)`
        /// is what servers say.
        outage: Option<Option<Outage>>,
    },
    /// Marks a namespace as deleted. Its overrides stay.
    DeleteNamespace {
        /// Which one.
        id: String,
    },
    /// Takes the mark away again.
    RestoreNamespace {
        /// Which one.
        id: String,
    },
    /// Makes an override, or gives the one with this pattern other values, also if it was deleted.
    /// Its id and age stay.
    SetOverride {
        /// The id it gets if it is new.
        id: String,
        /// The id of its namespace; one that was deleted is not found.
        namespace: String,
        /// Whom it is for.
        pattern: String,
        /// What they get instead.
        limit: u64,
        /// In which time.
        window_ms: u64,
    },
    /// Marks an override as deleted. One that is marked is not found.
    DeleteOverride {
        /// The id of its namespace; one that was deleted is not found.
        namespace: String,
        /// Exactly its pattern.
        pattern: String,
    },
}

/// Rows as they are now, deleted and revoked ones too. No row is there twice. [`Change`] has an
/// example.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Every change up to this one is in, unless a later one, which may be in too, has replaced it.
    pub revision: u64,
    /// These are all rows there are: what else somebody knows is gone. So it is when all were asked
    /// for, and when the database has gone back behind what was asked for, as after a restore.
    pub whole: bool,
    /// Workspaces.
    pub workspaces: Vec<WorkspaceRow>,
    /// Keys.
    pub keys: Vec<KeyRow>,
    /// Namespaces. Their workspaces are here, or were before.
    pub namespaces: Vec<NamespaceRow>,
    /// Overrides. The same goes for their namespaces.
    pub overrides: Vec<OverrideRow>,
}

/// What a change did. [`Change`] has an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The rows it touched or found, and the revision it got; one that changed nothing has that of
    /// the last change. Not a revision to read on from: rows of others may lie in between.
    pub changes: Changes,
}

/// Why a change was not made. [`Change`] has more of them.
///
/// ```
/// use tidegate_stores::control::{ControlError, WORKSPACES_MAX};
///
/// let full = ControlError::Full { what: "workspaces", max: WORKSPACES_MAX };
/// assert!(full.to_string().starts_with("there are 10000 workspaces already"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ControlError {
    /// There is no such thing.
    #[error("there is no such {0}")]
    NotFound(&'static str),
    /// There is one already, and it is another.
    #[error("there is another {0} with this id, name or digest")]
    Exists(&'static str),
    /// There would be too many.
    #[error("there are {max} {what} already, which is the most there can be")]
    Full {
        /// Of what.
        what: &'static str,
        /// How many there can be.
        max: u64,
    },
    /// The database said no, or nothing.
    #[error(transparent)]
    Store(#[from] GlobalError),
}

impl Change {
    /// Whether everything fits into its column: databases differ in what they do about that.
    pub(super) fn check(&self, actor: &str) -> Result<(), GlobalError> {
        id(actor)?;
        match self {
            Self::AddWorkspace { id: new, name: text } => id(new).and_then(|()| name(text)),
            Self::AddKey { id: new, name: text, permissions: all, .. } => {
                id(new).and_then(|()| name(text)).and_then(|()| permissions(all))
            }
            Self::AddNamespaces { names, .. } if names.len() > NAMESPACES_AT_ONCE_MAX => {
                Err(refused("too many namespaces at once"))
            }
            Self::AddNamespaces { names, .. } => {
                names.iter().try_for_each(|(new, text)| id(new).and_then(|()| name(text)))
            }
            Self::SetOverride { id: new, pattern, .. } => id(new).and_then(|()| name(pattern)),
            // What is only looked for is not found.
            _ => Ok(()),
        }
    }
}

fn id(text: &str) -> Result<(), GlobalError> {
    match text.len() {
        1..=ID_BYTES_MAX => Ok(()),
        _ => Err(refused("an id must have 1 to 64 bytes")),
    }
}

fn name(text: &str) -> Result<(), GlobalError> {
    match text.len() {
        0..=NAME_BYTES_MAX => Ok(()),
        _ => Err(refused("a name or pattern must have at most 2,048 bytes")),
    }
}

fn permissions(all: &[String]) -> Result<(), GlobalError> {
    // They are kept as lines.
    if all.iter().any(|one| one.is_empty() || one.contains('\n')) {
        return Err(refused("a permission must have one line"));
    }
    let bytes = all.iter().map(|one| one.len() + 1).sum::<usize>();
    if bytes > PERMISSIONS_BYTES_MAX {
        return Err(refused("the permissions of a key must have at most 16 KiB"));
    }
    Ok(())
}

fn refused(why: &str) -> GlobalError {
    GlobalError::Refused(why.to_owned())
}

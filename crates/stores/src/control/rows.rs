//! The rows, and how they are written down.

use tidegate_limiter::{Consistency, Outage};

use super::change::Changes;
use super::statements::{ControlStatements, Table};
use crate::global::session::{Record, Trouble, Value, foreign};

/// A workspace: whose keys, namespaces and limits these are. [`ControlStore`](super::ControlStore)
/// has an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspaceRow {
    /// Its id.
    pub id: String,
    /// Its name; no two have the same.
    pub name: String,
    /// Whether its keys work.
    pub enabled: bool,
    /// The calls it may make in a minute, if not as many as it likes.
    pub requests_per_minute: Option<u64>,
    /// When it was made.
    pub created_ms: u64,
}

/// A root key. The key itself is nowhere.
///
/// ```
/// use tidegate_stores::control::{Change, ControlStore};
/// # #[cfg(feature = "sqlite")] {
/// # let path = std::env::temp_dir().join(format!("tidegate-key-{}.db", std::process::id()));
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// # let store = tidegate_stores::SqliteStore::open(&path);
/// # store.migrate().await?;
/// # let add = Change::AddWorkspace { id: "ws_1".to_owned(), name: "acme".to_owned() };
/// # store.apply(&add, "cli", 1).await?;
/// let add = Change::AddKey {
///     id: "key_1".to_owned(),
///     workspace: "ws_1".to_owned(),
///     name: "billing".to_owned(),
///     digest: [7; 32],
///     permissions: vec!["ratelimit.*.limit".to_owned()],
///     expires_ms: None,
/// };
/// store.apply(&add, "cli", 1_700_000_000_000).await?;
/// store.apply(&Change::RevokeKey { id: "key_1".to_owned() }, "cli", 1_700_000_060_000).await?;
/// let key = store.changes(0).await?.keys.remove(0);
/// assert_eq!((key.enabled, key.revoked_ms), (true, Some(1_700_000_060_000)), "the row stays");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # for more in ["", "-wal", "-shm"] {
/// #     let _ = std::fs::remove_file(format!("{}{more}", path.display()));
/// # }
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRow {
    /// Its id.
    pub id: String,
    /// The id of its workspace.
    pub workspace: String,
    /// What people call it.
    pub name: String,
    /// The digest of the key.
    pub digest: [u8; 32],
    /// What it may do.
    pub permissions: Vec<String>,
    /// Whether it works.
    pub enabled: bool,
    /// When it was made.
    pub created_ms: u64,
    /// When it ends.
    pub expires_ms: Option<u64>,
    /// When it was ended for ever.
    pub revoked_ms: Option<u64>,
}

/// What a namespace does with its limits.
///
/// ```
/// use tidegate_stores::control::Mode;
///
/// assert_eq!(Mode::default().as_str(), "enforce");
/// assert_eq!(Mode::Shadow.as_str(), "shadow");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// It applies them.
    #[default]
    Enforce,
    /// It counts, and admits everything.
    Shadow,
    /// It admits everything and counts nothing.
    Off,
}

/// A namespace. [`Change`](super::Change) has an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceRow {
    /// Its id.
    pub id: String,
    /// The id of its workspace.
    pub workspace: String,
    /// Its name; no two of a workspace have the same.
    pub name: String,
    /// What it does.
    pub mode: Mode,
    /// What its admissions are worth; `None` for what the server that decides them says.
    pub consistency: Option<Consistency>,
    /// What becomes of its requests when the region cannot be asked; `None` for what the server
    /// that decides them says.
    pub outage: Option<Outage>,
    /// When it was made.
    pub created_ms: u64,
    /// When it was deleted.
    pub deleted_ms: Option<u64>,
}

/// Other limits for some identifiers of a namespace. [`Change`](super::Change) has an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverrideRow {
    /// Its id.
    pub id: String,
    /// The id of its namespace.
    pub namespace: String,
    /// Whom it is for; no two of a namespace have the same.
    pub pattern: String,
    /// What they get.
    pub limit: u64,
    /// In which time.
    pub window_ms: u64,
    /// When it was made.
    pub created_ms: u64,
    /// When it was deleted.
    pub deleted_ms: Option<u64>,
}

/// Who changed what. [`ControlStore`](super::ControlStore) has an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRow {
    /// Its number: later rows have larger ones.
    pub number: u64,
    /// When.
    pub time_ms: u64,
    /// The id of the workspace it happened to.
    pub workspace: String,
    /// The id of a key, or `cli`.
    pub actor: String,
    /// What kind of change.
    pub event: String,
    /// What, in words.
    pub detail: String,
}

impl Mode {
    const fn number(self) -> u64 {
        match self {
            Self::Enforce => 0,
            Self::Shadow => 1,
            Self::Off => 2,
        }
    }

    /// A number that we do not know keeps nobody from reading the others: limits are applied.
    const fn of(number: u64) -> Self {
        match number {
            1 => Self::Shadow,
            2 => Self::Off,
            _ => Self::Enforce,
        }
    }

    /// Its name: `enforce`, `shadow` or `off`. The [type](Self) has an example.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Shadow => "shadow",
            Self::Off => "off",
        }
    }
}

/// The number of a consistency in its column.
const fn number_of(consistency: Consistency) -> u64 {
    match consistency {
        Consistency::Bounded => 1,
        _ => 0,
    }
}

/// A number that we do not know says nothing: it keeps nobody from reading the others.
const fn consistency_of(number: u64) -> Option<Consistency> {
    match number {
        0 => Some(Consistency::Fast),
        1 => Some(Consistency::Bounded),
        _ => None,
    }
}

/// The name of what a namespace says: `fast`, `bounded`, or `default` if it says nothing.
///
/// ```
/// assert_eq!(tidegate_stores::control::consistency_str(None), "default");
/// ```
#[must_use]
pub const fn consistency_str(said: Option<Consistency>) -> &'static str {
    match said {
        None => "default",
        Some(consistency) => consistency.as_str(),
    }
}

/// The number of what becomes of requests, in its column.
const fn outage_number(outage: Outage) -> u64 {
    match outage {
        Outage::Deny => 1,
        _ => 0,
    }
}

/// A number that we do not know says nothing, as above.
const fn outage_of(number: u64) -> Option<Outage> {
    match number {
        0 => Some(Outage::Local),
        1 => Some(Outage::Deny),
        _ => None,
    }
}

/// The name of what a namespace says: `local`, `deny`, or `default` if it says nothing.
///
/// ```
/// assert_eq!(tidegate_stores::control::outage_str(None), "default");
/// ```
#[must_use]
pub const fn outage_str(said: Option<Outage>) -> &'static str {
    match said {
        None => "default",
        Some(outage) => outage.as_str(),
    }
}

/// A row of a table that has ids and revisions. The columns are in the order of the statements.
pub(super) trait Stored: Clone + PartialEq + Send + Sync + Sized + 'static {
    /// What one is called.
    const WHAT: &'static str;

    fn table(all: &ControlStatements) -> &Table;
    fn id(&self) -> &str;
    /// All columns but the revision and the id. What has to be put together is put into `scratch`.
    fn values<'a>(&'a self, scratch: &'a mut Vec<u8>) -> Vec<Value<'a>>;
    /// The other way round. The revision, which lies between, is kept.
    fn read(record: &mut Record) -> Result<(Self, u64), Trouble>;
    /// Puts it where it belongs.
    fn put(self, changes: &mut Changes);
}

fn text(text: &str) -> Value<'_> {
    Value::Bytes(text.as_bytes())
}

fn if_any(number: Option<u64>) -> Value<'static> {
    number.map_or(Value::Null, Value::Number)
}

impl Stored for WorkspaceRow {
    const WHAT: &'static str = "workspace";

    fn table(all: &ControlStatements) -> &Table {
        &all.workspaces
    }

    fn id(&self) -> &str {
        &self.id
    }

    fn values<'a>(&'a self, _: &'a mut Vec<u8>) -> Vec<Value<'a>> {
        let enabled = Value::Number(self.enabled.into());
        let most = if_any(self.requests_per_minute);
        vec![text(&self.name), enabled, most, Value::Number(self.created_ms)]
    }

    fn read(record: &mut Record) -> Result<(Self, u64), Trouble> {
        let (name, enabled) = (record.text()?, record.number()? != 0);
        let (requests_per_minute, created_ms) = (record.number_if_any()?, record.number()?);
        let (revision, id) = (record.number()?, record.text()?);
        Ok((Self { id, name, enabled, requests_per_minute, created_ms }, revision))
    }

    fn put(self, changes: &mut Changes) {
        changes.workspaces.push(self);
    }
}

impl Stored for KeyRow {
    const WHAT: &'static str = "key";

    fn table(all: &ControlStatements) -> &Table {
        &all.keys
    }

    fn id(&self) -> &str {
        &self.id
    }

    fn values<'a>(&'a self, scratch: &'a mut Vec<u8>) -> Vec<Value<'a>> {
        *scratch = self.permissions.join("\n").into_bytes();
        vec![
            text(&self.workspace),
            text(&self.name),
            Value::Bytes(&self.digest),
            Value::Bytes(scratch),
            Value::Number(self.enabled.into()),
            Value::Number(self.created_ms),
            if_any(self.expires_ms),
            if_any(self.revoked_ms),
        ]
    }

    fn read(record: &mut Record) -> Result<(Self, u64), Trouble> {
        let (workspace, name, digest) = (record.text()?, record.text()?, record.bytes()?);
        let digest = digest.try_into().map_err(|_| foreign())?;
        let permissions = record.text()?.lines().map(str::to_owned).collect();
        let (enabled, created_ms) = (record.number()? != 0, record.number()?);
        let (expires_ms, revoked_ms) = (record.number_if_any()?, record.number_if_any()?);
        let (revision, id) = (record.number()?, record.text()?);
        let key = Self {
            id,
            workspace,
            name,
            digest,
            permissions,
            enabled,
            created_ms,
            expires_ms,
            revoked_ms,
        };
        Ok((key, revision))
    }

    fn put(self, changes: &mut Changes) {
        changes.keys.push(self);
    }
}

impl Stored for NamespaceRow {
    const WHAT: &'static str = "namespace";

    fn table(all: &ControlStatements) -> &Table {
        &all.namespaces
    }

    fn id(&self) -> &str {
        &self.id
    }

    fn values<'a>(&'a self, _: &'a mut Vec<u8>) -> Vec<Value<'a>> {
        let (mode, created) = (Value::Number(self.mode.number()), Value::Number(self.created_ms));
        let (consistency, deleted) =
            (if_any(self.consistency.map(number_of)), if_any(self.deleted_ms));
        let outage = if_any(self.outage.map(outage_number));
        vec![text(&self.workspace), text(&self.name), mode, consistency, outage, created, deleted]
    }

    fn read(record: &mut Record) -> Result<(Self, u64), Trouble> {
        let (workspace, name, mode) = (record.text()?, record.text()?, Mode::of(record.number()?));
        let consistency = record.number_if_any()?.and_then(consistency_of);
        let outage = record.number_if_any()?.and_then(outage_of);
        let (created_ms, deleted_ms) = (record.number()?, record.number_if_any()?);
        let (revision, id) = (record.number()?, record.text()?);
        let row = Self { id, workspace, name, mode, consistency, outage, created_ms, deleted_ms };
        Ok((row, revision))
    }

    fn put(self, changes: &mut Changes) {
        changes.namespaces.push(self);
    }
}

impl Stored for OverrideRow {
    const WHAT: &'static str = "override";

    fn table(all: &ControlStatements) -> &Table {
        &all.overrides
    }

    fn id(&self) -> &str {
        &self.id
    }

    fn values<'a>(&'a self, _: &'a mut Vec<u8>) -> Vec<Value<'a>> {
        let (limit, window) = (Value::Number(self.limit), Value::Number(self.window_ms));
        let (created, deleted) = (Value::Number(self.created_ms), if_any(self.deleted_ms));
        vec![text(&self.namespace), text(&self.pattern), limit, window, created, deleted]
    }

    fn read(record: &mut Record) -> Result<(Self, u64), Trouble> {
        let (namespace, pattern) = (record.text()?, record.text()?);
        let (limit, window_ms, created_ms) = (record.number()?, record.number()?, record.number()?);
        let deleted_ms = record.number_if_any()?;
        let (revision, id) = (record.number()?, record.text()?);
        let row = Self { id, namespace, pattern, limit, window_ms, created_ms, deleted_ms };
        Ok((row, revision))
    }

    fn put(self, changes: &mut Changes) {
        changes.overrides.push(self);
    }
}

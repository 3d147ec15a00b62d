//! Who there is and what they set: workspaces, keys, namespaces and overrides, as this process
//! knows them.
//!
//! A directory never changes. A change makes a new one that shares what stayed the same, so that
//! a request sees all of a change or nothing of it.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use foldhash::fast::FixedState;
use tidegate::{Consistency, Limit, Outage, Window};
use tidegate_stores::control::{Changes, KeyRow, Mode, NamespaceRow, OverrideRow, WorkspaceRow};

use super::overrides::{Override, Overrides};
use super::permission::Grants;
use crate::ids::Kind;

/// What the ids of all namespaces begin with.
const NAMESPACE_ID: &str = Kind::Namespace.prefix();

/// What the digest of a key has.
pub(crate) type KeyDigest = [u8; 32];

/// The first bytes of a digest, which is random as it is: nobody can choose one.
#[derive(Clone, Copy, Debug, Default)]
struct FirstBytes(u64);

impl Hasher for FirstBytes {
    fn write(&mut self, digest: &[u8]) {
        self.0 = digest.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
    }

    /// All digests have the same length.
    fn write_usize(&mut self, _length: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Directory {
    /// Their ids are made here, or by whoever runs this server: no caller can have two collide.
    workspaces: HashMap<String, Arc<Workspace>, FixedState>,
    keys: HashMap<KeyDigest, Arc<Key>, BuildHasherDefault<FirstBytes>>,
    /// To which workspace a namespace belongs.
    homes: HashMap<String, String>,
}

/// Whose limits they are.
#[derive(Clone, Debug)]
pub(crate) struct Workspace {
    pub(crate) id: String,
    pub(crate) enabled: bool,
    /// How many calls its keys may make; `None` for as many as they like.
    pub(crate) requests_per_minute: Option<u64>,
    namespaces: HashMap<String, Arc<Namespace>>,
    /// The names by their ids.
    names: HashMap<String, String>,
}

/// Who may call.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) id: String,
    pub(crate) digest: KeyDigest,
    pub(crate) workspace: String,
    pub(crate) grants: Grants,
    pub(crate) enabled: bool,
    expires_ms: Option<u64>,
}

/// What is limited.
#[derive(Debug)]
pub(crate) struct Namespace {
    /// Empty if the namespace is not in the store yet, because the store is away.
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) mode: Mode,
    /// What its admissions are worth; `None` for what this server says.
    pub(crate) consistency: Option<Consistency>,
    /// What becomes of its requests when the region cannot be asked; `None` for what this server
    /// says.
    pub(crate) outage: Option<Outage>,
    pub(crate) deleted: bool,
    pub(crate) overrides: Overrides,
}

impl Namespace {
    /// One that could not be entered: it limits like any other, and has no overrides.
    pub(crate) fn unlisted(name: &str) -> Self {
        let (id, name, overrides) = (String::new(), name.to_owned(), Overrides::default());
        let (mode, consistency, outage) = (Mode::Enforce, None, None);
        Self { id, name, mode, consistency, outage, deleted: false, overrides }
    }

    /// Whether it is in the store.
    pub(crate) const fn is_listed(&self) -> bool {
        !self.id.is_empty()
    }
}

impl Key {
    /// One that was given to this process alone.
    pub(crate) fn given(digest: KeyDigest, workspace: &str, permissions: &[String]) -> Self {
        Self {
            id: "key_given".to_owned(),
            digest,
            workspace: workspace.to_owned(),
            grants: Grants::of(permissions.iter().map(String::as_str)),
            enabled: true,
            expires_ms: None,
        }
    }

    fn of(row: KeyRow) -> Self {
        Self {
            grants: Grants::of(row.permissions.iter().map(String::as_str)),
            id: row.id,
            digest: row.digest,
            workspace: row.workspace,
            enabled: row.enabled,
            expires_ms: row.expires_ms,
        }
    }

    /// Whether its time is over. Most have none, and then nobody has to look at a clock.
    pub(crate) fn has_expired(&self, unix_ms: impl FnOnce() -> u64) -> bool {
        self.expires_ms.is_some_and(|expires_ms| unix_ms() >= expires_ms)
    }
}

impl Workspace {
    fn new(row: &WorkspaceRow) -> Self {
        Self {
            id: row.id.clone(),
            enabled: row.enabled,
            requests_per_minute: row.requests_per_minute,
            namespaces: HashMap::new(),
            names: HashMap::new(),
        }
    }

    /// The namespace with this id or, if there is none, with this name.
    pub(crate) fn namespace(&self, named: &str) -> Option<&Arc<Namespace>> {
        // What does not look like an id is none: most names cost one look.
        let by_id = named.starts_with(NAMESPACE_ID).then(|| self.names.get(named)).flatten();
        self.namespaces.get(by_id.map_or(named, String::as_str))
    }
}

impl Directory {
    /// The key with this digest, unless it was revoked.
    pub(crate) fn key(&self, digest: &KeyDigest) -> Option<&Arc<Key>> {
        self.keys.get(digest)
    }

    /// How many workspaces, keys, namespaces and overrides there are.
    pub(crate) fn sizes(&self) -> [usize; 4] {
        let all = self.workspaces.values().flat_map(|home| home.namespaces.values());
        let overrides: Vec<usize> = all
            .filter(|namespace| !namespace.deleted)
            .map(|namespace| namespace.overrides.all().len())
            .collect();
        let (namespaces, overrides) = (overrides.len(), overrides.iter().sum());
        [self.workspaces.len(), self.keys.len(), namespaces, overrides]
    }

    /// Whether there is any key.
    pub(crate) fn has_keys(&self) -> bool {
        !self.keys.is_empty()
    }

    /// The workspace with this id.
    pub(crate) fn workspace(&self, id: &str) -> Option<&Arc<Workspace>> {
        self.workspaces.get(id)
    }

    /// Adds a key that is in no store, and its workspace, which may not be there yet.
    pub(crate) fn with_key(mut self, key: Key) -> Self {
        self.keep_workspace(&WorkspaceRow {
            id: key.workspace.clone(),
            name: key.workspace.clone(),
            enabled: true,
            requests_per_minute: None,
            created_ms: 0,
        });
        self.keys.insert(key.digest, Arc::new(key));
        self
    }

    /// The directory after these changes. May be told again what it knows.
    pub(crate) fn with(&self, changes: Changes) -> Self {
        let mut next = self.clone();
        for row in changes.workspaces {
            next.keep_workspace(&row);
        }
        for row in changes.keys {
            next.keep_key(row);
        }
        let mut touched: HashMap<String, Touched> = HashMap::new();
        for row in changes.namespaces {
            next.homes.insert(row.id.clone(), row.workspace.clone());
            let id = row.id.clone();
            touched.entry(id).or_default().row = Some(row);
        }
        for row in changes.overrides {
            touched.entry(row.namespace.clone()).or_default().overrides.push(row);
        }
        next.keep_namespaces(touched);
        next
    }

    fn keep_workspace(&mut self, row: &WorkspaceRow) {
        let mut workspace = Workspace::new(row);
        if let Some(known) = self.workspaces.get(&row.id) {
            workspace.namespaces = known.namespaces.clone();
            workspace.names = known.names.clone();
        }
        self.workspaces.insert(row.id.clone(), Arc::new(workspace));
    }

    fn keep_key(&mut self, row: KeyRow) {
        if row.revoked_ms.is_some() {
            self.keys.remove(&row.digest);
        } else {
            self.keys.insert(row.digest, Arc::new(Key::of(row)));
        }
    }

    /// Each workspace is copied once, however many of its namespaces changed.
    fn keep_namespaces(&mut self, touched: HashMap<String, Touched>) {
        let mut by_home: HashMap<String, Vec<(String, Touched)>> = HashMap::new();
        for (id, changed) in touched {
            if let Some(home) = self.homes.get(&id) {
                by_home.entry(home.clone()).or_default().push((id, changed));
            }
        }
        for (home, changed) in by_home {
            let Some(known) = self.workspaces.get(&home) else { continue };
            let mut workspace = Workspace::clone(known);
            for (id, changed) in changed {
                workspace.keep_namespace(&id, changed);
            }
            self.workspaces.insert(home, Arc::new(workspace));
        }
    }
}

/// What changed of a namespace.
#[derive(Default)]
struct Touched {
    row: Option<NamespaceRow>,
    overrides: Vec<OverrideRow>,
}

impl Workspace {
    fn keep_namespace(&mut self, id: &str, changed: Touched) {
        // By its id alone: another may have this id as its name.
        let known = self.names.get(id).and_then(|name| self.namespaces.get(name)).cloned();
        let Some(mut namespace) = changed.row.map(listed).or_else(|| known.as_deref().map(bare))
        else {
            return;
        };
        let known = known.as_ref().map_or(&[][..], |known| known.overrides.all());
        namespace.overrides = merged(known, changed.overrides);
        self.names.insert(namespace.id.clone(), namespace.name.clone());
        self.namespaces.insert(namespace.name.clone(), Arc::new(namespace));
    }
}

/// A namespace without its overrides.
fn listed(row: NamespaceRow) -> Namespace {
    let deleted = row.deleted_ms.is_some();
    let overrides = Overrides::default();
    let NamespaceRow { id, name, mode, consistency, outage, .. } = row;
    Namespace { id, name, mode, consistency, outage, deleted, overrides }
}

fn bare(known: &Namespace) -> Namespace {
    Namespace {
        id: known.id.clone(),
        name: known.name.clone(),
        mode: known.mode,
        consistency: known.consistency,
        outage: known.outage,
        deleted: known.deleted,
        overrides: Overrides::default(),
    }
}

fn merged(known: &[Arc<Override>], changed: Vec<OverrideRow>) -> Overrides {
    let gone: HashSet<&str> = changed.iter().map(|row| row.id.as_str()).collect();
    let mut all: Vec<Arc<Override>> =
        known.iter().filter(|one| !gone.contains(one.id.as_str())).cloned().collect();
    all.extend(changed.iter().filter(|row| row.deleted_ms.is_none()).filter_map(stored));
    Overrides::new(all)
}

/// `None` for numbers that this build would never have stored.
fn stored(row: &OverrideRow) -> Option<Arc<Override>> {
    Some(Arc::new(Override {
        id: row.id.clone(),
        pattern: row.pattern.clone(),
        limit: Limit::new(row.limit),
        window: Window::from_millis(row.window_ms).ok()?,
        created_ms: row.created_ms,
    }))
}

//! A store in memory, for tests of what is above it. The real ones have their own tests.

use std::future::{pending, ready};
use std::sync::Mutex;

use tidegate_stores::control::{
    Applied, Applying, AuditRow, Forgotten, KeyRow, Mode, NamespaceRow, OverrideRow, Reading,
    WorkspaceRow,
};

use super::*;

#[derive(Debug, Default)]
struct State {
    /// Every row ever written, with its revision.
    log: Vec<Changes>,
    away: bool,
    silent: bool,
    full: bool,
    asked: u64,
    applied: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct FakeStore(Mutex<State>);

impl FakeStore {
    pub(crate) fn with_workspace(id: &str) -> Self {
        let store = Self::default();
        store.write(Changes {
            workspaces: vec![WorkspaceRow {
                id: id.to_owned(),
                name: id.to_owned(),
                enabled: true,
                requests_per_minute: None,
                created_ms: 0,
            }],
            ..Changes::default()
        });
        store
    }

    pub(crate) fn set_away(&self, away: bool) {
        self.0.lock().unwrap().away = away;
    }

    pub(crate) fn set_silent(&self, silent: bool) {
        self.0.lock().unwrap().silent = silent;
    }

    pub(crate) fn set_full(&self, full: bool) {
        self.0.lock().unwrap().full = full;
    }

    /// As a server that took over before it had everything.
    pub(crate) fn lose_namespaces(&self) {
        self.0.lock().unwrap().log.iter_mut().for_each(|changes| changes.namespaces.clear());
    }

    pub(crate) fn asked(&self) -> u64 {
        self.0.lock().unwrap().asked
    }

    pub(crate) fn applied(&self) -> u64 {
        self.0.lock().unwrap().applied
    }

    fn write(&self, mut changes: Changes) -> Changes {
        let mut state = self.0.lock().unwrap();
        changes.revision = state.log.len() as u64 + 1;
        state.log.push(changes.clone());
        changes
    }

    /// Everything since then.
    pub(super) fn all(&self, since: u64) -> Changes {
        let state = self.0.lock().unwrap();
        let (revision, whole) = (state.log.len() as u64, since == 0);
        let mut all = Changes { revision, whole, ..Changes::default() };
        for changes in state.log.iter().skip(usize::try_from(since).unwrap()).cloned() {
            all.workspaces.extend(changes.workspaces);
            all.keys.extend(changes.keys);
            all.namespaces.extend(changes.namespaces);
            // No row is there twice.
            let newer = |row: &OverrideRow| changes.overrides.iter().all(|new| new.id != row.id);
            all.overrides.retain(newer);
            all.overrides.extend(changes.overrides);
        }
        all
    }

    /// What is to be answered, if anything.
    fn answers(&self) -> Option<Result<(), GlobalError>> {
        let mut state = self.0.lock().unwrap();
        state.asked += 1;
        let away = || Err(GlobalError::Unreachable("away".to_owned()));
        (!state.silent).then(|| if state.away { away() } else { Ok(()) })
    }

    /// The last of the rows that pass.
    fn last<T: Clone>(
        &self,
        rows: impl Fn(&Changes) -> &Vec<T>,
        passes: impl Fn(&T) -> bool,
    ) -> Option<T> {
        let state = self.0.lock().unwrap();
        let mut all = state.log.iter().rev().flat_map(|changes| rows(changes).iter().rev());
        all.find(|row| passes(row)).cloned()
    }

    fn make(&self, change: &Change) -> Result<Changes, ControlError> {
        if self.0.lock().unwrap().full {
            return Err(ControlError::Full { what: "namespaces", max: 0 });
        }
        let mut changes = Changes::default();
        match change.clone() {
            Change::AddNamespaces { workspace, names } => {
                changes.namespaces = names
                    .into_iter()
                    .map(|(id, name)| NamespaceRow {
                        id,
                        workspace: workspace.clone(),
                        name,
                        mode: Mode::Enforce,
                        consistency: None,
                        outage: None,
                        created_ms: 0,
                        deleted_ms: None,
                    })
                    .collect();
            }
            Change::SetNamespace { id, mode, consistency, outage } => {
                let found = self.last(|all| &all.namespaces, |row| row.id == id).unwrap();
                let mode = mode.unwrap_or(found.mode);
                let consistency = consistency.unwrap_or(found.consistency);
                let outage = outage.unwrap_or(found.outage);
                changes.namespaces.push(NamespaceRow { mode, consistency, outage, ..found });
            }
            Change::DeleteNamespace { id } => {
                let found = self.last(|all| &all.namespaces, |row| row.id == id).unwrap();
                changes.namespaces.push(NamespaceRow { deleted_ms: Some(1), ..found });
            }
            Change::SetOverride { id, namespace, pattern, limit, window_ms } => {
                let same = |row: &OverrideRow| row.namespace == namespace && row.pattern == pattern;
                let id = self.last(|all| &all.overrides, same).map_or(id, |row| row.id);
                let (created_ms, deleted_ms) = (0, None);
                changes.overrides.push(OverrideRow {
                    id,
                    namespace,
                    pattern,
                    limit,
                    window_ms,
                    created_ms,
                    deleted_ms,
                });
            }
            Change::DeleteOverride { namespace, pattern } => {
                let same = |row: &OverrideRow| row.namespace == namespace && row.pattern == pattern;
                let found = self.last(|all| &all.overrides, same);
                let found = found.ok_or(ControlError::NotFound("override"))?;
                changes.overrides.push(OverrideRow { deleted_ms: Some(1), ..found });
            }
            other => self.make_other(other, &mut changes),
        }
        Ok(self.write(changes))
    }

    fn make_other(&self, change: Change, changes: &mut Changes) {
        match change {
            Change::AddKey { id, workspace, name, digest, permissions, expires_ms } => {
                let (enabled, created_ms, revoked_ms) = (true, 0, None);
                changes.keys.push(KeyRow {
                    id,
                    workspace,
                    name,
                    digest,
                    permissions,
                    enabled,
                    created_ms,
                    expires_ms,
                    revoked_ms,
                });
            }
            Change::SetKey { id, enabled } => {
                let found = self.last(|all| &all.keys, |row| row.id == id).unwrap();
                changes.keys.push(KeyRow { enabled, ..found });
            }
            Change::RevokeKey { id } => {
                let found = self.last(|all| &all.keys, |row| row.id == id).unwrap();
                changes.keys.push(KeyRow { revoked_ms: Some(1), ..found });
            }
            Change::SetWorkspace { id, enabled, requests_per_minute } => {
                let found = self.last(|all| &all.workspaces, |row| row.id == id).unwrap();
                changes.workspaces.push(WorkspaceRow {
                    enabled: enabled.unwrap_or(found.enabled),
                    requests_per_minute: requests_per_minute.unwrap_or(found.requests_per_minute),
                    ..found
                });
            }
            other => panic!("no test needs {other:?}"),
        }
    }
}

impl ControlStore for FakeStore {
    fn revision(&self) -> Reading<'_, u64> {
        Box::pin(ready(Ok(self.0.lock().unwrap().log.len() as u64)))
    }

    fn changes(&self, since: u64) -> Reading<'_, Changes> {
        match self.answers() {
            None => return Box::pin(pending()),
            Some(Err(why)) => return Box::pin(ready(Err(why))),
            Some(Ok(())) => {}
        }
        let all = self.all(since);
        // Others get their turn while it is under way.
        Box::pin(async move {
            tokio::task::yield_now().await;
            Ok(all)
        })
    }

    fn apply<'a>(&'a self, change: &'a Change, _: &'a str, _: u64) -> Applying<'a> {
        match self.answers() {
            None => return Box::pin(pending()),
            Some(Err(why)) => return Box::pin(ready(Err(why.into()))),
            Some(Ok(())) => {}
        }
        self.0.lock().unwrap().applied += 1;
        let made = self.make(change).map(|changes| Applied { changes });
        // Others get their turn while it is under way.
        Box::pin(async move {
            tokio::task::yield_now().await;
            made
        })
    }

    fn audit<'a>(
        &'a self,
        _: Option<&'a str>,
        _: Option<u64>,
        _: usize,
    ) -> Reading<'a, Vec<AuditRow>> {
        Box::pin(ready(Ok(Vec::new())))
    }
    fn forget_audit(&self, _: u64, _: usize) -> Reading<'_, Forgotten> {
        Box::pin(ready(Ok(Forgotten { rows: 0, more: false })))
    }
}

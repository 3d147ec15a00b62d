//! What the databases should do, in the plainest words.

use std::collections::BTreeMap;

use tidegate_stores::control::{
    Change, Changes, ControlError, KeyRow, Mode, NamespaceRow, OverrideRow, WorkspaceRow,
};

use crate::support::sorted;

/// A row, and the revision at which it changed last.
type Rows<R> = BTreeMap<String, (u64, R)>;

/// One line of the audit: time, workspace, event.
pub(crate) type Line = (u64, String, &'static str);

/// All rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    revision: u64,
    workspaces: Rows<WorkspaceRow>,
    keys: Rows<KeyRow>,
    namespaces: Rows<NamespaceRow>,
    overrides: Rows<OverrideRow>,
    pub(crate) audit: Vec<Line>,
}

fn missing<T>(what: &'static str) -> Result<T, ControlError> {
    Err(ControlError::NotFound(what))
}

fn since<R: Clone>(rows: &Rows<R>, since: u64) -> Vec<R> {
    rows.values().filter(|(at, _)| *at > since).map(|(_, row)| row.clone()).collect()
}

impl Model {
    /// What `changes` gives, by id.
    pub(crate) fn changes(&self, from: u64) -> Changes {
        Changes {
            revision: self.revision,
            whole: from == 0,
            workspaces: since(&self.workspaces, from),
            keys: since(&self.keys, from),
            namespaces: since(&self.namespaces, from),
            overrides: since(&self.overrides, from),
        }
    }

    /// What `apply` gives, by id. What fails changes nothing.
    pub(crate) fn apply(&mut self, change: &Change, now: u64) -> Result<Changes, ControlError> {
        let before = self.clone();
        let mut found = Changes::default();
        match self.make(change, now, &mut found) {
            Ok(()) => {
                if self.audit.len() > before.audit.len() {
                    self.revision += 1;
                }
                found.revision = self.revision;
                Ok(sorted(found))
            }
            Err(why) => {
                *self = before;
                Err(why)
            }
        }
    }

    fn make(&mut self, change: &Change, now: u64, found: &mut Changes) -> Result<(), ControlError> {
        match change {
            Change::AddWorkspace { id, name } => {
                match self.workspaces.values().find(|(_, w)| w.id == *id || w.name == *name) {
                    Some((_, row)) if row.id == *id && row.name == *name => {
                        found.workspaces.push(row.clone());
                    }
                    Some(_) => return Err(ControlError::Exists("workspace")),
                    None => {
                        let row = WorkspaceRow {
                            id: id.clone(),
                            name: name.clone(),
                            enabled: true,
                            requests_per_minute: None,
                            created_ms: now,
                        };
                        self.put_workspace(row, "workspace.create", now, found);
                    }
                }
                Ok(())
            }
            Change::SetWorkspace { id, enabled, requests_per_minute } => {
                let Some((_, row)) = self.workspaces.get(id) else { return missing("workspace") };
                let mut row = row.clone();
                row.enabled = enabled.unwrap_or(row.enabled);
                row.requests_per_minute = requests_per_minute.unwrap_or(row.requests_per_minute);
                self.put_workspace(row, "workspace.update", now, found);
                Ok(())
            }
            Change::AddKey { .. } | Change::SetKey { .. } | Change::RevokeKey { .. } => {
                self.make_key(change, now, found)
            }
            Change::SetOverride { .. } | Change::DeleteOverride { .. } => {
                self.make_override(change, now, found)
            }
            _ => self.make_namespace(change, now, found),
        }
    }

    fn make_key(
        &mut self,
        change: &Change,
        now: u64,
        found: &mut Changes,
    ) -> Result<(), ControlError> {
        let (id, event) = match change {
            Change::AddKey { id, workspace, name, digest, permissions, expires_ms } => {
                if !self.workspaces.contains_key(workspace) {
                    return missing("workspace");
                }
                if let Some((_, row)) =
                    self.keys.values().find(|(_, k)| k.id == *id || k.digest == *digest)
                {
                    if (&row.id, &row.workspace, row.digest) != (id, workspace, *digest) {
                        return Err(ControlError::Exists("key"));
                    }
                    found.keys.push(row.clone());
                    return Ok(());
                }
                let row = KeyRow {
                    id: id.clone(),
                    workspace: workspace.clone(),
                    name: name.clone(),
                    digest: *digest,
                    permissions: permissions.clone(),
                    enabled: true,
                    created_ms: now,
                    expires_ms: *expires_ms,
                    revoked_ms: None,
                };
                self.put_key(row, "key.create", now, found);
                return Ok(());
            }
            Change::SetKey { id, enabled: true } => (id, "key.enable"),
            Change::SetKey { id, enabled: false } => (id, "key.disable"),
            Change::RevokeKey { id } => (id, "key.revoke"),
            other => unreachable!("{other:?}"),
        };
        let Some((_, row)) = self.keys.get(id) else { return missing("key") };
        let mut row = row.clone();
        match (event, row.revoked_ms) {
            ("key.revoke", None) => row.revoked_ms = Some(now),
            ("key.revoke", Some(_)) => {}
            (_, Some(_)) => return missing("key"),
            (event, None) => row.enabled = event == "key.enable",
        }
        self.put_key(row, event, now, found);
        Ok(())
    }

    fn make_namespace(
        &mut self,
        change: &Change,
        now: u64,
        found: &mut Changes,
    ) -> Result<(), ControlError> {
        let id = match change {
            Change::AddNamespaces { workspace, names } => {
                return self.add_namespaces(workspace, names, now, found);
            }
            Change::SetNamespace { id, .. }
            | Change::DeleteNamespace { id }
            | Change::RestoreNamespace { id } => id,
            other => unreachable!("{other:?}"),
        };
        let Some((_, row)) = self.namespaces.get(id) else { return missing("namespace") };
        let mut row = row.clone();
        let event = match change {
            Change::SetNamespace { mode, consistency, outage, .. } => {
                if row.deleted_ms.is_some() {
                    return missing("namespace");
                }
                let before = row.clone();
                row.mode = mode.unwrap_or(row.mode);
                row.consistency = consistency.unwrap_or(row.consistency);
                row.outage = outage.unwrap_or(row.outage);
                let mut events = Vec::new();
                if before.mode != row.mode {
                    events.push("namespace.set_mode");
                }
                if before.consistency != row.consistency {
                    events.push("namespace.set_consistency");
                }
                if before.outage != row.outage {
                    events.push("namespace.set_outage");
                }
                // The last one is told with the row.
                let last = events.pop().unwrap_or("namespace.set_mode");
                for event in events {
                    self.audit.push((now, row.workspace.clone(), event));
                }
                last
            }
            Change::DeleteNamespace { .. } => {
                row.deleted_ms = row.deleted_ms.or(Some(now));
                "namespace.delete"
            }
            _ => {
                row.deleted_ms = None;
                "namespace.restore"
            }
        };
        self.put_namespace(row, event, now, found);
        Ok(())
    }

    fn add_namespaces(
        &mut self,
        workspace: &String,
        names: &[(String, String)],
        now: u64,
        found: &mut Changes,
    ) -> Result<(), ControlError> {
        if !self.workspaces.contains_key(workspace) {
            return missing("workspace");
        }
        for (id, name) in names {
            if found.namespaces.iter().any(|row| row.name == *name) {
                continue;
            }
            let same = |row: &NamespaceRow| (&row.workspace, &row.name) == (workspace, name);
            if let Some((_, row)) = self.namespaces.values().find(|(_, row)| same(row)) {
                found.namespaces.push(row.clone());
                continue;
            }
            if self.namespaces.contains_key(id) {
                return Err(ControlError::Exists("namespace"));
            }
            let (id, workspace, name) = (id.clone(), workspace.clone(), name.clone());
            let row = NamespaceRow {
                id,
                workspace,
                name,
                mode: Mode::Enforce,
                consistency: None,
                outage: None,
                created_ms: now,
                deleted_ms: None,
            };
            self.put_namespace(row, "ratelimitNamespace.create", now, found);
        }
        Ok(())
    }

    fn make_override(
        &mut self,
        change: &Change,
        now: u64,
        found: &mut Changes,
    ) -> Result<(), ControlError> {
        let (Change::SetOverride { namespace, pattern, .. }
        | Change::DeleteOverride { namespace, pattern }) = change
        else {
            unreachable!("{change:?}")
        };
        match self.namespaces.get(namespace) {
            Some((_, row)) if row.deleted_ms.is_none() => {}
            _ => return missing("namespace"),
        }
        let same = |row: &OverrideRow| (&row.namespace, &row.pattern) == (namespace, pattern);
        let there = self.overrides.values().find(|(_, row)| same(row)).map(|(_, row)| row.clone());
        let (row, event) = match (change, there) {
            (Change::SetOverride { limit, window_ms, .. }, Some(row)) => {
                let (limit, window_ms) = (*limit, *window_ms);
                let row = OverrideRow { limit, window_ms, deleted_ms: None, ..row };
                (row, "ratelimit.set_override")
            }
            (Change::SetOverride { id, limit, window_ms, .. }, None) => {
                if self.overrides.contains_key(id) {
                    return Err(ControlError::Exists("override"));
                }
                let row = OverrideRow {
                    id: id.clone(),
                    namespace: namespace.clone(),
                    pattern: pattern.clone(),
                    limit: *limit,
                    window_ms: *window_ms,
                    created_ms: now,
                    deleted_ms: None,
                };
                (row, "ratelimit.set_override")
            }
            (_, Some(row)) if row.deleted_ms.is_none() => {
                (OverrideRow { deleted_ms: Some(now), ..row }, "ratelimit.delete_override")
            }
            _ => return missing("override"),
        };
        let workspace = self.namespaces[namespace].1.workspace.clone();
        if self.overrides.get(&row.id).is_none_or(|(_, before)| *before != row) {
            self.overrides.insert(row.id.clone(), (self.revision + 1, row.clone()));
            self.audit.push((now, workspace, event));
        }
        found.overrides.push(row);
        Ok(())
    }

    fn put_workspace(
        &mut self,
        row: WorkspaceRow,
        event: &'static str,
        now: u64,
        to: &mut Changes,
    ) {
        if self.workspaces.get(&row.id).is_none_or(|(_, before)| *before != row) {
            self.workspaces.insert(row.id.clone(), (self.revision + 1, row.clone()));
            self.audit.push((now, row.id.clone(), event));
        }
        to.workspaces.push(row);
    }

    fn put_key(&mut self, row: KeyRow, event: &'static str, now: u64, to: &mut Changes) {
        if self.keys.get(&row.id).is_none_or(|(_, before)| *before != row) {
            self.keys.insert(row.id.clone(), (self.revision + 1, row.clone()));
            self.audit.push((now, row.workspace.clone(), event));
        }
        to.keys.push(row);
    }

    fn put_namespace(
        &mut self,
        row: NamespaceRow,
        event: &'static str,
        now: u64,
        to: &mut Changes,
    ) {
        if self.namespaces.get(&row.id).is_none_or(|(_, before)| *before != row) {
            self.namespaces.insert(row.id.clone(), (self.revision + 1, row.clone()));
            self.audit.push((now, row.workspace.clone(), event));
        }
        to.namespaces.push(row);
    }
}

//! What each change does to the rows.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_limiter::{Consistency, Outage};

use super::apply::{Room, Stop, Transaction};
use super::change::{Change, ControlError};
use super::rows::{
    KeyRow, Mode, NamespaceRow, OverrideRow, WorkspaceRow, consistency_str, outage_str,
};
use super::statements::MANY;
use super::{KEYS_MAX, NAMESPACES_MAX, OVERRIDES_MAX, WORKSPACES_MAX};
use crate::global::session::{Session, Value};

/// What a step is made of. The rows it touched are in the transaction.
type Made = Result<(), Stop>;

impl Change {
    /// Makes it, inside a transaction.
    pub(super) async fn make<S: Session>(&self, to: &mut Transaction<'_, S>) -> Made {
        match self {
            Self::AddWorkspace { id, name } => add_workspace(to, id, name).await,
            Self::SetWorkspace { id, enabled, requests_per_minute } => {
                set_workspace(to, id, *enabled, *requests_per_minute).await
            }
            Self::AddKey { id, workspace, name, digest, permissions, expires_ms } => {
                let key = KeyRow {
                    id: id.clone(),
                    workspace: workspace.clone(),
                    name: name.clone(),
                    digest: *digest,
                    permissions: permissions.clone(),
                    enabled: true,
                    created_ms: to.now_ms,
                    expires_ms: *expires_ms,
                    revoked_ms: None,
                };
                add_key(to, key).await
            }
            Self::SetKey { id, enabled } => set_key(to, id, *enabled).await,
            Self::RevokeKey { id } => revoke_key(to, id).await,
            Self::AddNamespaces { workspace, names } => add_namespaces(to, workspace, names).await,
            Self::SetNamespace { id, mode, consistency, outage } => {
                set_namespace(to, id, *mode, (*consistency, *outage)).await
            }
            Self::DeleteNamespace { id } => mark_namespace(to, id, true).await,
            Self::RestoreNamespace { id } => mark_namespace(to, id, false).await,
            Self::SetOverride { id, namespace, pattern, limit, window_ms } => {
                let wanted = OverrideRow {
                    id: id.clone(),
                    namespace: namespace.clone(),
                    pattern: pattern.clone(),
                    limit: *limit,
                    window_ms: *window_ms,
                    created_ms: to.now_ms,
                    deleted_ms: None,
                };
                set_override(to, wanted).await
            }
            Self::DeleteOverride { namespace, pattern } => {
                delete_override(to, namespace, pattern).await
            }
        }
    }
}

async fn add_workspace<S: Session>(to: &mut Transaction<'_, S>, id: &str, name: &str) -> Made {
    if let Some(there) = to.find::<WorkspaceRow>(id).await? {
        if there.name != name {
            return Err(Stop::Refused(ControlError::Exists("workspace")));
        }
        to.found(there);
        return Ok(());
    }
    let room = Room { more: 0, what: "workspaces", max: WORKSPACES_MAX };
    to.room(S::STATEMENTS.control.more_workspaces, None, room).await?;
    let row = WorkspaceRow {
        id: id.to_owned(),
        name: name.to_owned(),
        enabled: true,
        requests_per_minute: None,
        created_ms: to.now_ms,
    };
    to.insert(row).await?;
    to.note(id, "workspace.create", format!("workspace {name:?} ({id})"));
    Ok(())
}

async fn set_workspace<S: Session>(
    to: &mut Transaction<'_, S>,
    id: &str,
    enabled: Option<bool>,
    requests_per_minute: Option<Option<u64>>,
) -> Made {
    let before: WorkspaceRow = to.get(id).await?;
    let after = WorkspaceRow {
        enabled: enabled.unwrap_or(before.enabled),
        requests_per_minute: requests_per_minute.unwrap_or(before.requests_per_minute),
        ..before.clone()
    };
    let state = if after.enabled { "enabled" } else { "disabled" };
    let most = match after.requests_per_minute {
        Some(most) => format!("{most} requests a minute"),
        None => "any number of requests".to_owned(),
    };
    let detail = format!("workspace {:?} ({id}): {state}, {most}", after.name);
    if to.update(before, after).await? {
        to.note(id, "workspace.update", detail);
    }
    Ok(())
}

async fn add_key<S: Session>(to: &mut Transaction<'_, S>, key: KeyRow) -> Made {
    let workspace: WorkspaceRow = to.get(&key.workspace).await?;
    if let Some(there) = to.find::<KeyRow>(&key.id).await? {
        if (&there.workspace, there.digest) != (&key.workspace, key.digest) {
            return Err(Stop::Refused(ControlError::Exists("key")));
        }
        to.found(there);
        return Ok(());
    }
    let statement = S::STATEMENTS.control.more_keys;
    let room = Room { more: 0, what: "keys", max: KEYS_MAX };
    to.room(statement, Some(&workspace.id), room).await?;
    let detail = format!("{}: {}", named_key(&key), key.permissions.join(", "));
    to.insert(key).await?;
    to.note(&workspace.id, "key.create", detail);
    Ok(())
}

async fn set_key<S: Session>(to: &mut Transaction<'_, S>, id: &str, enabled: bool) -> Made {
    let before: KeyRow = to.get(id).await?;
    if before.revoked_ms.is_some() {
        return Err(Stop::Refused(ControlError::NotFound("key")));
    }
    let (workspace, detail) = (before.workspace.clone(), named_key(&before));
    let after = KeyRow { enabled, ..before.clone() };
    if to.update(before, after).await? {
        let event = if enabled { "key.enable" } else { "key.disable" };
        to.note(&workspace, event, detail);
    }
    Ok(())
}

async fn revoke_key<S: Session>(to: &mut Transaction<'_, S>, id: &str) -> Made {
    let before: KeyRow = to.get(id).await?;
    let (workspace, detail) = (before.workspace.clone(), named_key(&before));
    let revoked_ms = before.revoked_ms.or(Some(to.now_ms));
    let after = KeyRow { revoked_ms, ..before.clone() };
    if to.update(before, after).await? {
        to.note(&workspace, "key.revoke", detail);
    }
    Ok(())
}

fn named_key(key: &KeyRow) -> String {
    format!("key {:?} ({})", key.name, key.id)
}

async fn add_namespaces<S: Session>(
    to: &mut Transaction<'_, S>,
    workspace: &str,
    names: &[(String, String)],
) -> Made {
    to.get::<WorkspaceRow>(workspace).await?;
    let mut there = namespaces_named(to, workspace, names).await?;
    let mut new = Vec::new();
    // The same name again is the same namespace.
    for (id, name) in names.iter().filter(|(_, name)| there.insert(name.clone())) {
        new.push(NamespaceRow {
            id: id.clone(),
            workspace: workspace.to_owned(),
            name: name.clone(),
            mode: Mode::default(),
            consistency: None,
            outage: None,
            created_ms: to.now_ms,
            deleted_ms: None,
        });
    }
    if let Some(more) = new.len().checked_sub(1) {
        let room = Room { more, what: "namespaces", max: NAMESPACES_MAX };
        to.room(S::STATEMENTS.control.more_namespaces, Some(workspace), room).await?;
    }
    for row in &new {
        to.note(workspace, "ratelimitNamespace.create", named_namespace(row));
    }
    to.insert_many(S::STATEMENTS.control.insert_namespaces, new).await?;
    let turns = names.iter().enumerate().rev();
    let turns: BTreeMap<&str, usize> =
        turns.map(|(turn, (_, name))| (name.as_str(), turn)).collect();
    to.changes.namespaces.sort_by_key(|row| turns.get(row.name.as_str()));
    Ok(())
}

/// Looks for the namespaces that are there; gives their names.
async fn namespaces_named<S: Session>(
    to: &mut Transaction<'_, S>,
    workspace: &str,
    names: &[(String, String)],
) -> Result<BTreeSet<String>, Stop> {
    let mut there = BTreeSet::new();
    let different: BTreeSet<&[u8]> = names.iter().map(|(_, name)| name.as_bytes()).collect();
    let different: Vec<&[u8]> = different.into_iter().collect();
    for chunk in different.chunks(MANY) {
        let mut values = vec![Value::Bytes(workspace.as_bytes())];
        // One statement for any number of names; the last one is asked for anyway.
        let last = chunk.last().copied().unwrap_or_default();
        values.extend(chunk.iter().copied().map(Value::Bytes));
        values.resize(1 + MANY, Value::Bytes(last));
        let rows = to.look_all(S::STATEMENTS.control.namespaces_by_name, &values).await?;
        for row in rows {
            let row: NamespaceRow = row;
            there.insert(row.name.clone());
            to.found(row);
        }
    }
    Ok(there)
}

async fn set_namespace<S: Session>(
    to: &mut Transaction<'_, S>,
    id: &str,
    mode: Option<Mode>,
    (consistency, outage): (Option<Option<Consistency>>, Option<Option<Outage>>),
) -> Made {
    let before = live_namespace(to, id).await?;
    let after = NamespaceRow {
        mode: mode.unwrap_or(before.mode),
        consistency: consistency.unwrap_or(before.consistency),
        outage: outage.unwrap_or(before.outage),
        ..before.clone()
    };
    let (workspace, named) = (before.workspace.clone(), named_namespace(&before));
    if before.mode != after.mode {
        to.note(&workspace, "namespace.set_mode", format!("{named}: {}", after.mode.as_str()));
    }
    if before.consistency != after.consistency {
        let said = consistency_str(after.consistency);
        to.note(&workspace, "namespace.set_consistency", format!("{named}: {said}"));
    }
    if before.outage != after.outage {
        let said = outage_str(after.outage);
        to.note(&workspace, "namespace.set_outage", format!("{named}: {said}"));
    }
    to.update(before, after).await.map(drop)
}

async fn mark_namespace<S: Session>(to: &mut Transaction<'_, S>, id: &str, gone: bool) -> Made {
    let before: NamespaceRow = to.get(id).await?;
    let deleted_ms = if gone { before.deleted_ms.or(Some(to.now_ms)) } else { None };
    let (workspace, detail) = (before.workspace.clone(), named_namespace(&before));
    let after = NamespaceRow { deleted_ms, ..before.clone() };
    if to.update(before, after).await? {
        let event = if gone { "namespace.delete" } else { "namespace.restore" };
        to.note(&workspace, event, detail);
    }
    Ok(())
}

async fn live_namespace<S: Session>(
    to: &mut Transaction<'_, S>,
    id: &str,
) -> Result<NamespaceRow, Stop> {
    let row: NamespaceRow = to.get(id).await?;
    match row.deleted_ms {
        None => Ok(row),
        Some(_) => Err(Stop::Refused(ControlError::NotFound("namespace"))),
    }
}

fn named_namespace(row: &NamespaceRow) -> String {
    format!("namespace {:?} ({})", row.name, row.id)
}

async fn set_override<S: Session>(to: &mut Transaction<'_, S>, wanted: OverrideRow) -> Made {
    let namespace = live_namespace(to, &wanted.namespace).await?;
    let there = find_override(to, &wanted.namespace, &wanted.pattern).await?;
    let id = there.as_ref().map_or(&wanted.id, |row| &row.id);
    let detail = format!(
        "{}: {} in {} ms",
        named_override(id, &wanted.pattern, &namespace),
        wanted.limit,
        wanted.window_ms
    );
    let changed = match there {
        Some(before) => {
            let (id, created_ms) = (before.id.clone(), before.created_ms);
            to.update(before, OverrideRow { id, created_ms, ..wanted }).await?
        }
        None => {
            let statement = S::STATEMENTS.control.more_overrides;
            let room = Room { more: 0, what: "overrides", max: OVERRIDES_MAX };
            to.room(statement, Some(&namespace.id), room).await?;
            to.insert(wanted).await?;
            true
        }
    };
    if changed {
        to.note(&namespace.workspace, "ratelimit.set_override", detail);
    }
    Ok(())
}

async fn delete_override<S: Session>(
    to: &mut Transaction<'_, S>,
    namespace: &str,
    pattern: &str,
) -> Made {
    let namespace = live_namespace(to, namespace).await?;
    let there = find_override(to, &namespace.id, pattern).await?;
    let there = there.filter(|row| row.deleted_ms.is_none());
    let before = there.ok_or(Stop::Refused(ControlError::NotFound("override")))?;
    let detail = named_override(&before.id, pattern, &namespace);
    let after = OverrideRow { deleted_ms: Some(to.now_ms), ..before.clone() };
    to.update(before, after).await?;
    to.note(&namespace.workspace, "ratelimit.delete_override", detail);
    Ok(())
}

async fn find_override<S: Session>(
    to: &mut Transaction<'_, S>,
    namespace: &str,
    pattern: &str,
) -> Result<Option<OverrideRow>, Stop> {
    let key = [Value::Bytes(namespace.as_bytes()), Value::Bytes(pattern.as_bytes())];
    to.look(S::STATEMENTS.control.override_by_pattern, &key).await
}

fn named_override(id: &str, pattern: &str, namespace: &NamespaceRow) -> String {
    format!("override {pattern:?} ({id}) of {}", named_namespace(namespace))
}

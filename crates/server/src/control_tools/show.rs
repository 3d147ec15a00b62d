//! How results are printed: lines for people, JSON for programs.

use std::fmt;

use serde::Serialize;
use tidegate_stores::control::{
    AuditRow, KeyRow, NamespaceRow, WorkspaceRow, consistency_str, outage_str,
};

use crate::cli::Output;
use crate::cli::output::{say, say_json};
use crate::utc::Utc;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Key<'a> {
    id: &'a str,
    /// Only when it was just made.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    workspace_id: &'a str,
    name: &'a str,
    permissions: &'a [String],
    enabled: bool,
    created_at: u64,
    expires_at: Option<u64>,
    revoked_at: Option<u64>,
}

impl<'a> Key<'a> {
    fn new(row: &'a KeyRow, key: Option<&'a str>) -> Self {
        Self {
            id: &row.id,
            key,
            workspace_id: &row.workspace,
            name: &row.name,
            permissions: &row.permissions,
            enabled: row.enabled,
            created_at: row.created_ms,
            expires_at: row.expires_ms,
            revoked_at: row.revoked_ms,
        }
    }
}

/// A key that was just made.
pub(super) fn new_key(output: Output, row: &KeyRow, key: &str) {
    match output {
        Output::Json => say_json(&Key::new(row, Some(key))),
        Output::Text => {
            let name =
                if row.name.is_empty() { String::new() } else { format!(" {}", Safe(&row.name)) };
            let ends = row.expires_ms.map(|ms| format!(", until {}", Utc(ms))).unwrap_or_default();
            // The key on a line of its own, and the last one: `… | tail -n 1` is the key.
            say(&format_args!("Key {}{name} of workspace {}{ends}.", row.id, row.workspace));
            say(&format_args!("It may: {}.", row.permissions.join(", ")));
            say(&"Keep it now: it is not shown again.");
            say(&key);
        }
    }
}

/// A key that was changed.
pub(super) fn changed_key(output: Output, row: &KeyRow, what: &str) {
    match output {
        Output::Json => say_json(&Key::new(row, None)),
        Output::Text => say(&format_args!("{} is {what}", row.id)),
    }
}

/// All of them.
pub(super) fn keys(output: Output, rows: &[KeyRow], now_ms: u64) {
    if output == Output::Json {
        return say_json(&rows.iter().map(|row| Key::new(row, None)).collect::<Vec<_>>());
    }
    let mut table = Table::new(["id", "workspace", "name", "state", "created", "may"]);
    for row in rows {
        let state = match (row.revoked_ms, row.expires_ms) {
            (Some(ms), _) => format!("revoked {}", Utc(ms)),
            (None, Some(ms)) if ms <= now_ms => format!("ended {}", Utc(ms)),
            _ if !row.enabled => "disabled".to_owned(),
            (None, Some(ms)) => format!("until {}", Utc(ms)),
            (None, None) => "works".to_owned(),
        };
        let (name, created) = (Safe(&row.name).to_string(), Utc(row.created_ms).to_string());
        let may = row.permissions.join(" ");
        table.add([row.id.clone(), row.workspace.clone(), name, state, created, may]);
    }
    say(&table);
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Namespace<'a> {
    id: &'a str,
    workspace_id: &'a str,
    name: &'a str,
    mode: &'a str,
    consistency: &'a str,
    outage: &'a str,
    created_at: u64,
    deleted_at: Option<u64>,
}

impl<'a> Namespace<'a> {
    fn new(row: &'a NamespaceRow) -> Self {
        Self {
            id: &row.id,
            workspace_id: &row.workspace,
            name: &row.name,
            mode: row.mode.as_str(),
            consistency: consistency_str(row.consistency),
            outage: outage_str(row.outage),
            created_at: row.created_ms,
            deleted_at: row.deleted_ms,
        }
    }
}

/// All of them.
pub(super) fn namespaces(output: Output, rows: &[NamespaceRow]) {
    if output == Output::Json {
        return say_json(&rows.iter().map(Namespace::new).collect::<Vec<_>>());
    }
    let mut table =
        Table::new(["id", "mode", "consistency", "outage", "created", "deleted", "name"]);
    for row in rows {
        let deleted = row.deleted_ms.map_or_else(String::new, |ms| Utc(ms).to_string());
        let (mode, created) = (row.mode.as_str().to_owned(), Utc(row.created_ms).to_string());
        let (consistency, name) =
            (consistency_str(row.consistency).to_owned(), Safe(&row.name).to_string());
        let outage = outage_str(row.outage).to_owned();
        table.add([row.id.clone(), mode, consistency, outage, created, deleted, name]);
    }
    say(&table);
}

/// One that was changed.
pub(super) fn namespace(output: Output, row: &NamespaceRow) {
    match output {
        Output::Json => say_json(&Namespace::new(row)),
        Output::Text => namespaces(output, std::slice::from_ref(row)),
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Workspace<'a> {
    id: &'a str,
    name: &'a str,
    enabled: bool,
    requests_per_minute: Option<u64>,
    created_at: u64,
}

impl<'a> Workspace<'a> {
    fn new(row: &'a WorkspaceRow) -> Self {
        let (id, name, enabled) = (&row.id, &row.name, row.enabled);
        let (requests_per_minute, created_at) = (row.requests_per_minute, row.created_ms);
        Self { id, name, enabled, requests_per_minute, created_at }
    }
}

/// All of them.
pub(super) fn workspaces(output: Output, rows: &[WorkspaceRow]) {
    if output == Output::Json {
        return say_json(&rows.iter().map(Workspace::new).collect::<Vec<_>>());
    }
    let mut table = Table::new(["id", "state", "requests a minute", "created", "name"]);
    for row in rows {
        let state = if row.enabled { "enabled" } else { "disabled" }.to_owned();
        let most = row.requests_per_minute.map_or("unlimited".to_owned(), |n| n.to_string());
        let created = Utc(row.created_ms).to_string();
        table.add([row.id.clone(), state, most, created, Safe(&row.name).to_string()]);
    }
    say(&table);
}

/// One that was made or changed.
pub(super) fn workspace(output: Output, row: &WorkspaceRow) {
    match output {
        Output::Json => say_json(&Workspace::new(row)),
        Output::Text => workspaces(output, std::slice::from_ref(row)),
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Audit<'a> {
    number: u64,
    time: u64,
    workspace_id: &'a str,
    actor: &'a str,
    event: &'a str,
    detail: &'a str,
}

impl<'a> Audit<'a> {
    fn new(row: &'a AuditRow) -> Self {
        let (number, time, workspace_id) = (row.number, row.time_ms, &row.workspace);
        let (actor, event, detail) = (&row.actor, &row.event, &row.detail);
        Self { number, time, workspace_id, actor, event, detail }
    }
}

pub(super) fn audit(output: Output, rows: &[AuditRow]) {
    if output == Output::Json {
        return say_json(&rows.iter().map(Audit::new).collect::<Vec<_>>());
    }
    let mut table = Table::new(["time", "workspace", "actor", "event", "what"]);
    for row in rows {
        let texts = [&row.workspace, &row.actor, &row.event, &row.detail];
        let [workspace, actor, event, detail] = texts.map(|text| Safe(text).to_string());
        table.add([Utc(row.time_ms).to_string(), workspace, actor, event, detail]);
    }
    say(&table);
}

/// Columns as wide as what is in them; the last one as long as it likes.
struct Table<const N: usize> {
    lines: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    fn new(head: [&str; N]) -> Self {
        Self { lines: vec![head.map(str::to_owned)] }
    }

    fn add(&mut self, line: [String; N]) {
        self.lines.push(line);
    }
}

impl<const N: usize> fmt::Display for Table<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut widths = [0; N];
        for line in &self.lines {
            for (width, text) in widths.iter_mut().zip(line) {
                *width = text.chars().count().max(*width);
            }
        }
        for (number, line) in self.lines.iter().enumerate() {
            let mut text = String::new();
            for (column, width) in line.iter().zip(widths) {
                text.push_str(&format!("{column:<width$}  "));
            }
            let end = if number + 1 < self.lines.len() { "\n" } else { "" };
            write!(f, "{}{end}", text.trim_end())?;
        }
        Ok(())
    }
}

/// Text of others: what would move the cursor, or cannot be seen, is spelled out.
struct Safe<'a>(&'a str);

impl fmt::Display for Safe<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for char in self.0.chars() {
            match char {
                '"' | '\'' | '\\' => write!(f, "{char}")?,
                other => write!(f, "{}", other.escape_debug())?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_cannot_move_the_cursor() {
        let shown = Safe("it's \"é\" \u{1b}[2J\r\n\u{202e}").to_string();
        assert_eq!(shown, "it's \"é\" \\u{1b}[2J\\r\\n\\u{202e}");
    }

    #[test]
    fn columns_are_as_wide_as_what_is_in_them() {
        let mut table = Table::new(["a", "name"]);
        table.add(["long".to_owned(), String::new()]);
        table.add(["é".to_owned(), "x".to_owned()]);
        assert_eq!(table.to_string(), "a     name\nlong\né     x");
    }
}

//! The tables of the control plane.

use crate::global::schema::{Addition, Migration};

/// Names are bytes, as in the other databases.
pub(super) const CONTROL: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS tidegate_revision (\
     id INTEGER NOT NULL PRIMARY KEY, \
     revision INTEGER NOT NULL) STRICT",
    "INSERT OR IGNORE INTO tidegate_revision (id, revision) VALUES (1, 0)",
    "CREATE TABLE IF NOT EXISTS tidegate_workspaces (\
     id BLOB NOT NULL PRIMARY KEY, \
     name BLOB NOT NULL UNIQUE, \
     enabled INTEGER NOT NULL, \
     requests_per_minute INTEGER NULL, \
     created_at INTEGER NOT NULL, \
     revision INTEGER NOT NULL) STRICT",
    "CREATE INDEX IF NOT EXISTS tidegate_workspaces_by_revision \
     ON tidegate_workspaces (revision, id)",
    "CREATE TABLE IF NOT EXISTS tidegate_keys (\
     id BLOB NOT NULL PRIMARY KEY, \
     workspace BLOB NOT NULL, \
     name BLOB NOT NULL, \
     digest BLOB NOT NULL UNIQUE, \
     permissions BLOB NOT NULL, \
     enabled INTEGER NOT NULL, \
     created_at INTEGER NOT NULL, \
     expires_at INTEGER NULL, \
     revoked_at INTEGER NULL, \
     revision INTEGER NOT NULL) STRICT",
    "CREATE INDEX IF NOT EXISTS tidegate_keys_by_workspace ON tidegate_keys (workspace, id)",
    "CREATE INDEX IF NOT EXISTS tidegate_keys_by_revision ON tidegate_keys (revision, id)",
    "CREATE TABLE IF NOT EXISTS tidegate_namespaces (\
     id BLOB NOT NULL PRIMARY KEY, \
     workspace BLOB NOT NULL, \
     name BLOB NOT NULL, \
     mode INTEGER NOT NULL, \
     created_at INTEGER NOT NULL, \
     deleted_at INTEGER NULL, \
     revision INTEGER NOT NULL, \
     UNIQUE (workspace, name)) STRICT",
    "CREATE INDEX IF NOT EXISTS tidegate_namespaces_by_revision \
     ON tidegate_namespaces (revision, id)",
    "CREATE TABLE IF NOT EXISTS tidegate_overrides (\
     id BLOB NOT NULL PRIMARY KEY, \
     namespace BLOB NOT NULL, \
     pattern BLOB NOT NULL, \
     limit_max INTEGER NOT NULL, \
     window_ms INTEGER NOT NULL, \
     created_at INTEGER NOT NULL, \
     deleted_at INTEGER NULL, \
     revision INTEGER NOT NULL, \
     UNIQUE (namespace, pattern)) STRICT",
    "CREATE INDEX IF NOT EXISTS tidegate_overrides_by_revision \
     ON tidegate_overrides (revision, id)",
    "CREATE TABLE IF NOT EXISTS tidegate_audit (\
     number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, \
     time_at INTEGER NOT NULL, \
     workspace BLOB NOT NULL, \
     actor BLOB NOT NULL, \
     event BLOB NOT NULL, \
     detail BLOB NOT NULL) STRICT",
    "CREATE INDEX IF NOT EXISTS tidegate_audit_by_workspace ON tidegate_audit (workspace, number)",
];

/// What a namespace says of its consistency. Nothing, until somebody says it.
pub(super) const CONSISTENCY: Migration = Migration::Column {
    there: "SELECT COUNT(*) FROM pragma_table_info('tidegate_namespaces') \
         WHERE name = 'consistency'",
    add: "ALTER TABLE tidegate_namespaces ADD COLUMN consistency INTEGER NULL",
};

/// What becomes of a namespace's requests when the region cannot be asked. Nothing, until somebody
/// says it.
pub(super) const OUTAGE: Addition = Addition {
    name: "tidegate_namespaces.outage",
    there: "SELECT COUNT(*) FROM pragma_table_info('tidegate_namespaces') WHERE name = 'outage'",
    add: "ALTER TABLE tidegate_namespaces ADD COLUMN outage INTEGER NULL",
};

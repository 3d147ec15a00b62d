//! The tables of the control plane.

use crate::global::schema::{Addition, Migration};

/// Names are bytes: text would be compared by a collation, which takes some for the same.
pub(super) const CONTROL: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS tidegate_revision (\
     id TINYINT UNSIGNED NOT NULL PRIMARY KEY, \
     revision BIGINT UNSIGNED NOT NULL) ENGINE = InnoDB",
    "INSERT IGNORE INTO tidegate_revision (id, revision) VALUES (1, 0)",
    "CREATE TABLE IF NOT EXISTS tidegate_workspaces (\
     id VARBINARY(64) NOT NULL PRIMARY KEY, \
     name VARBINARY(2048) NOT NULL, \
     enabled TINYINT UNSIGNED NOT NULL, \
     requests_per_minute BIGINT UNSIGNED NULL, \
     created_at BIGINT UNSIGNED NOT NULL, \
     revision BIGINT UNSIGNED NOT NULL, \
     UNIQUE KEY by_name (name), \
     KEY by_revision (revision, id)) ENGINE = InnoDB ROW_FORMAT = DYNAMIC",
    "CREATE TABLE IF NOT EXISTS tidegate_keys (\
     id VARBINARY(64) NOT NULL PRIMARY KEY, \
     workspace VARBINARY(64) NOT NULL, \
     name VARBINARY(2048) NOT NULL, \
     digest BINARY(32) NOT NULL, \
     permissions BLOB NOT NULL, \
     enabled TINYINT UNSIGNED NOT NULL, \
     created_at BIGINT UNSIGNED NOT NULL, \
     expires_at BIGINT UNSIGNED NULL, \
     revoked_at BIGINT UNSIGNED NULL, \
     revision BIGINT UNSIGNED NOT NULL, \
     UNIQUE KEY by_digest (digest), \
     KEY by_workspace (workspace, id), \
     KEY by_revision (revision, id)) ENGINE = InnoDB ROW_FORMAT = DYNAMIC",
    "CREATE TABLE IF NOT EXISTS tidegate_namespaces (\
     id VARBINARY(64) NOT NULL PRIMARY KEY, \
     workspace VARBINARY(64) NOT NULL, \
     name VARBINARY(2048) NOT NULL, \
     mode TINYINT UNSIGNED NOT NULL, \
     created_at BIGINT UNSIGNED NOT NULL, \
     deleted_at BIGINT UNSIGNED NULL, \
     revision BIGINT UNSIGNED NOT NULL, \
     UNIQUE KEY by_name (workspace, name), \
     KEY by_revision (revision, id)) ENGINE = InnoDB ROW_FORMAT = DYNAMIC",
    "CREATE TABLE IF NOT EXISTS tidegate_overrides (\
     id VARBINARY(64) NOT NULL PRIMARY KEY, \
     namespace VARBINARY(64) NOT NULL, \
     pattern VARBINARY(2048) NOT NULL, \
     limit_max BIGINT UNSIGNED NOT NULL, \
     window_ms BIGINT UNSIGNED NOT NULL, \
     created_at BIGINT UNSIGNED NOT NULL, \
     deleted_at BIGINT UNSIGNED NULL, \
     revision BIGINT UNSIGNED NOT NULL, \
     UNIQUE KEY by_pattern (namespace, pattern), \
     KEY by_revision (revision, id)) ENGINE = InnoDB ROW_FORMAT = DYNAMIC",
    "CREATE TABLE IF NOT EXISTS tidegate_audit (\
     number BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, \
     time_at BIGINT UNSIGNED NOT NULL, \
     workspace VARBINARY(64) NOT NULL, \
     actor VARBINARY(64) NOT NULL, \
     event VARBINARY(64) NOT NULL, \
     detail BLOB NOT NULL, \
     KEY by_workspace (workspace, number)) ENGINE = InnoDB ROW_FORMAT = DYNAMIC",
];

/// What a namespace says of its consistency. Nothing, until somebody says it.
pub(super) const CONSISTENCY: Migration = Migration::Column {
    there: "SELECT CAST(COUNT(*) AS UNSIGNED) FROM information_schema.columns \
         WHERE table_schema = DATABASE() AND table_name = 'tidegate_namespaces' \
         AND column_name = 'consistency'",
    add: "ALTER TABLE tidegate_namespaces ADD COLUMN consistency TINYINT UNSIGNED NULL",
};

/// What becomes of a namespace's requests when the region cannot be asked. Nothing, until somebody
/// says it.
pub(super) const OUTAGE: Addition = Addition {
    name: "tidegate_namespaces.outage",
    there: "SELECT CAST(COUNT(*) AS UNSIGNED) FROM information_schema.columns \
         WHERE table_schema = DATABASE() AND table_name = 'tidegate_namespaces' \
         AND column_name = 'outage'",
    add: "ALTER TABLE tidegate_namespaces ADD COLUMN outage TINYINT UNSIGNED NULL",
};

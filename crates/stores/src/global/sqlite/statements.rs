//! The statements.

use crate::global::schema::Migration;
use crate::global::session::{Statements, sixteen};

/// The clock of the machine, in milliseconds.
macro_rules! now {
    () => {
        "CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER)"
    };
}

/// Whether a column is less than a value when neither has a sign.
macro_rules! less {
    ($column:literal, $value:literal) => {
        concat!(
            "CASE WHEN (",
            $column,
            " < 0) = (",
            $value,
            " < 0) THEN ",
            $column,
            " < ",
            $value,
            " ELSE ",
            $column,
            " >= 0 END"
        )
    };
}

/// The columns of an import: the payload is left out of the row `?1`, and of those that repeat
/// unless `?2`.
macro_rules! row {
    () => {
        "id, region, repeats, nonce, written_at, expires_at, \
         CASE WHEN id = ?1 OR (repeats <> 0 AND ?2 = 0) THEN x'' ELSE payload END"
    };
}

pub(super) const STATEMENTS: Statements = Statements {
    region: concat!("SELECT identity, seen_at, ", now!(), " FROM tidegate_regions WHERE name = ?"),
    add_region: concat!(
        "INSERT INTO tidegate_regions (name, identity, seen_at) VALUES (?, ?, ",
        now!(),
        ")"
    ),
    renew: concat!(
        "UPDATE tidegate_regions SET seen_at = ",
        now!(),
        " WHERE name = ? AND identity = ?"
    ),
    take_over: concat!(
        "UPDATE tidegate_regions SET identity = ?, seen_at = ",
        now!(),
        " WHERE name = ? AND identity = ? AND seen_at = ?"
    ),
    release: "UPDATE tidegate_regions SET seen_at = 0 WHERE name = ? AND identity = ?",
    regions: concat!(
        "SELECT identity, name, seen_at, ",
        now!(),
        " FROM tidegate_regions ORDER BY name"
    ),
    clock: concat!("SELECT ", now!()),
    count_regions: "SELECT COUNT(*) FROM tidegate_regions",
    publish: "INSERT INTO tidegate_feed \
         (region, repeats, nonce, written_at, expires_at, payload) VALUES (?, ?, ?, ?, ?, ?)",
    // In two parts that it merges: with `OR` it would look at every row.
    import: concat!(
        "SELECT ",
        row!(),
        " FROM tidegate_feed WHERE id < ?3 AND id IN (\
         ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19) \
         UNION ALL SELECT ",
        row!(),
        " FROM tidegate_feed WHERE id >= ?3 ORDER BY id LIMIT ?20"
    ),
    import_on: concat!(
        "SELECT ",
        row!(),
        " FROM tidegate_feed WHERE id >= ?3 ORDER BY id LIMIT ?4"
    ),
    trim: concat!(
        "SELECT id FROM tidegate_feed WHERE region = ?1 AND id <= ?2 AND ",
        less!("written_at", "?3"),
        " AND id < (SELECT MAX(id) FROM tidegate_feed) ORDER BY id LIMIT ?4"
    ),
    collect: concat!(
        "SELECT id FROM tidegate_feed WHERE ",
        less!("expires_at", "?1"),
        " AND id < (SELECT MAX(id) FROM tidegate_feed) ORDER BY id LIMIT ?2"
    ),
    delete: concat!(
        "DELETE FROM tidegate_feed WHERE id IN (",
        concat!(sixteen!(), ", ", sixteen!(), ", ", sixteen!(), ", ", sixteen!()),
        ")"
    ),
    // Each of its own would have to reach the disk before the next begins.
    begin_migration: Some("BEGIN IMMEDIATE"),
    create_schema: "CREATE TABLE IF NOT EXISTS tidegate_schema (\
         version INTEGER NOT NULL PRIMARY KEY, \
         reached_at INTEGER NOT NULL) STRICT",
    version: "SELECT COALESCE(MAX(version), 0) FROM tidegate_schema",
    reached: concat!(
        "INSERT OR IGNORE INTO tidegate_schema (version, reached_at) VALUES (?, ",
        now!(),
        ")"
    ),
    control: crate::control::SQLITE,
    migrations: [
        Migration::Tables(FEED),
        Migration::Tables(super::tables::CONTROL),
        super::tables::CONSISTENCY,
    ],
    additions: [super::tables::OUTAGE],
};

/// Regions, and the feed. `AUTOINCREMENT`: the id of a row that was deleted is not given again.
const FEED: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS tidegate_regions (\
     name BLOB NOT NULL PRIMARY KEY, \
     identity BLOB NOT NULL, \
     seen_at INTEGER NOT NULL) STRICT",
    "CREATE TABLE IF NOT EXISTS tidegate_feed (\
     id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, \
     region INTEGER NOT NULL, \
     repeats INTEGER NOT NULL, \
     nonce INTEGER NOT NULL, \
     written_at INTEGER NOT NULL, \
     expires_at INTEGER NOT NULL, \
     payload BLOB NOT NULL) STRICT",
];

//! The statements. All of them are understood by MySQL and by MariaDB.

use crate::global::schema::Migration;
use crate::global::session::{Statements, sixteen};

/// The database's own clock, in milliseconds.
macro_rules! now {
    () => {
        "CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS UNSIGNED)"
    };
}

/// One more row of a table of ids.
macro_rules! one_more {
    () => {
        " UNION ALL SELECT CAST(? AS UNSIGNED)"
    };
}

/// Fifteen of them.
macro_rules! fifteen_more {
    () => {
        concat!(
            one_more!(),
            one_more!(),
            one_more!(),
            one_more!(),
            one_more!(),
            one_more!(),
            one_more!(),
            one_more!(),
            one_more!(),
            one_more!(),
            one_more!(),
            one_more!(),
            one_more!(),
            one_more!(),
            one_more!()
        )
    };
}

/// Sixteen of them.
macro_rules! sixteen_more {
    () => {
        concat!(fifteen_more!(), one_more!())
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
    count_regions: "SELECT CAST(COUNT(*) AS UNSIGNED) FROM tidegate_regions",
    publish: "INSERT INTO tidegate_feed \
         (region, repeats, nonce, written_at, expires_at, payload) VALUES (?, ?, ?, ?, ?, ?)",
    // Both conditions are ranges of the primary key, which is also the order.
    import: concat!(
        "SELECT id, region, repeats, nonce, written_at, expires_at, \
         CASE WHEN id = ? OR (repeats <> 0 AND ? = 0) THEN x'' ELSE payload END \
         FROM tidegate_feed FORCE INDEX (PRIMARY) WHERE id >= ? OR id IN (",
        sixteen!(),
        ") ORDER BY id LIMIT ?"
    ),
    import_on: "SELECT id, region, repeats, nonce, written_at, expires_at, \
         CASE WHEN id = ? OR (repeats <> 0 AND ? = 0) THEN x'' ELSE payload END \
         FROM tidegate_feed FORCE INDEX (PRIMARY) WHERE id >= ? ORDER BY id LIMIT ?",
    trim: "SELECT id FROM tidegate_feed WHERE region = ? AND id <= ? AND written_at < ? \
         AND id < (SELECT MAX(id) FROM tidegate_feed) ORDER BY id LIMIT ?",
    collect: "SELECT id FROM tidegate_feed WHERE expires_at < ? \
         AND id < (SELECT MAX(id) FROM tidegate_feed) ORDER BY id LIMIT ?",
    // A list of ids would not do: of few rows a server looks at all, whatever it is told, and waits
    // for those that others have begun. Joined in this order, and told which key to take, it looks
    // at those that are named.
    delete: concat!(
        "DELETE feed FROM (SELECT CAST(? AS UNSIGNED) AS id",
        concat!(fifteen_more!(), sixteen_more!(), sixteen_more!(), sixteen_more!()),
        ") AS wanted STRAIGHT_JOIN tidegate_feed AS feed \
         FORCE INDEX (PRIMARY) ON feed.id = wanted.id"
    ),
    begin_migration: None,
    create_schema: "CREATE TABLE IF NOT EXISTS tidegate_schema (\
         version INT UNSIGNED NOT NULL PRIMARY KEY, \
         reached_at BIGINT UNSIGNED NOT NULL) ENGINE = InnoDB",
    version: "SELECT CAST(COALESCE(MAX(version), 0) AS UNSIGNED) FROM tidegate_schema",
    reached: concat!(
        "INSERT IGNORE INTO tidegate_schema (version, reached_at) VALUES (?, ",
        now!(),
        ")"
    ),
    control: crate::control::MYSQL,
    migrations: [
        Migration::Tables(FEED),
        Migration::Tables(super::tables::CONTROL),
        super::tables::CONSISTENCY,
    ],
    additions: [super::tables::OUTAGE],
};

/// Regions, and the feed.
const FEED: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS tidegate_regions (\
     name VARBINARY(48) NOT NULL PRIMARY KEY, \
     identity BINARY(16) NOT NULL, \
     seen_at BIGINT UNSIGNED NOT NULL) ENGINE = InnoDB",
    "CREATE TABLE IF NOT EXISTS tidegate_feed (\
     id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, \
     region INT UNSIGNED NOT NULL, \
     repeats TINYINT UNSIGNED NOT NULL, \
     nonce BIGINT UNSIGNED NOT NULL, \
     written_at BIGINT UNSIGNED NOT NULL, \
     expires_at BIGINT UNSIGNED NOT NULL, \
     payload MEDIUMBLOB NOT NULL) ENGINE = InnoDB ROW_FORMAT = DYNAMIC",
];

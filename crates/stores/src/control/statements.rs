//! The statements. Nearly all of them are the same in every database.

/// How many rows the statements for many of them have: a database may be far away, and everybody
/// waits for who changes something.
pub(super) const MANY: usize = 16;

const _: () = assert!(MANY == 16, "`many!` has as many");

/// So many times the same, with commas.
macro_rules! many {
    ($row:literal) => {
        concat!(many!(4 $row), ", ", many!(4 $row), ", ", many!(4 $row), ", ", many!(4 $row))
    };
    (4 $row:literal) => {
        concat!($row, ", ", $row, ", ", $row, ", ", $row)
    };
}

/// Those of a table that has ids and revisions. "All columns" end with the revision and the id.
#[derive(Debug)]
pub(crate) struct Table {
    /// (id) → all columns.
    pub(super) by_id: &'static str,
    /// (revision, revision, id, most) → all columns of the rows behind that one.
    pub(super) since: &'static str,
    /// (all columns).
    pub(super) insert: &'static str,
    /// (all columns): the one with this id.
    pub(super) update: &'static str,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct ControlStatements {
    /// Begins a transaction that will write.
    pub(super) begin: &'static str,
    /// () → the revision, until the end of the transaction.
    pub(super) lock: &'static str,
    /// () → the revision.
    pub(super) revision: &'static str,
    /// (revision).
    pub(super) raise: &'static str,
    pub(super) workspaces: Table,
    pub(super) keys: Table,
    pub(super) namespaces: Table,
    pub(super) overrides: Table,
    /// (workspace, [`MANY`] names) → all columns of each that is there.
    pub(super) namespaces_by_name: &'static str,
    /// (all columns of [`MANY`] namespaces).
    pub(super) insert_namespaces: &'static str,
    /// (namespace, pattern) → all columns.
    pub(super) override_by_pattern: &'static str,
    /// (n) → something if there are more than n; the same of a workspace (workspace, n), and of a
    /// namespace (namespace, n).
    pub(super) more_workspaces: &'static str,
    pub(super) more_keys: &'static str,
    pub(super) more_namespaces: &'static str,
    pub(super) more_overrides: &'static str,
    /// (time, workspace, actor, event, detail).
    pub(super) add_audit: &'static str,
    /// [`MANY`] of them.
    pub(super) add_audits: &'static str,
    /// (below, most) → number, and the columns of `add_audit`; newest first.
    pub(super) audit: &'static str,
    /// (workspace, below, most) → the same.
    pub(super) audit_of: &'static str,
    /// (most) → number and time; oldest first.
    pub(super) oldest_audit: &'static str,
    /// (first number, last number).
    pub(super) delete_audit: &'static str,
}

/// All columns of some rows.
macro_rules! select {
    ($name:literal, $which:literal, $($column:literal),+) => {
        concat!("SELECT ", $($column, ", ",)+ "revision, id FROM ", $name, " ", $which)
    };
}

/// The place for one column.
macro_rules! place {
    ($column:literal) => {
        "?, "
    };
}

/// All columns of a table, and its statements. `$hint` makes the database walk along the revisions.
macro_rules! table {
    ($name:literal, $hint:literal, $($column:literal),+) => {
        Table {
            by_id: select!($name, "WHERE id = ?", $($column),+),
            since: concat!(
                "SELECT ", $($column, ", ",)+ "revision, id FROM ", $name, $hint,
                " WHERE revision >= ? AND (revision > ? OR id > ?) \
                 ORDER BY revision, id LIMIT ?"
            ),
            insert: concat!(
                "INSERT INTO ", $name, " (", $($column, ", ",)+ "revision, id) VALUES (",
                $(place!($column),)+ "?, ?)"
            ),
            update: concat!(
                "UPDATE ", $name, " SET ", $($column, " = ?, ",)+ "revision = ? WHERE id = ?"
            ),
        }
    };
}

/// As for the other tables, but for numbers that only a later build knows: here they are read as
/// the default, and whoever changes something else must not write that over them.
const UPDATE_NAMESPACE: &str = "UPDATE tidegate_namespaces SET workspace = ?, name = ?, \
     mode = COALESCE(NULLIF(?, 0), CASE WHEN mode > 2 THEN mode ELSE 0 END), \
     consistency = COALESCE(?, CASE WHEN consistency > 1 THEN consistency END), \
     outage = COALESCE(?, CASE WHEN outage > 1 THEN outage END), \
     created_at = ?, deleted_at = ?, revision = ? WHERE id = ?";

/// The statements for a database that begins like this, locks a row that is read like this, and is
/// told which index to walk along like this.
macro_rules! control_statements {
    ($begin:literal, $lock:literal, $hint:literal) => {
        ControlStatements::new(
            [$begin, concat!("SELECT revision FROM tidegate_revision WHERE id = 1", $lock)],
            table!(
                "tidegate_workspaces",
                $hint,
                "name",
                "enabled",
                "requests_per_minute",
                "created_at"
            ),
            table!(
                "tidegate_keys",
                $hint,
                "workspace",
                "name",
                "digest",
                "permissions",
                "enabled",
                "created_at",
                "expires_at",
                "revoked_at"
            ),
            table!(
                "tidegate_namespaces",
                $hint,
                "workspace",
                "name",
                "mode",
                "consistency",
                "outage",
                "created_at",
                "deleted_at"
            ),
            table!(
                "tidegate_overrides",
                $hint,
                "namespace",
                "pattern",
                "limit_max",
                "window_ms",
                "created_at",
                "deleted_at"
            ),
        )
    };
}

#[cfg(feature = "mysql")]
pub(crate) const MYSQL: ControlStatements =
    control_statements!("START TRANSACTION", " FOR UPDATE", " FORCE INDEX (by_revision)");

// A transaction that wants to write only later may find that somebody else did meanwhile.
#[cfg(feature = "sqlite")]
pub(crate) const SQLITE: ControlStatements = control_statements!("BEGIN IMMEDIATE", "", "");

impl ControlStatements {
    /// The tables, and the statements that read what changed in them.
    #[cfg(all(test, feature = "sqlite"))]
    pub(crate) const fn feeds(&self) -> [(&'static str, &'static str); 4] {
        [
            ("tidegate_workspaces", self.workspaces.since),
            ("tidegate_keys", self.keys.since),
            ("tidegate_namespaces", self.namespaces.since),
            ("tidegate_overrides", self.overrides.since),
        ]
    }

    /// What is the same everywhere, and the given ones: to begin, and to lock.
    pub(crate) const fn new(
        [begin, lock]: [&'static str; 2],
        workspaces: Table,
        keys: Table,
        namespaces: Table,
        overrides: Table,
    ) -> Self {
        Self {
            begin,
            lock,
            revision: "SELECT revision FROM tidegate_revision WHERE id = 1",
            raise: "UPDATE tidegate_revision SET revision = ? WHERE id = 1",
            workspaces,
            keys,
            namespaces: Table { update: UPDATE_NAMESPACE, ..namespaces },
            overrides,
            namespaces_by_name: concat!(
                "SELECT workspace, name, mode, consistency, outage, created_at, deleted_at, \
                 revision, id FROM tidegate_namespaces WHERE workspace = ? AND name IN (",
                many!("?"),
                ")"
            ),
            insert_namespaces: concat!(
                "INSERT INTO tidegate_namespaces \
                 (workspace, name, mode, consistency, outage, created_at, deleted_at, \
                 revision, id) VALUES ",
                many!("(?, ?, ?, ?, ?, ?, ?, ?, ?)")
            ),
            override_by_pattern: select!(
                "tidegate_overrides",
                "WHERE namespace = ? AND pattern = ?",
                "namespace",
                "pattern",
                "limit_max",
                "window_ms",
                "created_at",
                "deleted_at"
            ),
            more_workspaces: "SELECT id FROM tidegate_workspaces LIMIT 1 OFFSET ?",
            more_keys: "SELECT id FROM tidegate_keys WHERE workspace = ? LIMIT 1 OFFSET ?",
            more_namespaces: "SELECT id FROM tidegate_namespaces WHERE workspace = ? \
                 LIMIT 1 OFFSET ?",
            more_overrides: "SELECT id FROM tidegate_overrides WHERE namespace = ? \
                 LIMIT 1 OFFSET ?",
            add_audit: "INSERT INTO tidegate_audit (time_at, workspace, actor, event, detail) \
                 VALUES (?, ?, ?, ?, ?)",
            add_audits: concat!(
                "INSERT INTO tidegate_audit (time_at, workspace, actor, event, detail) VALUES ",
                many!("(?, ?, ?, ?, ?)")
            ),
            audit: "SELECT number, time_at, workspace, actor, event, detail FROM tidegate_audit \
                 WHERE number < ? ORDER BY number DESC LIMIT ?",
            audit_of: "SELECT number, time_at, workspace, actor, event, detail \
                 FROM tidegate_audit WHERE workspace = ? AND number < ? \
                 ORDER BY number DESC LIMIT ?",
            oldest_audit: "SELECT number, time_at FROM tidegate_audit ORDER BY number LIMIT ?",
            delete_audit: "DELETE FROM tidegate_audit WHERE number >= ? AND number <= ?",
        }
    }
}

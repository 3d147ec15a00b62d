//! The RFC's table: in a database with its schema and its statements, or in memory.

use std::collections::BTreeMap;
use std::fmt::Write;

use sqlx::mysql::{MySqlConnection, MySqlRow};
use sqlx::{Connection, Row};

use super::super::database::Database;
use super::super::fleet::Fleet;
use crate::Failure;

/// As in the RFC.
const CREATE: &str = "CREATE TABLE IF NOT EXISTS ratelimit_window_counts (
    pk bigint unsigned AUTO_INCREMENT NOT NULL,
    workspace_id varchar(191) NOT NULL,
    namespace varchar(255) NOT NULL,
    identifier varchar(255) NOT NULL,
    duration_ms bigint unsigned NOT NULL,
    sequence bigint NOT NULL,
    region varchar(48) NOT NULL,
    count bigint unsigned NOT NULL,
    expires_at bigint unsigned NOT NULL,
    updated_at bigint unsigned NOT NULL,
    CONSTRAINT ratelimit_window_counts_pk PRIMARY KEY (pk),
    CONSTRAINT unique_window_region UNIQUE
        (workspace_id, namespace, identifier, duration_ms, sequence, region),
    INDEX expires_at_idx (expires_at),
    INDEX lookup_idx (workspace_id, namespace, identifier, duration_ms, sequence)
) CHARACTER SET utf8mb4";
const INSERT: &str = "INSERT INTO ratelimit_window_counts (workspace_id, namespace, identifier, \
    duration_ms, sequence, region, count, expires_at, updated_at) VALUES ";
const MERGE: &str = " ON DUPLICATE KEY UPDATE count = GREATEST(count, VALUES(count)), \
    updated_at = VALUES(updated_at)";
const SUMS: &str = "SELECT workspace_id, namespace, identifier, duration_ms, sequence, \
    CAST(SUM(count) AS SIGNED) AS imported FROM ratelimit_window_counts \
    WHERE expires_at > ? AND region != ? \
    GROUP BY workspace_id, namespace, identifier, duration_ms, sequence";
const CLEAN: &str = "DELETE FROM ratelimit_window_counts WHERE expires_at < ?";
/// Most rows of a statement: what fits into a packet of 1 MB.
const ROWS_AT_ONCE: usize = 5_000;

/// One row to write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    pub(super) place: usize,
    pub(super) person: usize,
    pub(super) region: usize,
    pub(super) sequence: u64,
    pub(super) count: u64,
    /// Since when it was worth writing.
    pub(super) since_ms: u64,
}

/// See the module.
pub(crate) enum Table<'a> {
    /// What each region wrote of each window of each person.
    Memory(BTreeMap<(usize, u64), BTreeMap<usize, u64>>),
    /// A real one.
    Real(Box<MySqlConnection>, &'a Database),
}

impl<'a> Table<'a> {
    /// An empty one in a database.
    pub(crate) fn real(database: &'a Database) -> Result<Self, Failure> {
        let connection = database.runtime.block_on(async {
            let mut connection = MySqlConnection::connect(&database.server.url()).await?;
            sqlx::raw_sql(CREATE).execute(&mut connection).await?;
            Ok::<_, sqlx::Error>(connection)
        })?;
        Ok(Self::Real(Box::new(connection), database))
    }

    /// Writes rows, by maximum.
    pub(super) fn write(
        &mut self,
        fleet: &Fleet,
        rows: &[Written],
        unix_ms: u64,
    ) -> Result<(), Failure> {
        match self {
            Self::Memory(sums) => {
                for row in rows {
                    let regions = sums.entry((row.person, row.sequence)).or_default();
                    let count = regions.entry(row.region).or_default();
                    *count = row.count.max(*count);
                }
            }
            Self::Real(connection, database) => {
                for rows in rows.chunks(ROWS_AT_ONCE) {
                    let sql = sqlx::AssertSqlSafe(upsert(fleet, rows, unix_ms)?);
                    let done = sqlx::raw_sql(sql).execute(connection.as_mut());
                    database.runtime.block_on(done)?;
                }
            }
        }
        Ok(())
    }

    /// What all other regions wrote of each window, as person, sequence and sum.
    pub(super) fn sums(
        &mut self,
        fleet: &Fleet,
        unix_ms: u64,
        region: usize,
    ) -> Result<Vec<(usize, u64, u64)>, Failure> {
        match self {
            Self::Memory(sums) => {
                let expires_ms =
                    |person, sequence: u64| (sequence + 2) * fleet.people.at(person).window_ms;
                sums.retain(|(person, sequence), _| expires_ms(*person, *sequence) > unix_ms);
                let others = |regions: &BTreeMap<usize, u64>| -> u64 {
                    regions.iter().filter(|(of, _)| **of != region).map(|(_, count)| count).sum()
                };
                let all = sums
                    .iter()
                    .map(|((person, sequence), regions)| (*person, *sequence, others(regions)));
                Ok(all.filter(|(_, _, sum)| *sum > 0).collect())
            }
            Self::Real(connection, database) => {
                let query = sqlx::query(SUMS).bind(unix_ms).bind(name(region));
                let rows = database.runtime.block_on(query.fetch_all(connection.as_mut()))?;
                rows.iter().map(sum).collect()
            }
        }
    }

    /// Deletes what has expired.
    pub(super) fn clean(&mut self, unix_ms: u64) -> Result<(), Failure> {
        if let Self::Real(connection, database) = self {
            let query = sqlx::query(CLEAN).bind(unix_ms);
            database.runtime.block_on(query.execute(connection.as_mut()))?;
        }
        Ok(())
    }
}

fn name(region: usize) -> String {
    format!("region-{region:02}")
}

fn sum(row: &MySqlRow) -> Result<(usize, u64, u64), Failure> {
    let identifier: String = row.try_get(2)?;
    let (sequence, sum): (i64, i64) = (row.try_get(4)?, row.try_get(5)?);
    let digits = identifier.trim_start_matches("user_");
    Ok((digits.parse()?, u64::try_from(sequence)?, u64::try_from(sum)?))
}

fn upsert(fleet: &Fleet, rows: &[Written], unix_ms: u64) -> Result<String, Failure> {
    let mut sql = INSERT.to_owned();
    for (number, row) in rows.iter().enumerate() {
        let person = fleet.people.at(row.person);
        let window_ms = person.window_ms;
        let [workspace, namespace] = Fleet::NAMES;
        let (region, sequence, count) = (name(row.region), row.sequence, row.count);
        let expires_ms = (sequence + 2) * window_ms;
        let comma = if number > 0 { "," } else { "" };
        let identifier = &person.identifier;
        write!(sql, "{comma}('{workspace}','{namespace}','{identifier}',{window_ms},{sequence},")?;
        write!(sql, "'{region}',{count},{expires_ms},{unix_ms})")?;
    }
    sql.push_str(MERGE);
    Ok(sql)
}

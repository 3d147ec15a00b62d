//! The one call that deletes: old rows of the audit.

use crate::global::pool::Job;
use crate::global::session::{Record, Session, Trouble, Value};

/// Most rows looked at in one call: as many as a database deletes at once without anybody waiting.
const ROWS_MAX: u64 = 10_000;

/// What was deleted of the audit. [`ControlStore`](super::ControlStore) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forgotten {
    /// How many rows.
    pub rows: u64,
    /// Whether there may be more.
    pub more: bool,
}

/// Deletes those of the oldest rows that are from before some time.
///
/// Numbers are in the order of changes, times nearly so: clocks differ. So rows are looked at by
/// number, for which there is an index, and one that is too young among them is left where it is.
#[derive(Debug)]
pub(super) struct Forget {
    pub(super) before_ms: u64,
    pub(super) rows_max: usize,
}

impl Job for Forget {
    type Output = Forgotten;

    async fn run<S: Session>(&self, session: &mut S) -> Result<Forgotten, Trouble> {
        let statements = &S::STATEMENTS.control;
        let most = u64::try_from(self.rows_max).unwrap_or(ROWS_MAX).min(ROWS_MAX);
        let oldest = session.read(statements.oldest_audit, &[Value::Place(most)]).await?;
        let oldest: Result<Vec<(u64, u64)>, Trouble> = oldest.into_iter().map(row).collect();
        let oldest = oldest?;
        let is_old = |row: &(u64, u64)| row.1 < self.before_ms;
        let mut rows: u64 = 0;
        for run in oldest.chunk_by(|a, b| is_old(a) == is_old(b)) {
            let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
            if is_old(first) {
                let between = [Value::Place(first.0), Value::Place(last.0)];
                let deleted = session.write(statements.delete_audit, &between).await?;
                rows = rows.saturating_add(deleted.rows);
            }
        }
        let full = u64::try_from(oldest.len()).unwrap_or(u64::MAX) >= most;
        Ok(Forgotten { rows, more: full && oldest.last().is_some_and(is_old) })
    }
}

/// Its number and its time.
fn row(mut record: Record) -> Result<(u64, u64), Trouble> {
    Ok((record.number()?, record.number()?))
}

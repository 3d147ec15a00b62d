//! The calls that read.

use std::collections::BTreeSet;
use std::marker::PhantomData;

use tidegate_convergence::GlobalError;

use super::change::Changes;
use super::rows::{AuditRow, Stored};
use crate::global::pool::{Job, Pool};
use crate::global::session::{Opener, Record, Session, Trouble, Value, foreign};

/// Rows read at a time: a page of the longest names is some megabytes, and is there long before a
/// call has to give up.
const PAGE_ROWS: u64 = 2_000;
/// Most pages of one table in one call: twenty million rows, which no process keeps.
const PAGES_MAX: usize = 10_000;
/// Most rows of the audit in one call.
const AUDIT_ROWS_MAX: u64 = 1_000;

/// Reads the revision.
#[derive(Debug)]
pub(super) struct Revision;

impl Job for Revision {
    type Output = u64;

    async fn run<S: Session>(&self, session: &mut S) -> Result<u64, Trouble> {
        revision(session, S::STATEMENTS.control.revision).await
    }
}

/// Reads the revision with a statement of those that do.
pub(super) async fn revision<S: Session>(
    session: &mut S,
    statement: &'static str,
) -> Result<u64, Trouble> {
    let rows = session.read(statement, &[]).await?;
    rows.into_iter().next().ok_or_else(foreign)?.number()
}

/// Reads what changed.
///
/// The revision is read first, so it is never ahead of the rows. A row that changes meanwhile moves
/// towards the end of what is read, so it is met before or after it moved, or both times. Rows are
/// read before those that they belong to, which were there earlier.
pub(super) async fn changes<O: Opener>(pool: &Pool<O>, since: u64) -> Result<Changes, GlobalError> {
    let revision = pool.run(&Revision).await?;
    if revision == since {
        return Ok(Changes { revision, whole: since == 0, ..Changes::default() });
    }
    let whole = since == 0 || revision < since;
    let since = if whole { 0 } else { since };
    let overrides = table(pool, since).await?;
    let namespaces = table(pool, since).await?;
    let keys = table(pool, since).await?;
    let workspaces = table(pool, since).await?;
    Ok(Changes { revision, whole, workspaces, keys, namespaces, overrides })
}

/// Reads what changed in one table, page by page: each is a call of its own, with its own time.
async fn table<O: Opener, R: Stored>(pool: &Pool<O>, since: u64) -> Result<Vec<R>, GlobalError> {
    let revision = since.saturating_add(1);
    let mut page = Page::<R> { revision, id: String::new(), row: PhantomData };
    let mut found = Vec::new();
    for _ in 0..PAGES_MAX {
        let rows = pool.run(&page).await?;
        let full = u64::try_from(rows.len()).unwrap_or(u64::MAX) >= PAGE_ROWS;
        if let Some((last, revision)) = rows.last() {
            (page.revision, page.id) = (*revision, last.id().to_owned());
        }
        found.extend(rows.into_iter().map(|(row, _)| row));
        if !full {
            return Ok(last_ones(found));
        }
    }
    Err(GlobalError::Refused("there are too many rows to keep".to_owned()))
}

/// Keeps the last one of those that were met several times.
fn last_ones<R: Stored>(mut found: Vec<R>) -> Vec<R> {
    let mut met = BTreeSet::new();
    let last: Vec<bool> = found.iter().rev().map(|row| met.insert(row.id())).collect();
    let mut last = last.into_iter().rev();
    found.retain(|_| last.next().unwrap_or(true));
    found
}

/// Some rows of a table, with their revisions, behind one of them.
struct Page<R> {
    revision: u64,
    id: String,
    row: PhantomData<R>,
}

impl<R: Stored> Job for Page<R> {
    type Output = Vec<(R, u64)>;

    async fn run<S: Session>(&self, session: &mut S) -> Result<Vec<(R, u64)>, Trouble> {
        let revision = Value::Place(self.revision);
        let values =
            [revision, revision, Value::Bytes(self.id.as_bytes()), Value::Place(PAGE_ROWS)];
        let rows = session.read(R::table(&S::STATEMENTS.control).since, &values).await?;
        rows.into_iter().map(|mut row| R::read(&mut row)).collect()
    }
}

/// Reads the audit.
#[derive(Debug)]
pub(super) struct Audit<'a> {
    pub(super) workspace: Option<&'a str>,
    pub(super) before: Option<u64>,
    pub(super) rows_max: usize,
}

impl Job for Audit<'_> {
    type Output = Vec<AuditRow>;

    async fn run<S: Session>(&self, session: &mut S) -> Result<Vec<AuditRow>, Trouble> {
        let statements = &S::STATEMENTS.control;
        let before = Value::Place(self.before.unwrap_or(u64::MAX));
        let most = u64::try_from(self.rows_max).unwrap_or(AUDIT_ROWS_MAX).min(AUDIT_ROWS_MAX);
        let most = Value::Place(most);
        let rows = match self.workspace {
            Some(workspace) => {
                let values = [Value::Bytes(workspace.as_bytes()), before, most];
                session.read(statements.audit_of, &values).await?
            }
            None => session.read(statements.audit, &[before, most]).await?,
        };
        rows.into_iter().map(audit).collect()
    }
}

fn audit(mut record: Record) -> Result<AuditRow, Trouble> {
    let (number, time_ms) = (record.number()?, record.number()?);
    let (workspace, actor) = (record.text()?, record.text()?);
    let (event, detail) = (record.text()?, record.text()?);
    Ok(AuditRow { number, time_ms, workspace, actor, event, detail })
}

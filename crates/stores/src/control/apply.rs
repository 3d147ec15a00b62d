//! One change, as one transaction.
//!
//! Whatever happens inside, the transaction has ended before the connection is given back. If that
//! cannot be said for sure, the connection is not given back.

use tidegate_convergence::GlobalError;

use super::change::{Applied, Change, Changes, ControlError};
use super::read::revision;
use super::rows::Stored;
use super::statements::MANY;
use crate::global::pool::Job;
use crate::global::session::{Session, Trouble, Value};

/// Makes a change.
#[derive(Debug)]
pub(super) struct Apply<'a> {
    pub(super) change: &'a Change,
    pub(super) actor: &'a str,
    pub(super) now_ms: u64,
}

/// Why a transaction is not to be committed.
#[derive(Debug)]
pub(super) enum Stop {
    /// The caller asked for something that cannot be.
    Refused(ControlError),
    /// The database.
    Trouble(Trouble),
}

impl From<Trouble> for Stop {
    fn from(why: Trouble) -> Self {
        Self::Trouble(why)
    }
}

impl Job for Apply<'_> {
    type Output = Result<Applied, ControlError>;

    async fn run<S: Session>(&self, session: &mut S) -> Result<Self::Output, Trouble> {
        session.write(S::STATEMENTS.control.begin, &[]).await?;
        let why = match self.inside(session).await {
            Ok(applied) => match commit(session).await {
                Ok(()) => return Ok(Ok(applied)),
                Err(why) => Stop::Trouble(why),
            },
            Err(why) => why,
        };
        match why {
            // There is nobody any more to tell it to.
            Stop::Trouble(why @ (Trouble::Lost(_) | Trouble::Unsure(_))) => Err(why),
            Stop::Trouble(why) => match session.write("ROLLBACK", &[]).await {
                Ok(_) => Err(why),
                Err(_) => Err(Trouble::Lost(why.into_error())),
            },
            Stop::Refused(why) => match session.write("ROLLBACK", &[]).await {
                Ok(_) => Ok(Err(why)),
                Err(why) => Err(Trouble::Lost(why.into_error())),
            },
        }
    }
}

impl Apply<'_> {
    async fn inside<S: Session>(&self, session: &mut S) -> Result<Applied, Stop> {
        // Before anything else is read: from here on nobody else changes anything.
        let revision = revision(session, S::STATEMENTS.control.lock).await?;
        let changes = Changes { revision, ..Changes::default() };
        let mut transaction = Transaction {
            session,
            now_ms: self.now_ms,
            written: false,
            changes,
            notes: Vec::new(),
        };
        self.change.make(&mut transaction).await?;
        transaction.end(self.actor).await
    }
}

async fn commit<S: Session>(session: &mut S) -> Result<(), Trouble> {
    match session.write("COMMIT", &[]).await {
        Ok(_) => Ok(()),
        Err(Trouble::Lost(why)) => Err(Trouble::Unsure(unsure(why))),
        Err(why) => Err(why),
    }
}

/// The words for who cannot know what became of it.
fn unsure(why: GlobalError) -> GlobalError {
    match why {
        GlobalError::Unreachable(why) => {
            GlobalError::Unreachable(format!("{why}; the change may have been made"))
        }
        other => other,
    }
}

/// A transaction that has the revision.
pub(super) struct Transaction<'s, S> {
    session: &'s mut S,
    pub(super) now_ms: u64,
    written: bool,
    /// The revision is the one that was found until the end.
    pub(super) changes: Changes,
    notes: Vec<Note>,
}

/// A row of the audit to be.
struct Note {
    workspace: String,
    event: &'static str,
    detail: String,
}

impl Note {
    fn values<'a>(&'a self, actor: &'a str, now_ms: u64) -> [Value<'a>; 5] {
        let texts = [self.workspace.as_str(), actor, self.event, &self.detail];
        let [workspace, actor, event, detail] = texts.map(|text| Value::Bytes(text.as_bytes()));
        [Value::Number(now_ms), workspace, actor, event, detail]
    }
}

/// How many there may be, and how many are to be written beside the one.
pub(super) struct Room {
    pub(super) more: usize,
    pub(super) what: &'static str,
    pub(super) max: u64,
}

impl<S: Session> Transaction<'_, S> {
    /// The row with this id.
    pub(super) async fn find<R: Stored>(&mut self, id: &str) -> Result<Option<R>, Stop> {
        let statement = R::table(&S::STATEMENTS.control).by_id;
        self.look(statement, &[Value::Bytes(id.as_bytes())]).await
    }

    /// The same; it has to be there.
    pub(super) async fn get<R: Stored>(&mut self, id: &str) -> Result<R, Stop> {
        self.find(id).await?.ok_or(Stop::Refused(ControlError::NotFound(R::WHAT)))
    }

    /// The row that a statement gives, which has all columns.
    pub(super) async fn look<R: Stored>(
        &mut self,
        statement: &'static str,
        values: &[Value<'_>],
    ) -> Result<Option<R>, Stop> {
        Ok(self.look_all(statement, values).await?.into_iter().next())
    }

    /// The same; all of them.
    pub(super) async fn look_all<R: Stored>(
        &mut self,
        statement: &'static str,
        values: &[Value<'_>],
    ) -> Result<Vec<R>, Stop> {
        let rows = self.session.read(statement, values).await?;
        rows.into_iter().map(|mut row| Ok(R::read(&mut row)?.0)).collect()
    }

    /// Refuses if there would be too many. The statement says whether there is one beyond a number.
    pub(super) async fn room(
        &mut self,
        statement: &'static str,
        owner: Option<&str>,
        Room { more, what, max }: Room,
    ) -> Result<(), Stop> {
        let more = u64::try_from(more).unwrap_or(u64::MAX).saturating_add(1);
        let Some(beyond) = max.checked_sub(more) else {
            return Err(Stop::Refused(ControlError::Full { what, max }));
        };
        let beyond = Value::Place(beyond);
        let rows = match owner {
            Some(id) => {
                self.session.read(statement, &[Value::Bytes(id.as_bytes()), beyond]).await?
            }
            None => self.session.read(statement, &[beyond]).await?,
        };
        if rows.is_empty() { Ok(()) } else { Err(Stop::Refused(ControlError::Full { what, max })) }
    }

    /// Writes a new row.
    pub(super) async fn insert<R: Stored>(&mut self, row: R) -> Result<(), Stop> {
        match self.write(R::table(&S::STATEMENTS.control).insert, row).await {
            Err(Trouble::Duplicate) => Err(Stop::Refused(ControlError::Exists(R::WHAT))),
            done => Ok(done?),
        }
    }

    /// Writes new rows: as many at a time as the statement takes, and the rest one by one.
    pub(super) async fn insert_many<R: Stored>(
        &mut self,
        statement: &'static str,
        rows: Vec<R>,
    ) -> Result<(), Stop> {
        let revision = Value::Place(self.changes.revision.saturating_add(1));
        let mut rest = rows.into_iter();
        while rest.len() >= MANY {
            let chunk: Vec<R> = rest.by_ref().take(MANY).collect();
            let mut scratch = vec![Vec::new(); MANY];
            let mut values = Vec::new();
            for (row, scratch) in chunk.iter().zip(&mut scratch) {
                values.extend(row.values(scratch));
                values.extend([revision, Value::Bytes(row.id().as_bytes())]);
            }
            match self.session.write(statement, &values).await {
                Err(Trouble::Duplicate) => {
                    return Err(Stop::Refused(ControlError::Exists(R::WHAT)));
                }
                done => drop(done?),
            }
            self.written = true;
            chunk.into_iter().for_each(|row| row.put(&mut self.changes));
        }
        for row in rest {
            self.insert(row).await?;
        }
        Ok(())
    }

    /// Writes a row that is there; says whether it is another one now.
    pub(super) async fn update<R: Stored>(&mut self, before: R, after: R) -> Result<bool, Stop> {
        if before == after {
            self.found(before);
            return Ok(false);
        }
        self.write(R::table(&S::STATEMENTS.control).update, after).await?;
        Ok(true)
    }

    /// A row that stays as it is, but belongs to the answer.
    pub(super) fn found<R: Stored>(&mut self, row: R) {
        row.put(&mut self.changes);
    }

    /// A line for the audit.
    pub(super) fn note(&mut self, workspace: &str, event: &'static str, detail: String) {
        self.notes.push(Note { workspace: workspace.to_owned(), event, detail });
    }

    async fn write<R: Stored>(&mut self, statement: &'static str, row: R) -> Result<(), Trouble> {
        let revision = self.changes.revision.saturating_add(1);
        let mut scratch = Vec::new();
        let mut values = row.values(&mut scratch);
        values.extend([Value::Place(revision), Value::Bytes(row.id().as_bytes())]);
        self.session.write(statement, &values).await?;
        drop(values);
        self.written = true;
        row.put(&mut self.changes);
        Ok(())
    }

    /// Raises the revision and writes the audit, if there is a reason.
    async fn end(mut self, actor: &str) -> Result<Applied, Stop> {
        if self.written {
            let statements = &S::STATEMENTS.control;
            self.changes.revision = self.changes.revision.saturating_add(1);
            let revision = Value::Place(self.changes.revision);
            self.session.write(statements.raise, &[revision]).await?;
            let now_ms = self.now_ms;
            for chunk in self.notes.chunks(MANY) {
                let values: Vec<_> = chunk.iter().map(|note| note.values(actor, now_ms)).collect();
                if chunk.len() == MANY {
                    self.session.write(statements.add_audits, &values.concat()).await?;
                    continue;
                }
                for values in &values {
                    self.session.write(statements.add_audit, values).await?;
                }
            }
        }
        Ok(Applied { changes: self.changes })
    }
}

#[cfg(test)]
#[cfg(feature = "sqlite")]
mod tests;

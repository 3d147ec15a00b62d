//! One change, as one transaction.
//!
//! Whatever happens inside, the transaction has ended before the connection is given back. If that
//! cannot be said for sure, the connection is not given back.

use tidegate_convergence::GlobalError;

use super::change::{Applied, Change, Changes, ControlError};
use super::read::revision;
use super::rows::Stored;
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
    changes: Changes,
    notes: Vec<Note>,
}

/// A row of the audit to be.
struct Note {
    workspace: String,
    event: &'static str,
    detail: String,
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
        let rows = self.session.read(statement, values).await?;
        let Some(mut row) = rows.into_iter().next() else { return Ok(None) };
        Ok(Some(R::read(&mut row)?.0))
    }

    /// Refuses if a statement, which is given how many it should look beyond, finds one more.
    pub(super) async fn room(
        &mut self,
        statement: &'static str,
        owner: Option<&str>,
        (what, max): (&'static str, u64),
    ) -> Result<(), Stop> {
        let beyond = Value::Place(max.saturating_sub(1));
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
            for note in &self.notes {
                let values = [
                    Value::Number(self.now_ms),
                    Value::Bytes(note.workspace.as_bytes()),
                    Value::Bytes(actor.as_bytes()),
                    Value::Bytes(note.event.as_bytes()),
                    Value::Bytes(note.detail.as_bytes()),
                ];
                self.session.write(statements.add_audit, &values).await?;
            }
        }
        Ok(Applied { changes: self.changes })
    }
}

#[cfg(test)]
#[cfg(feature = "sqlite")]
mod tests;

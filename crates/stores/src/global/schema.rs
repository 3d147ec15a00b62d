//! Which tables there are.

use tidegate_convergence::GlobalError;

use super::pool::Job;
use super::session::{Session, Trouble, Value};

/// How many versions of the tables there have been.
pub(crate) const VERSIONS: usize = 3;

/// The version of the tables that this build works with. The `check` of a store compares it;
/// `MysqlStore` has an example.
pub const SCHEMA_VERSION: u64 = VERSIONS as u64;

/// What makes one version of the one before. It may be done twice, and at the same time as in
/// another process.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Migration {
    /// Statements, each of which may run twice.
    Tables(&'static [&'static str]),
    /// One that may not: not every database can be told to add a column unless it is there.
    Column {
        /// () → whether it is there.
        there: &'static str,
        add: &'static str,
    },
}

/// Makes the tables, or brings them up to date.
#[derive(Debug)]
pub(super) struct Migrate;

/// Looks whether the tables are those that we know.
#[derive(Debug)]
pub(super) struct Check;

impl Job for Migrate {
    type Output = ();

    async fn run<S: Session>(&self, session: &mut S) -> Result<(), Trouble> {
        let statements = S::STATEMENTS;
        session.write(statements.create_schema, &[]).await?;
        let found = version(session).await?;
        if found > SCHEMA_VERSION {
            return Err(newer(found));
        }
        // Not one transaction: MySQL ends it at each table. Instead, whoever stops half-way or
        // has company can begin again, because every step may be taken twice.
        for (number, migration) in (1..).zip(statements.migrations).filter(|(to, _)| *to > found) {
            migration.run(session).await?;
            session.write(statements.reached, &[Value::Number(number)]).await?;
        }
        Ok(())
    }
}

impl Migration {
    async fn run<S: Session>(self, session: &mut S) -> Result<(), Trouble> {
        match self {
            Self::Tables(steps) => {
                for step in steps {
                    session.write(step, &[]).await?;
                }
                Ok(())
            }
            Self::Column { there, add } => {
                if number(session, there).await? > 0 {
                    return Ok(());
                }
                match session.write(add, &[]).await {
                    // Somebody else may have been quicker.
                    Err(why @ Trouble::Said(_)) => match number(session, there).await? {
                        0 => Err(why),
                        _ => Ok(()),
                    },
                    done => done.map(drop),
                }
            }
        }
    }
}

impl Job for Check {
    type Output = ();

    async fn run<S: Session>(&self, session: &mut S) -> Result<(), Trouble> {
        match version(session).await? {
            SCHEMA_VERSION => Ok(()),
            0 => Err(Trouble::Said(missing())),
            found if found > SCHEMA_VERSION => Err(newer(found)),
            found => Err(Trouble::Said(GlobalError::Schema(format!(
                "the tables are of version {found}, this build needs {SCHEMA_VERSION}: \
                 run `tidegate migrate`"
            )))),
        }
    }
}

async fn version<S: Session>(session: &mut S) -> Result<u64, Trouble> {
    number(session, S::STATEMENTS.version).await
}

/// The one number that a statement gives.
async fn number<S: Session>(session: &mut S, statement: &'static str) -> Result<u64, Trouble> {
    let rows = session.read(statement, &[]).await?;
    rows.into_iter().next().ok_or_else(super::session::foreign)?.number()
}

/// No tables, or not all.
pub(super) fn missing() -> GlobalError {
    GlobalError::Schema("the tables are missing: run `tidegate migrate`".to_owned())
}

fn newer(found: u64) -> Trouble {
    Trouble::Said(GlobalError::Schema(format!(
        "the tables are of version {found}, this build knows {SCHEMA_VERSION}: upgrade"
    )))
}

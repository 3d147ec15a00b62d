//! Which tables there are.
//!
//! A *version* is what older builds cannot live with: they refuse tables of a newer one. An
//! *addition* is what they need not know: a column that may be empty, or a new table. Nothing is
//! written down of additions, because the tables say themselves what they have. So old and new
//! builds work on the same tables, in any order, and an upgrade can be undone: a build demands its
//! version and its own additions, and does not mind what others have added.

use tidegate_convergence::GlobalError;

use super::pool::Job;
use super::session::{Session, Trouble, Value};

/// How many versions of the tables there have been.
pub(crate) const VERSIONS: usize = 3;

/// The version of the tables that this build works with. The `check` of a store compares it;
/// `MysqlStore` has an example.
pub const SCHEMA_VERSION: u64 = VERSIONS as u64;

/// How many additions there have been since then.
pub(crate) const ADDITIONS: usize = 1;

/// What this build needs beside its version, and older ones of the same version do without. They
/// must never write what it holds, nor read all columns of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addition {
    /// For who asks what was added.
    pub(crate) name: &'static str,
    /// () → whether it is there.
    pub(crate) there: &'static str,
    pub(crate) add: &'static str,
}

/// What a migration did. `MysqlStore` has an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// The version that was found; 0 if there were no tables.
    pub found: u64,
    /// The version that there is now.
    pub version: u64,
    /// What was added to it: `table.column`.
    pub additions: Vec<&'static str>,
}

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
    type Output = Migrated;

    async fn run<S: Session>(&self, session: &mut S) -> Result<Migrated, Trouble> {
        let Some(begin) = S::STATEMENTS.begin_migration else { return migrate(session).await };
        // Most starts find everything there, and then nothing is locked.
        if Check.run(session).await.is_ok() {
            let (found, version) = (SCHEMA_VERSION, SCHEMA_VERSION);
            return Ok(Migrated { found, version, additions: Vec::new() });
        }
        session.write(begin, &[]).await?;
        let done = match migrate(session).await {
            Ok(migrated) => session.write("COMMIT", &[]).await.map(|_| migrated),
            failed => failed,
        };
        let Err(why) = done else { return done };
        match session.write("ROLLBACK", &[]).await {
            Ok(_) => Err(why),
            // It may still be open: the connection goes with it.
            Err(_) => Err(Trouble::Lost(why.into_error())),
        }
    }
}

async fn migrate<S: Session>(session: &mut S) -> Result<Migrated, Trouble> {
    let statements = S::STATEMENTS;
    session.write(statements.create_schema, &[]).await?;
    let found = version(session).await?;
    if found > SCHEMA_VERSION {
        return Err(newer(found));
    }
    // Not always one transaction: MySQL ends it at each table. Instead, whoever stops half-way or
    // has company can begin again, because every step may be taken twice.
    for (number, migration) in (1..).zip(statements.migrations).filter(|(to, _)| *to > found) {
        migration.run(session).await?;
        session.write(statements.reached, &[Value::Number(number)]).await?;
    }
    let mut additions = Vec::new();
    for Addition { name, there, add } in statements.additions {
        if add_unless(session, there, add).await? {
            additions.push(name);
        }
    }
    Ok(Migrated { found, version: SCHEMA_VERSION, additions })
}

/// Adds what may not be added twice, and says whether it did.
async fn add_unless<S: Session>(
    session: &mut S,
    there: &'static str,
    add: &'static str,
) -> Result<bool, Trouble> {
    if number(session, there).await? > 0 {
        return Ok(false);
    }
    match session.write(add, &[]).await {
        // Somebody else may have been quicker.
        Err(why @ Trouble::Said(_)) => match number(session, there).await? {
            0 => Err(why),
            _ => Ok(false),
        },
        done => done.map(|_| true),
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
            Self::Column { there, add } => add_unless(session, there, add).await.map(drop),
        }
    }
}

impl Job for Check {
    type Output = ();

    async fn run<S: Session>(&self, session: &mut S) -> Result<(), Trouble> {
        match version(session).await? {
            SCHEMA_VERSION => added(session).await,
            0 => Err(Trouble::Said(missing())),
            found if found > SCHEMA_VERSION => Err(newer(found)),
            found => Err(Trouble::Said(GlobalError::Schema(format!(
                "the tables are of version {found}, this build needs {SCHEMA_VERSION}: \
                 run `tidegate migrate`"
            )))),
        }
    }
}

/// Whether everything is there that this build needs beside its version.
async fn added<S: Session>(session: &mut S) -> Result<(), Trouble> {
    for Addition { name, there, .. } in S::STATEMENTS.additions {
        if number(session, there).await? == 0 {
            return Err(Trouble::Said(GlobalError::Schema(format!(
                "the tables lack `{name}`, which this build needs: run `tidegate migrate`; \
                 builds that run on these tables go on"
            ))));
        }
    }
    Ok(())
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

/// No such column.
pub(super) fn unknown_column() -> GlobalError {
    GlobalError::Schema("the tables lack a column: run `tidegate migrate`".to_owned())
}

fn newer(found: u64) -> Trouble {
    Trouble::Said(GlobalError::Schema(format!(
        "the tables are of version {found}, this build knows {SCHEMA_VERSION}: upgrade"
    )))
}

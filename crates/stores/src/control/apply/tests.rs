//! What becomes of a connection whose transaction may not have ended.

use std::sync::{Arc, Mutex};

use sqlx::SqliteConnection;
use tidegate_convergence::GlobalError;

use super::*;
use crate::global::pool::Pool;
use crate::global::session::{Field, Opener, Record, Statements, Written};

/// On which connection what begins like this fails, and how.
type Failure = (usize, &'static str, fn() -> Trouble);

/// What fails, and what was sent over which connection.
#[derive(Debug, Default)]
struct Script {
    fails: Option<Failure>,
    opened: usize,
    sent: Vec<(usize, &'static str)>,
}

#[derive(Debug)]
struct Fake(Arc<Mutex<Script>>);

/// A database in which there is nothing.
struct Connection(usize, Arc<Mutex<Script>>);

impl Opener for Fake {
    type Session = Connection;

    const SESSIONS_MAX: usize = 1;

    async fn open(&self) -> Result<Connection, Trouble> {
        let mut script = self.0.lock().unwrap();
        script.opened += 1;
        Ok(Connection(script.opened, Arc::clone(&self.0)))
    }
}

impl Connection {
    fn send(&self, sql: &'static str) -> Result<(), Trouble> {
        let mut script = self.1.lock().unwrap();
        script.sent.push((self.0, sql));
        match script.fails {
            Some((on, what, why)) if on == self.0 && sql.starts_with(what) => Err(why()),
            _ => Ok(()),
        }
    }
}

impl Session for Connection {
    const STATEMENTS: &'static Statements = <SqliteConnection as Session>::STATEMENTS;

    async fn read(&mut self, sql: &'static str, _: &[Value<'_>]) -> Result<Vec<Record>, Trouble> {
        self.send(sql)?;
        let is_revision = sql.contains("tidegate_revision");
        Ok(is_revision.then(|| Record::new(vec![Field::Number(5)])).into_iter().collect())
    }

    async fn write(&mut self, sql: &'static str, _: &[Value<'_>]) -> Result<Written, Trouble> {
        self.send(sql)?;
        Ok(Written { rows: 1, id: 0 })
    }

    async fn close(self) {}
}

fn lost() -> Trouble {
    Trouble::Lost(GlobalError::Unreachable("hung up".to_owned()))
}

fn said() -> Trouble {
    Trouble::Said(GlobalError::Busy("not now".to_owned()))
}

type Outcome = Result<Result<Applied, ControlError>, GlobalError>;

/// Makes a change that fails as said, then one that does not; before them one more, if the
/// connection is to be warm. Gives the outcome of the first, and how transactions began and ended.
async fn twice(warm: bool, fails: Failure) -> (Outcome, Vec<(usize, &'static str)>) {
    let script = Arc::new(Mutex::new(Script::default()));
    let pool = Pool::new(Fake(Arc::clone(&script)));
    let change = Change::AddWorkspace { id: "ws".to_owned(), name: "acme".to_owned() };
    let apply = Apply { change: &change, actor: "cli", now_ms: 1 };
    if warm {
        pool.run(&apply).await.unwrap().unwrap();
    }
    script.lock().unwrap().fails = Some(fails);
    let first = pool.run(&apply).await;
    script.lock().unwrap().fails = None;
    pool.run(&apply).await.unwrap().unwrap();
    let ends = |sql: &str| ["BEGIN", "COMMIT", "ROLLBACK"].iter().any(|end| sql.starts_with(end));
    let sent = script.lock().unwrap().sent.iter().filter(|(_, sql)| ends(sql)).copied().collect();
    (first, sent)
}

const BEGIN: &str = "BEGIN IMMEDIATE";

#[tokio::test]
async fn a_change_whose_end_is_unknown_is_not_sent_again() {
    for warm in [false, true] {
        let (first, sent) = twice(warm, (1, "COMMIT", lost)).await;
        let told = first.unwrap_err().to_string();
        assert!(told.contains("may have been made"), "{told}");
        let before: &[_] = if warm { &[(1, BEGIN), (1, "COMMIT")] } else { &[] };
        let after = [(1, BEGIN), (1, "COMMIT"), (2, BEGIN), (2, "COMMIT")];
        assert_eq!(sent, [before, &after].concat(), "and the connection is not kept");
    }
}

#[tokio::test]
async fn a_change_that_met_a_dead_connection_is_sent_over_a_new_one() {
    let (first, sent) = twice(true, (1, "BEGIN", lost)).await;
    first.unwrap().unwrap();
    let (first_two, last_two) =
        ([(1, BEGIN), (1, "COMMIT"), (1, BEGIN)], [(2, BEGIN), (2, "COMMIT")]);
    assert_eq!(sent, [&first_two[..], &last_two, &last_two].concat());
}

#[tokio::test]
async fn a_change_that_failed_is_undone_before_the_connection_is_kept() {
    for what in ["INSERT INTO tidegate_workspaces", "UPDATE tidegate_revision", "COMMIT"] {
        let (first, sent) = twice(false, (1, what, said)).await;
        assert!(matches!(first, Err(GlobalError::Busy(_))), "{first:?}");
        let failed: Vec<_> = sent.iter().filter(|one| **one != (1, "COMMIT")).copied().collect();
        assert_eq!(failed, [(1, BEGIN), (1, "ROLLBACK"), (1, BEGIN)], "{what}");
    }
}

#[tokio::test]
async fn a_connection_that_cannot_undo_is_not_kept() {
    // The id is refused by the table, and then nothing works any more.
    fn duplicate() -> Trouble {
        Trouble::Duplicate
    }
    let script = Arc::new(Mutex::new(Script::default()));
    let pool = Pool::new(Fake(Arc::clone(&script)));
    let change = Change::SetKey { id: "key_1".to_owned(), enabled: true };
    let apply = Apply { change: &change, actor: "cli", now_ms: 1 };
    script.lock().unwrap().fails = Some((1, "ROLLBACK", duplicate));
    assert!(pool.run(&apply).await.is_err());
    let refused = pool.run(&apply).await.unwrap();
    assert_eq!(refused, Err(ControlError::NotFound("key")));
    assert_eq!(script.lock().unwrap().opened, 2);
}

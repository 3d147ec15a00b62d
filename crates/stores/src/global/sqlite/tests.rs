use sqlx::AssertSqlSafe;

use super::*;
use crate::global::pool::Job;

/// What SQLite says about how it runs a statement.
async fn plan(session: &mut SqliteConnection, statement: &str) -> String {
    let explain = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}"));
    let lines = sqlx::query(explain).fetch_all(session).await.unwrap();
    let lines: Vec<String> = lines.iter().map(|line| line.get("detail")).collect();
    lines.join("; ")
}

#[tokio::test]
async fn changes_are_read_along_their_revisions() {
    let mut session = SqliteConnection::connect("sqlite::memory:").await.unwrap();
    Migrate.run(&mut session).await.unwrap();
    for (table, statement) in statements::STATEMENTS.control.feeds() {
        let plan = plan(&mut session, statement).await;
        let index = format!("SEARCH {table} USING INDEX {table}_by_revision (revision>?)");
        assert_eq!(plan, index);
    }
}

#[tokio::test]
async fn rows_are_found_by_their_key() {
    let mut session = SqliteConnection::connect("sqlite::memory:").await.unwrap();
    Migrate.run(&mut session).await.unwrap();
    for statement in [statements::STATEMENTS.import, statements::STATEMENTS.delete] {
        let plan = plan(&mut session, statement).await;
        assert!(plan.contains("SEARCH tidegate_feed USING INTEGER PRIMARY KEY"), "{plan}");
        assert!(!plan.contains("SCAN") && !plan.contains("TEMP"), "{plan}");
    }
}

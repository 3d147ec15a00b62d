//! As many rows as a node may have to read.

use std::collections::BTreeSet;
use std::time::Duration;

use tidegate_lab::MariaDbServer;
use tokio::time::Instant;

use crate::support::{Place, add_namespaces, add_workspace, set_override};

/// A generous deadline: it takes about a second.
const LOADED_WITHIN: Duration = Duration::from_secs(60);
const ROWS: u64 = 100_000;

async fn filled() -> Vec<(Place, crate::support::Store)> {
    let ready = Place::ready().await;
    for (place, store) in &ready {
        store.make(&add_workspace("ws")).await;
        store.make(&add_namespaces(&["email"])).await;
        // Few revisions with many rows each, as nobody would make them: pages end inside of one.
        let fill = "#, x'726c6e735f656d61696c', #, 5, 1000, 5, NULL, 3 + n / 30000";
        let fill = match place {
            Place::Server(_) => fill.replace("n / 30000", "n DIV 30000"),
            Place::File(_) => fill.to_owned(),
        };
        place.fill("tidegate_overrides", &fill, ROWS).await;
        place.sql("UPDATE tidegate_revision SET revision = 6").await;
    }
    ready
}

#[tokio::test]
async fn a_hundred_thousand_overrides_are_read_in_seconds_and_each_once() {
    for (_place, store) in filled().await {
        let start = Instant::now();
        let all = store.control().changes(0).await.unwrap();
        println!("{ROWS} overrides in {:?}", start.elapsed());
        assert!(start.elapsed() < LOADED_WITHIN, "{:?}", start.elapsed());
        let ids: BTreeSet<&str> = all.overrides.iter().map(|row| row.id.as_str()).collect();
        assert_eq!((ids.len(), all.overrides.len()), (100_000, 100_000));
        assert_eq!(store.control().changes(5).await.unwrap().overrides.len(), 10_000);
        let start = Instant::now();
        store.make(&set_override("rlor_1", "rlns_email", "fill-7", 9)).await;
        assert_eq!(store.control().changes(6).await.unwrap().overrides.len(), 1);
        println!("one change and one read of it in {:?}", start.elapsed());
    }
}

/// What the server looked at while the statements ran.
fn looks(server: &MariaDbServer, sql: &str) -> (u64, u64) {
    let sql = format!("FLUSH STATUS; {sql}; SHOW SESSION STATUS LIKE 'Handler_read%'");
    let lines = server.query(&sql).unwrap();
    let (counts, rows): (Vec<_>, Vec<_>) =
        lines.iter().partition(|line| line[0].starts_with("Handler_read"));
    let looks = counts.iter().map(|line| line[1].parse::<u64>().unwrap()).sum();
    (looks, u64::try_from(rows.len()).unwrap())
}

#[tokio::test]
async fn a_page_costs_a_server_no_more_than_its_rows() {
    for (place, store) in filled().await {
        let Place::Server(server) = &place else { continue };
        server.query("ANALYZE TABLE tidegate_overrides").unwrap();
        server.query("SET GLOBAL log_output = 'TABLE', GLOBAL general_log = 1").unwrap();
        // One page: the others are like it.
        store.make(&set_override("rlor_1", "rlns_email", "fill-7", 9)).await;
        store.control().changes(6).await.unwrap();
        server.query("SET GLOBAL general_log = 0").unwrap();
        let log = "SELECT argument FROM mysql.general_log WHERE command_type = 'Execute' \
             AND argument LIKE '%tidegate_overrides FORCE%'";
        let statement = server.query(log).unwrap()[0][0].clone();
        let plan = server.query(&format!("EXPLAIN FORMAT = TRADITIONAL {statement}")).unwrap();
        let plan = plan.concat().join(" ");
        assert!(plan.contains("by_revision") && !plan.contains("filesort"), "{plan}");
        let (looked, rows) = looks(server, &statement);
        assert!(looked <= rows + 2, "{looked} looks for {rows}: {statement}");
    }
}

//! How the server runs our statements: by the primary key, and no further than it has to.

use tidegate_convergence::{GlobalCall, GlobalStore, Import, RegionNumber};
use tidegate_lab::MariaDbServer;
use tidegate_stores::MysqlStore;

use crate::support::{mysql, server};

/// What `EXPLAIN` says about a statement: the kind of access, the key and the rest.
#[derive(Debug)]
struct Plan {
    access: String,
    key: String,
    extra: String,
}

/// How many ranges an import has at most: each costs one look, even where there is nothing.
const RANGES: usize = 18;

/// Makes a call and gives the statement that begins like that, as the server saw it.
async fn seen(
    server: &MariaDbServer,
    store: &MysqlStore,
    call: &GlobalCall,
    begins: &str,
) -> String {
    server.query("TRUNCATE mysql.general_log; SET GLOBAL general_log = 1").unwrap();
    store.call(call).await.unwrap();
    server.query("SET GLOBAL general_log = 0").unwrap();
    let log = "SELECT argument FROM mysql.general_log WHERE command_type = 'Execute'";
    let found = server.query(&format!("{log} AND argument LIKE '{begins}%'")).unwrap();
    found[0][0].clone()
}

fn explain(server: &MariaDbServer, statement: &str) -> Plan {
    let lines = server.query(&format!("EXPLAIN FORMAT = TRADITIONAL {statement}")).unwrap();
    assert_eq!(lines.len(), 1, "{lines:?}");
    let line = &lines[0];
    // MySQL says something about partitions as well.
    let access = if line.len() > 10 { 4 } else { 3 };
    let extra = line.last().cloned().unwrap();
    Plan { access: line[access].clone(), key: line[access + 2].clone(), extra }
}

/// How many rows the server looked at, and how many it gave.
fn examined(server: &MariaDbServer, statement: &str) -> (usize, usize) {
    let sql = format!("FLUSH STATUS; {statement}; SHOW SESSION STATUS LIKE 'Handler_read%'");
    let lines = server.query(&sql).unwrap();
    let looks = lines.iter().filter(|line| line[0].starts_with("Handler_read"));
    let looks: Vec<usize> = looks.map(|line| line[1].parse().unwrap()).collect();
    (looks.iter().sum(), lines.len() - looks.len())
}

async fn world(rows: u32) -> (MariaDbServer, MysqlStore) {
    let (server, store) = server().await;
    server.query("SET GLOBAL log_output = 'TABLE'").unwrap();
    let digits: Vec<String> = (1..10).map(|digit| format!("UNION ALL SELECT {digit}")).collect();
    let digits = format!("(SELECT 0 AS d {})", digits.join(" "));
    let fill = format!(
        "INSERT INTO tidegate_feed SELECT n, n % 4, 0, n, n, n, REPEAT('x', 500) FROM ( \
         SELECT 1 + a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d AS n \
         FROM {digits} a, {digits} b, {digits} c, {digits} e, (SELECT 0 AS d UNION SELECT 1) f \
         ) AS t WHERE n <= {rows} ORDER BY n; ANALYZE TABLE tidegate_feed"
    );
    server.query(&fill).unwrap();
    (server, store)
}

#[tokio::test]
async fn an_import_reads_a_range_of_the_key_and_nothing_else() {
    for size in [3, 100, 20_000] {
        let (server, store) = world(size).await;
        let end = u64::from(size);
        for (from, gaps, rows_max) in [
            (0, vec![], 50),
            (end, vec![], 50),
            (end.saturating_sub(10), vec![1, 2, end / 2], 1_000),
            (end.saturating_sub(10), (1..=16).collect(), 5),
            (end + 10, vec![end + 5], 1_000),
        ] {
            let call = GlobalCall::Import(Import { from, gaps, repeats: false, rows_max });
            let statement = seen(&server, &store, &call, "SELECT id, region").await;
            let plan = explain(&server, &statement);
            // From the beginning, MySQL walks the whole key; it stops at the limit all the same.
            let whole = from == 0 && plan.access == "index";
            assert!(plan.key == "PRIMARY" && (whole || plan.access == "range"), "{plan:?}");
            assert!(!plan.extra.contains("filesort"), "{plan:?}");
            let (looks, given) = examined(&server, &statement);
            assert!(looks <= given + RANGES, "{looks} looks for {given}: {statement}");
        }
    }
}

#[tokio::test]
async fn rows_are_deleted_by_their_key() {
    for size in [3, 100, 20_000] {
        let (server, store) = world(size).await;
        let (up_to, written_before_ms) = (u64::from(size), u64::MAX);
        // Few of many, and many of few: whoever looked at all would wait for rows that are locked.
        for (region, rows_max) in [(1, 5), (2, 1_000)] {
            let region = RegionNumber(region);
            let trim = GlobalCall::Trim { region, up_to, written_before_ms, rows_max };
            let statement = seen(&server, &store, &trim, "DELETE").await;
            let lines = server.query(&format!("EXPLAIN FORMAT = TRADITIONAL {statement}")).unwrap();
            let of_feed: Vec<_> = lines.iter().filter(|line| line[2] == "feed").collect();
            let by_key = |line: &&&Vec<String>| {
                line.iter().any(|word| word == "eq_ref") && line.iter().any(|w| w == "PRIMARY")
            };
            assert_eq!(of_feed.iter().filter(by_key).count(), 1, "{lines:?}");
            assert_eq!(of_feed.len(), 1, "{lines:?}");
        }
    }
}

#[tokio::test]
async fn a_session_sets_its_own_limits() {
    let (server, _) = server().await;
    server.query("SET GLOBAL log_output = 'TABLE'; SET GLOBAL general_log = 1").unwrap();
    mysql(&server.url()).check().await.unwrap();
    server.query("SET GLOBAL general_log = 0").unwrap();
    let log = "SELECT argument FROM mysql.general_log WHERE argument LIKE 'SET SESSION %'";
    let told: Vec<String> = server.query(log).unwrap().concat();
    let has = |part: &str| told.iter().any(|line| line.contains(part));
    assert!(has("READ COMMITTED") && has("time_zone = '+00:00'"), "{told:?}");
    assert!(has("wait_timeout = 90"), "{told:?}");
    let limits: Vec<&String> = told.iter().filter(|line| line.contains(" max_")).collect();
    server.query(limits.last().unwrap()).unwrap();
    // MariaDB's or MySQL's.
    assert!(has("max_statement_time = 10") || has("max_execution_time = 10000"), "{told:?}");
}

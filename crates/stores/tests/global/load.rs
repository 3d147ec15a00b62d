//! Many who write, read and delete at once: nobody is the victim of a deadlock.
//!
//! Runs for a minute; for longer:
//! `TIDEGATE_LOAD_SECONDS=600 cargo test -p tidegate-stores --all-features --test global load`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tidegate_convergence::{
    GAPS_MAX, GlobalCall, GlobalReply, GlobalStore, Import, RegionNumber, Row,
};
use tidegate_lab::MariaDbServer;
use tidegate_stores::MysqlStore;
use tokio::time::Instant;

use crate::support::{batch, connect, mysql, rows, server};

const WRITERS: u32 = 8;
const REGIONS: u32 = 4;

fn length() -> Duration {
    let seconds = std::env::var("TIDEGATE_LOAD_SECONDS").ok();
    Duration::from_secs(seconds.map_or(60, |text| text.parse().unwrap()))
}

/// How many times InnoDB had to choose a victim.
fn deadlocks(server: &MariaDbServer) -> u64 {
    let sql = "SELECT count FROM information_schema.innodb_metrics WHERE name = 'lock_deadlocks'";
    server.query(sql).unwrap()[0][0].parse().unwrap()
}

/// Writes rows and deletes all but the last ones of its region; says how many it wrote.
async fn write(store: MysqlStore, writer: u32, until: Instant) -> u64 {
    let (region, mut wrote) = (writer % REGIONS + 1, 0);
    let payload = vec![7; 2_000];
    while Instant::now() < until {
        // Every third one expires at once.
        let expires_ms = if wrote % 3 == 0 { 1 } else { 1_000 };
        let sent = tidegate_convergence::Batch { expires_ms, ..batch(region, &payload) };
        let reply = store.call(&GlobalCall::Publish(sent)).await.unwrap();
        let GlobalReply::Published { id } = reply else { unreachable!("{reply:?}") };
        wrote += 1;
        if wrote % 8 == 0 {
            let (region, up_to) = (RegionNumber(region), id.saturating_sub(200));
            let trim = GlobalCall::Trim { region, up_to, written_before_ms: 11, rows_max: 100 };
            store.call(&trim).await.unwrap();
        }
    }
    wrote
}

/// Deletes what has expired.
async fn collect(store: MysqlStore, until: Instant) {
    while Instant::now() < until {
        // Not the youngest ones, so that who reads can see every row.
        let call = GlobalCall::Collect { expired_before_ms: 2, rows_max: 20 };
        store.call(&call).await.unwrap();
    }
}

/// Reads as a region does: what is new, and what was missing.
async fn read(store: MysqlStore, until: Instant) -> usize {
    let (mut from, mut gaps, mut seen) = (0, BTreeSet::new(), BTreeSet::new());
    while Instant::now() < until {
        let asked: Vec<u64> = gaps.iter().copied().take(GAPS_MAX).collect();
        let call = Import { from, gaps: asked.clone(), repeats: true, rows_max: 500 };
        let found: Vec<Row> = rows(store.call(&GlobalCall::Import(call)).await);
        assert!(found.iter().all(|row| row.id == from || row.batch.payload.len() == 2_000));
        for row in &found {
            gaps.remove(&row.id);
            gaps.extend((from + 1).max(1)..row.id);
            from = from.max(row.id);
            seen.insert(row.id);
        }
        gaps.retain(|id| *id + 64 > from);
    }
    seen.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_readers_and_cleaners_never_deadlock() {
    let (server, _) = server().await;
    server.query("SET GLOBAL innodb_monitor_enable = 'lock_deadlocks'").unwrap();
    let until = Instant::now() + length();
    let url = Arc::new(server.url());
    let writers: Vec<_> =
        (0..WRITERS).map(|writer| tokio::spawn(write(mysql(&url), writer, until))).collect();
    let cleaners: Vec<_> = (0..2).map(|_| tokio::spawn(collect(mysql(&url), until))).collect();
    let reader = tokio::spawn(read(mysql(&url), until));
    let mut wrote = 0;
    for writer in writers {
        wrote += writer.await.unwrap();
    }
    for cleaner in cleaners {
        cleaner.await.unwrap();
    }
    let (seen, found) = (reader.await.unwrap(), deadlocks(&server));
    println!("{wrote} rows written, {seen} read, {found} deadlocks in {:?}", length());
    assert_eq!(found, 0);
    assert!(wrote > 100 && seen > 0);
    deadlock(&server).await;
    assert_eq!(deadlocks(&server), 1, "one that we made is counted");
}

/// Two who each want what the other has.
async fn deadlock(server: &MariaDbServer) {
    server
        .query("CREATE TABLE pair (n INT PRIMARY KEY); INSERT INTO pair VALUES (1), (2)")
        .unwrap();
    let (mut one, mut other) = (connect(server).await, connect(server).await);
    for (session, n) in [(&mut one, "1"), (&mut other, "2")] {
        sqlx::raw_sql("BEGIN").execute(&mut *session).await.unwrap();
        let take = sqlx::query("SELECT n FROM pair WHERE n = ? FOR UPDATE").bind(n);
        take.fetch_all(&mut *session).await.unwrap();
    }
    let want = |n| sqlx::query("SELECT n FROM pair WHERE n = ? FOR UPDATE").bind(n);
    let (first, second) =
        tokio::join!(want("2").fetch_all(&mut one), want("1").fetch_all(&mut other));
    assert!(first.is_err() != second.is_err(), "one of them is the victim");
}

//! `tidegate simulate` on files and pipes, as a user runs it.

mod edges;

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Output, Stdio};

use serde_json::Value;

use crate::support::{data_dir, tidegate};

/// A directory with files in it.
struct Home(PathBuf);

/// What it said, and how it ended.
struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Home {
    fn new(files: &[(&str, &str)]) -> Self {
        let home = Self(data_dir());
        fs::create_dir_all(&home.0).unwrap();
        for (name, text) in files {
            fs::write(home.0.join(name), text).unwrap();
        }
        home
    }

    /// Runs it where the files are. It needs no server, and ends by itself.
    fn run(&self, line: &str, stdin: &[u8]) -> Ended {
        let args: Vec<&str> = std::iter::once("simulate").chain(line.split(' ')).collect();
        let mut command = tidegate(&args);
        command.current_dir(&self.0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // Whoever does not read it may have ended.
        let _ = child.stdin.take().unwrap().write_all(stdin);
        let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ended { code: status.code(), out: text(stdout), err: text(stderr) }
    }

    /// The same, for programs.
    fn json(&self, line: &str, stdin: &[u8]) -> Value {
        let Ended { code, out, err } = self.run(&format!("{line} --json"), stdin);
        assert_eq!(code, Some(0), "{err}");
        assert_eq!(err, "", "nobody watches: no bar");
        serde_json::from_str(&out).unwrap()
    }
}

fn access_log() -> String {
    let mut log = String::new();
    for second in 0..60 {
        for ip in ["203.0.113.7", "203.0.113.7", "198.51.100.1"] {
            log += &format!(
                "{ip} - - [10/Oct/2026:13:55:{second:02} +0000] \"GET /a HTTP/1.1\" 200 5 \"-\" \
                 \"curl/8\"\n"
            );
        }
    }
    log + "this is no request\n"
}

const LIMIT: &str = "[[limit]]\nname = 'per-ip'\nby = 'ip'\nlimit = 100\nwindow = '5m'\n";

#[test]
fn an_access_log_says_whom_a_limit_would_hurt() {
    let home = Home::new(&[("access.log", &access_log())]);
    let line = "access.log --limit 100 --window 5m --by ip";
    let found = home.json(line, b"");
    let trace = &found["trace"];
    assert_eq!(
        (trace["format"].as_str(), trace["requests"].as_u64()),
        (Some("combined"), Some(180))
    );
    assert_eq!(
        (trace["malformed"].as_u64(), trace["malformedFirst"][0]["line"].as_u64()),
        (Some(1), Some(181))
    );
    let policy = &found["policies"][0];
    assert_eq!(policy["totals"]["denied"], 20);
    assert_eq!(policy["mostAffected"][0]["identifier"], "203.0.113.7");
    assert_eq!(policy["limits"][0]["affected"], 1);
    let Ended { code, out, err } = home.run(line, b"");
    assert_eq!((code, err.as_str()), (Some(0), ""));
    for expected in [
        "180 requests in 181 lines",
        "1 of 2 identifiers (50.0 %)",
        "203.0.113.7",
        "this is no request",
    ] {
        assert!(out.contains(expected), "{expected}\n{out}");
    }
}

#[test]
fn a_pipe_and_several_files_are_one_trace() {
    let line = |at: u64| format!("{{\"ts\":{at},\"user\":{{\"id\":\"ann\"}}}}\n");
    let home = Home::new(&[("a", &line(1_700_000_000)), ("b", &line(1_700_000_002))]);
    let found =
        home.json("a - b --by user.id --limit 2 --window 1h", line(1_700_000_001).as_bytes());
    assert_eq!(found["trace"]["requests"], 3);
    assert_eq!(found["trace"]["outOfOrder"], 0);
    assert_eq!(found["policies"][0]["totals"]["denied"], 1);
}

#[test]
fn two_policies_are_compared() {
    let candidate = LIMIT.replace("100", "50");
    let files =
        [("log", access_log()), ("current.toml", LIMIT.to_owned()), ("candidate.toml", candidate)];
    let home = Home::new(&files.each_ref().map(|(name, text)| (*name, text.as_str())));
    let line = "log --policy current.toml --against candidate.toml";
    let found = home.json(line, b"");
    assert_eq!(found["comparison"]["newlyLimited"], 1);
    assert_eq!(found["comparison"]["newlyLimitedFirst"][0]["identifier"], "198.51.100.1");
    assert_eq!(found["comparison"]["newlyDeniedCalls"], 60);
    let out = home.run(line, b"").out;
    assert!(out.contains("candidate against current: 1 identifiers newly limited"), "{out}");
}

#[test]
fn the_lowest_limit_is_suggested() {
    let home = Home::new(&[("log", &access_log())]);
    let found = home.json("log --suggest --by ip --max-affected 50% --windows 1m,5m", b"");
    assert_eq!(found["policies"].as_array().unwrap().len(), 0);
    let five = &found["suggestions"][1];
    assert_eq!((five["limit"].as_u64(), five["affected"].as_u64()), (Some(60), Some(1)));
    let home = Home::new(&[("log", &access_log()), ("p.toml", LIMIT)]);
    let out = home.run("log --policy p.toml --suggest --max-affected 0% --windows 5m", b"").out;
    assert!(out.contains("at most 0 % of identifiers") && out.contains("5m    120"), "{out}");
}

#[test]
fn what_is_wrong_is_said_with_what_to_do() {
    let bad = "[[limit]]\nname = 'x'\nby = 'ip'\nlimt = 5\nwindow = '1w'\n";
    let files = [
        ("log", access_log()),
        ("noise", "hello\n".to_owned()),
        ("bad.toml", bad.to_owned()),
        ("json", "{\"time\":1700000000}\n".to_owned()),
    ];
    let home = Home::new(&files.each_ref().map(|(name, text)| (*name, text.as_str())));
    for (line, expected) in [
        ("log", "say --policy PATH"),
        ("log --suggest", "say --by ip"),
        ("none --limit 1 --window 1m --by ip", "cannot read none"),
        (". --limit 1 --window 1m --by ip", "it is a directory"),
        ("noise --limit 1 --window 1m --by ip", "it begins with\n  hello\nexpected one of"),
        ("log --limit 1 --window 1m --by tenant", "no field `tenant`"),
        ("log --limit 1 --window 1ms --by ip", "at least 1s"),
        ("log --suggest --by ip --windows 1ms", "--windows: a window has at least 1s"),
        ("json --limit 1 --window 1m --by ip", "a line of it is\n  {\"time\":1700000000}"),
        ("log --format json --limit 1 --window 1m --by ip", "expected an object in braces"),
        ("log --policy bad.toml", "bad.toml:4:1: there is no key `limt`: did you mean `limit`?"),
        ("log --policy bad.toml", "bad.toml:5:10: expected a number with a unit"),
        ("log --policy none.toml", "cannot read none.toml"),
    ] {
        let Ended { code, out, err } = home.run(line, b"");
        assert_eq!((code, out.as_str()), (Some(2), ""), "{line}: {err}");
        assert!(err.starts_with("error: ") && err.contains(expected), "{line}: {err}");
    }
}

#[test]
fn a_fleet_decides_instead_of_one_process() {
    let topology = "regions = 2\nnodes = 2\nstore_latency = '1ms..2ms'\n[[fault]]\n\
                    kind = 'store-away'\nregion = 0\nfrom = '20s'\nfor = '20s'\n";
    let files = [("log", access_log()), ("fleet.toml", topology.to_owned())];
    let home = Home::new(&files.each_ref().map(|(name, text)| (*name, text.as_str())));
    let line = "log --limit 100 --window 5m --by ip --topology fleet.toml";
    let found = home.json(line, b"");
    assert_eq!(
        (found["topology"]["regions"].as_u64(), found["topology"]["nodes"].as_u64()),
        (Some(2), Some(4))
    );
    let policy = &found["policies"][0];
    assert!(policy["stores"]["regionCalls"].as_u64().unwrap() > 0, "{policy}");
    assert!(policy["totals"]["degraded"].as_u64().unwrap() > 0, "the store was away: {policy}");
    let Ended { code, out, err } = home.run(line, b"");
    assert_eq!((code, err.as_str()), (Some(0), ""));
    for expected in ["stores of the regions: ", "global store: ", "waited for a store: "] {
        assert!(out.contains(expected), "{expected}\n{out}");
    }
    fs::write(home.0.join("fleet.toml"), "regons = 2\n").unwrap();
    let Ended { code, err, .. } = home.run(line, b"");
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("fleet.toml:1:1") && err.contains("did you mean `regions`?"), "{err}");
}

#[test]
fn traffic_is_made_up_and_its_log_is_the_same_traffic() {
    let home = Home::new(&[]);
    let made = "--generate burst --requests 2000 --identifiers 50 --seed 7";
    for (to, lines, said) in [
        ("made.jsonl", 0, "2000 lines are in made.jsonl\n"),
        ("made.log", 0, "2000 lines are in made.log\n"),
        ("-", 2_000, ""),
    ] {
        let Ended { code, out, err } = home.run(&format!("{made} --write-log {to}"), b"");
        assert_eq!((code, err.as_str()), (Some(0), said), "{to}");
        assert_eq!(out.lines().count(), lines, "{to}");
    }
    let limit = "--limit 20 --window 10s --by ip";
    let of = |found: &Value| {
        let policy = &found["policies"][0];
        (
            found["trace"]["requests"].clone(),
            policy["totals"].clone(),
            policy["mostAffected"].clone(),
        )
    };
    let direct = of(&home.json(&format!("{made} {limit}"), b""));
    assert_eq!(direct.0, 2_000);
    assert!(direct.1["denied"].as_u64().unwrap() > 0, "{direct:?}");
    assert_eq!(of(&home.json(&format!("made.jsonl {limit}"), b"")), direct);
    let combined = home.json(&format!("made.log {limit}"), b"");
    assert_eq!(combined["trace"]["requests"], 2_000);
    assert_eq!(combined["trace"]["format"], "combined");
}

/// The log of an hour that is rotated: the newest has the shortest name.
fn rotated() -> Vec<(&'static str, String)> {
    let log = |hour: u64| {
        let line = |second: u64| {
            let (minute, second) = (second / 60, second % 60);
            format!(
                "203.0.113.7 - - [10/Oct/2026:{hour}:{minute:02}:{second:02} +0000] \"GET /a \
                 HTTP/1.1\" 200 5\n"
            )
        };
        (0..600).map(line).collect::<String>()
    };
    vec![("access.log", log(13)), ("access.log.1", log(12)), ("access.log.2", log(11))]
}

#[test]
fn rotated_logs_are_put_in_order_and_a_pipe_out_of_order_is_said() {
    let files = rotated();
    let named: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, &**text)).collect();
    let home = Home::new(&named);
    let limit = "--limit 100 --window 1m --by ip";
    let found = home.json(&format!("access.log access.log.1 access.log.2 {limit}"), b"");
    assert_eq!(found["trace"]["outOfOrder"], 0);
    assert_eq!(found["policies"][0]["totals"]["denied"], 0);
    assert_eq!(found["warnings"].as_array().map(Vec::len), Some(0));
    let piped: String = files.iter().map(|(_, text)| text.as_str()).collect();
    let found = home.json(&format!("- {limit}"), piped.as_bytes());
    assert_eq!(found["trace"]["outOfOrder"], 1_200);
    let warning = found["warnings"][0].as_str().unwrap();
    assert!(warning.starts_with("1200 of 1800 requests are out of order"), "{warning}");
}

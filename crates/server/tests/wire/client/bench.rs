//! The load generator: what it counts, and that it does not hide a stall.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use serde_json::Value;

use super::{Ended, run, run_with};
use crate::support::{DEADLINE, Server, eventually, program, tidegate};

/// How long the server stalls, once.
const STALL: Duration = Duration::from_millis(200);
/// After so many replies.
const STALLS_AFTER: u64 = 50;

/// A server that admits everything, on connections that stay open, and stalls once.
struct Stalling {
    address: SocketAddr,
    answered: Arc<AtomicU64>,
}

impl Stalling {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (answered, turn) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(())));
        let counter = Arc::clone(&answered);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (counter, turn) = (Arc::clone(&counter), Arc::clone(&turn));
                std::thread::spawn(move || while answer(&stream, &counter, &turn).is_some() {});
            }
        });
        Self { address, answered }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// Answers one request; `None` when there are no more.
fn answer(stream: &TcpStream, answered: &AtomicU64, turn: &Mutex<()>) -> Option<()> {
    stream.set_read_timeout(Some(DEADLINE)).ok()?;
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        if line == "\r\n" {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    reader.read_exact(&mut vec![0; length]).ok()?;
    // One after the other: while one stalls, all wait.
    let turn = turn.lock().unwrap();
    if answered.fetch_add(1, Ordering::Relaxed) == STALLS_AFTER {
        let (_never, nothing) = mpsc::channel::<()>();
        let _ = nothing.recv_timeout(STALL);
    }
    drop(turn);
    let body = r#"{"meta":{"requestId":"req_1"},"data":{"limit":1,"success":true}}"#;
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    (&*stream).write_all(format!("{head}{body}").as_bytes()).ok()
}

fn bench(url: &str, more: &[&str]) -> Ended {
    run(url, &[&["bench", "--warm-up", "0s", "--output", "json"], more].concat())
}

fn report(ended: &Ended) -> Value {
    assert_eq!(ended.code, Some(0), "{ended:?}");
    serde_json::from_str(&ended.out).unwrap()
}

fn number(report: &Value, pointer: &str) -> f64 {
    report.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("{report}: {pointer}"))
}

#[test]
fn a_load_on_a_real_server_is_counted_to_the_last_request() {
    let server = Server::start();
    let url = format!("http://{}", server.address);
    let asked = ["--identifiers", "1", "--limit", "30", "--window", "30d"];
    let said = [&["--rate", "100", "--for", "1s", "--connections", "4"], &asked[..]].concat();
    let report = report(&bench(&url, &said));
    assert_eq!(report["loop"], "open");
    assert_eq!((&report["sent"], &report["answered"]), (&100.into(), &100.into()), "{report}");
    assert_eq!((&report["admitted"], &report["denied"]), (&30.into(), &70.into()), "{report}");
    assert!(report["errors"].as_object().unwrap().values().all(|count| count == 0), "{report}");
    let percentiles = ["p50", "p90", "p99", "p999", "max"];
    let latency = percentiles.map(|name| number(&report, &format!("/latencyMs/{name}")));
    assert!(latency[0] > 0.0 && latency.is_sorted(), "{report}");
    for name in ["seconds", "achievedRate", "scheduleP99Ms", "degraded", "unsent", "queued"] {
        number(&report, &format!("/{name}"));
    }
    assert!(report["fellBehind"].is_u64() && report["connections"] == 4, "{report}");
}

#[test]
fn batches_and_both_protocols_are_spoken_as_fast_as_they_are_answered() {
    let server = Server::start();
    let url = format!("http://{}", server.address);
    let said = ["--rate", "max", "--for", "300ms", "--connections", "2", "--zipf", "1.0"];
    for more in [&["--batch", "3"][..], &["--http2"], &["--http2", "--batch", "3"]] {
        let report = report(&bench(&url, &[&said, more].concat()));
        assert_eq!((&report["loop"], report.get("rate")), (&"closed".into(), None));
        assert!(number(&report, "/admitted") > 0.0, "{report}");
        assert_eq!(report["admitted"], report["sent"], "{report}");
    }
}

#[test]
fn an_open_loop_shows_a_stall_that_a_closed_one_hides() {
    let stall_ms = STALL.as_secs_f64() * 1_000.0;
    let said = ["--for", "2s", "--connections", "1", "--rate"];
    let server = Stalling::start();
    let open = report(&bench(&server.url(), &[&said[..], &["500"]].concat()));
    // A tenth of all were due while it stalled, evenly: one in twenty waited for half of it.
    assert!(number(&open, "/latencyMs/p99") > stall_ms / 2.0, "{open}");
    let server = Stalling::start();
    let closed = report(&bench(&server.url(), &[&said[..], &["max"]].concat()));
    assert!(number(&closed, "/latencyMs/max") >= stall_ms, "{closed}");
    assert!(number(&closed, "/latencyMs/p99") < stall_ms, "{closed}");
}

#[test]
fn a_latency_that_is_too_high_can_be_a_failure() {
    let said = ["--for", "1s", "--connections", "1", "--rate", "200", "--fail-above"];
    let server = Stalling::start();
    let ended = bench(&server.url(), &[&said[..], &["50ms"]].concat());
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let ended = bench(&server.url(), &[&said[..], &["30s"]].concat());
    assert_eq!(ended.code, Some(0), "it stalls once: {ended:?}");
}

#[test]
fn more_than_a_server_can_do_is_said() {
    let server = Stalling::start();
    let said = ["bench", "--rate", "1000000", "--for", "300ms", "--warm-up", "0s"];
    let ended = run(&server.url(), &said);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for said in ["open loop", "never sent", "p99.9", "fell behind"] {
        assert!(ended.out.contains(said), "{ended:?}");
    }
    assert_eq!(ended.err, "", "no progress, unless it is a terminal");
}

#[test]
fn what_cannot_be_measured_is_said_before_anything_is_sent() {
    let server = Server::start();
    let url = format!("http://{}", server.address);
    let code = |ended: &Ended, said: &str| {
        assert!(ended.err.contains(said) && ended.out.is_empty(), "{ended:?}");
        ended.code.unwrap()
    };
    assert_eq!(code(&bench(&url, &["--rate", "0"]), "--rate"), 2);
    assert_eq!(code(&bench("here", &[]), "TIDEGATE_URL"), 2);
    let other_key = run_with(&url, &["bench"], "", &[("TIDEGATE_ROOT_KEY", "other")]);
    assert_eq!(code(&other_key, "401"), 2);
    assert_eq!(code(&bench(&url, &["--window", "1ms"]), "duration"), 2);
    assert_eq!(code(&bench("http://127.0.0.1:1", &[]), "cannot reach"), 3);
}

#[test]
fn too_few_files_for_the_connections_are_said() {
    let server = Stalling::start();
    let binary = env!("CARGO_BIN_EXE_tidegate");
    let line = format!("ulimit -n 256 && exec {binary} bench --connections 1000");
    let mut shell = program("sh", &["-c", &line]);
    let (code, said) = Server::run_to_end(shell.env("TIDEGATE_URL", server.url()));
    assert!(code == Some(2) && said.contains("ulimit -n"), "{code:?}: {said}");
}

/// Ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_signal_ends_it_early_with_a_report() {
    let server = Stalling::start();
    let args = ["bench", "--for", "1h", "--warm-up", "0s", "--output", "json"];
    let mut command = tidegate(&args);
    let mut running = Running(command.env("TIDEGATE_URL", server.url()).spawn().unwrap());
    let enough = || (server.answered.load(Ordering::Relaxed) > 100).then_some(());
    eventually(DEADLINE, enough);
    let pid = running.0.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let status = eventually(DEADLINE, || running.0.try_wait().unwrap());
    assert_eq!(status.code(), Some(0));
    let mut out = String::new();
    running.0.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    let report: Value = serde_json::from_str(&out).unwrap();
    assert!(number(&report, "/answered") > 90.0 && number(&report, "/seconds") < 600.0, "{report}");
}

//! Debian's Prometheus, in a directory and on a port of its own.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::RULES;
use crate::globe::File;
use crate::support::{DEADLINE, eventually};

/// How often a port is tried: somebody else may take it in between.
const TRIES: usize = 5;

/// A running Prometheus; killed when dropped.
pub(super) struct Prometheus {
    child: Child,
    port: u16,
    _directory: File,
}

impl Prometheus {
    /// Scrapes these, each with the name of its region, every second. The rules are ours, but for
    /// their patience: a test has less.
    pub(super) fn start(targets: &[(String, &str)]) -> Self {
        let directory = File::new("prometheus");
        let mut config = "global: {scrape_interval: 1s, evaluation_interval: 1s}\n\
                          rule_files: [rules.yml]\n\
                          scrape_configs:\n- job_name: tidegate\n  static_configs:\n"
            .to_owned();
        for (address, region) in targets {
            let labels = format!("labels: {{region: {region}}}");
            writeln!(config, "  - {{targets: ['{address}'], {labels}}}").unwrap();
        }
        std::fs::write(directory.path().join("prometheus.yml"), config).unwrap();
        std::fs::write(directory.path().join("rules.yml"), impatient(RULES)).unwrap();
        for _ in 0..TRIES {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let mut child = spawn(&directory, port);
            let is_up = eventually(DEADLINE, || match child.try_wait().unwrap() {
                Some(_) => Some(false),
                None => get(port, "/-/ready").is_some().then_some(true),
            });
            if is_up {
                return Self { child, port, _directory: directory };
            }
        }
        panic!("no port for Prometheus in {TRIES} tries");
    }

    /// What it says to a question.
    pub(super) fn ask(&self, path: &str, query: &[(&str, &str)]) -> Value {
        let mut url = format!("/api/v1/{path}?");
        for (name, value) in query {
            write!(url, "{name}={}&", escaped(value)).unwrap();
        }
        let body = get(self.port, &url).unwrap_or_else(|| panic!("no answer to {url}"));
        let said: Value = serde_json::from_str(&body).unwrap_or_else(|why| panic!("{why}: {body}"));
        assert_eq!(said["status"], "success", "{query:?}: {said}");
        said["data"].clone()
    }

    /// The series that an expression has now.
    pub(super) fn series(&self, expression: &str) -> Vec<Value> {
        let data = self.ask("query", &[("query", expression)]);
        match data["resultType"].as_str() {
            Some("vector") => data["result"].as_array().unwrap().clone(),
            _ => vec![data["result"].clone()],
        }
    }

    /// The alerts with this name that wait or fire.
    pub(super) fn alerts(&self, name: &str) -> Vec<Value> {
        let data = self.ask("alerts", &[]);
        let all = data["alerts"].as_array().unwrap().iter();
        all.filter(|alert| alert["labels"]["alertname"] == name).cloned().collect()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(directory: &File, port: u16) -> Child {
    Command::new("prometheus")
        .arg("--config.file=prometheus.yml")
        .arg("--storage.tsdb.path=data")
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .arg("--log.level=error")
        .current_dir(directory.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|why| panic!("`prometheus` ({why}); run `cargo xtask setup`"))
}

/// The rules, with seconds for minutes and less.
fn impatient(rules: &str) -> String {
    let line = |line: &str| match line.trim_start().starts_with("for:") {
        true => "        for: 1s\n".to_owned(),
        false => format!(
            "{}\n",
            ["1m", "3m", "5m", "10m", "15m", "30m"]
                .iter()
                .fold(line.to_owned(), |line, range| line.replace(&format!("[{range}]"), "[5s]"),)
        ),
    };
    let rules: String = rules.lines().map(line).collect();
    assert!(!rules.contains("m]") && rules.contains("[5s]"), "{rules}");
    rules
}

/// The body of a reply, if it is a good one or says what was wrong.
fn get(port: u16, url: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
    stream.write_all(format!("GET {url} HTTP/1.0\r\nHost: x\r\n\r\n").as_bytes()).ok()?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply).ok()?;
    let (head, body) = reply.split_once("\r\n\r\n")?;
    let code = head.split(' ').nth(1)?;
    ["200", "400", "422"].contains(&code).then(|| body.to_owned())
}

fn escaped(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' | b'.' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

//! The commands that speak to a server: against the real one, and against recorded replies.

mod bench;
mod fake;
mod live;
mod recorded;

use std::io::Write;
use std::process::{Output, Stdio};

use crate::support::tidegate;

/// What a command said, and how it ended.
#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

/// Runs a command against the server at that address. It keeps its own deadlines.
fn run(url: &str, args: &[&str]) -> Ended {
    run_with(url, args, "", &[])
}

fn run_with(url: &str, args: &[&str], stdin: &str, environment: &[(&str, &str)]) -> Ended {
    let mut command = tidegate(args);
    command.env("TIDEGATE_URL", url).stdin(Stdio::piped()).envs(environment.iter().copied());
    let mut child = command.spawn().unwrap();
    // Whoever does not read it may have ended.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ended { code: status.code(), out: text(stdout), err: text(stderr) }
}

/// The words of a request, for the command line.
fn asking<'a>(command: &'a str, identifier: &'a str, limit: &'a str) -> Vec<&'a str> {
    let what = ["--namespace", "test", "--identifier", identifier];
    [&[command][..], &what, &["--limit", limit, "--window", "30d"]].concat()
}

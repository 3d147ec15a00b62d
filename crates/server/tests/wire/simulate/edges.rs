//! What is printed and written arrives, and nothing else is touched.

use std::fs::File;

use super::*;
use crate::support::Server;

const TRIED: &str = "log --limit 100 --window 5m --by ip";

/// The names of all files there.
fn names(home: &Home) -> Vec<String> {
    let all = fs::read_dir(&home.0).unwrap();
    let mut names: Vec<String> =
        all.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn standard_input_is_read_once() {
    let args = ["simulate", "-", "-", "--limit", "1", "--window", "1m", "--by", "ip"];
    let (code, said) = Server::run_to_end(tidegate(&args).stdin(Stdio::null()));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("say it once"), "{said}");
}

#[test]
fn a_page_goes_into_a_pipe_but_not_where_the_findings_go() {
    let home = Home::new(&[("log", &access_log())]);
    let Ended { code, out, err } = home.run(&format!("{TRIED} --report /dev/stderr"), b"");
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("policy per-ip") && err.contains("</html>"), "{out}\n{err}");
    for page in ["/dev/stdout", "-"] {
        let Ended { code, out, err } = home.run(&format!("{TRIED} --report {page}"), b"");
        assert_eq!((code, out.as_str()), (Some(2), ""), "{page}");
        assert!(err.contains("a file of its own"), "{page}: {err}");
    }
    assert_eq!(names(&home), ["log"]);
}

#[test]
fn what_is_read_is_never_written_over() {
    let log = access_log();
    let home = Home::new(&[("log", &log), ("p.toml", LIMIT), ("fleet.toml", "regions = 1\n")]);
    for line in [
        "log --policy p.toml --report log",
        "log --policy p.toml --report ./p.toml",
        "log --policy p.toml --against p.toml --report p.toml",
        "log --policy p.toml --topology fleet.toml --report fleet.toml",
        "--generate burst --policy p.toml --write-log p.toml",
    ] {
        let Ended { code, err, .. } = home.run(line, b"");
        assert_eq!(code, Some(2), "{line}: {err}");
        assert!(err.contains("is read: write to another file"), "{line}: {err}");
    }
    let read = |name| fs::read_to_string(home.0.join(name)).unwrap();
    assert_eq!((read("log"), read("p.toml").as_str()), (log, LIMIT));
    assert_eq!(read("fleet.toml"), "regions = 1\n");
}

#[test]
fn a_trial_that_fails_leaves_no_page_and_one_that_does_not_leaves_nothing_else() {
    let home = Home::new(&[("log", &access_log()), ("bad.toml", "limt = 1\n")]);
    let Ended { code, .. } = home.run("log --policy bad.toml --report page.html", b"");
    assert_eq!((code, names(&home)), (Some(2), vec!["bad.toml".to_owned(), "log".to_owned()]));
    fs::write(home.0.join("page.html"), "the last one").unwrap();
    let Ended { code, err, .. } = home.run(&format!("{TRIED} --report page.html"), b"");
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(names(&home), ["bad.toml", "log", "page.html"]);
    let page = fs::read_to_string(home.0.join("page.html")).unwrap();
    assert!(page.ends_with("</html>\n") && !page.contains("the last one"), "{page}");
}

#[cfg(target_os = "linux")]
#[test]
fn what_could_not_be_said_is_not_called_done() {
    let home = Home::new(&[("log", &access_log())]);
    let Ended { code, out, err } = home.run(&format!("{TRIED} --report /dev/full"), b"");
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("cannot write /dev/full"), "{err}");
    assert!(out.contains("policy per-ip"), "what was found is not lost: {out}");
    for more in [&[][..], &["--json"]] {
        let args: Vec<&str> = std::iter::once("simulate").chain(TRIED.split(' ')).collect();
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut command = tidegate(&args);
        command.args(more).current_dir(&home.0).stdout(full).stderr(Stdio::piped());
        let Output { status, stderr, .. } = command.spawn().unwrap().wait_with_output().unwrap();
        let err = String::from_utf8(stderr).unwrap();
        assert_eq!(status.code(), Some(2), "{err}");
        assert!(err.contains("cannot print what was found"), "{err}");
    }
}

#[test]
fn a_window_that_is_said_twice_is_suggested_for_once() {
    let home = Home::new(&[("log", &access_log())]);
    let found = home.json("log --suggest --by ip --windows 1m,60s,5m,1m", b"");
    let windows = found["suggestions"].as_array().unwrap().iter();
    let windows: Vec<u64> = windows.map(|it| it["windowMs"].as_u64().unwrap()).collect();
    assert_eq!(windows, [60_000, 300_000]);
}

#[test]
fn a_fault_begins_so_long_after_the_first_request_of_the_log() {
    let line = |minute: u64, second: u64, method: &str| {
        let at = format!("10/Oct/2026:13:{minute:02}:{second:02} +0000");
        format!("203.0.113.7 - - [{at}] \"{method} / HTTP/1.1\" 200 5\n")
    };
    // The store is away from 13:01 to 13:03, and the first login comes at 13:05.
    let mut log = String::new();
    for minute in 0..10 {
        let method = if minute < 5 { "GET" } else { "POST" };
        (0..60).for_each(|second| log += &line(minute, second, method));
    }
    let login = format!("{LIMIT}when = {{ method = 'POST' }}\n");
    let fleet = "[[fault]]\nkind = 'store-away'\nregion = 0\nfrom = '1m'\nfor = '2m'\n";
    let home = Home::new(&[("log", &log), ("login.toml", &login), ("fleet.toml", fleet)]);
    let found = home.json("log --policy login.toml --topology fleet.toml", b"");
    let policy = &found["policies"][0];
    assert_eq!(
        (policy["unlimited"].as_u64(), policy["totals"]["degraded"].as_u64()),
        (Some(300), Some(0))
    );
    // Of everybody some are decided without it.
    let home = Home::new(&[("log", &log), ("all.toml", LIMIT), ("fleet.toml", fleet)]);
    let found = home.json("log --policy all.toml --topology fleet.toml", b"");
    assert!(found["policies"][0]["totals"]["degraded"].as_u64().unwrap() > 0, "{found}");
}

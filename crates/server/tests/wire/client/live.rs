//! Against the real server.

use serde_json::Value;

use super::{asking, run, run_with};
use crate::support::{Server, tidegate};

fn url(server: &Server) -> String {
    format!("http://{}", server.address)
}

#[test]
fn a_denial_is_an_answer_unless_it_is_to_be_a_failure() {
    let server = Server::start();
    let (url, ask) = (url(&server), asking("limit", "a", "2"));
    for left in ["1 of 2 left, the window ends in ", "0 of 2 left, the window ends in "] {
        let admitted = run(&url, &ask);
        assert_eq!(admitted.code, Some(0), "{admitted:?}");
        assert!(admitted.out.starts_with(&format!("admitted: {left}")), "{admitted:?}");
    }
    let denied = run(&url, &ask);
    assert_eq!((denied.code, denied.err.as_str()), (Some(0), ""));
    assert!(denied.out.starts_with("denied: 0 of 2 left, come back in "), "{denied:?}");
    let failed = run(&url, &[&ask[..], &["--fail"]].concat());
    assert_eq!(failed.code, Some(1), "{failed:?}");
    let only_asks = run(&url, &[&ask[..], &["--fail", "--cost", "0"]].concat());
    assert_eq!(only_asks.code, Some(0), "{only_asks:?}");
}

#[test]
fn json_is_the_whole_reply_on_one_line() {
    let server = Server::start();
    let (url, ask) = (url(&server), asking("limit", "a", "1"));
    let json = [&ask[..], &["--output", "json", "--fail"]].concat();
    for (code, success) in [(0, true), (1, false)] {
        let ended = run(&url, &json);
        assert_eq!((ended.code, ended.out.lines().count()), (Some(code), 1), "{ended:?}");
        let reply: Value = serde_json::from_str(&ended.out).unwrap();
        assert_eq!(reply["data"]["success"], success);
        assert!(reply["meta"]["requestId"].is_string());
    }
    let refused = run(&url, &[&asking("limit", "a", "0")[..], &["--output", "json"]].concat());
    assert_eq!(refused.code, Some(2), "{refused:?}");
    let reply: Value = serde_json::from_str(&refused.out).unwrap();
    assert_eq!(reply["error"]["status"], 400, "an error is a reply, too");
}

#[test]
fn a_batch_comes_from_the_command_line_a_file_or_a_pipe() {
    let server = Server::start();
    let url = url(&server);
    let limits = r#"[{"namespace": "n", "identifier": "a", "limit": 3, "duration": 60000},
                     {"namespace": "n", "identifier": "b", "limit": 9, "duration": 60000}]"#;
    let file = std::env::temp_dir().join(format!("limits-{}.json", std::process::id()));
    std::fs::write(&file, limits).unwrap();
    let path = file.to_str().unwrap();
    for source in [&["--limits-json", limits][..], &["--file", path], &["-"]] {
        let args = [&["multi-limit", "--fail"], source].concat();
        let ended = run_with(&url, &args, limits, &[]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(ended.out.starts_with("admitted: 2 of 2 limits have room\n"), "{ended:?}");
    }
    std::fs::remove_file(&file).unwrap();
    let denied = run(&url, &["multi-limit", "--fail", "--limits-json", limits]);
    assert_eq!(denied.code, Some(1), "{denied:?}");
    let lines: Vec<&str> = denied.out.lines().collect();
    assert_eq!(lines[0], "denied: 1 of 2 limits have no room; nothing was spent");
    assert!(lines[1].starts_with("  no room   n a: 0 of 3 left, come back in "), "{lines:?}");
    assert!(lines[2].starts_with("  has room  n b: 6 of 9 left, "), "{lines:?}");
}

#[test]
fn what_is_wrong_is_said_with_its_fix() {
    let server = Server::start();
    let url = url(&server);
    let refused = run(&url, &asking("limit", "a", "0"));
    assert_eq!((refused.code, refused.out.as_str()), (Some(2), ""));
    let lines: Vec<&str> = refused.err.lines().collect();
    assert!(lines[0].starts_with("error: Bad Request (400): "), "{lines:?}");
    assert!(lines[1].starts_with("  body.limit: must be at least 1; "), "{lines:?}");
    for limits in ["[{\"namespace\":", "{}", "7"] {
        let ended = run(&url, &["multi-limit", "--limits-json", limits]);
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.err.contains("--limits-json: not a JSON array"), "{ended:?}");
    }
}

#[test]
fn a_wrong_key_is_not_repeated_and_a_hint_says_what_to_do() {
    let server = Server::start();
    let url = url(&server);
    let ask = asking("limit", "a", "1");
    for key in ["hush-hush", "hush hush", ""] {
        let given = run(&url, &[&ask[..], &["--root-key", key]].concat());
        let from_environment = run_with(&url, &ask, "", &[("TIDEGATE_ROOT_KEY", key)]);
        for ended in [given, from_environment] {
            assert_eq!(ended.code, Some(2), "{ended:?}");
            assert!(ended.err.contains("TIDEGATE_ROOT_KEY"), "{ended:?}");
            let asked = key == "hush-hush";
            assert_eq!(ended.err.contains("within two seconds"), asked, "{ended:?}");
            // No name of a reply, which are random, can have these in it.
            let repeats = ["hush-", "hush "].iter().any(|part| ended.err.contains(part));
            assert!(!repeats, "{ended:?}");
        }
    }
    let help = run_with(&url, &["limit", "--help"], "", &[("TIDEGATE_ROOT_KEY", "s3cret")]);
    assert_eq!(help.code, Some(0));
    assert!(help.out.contains("Examples:") && !help.out.contains("s3cret"), "{}", help.out);
}

#[test]
fn whoever_looks_for_a_namespace_too_early_is_told_how_it_comes_to_be() {
    let server = Server::start();
    let url = url(&server);
    let what = ["--namespace", "test", "--identifier", "a"];
    let set = [&["override", "set"], &what[..], &["--limit", "5", "--window", "30d"]].concat();
    let list = ["override", "list", "--namespace", "test", "--output", "json"];
    let looks = [
        set.clone(),
        [&["override", "get"], &what[..]].concat(),
        [&["override", "delete"], &what[..]].concat(),
        list.to_vec(),
        asking("explain", "a", "1"),
        [&["inspect"], &what[..], &["--window", "30d"]].concat(),
    ];
    for look in looks {
        let ended = run(&url, &look);
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.err.contains("hint: a namespace comes to be by the first"), "{ended:?}");
    }
    assert_eq!(run(&url, &asking("limit", "a", "1")).code, Some(0));
    assert_eq!(run(&url, &set).code, Some(0), "as the hint says");
    let listed: Value = serde_json::from_str(&run(&url, &list).out).unwrap();
    assert_eq!(listed["data"][0]["identifier"], "a");
    assert_eq!(listed["pagination"]["hasMore"], false);
    assert!(listed["meta"]["requestId"].is_string(), "{listed}");
}

#[test]
fn help_says_nothing_of_keys_that_are_not_there() {
    let (url, what) = ("http://127.0.0.1:1", asking("limit", "a", "1"));
    let help = run(url, &["limit", "--help"]).out;
    assert!(help.contains("prints one when it first starts"), "{help}");
    assert!(!help.contains("development"), "{help}");
    for command in [&["limit"][..], &["override", "set"], &["override", "list"]] {
        let help = run(url, &[command, &["--help"]].concat()).out;
        assert!(help.contains("3 try again") && help.contains("429"), "{help}");
    }
    let mut command = tidegate(&what);
    let (code, said) = Server::run_to_end(command.env_remove("TIDEGATE_ROOT_KEY"));
    assert!(code == Some(2) && said.contains("tidegate key create"), "{said}");
}

#[test]
fn a_server_that_is_not_there_is_said_with_what_to_do() {
    let mut server = Server::start();
    let url = url(&server);
    #[cfg(unix)]
    {
        server.signal("TERM");
        server.wait_for_end();
    }
    let ended = run(&url, &asking("limit", "a", "1"));
    assert_eq!((ended.code, ended.out.as_str()), (Some(3), ""));
    assert!(ended.err.starts_with(&format!("error: cannot reach {url}: ")), "{ended:?}");
    assert!(ended.err.contains("`tidegate serve` starts a server"), "{ended:?}");
}

#[test]
fn shells_are_told_what_can_be_completed() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let ended = run("", &["completions", shell]);
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{shell}");
        assert!(ended.out.contains("multi-limit") && ended.out.contains("idempotency-key"));
    }
}

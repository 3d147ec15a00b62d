//! Starting, what is printed, and ending.

use std::process::Command;

use serde_json::Value;

use crate::support::{Client, DEADLINE, KEY, LIMIT, Server, ask, data_dir, eventually, tidegate};

/// What is said by a call that ends with `code`.
fn said_by(args: &[&str], code: i32) -> String {
    let (ended_with, said) = Server::run_to_end(&mut tidegate(args));
    assert_eq!(ended_with, Some(code), "{args:?}: {said}");
    said
}

#[test]
fn the_printed_curl_line_works() {
    let server = Server::start();
    let line = server.said().into_iter().find(|line| line.trim().starts_with("curl ")).unwrap();
    let has_curl = Command::new("curl").arg("--version").output().is_ok();
    let body: Value = if has_curl {
        let mut shell = Command::new("sh");
        let output = shell.args(["-c", &line]).env("TIDEGATE_ROOT_KEY", KEY).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    } else {
        // The same request by hand: what stands between the last quotes is the body.
        assert!(line.contains(&format!("http://{}{LIMIT}", server.address)));
        assert!(line.contains("Authorization: Bearer $TIDEGATE_ROOT_KEY"));
        let body = line.split('\'').rev().nth(1).unwrap();
        server.client().post_bytes(LIMIT, body.as_bytes()).body
    };
    assert_eq!(body["data"]["success"], true);
    assert_eq!(body["data"]["remaining"], 2);
}

#[test]
fn the_welcome_says_how_much_memory_there_is() {
    let mut command = tidegate(&["serve", "--listen", "127.0.0.1:0", "--memory", "64MiB"]);
    let server = Server::start_with(&mut command, KEY);
    let line = server.said().into_iter().find(|line| line.contains("memory")).unwrap();
    assert!(line.contains("64 MiB") && line.contains("subjects"), "{line}");
}

#[test]
fn an_address_in_use_is_said_with_what_to_do() {
    let server = Server::start();
    let address = server.address.to_string();
    let said = said_by(&["serve", "--listen", &address], 1);
    assert!(said.contains(&format!("{address} is already in use")), "{said}");
    assert!(said.contains("--listen 127.0.0.1:0"), "{said}");
}

#[test]
fn the_first_start_makes_a_key_and_shows_it_once() {
    let data = data_dir();
    let start = || {
        let mut command = tidegate(&["serve", "--listen", "127.0.0.1:0"]);
        command.env_remove("TIDEGATE_ROOT_KEY").env("TIDEGATE_DATA", &data);
        command
    };
    let first = Server::start_with(&mut start(), "");
    let key = first.wait_for_line("root key");
    let key = key.split_whitespace().last().unwrap().to_owned();
    assert!(key.starts_with("tidegate_") && key.len() > 40, "{key}");
    let mut client = Client::connect(first.address, &key);
    assert_eq!(client.post(LIMIT, &ask("a", 1, 1)).data()["success"], true);
    drop(first);

    let second = Server::start_with(&mut start(), &key);
    assert!(!second.said().join("\n").contains(&key));
    assert_eq!(second.client().post(LIMIT, &ask("b", 1, 1)).data()["success"], true);
    let files = std::fs::read_dir(&data).unwrap().map(|file| std::fs::read(file.unwrap().path()));
    let holds = |bytes: Vec<u8>| bytes.windows(key.len()).any(|part| part == key.as_bytes());
    assert!(!files.filter_map(Result::ok).any(holds), "the key itself is stored nowhere");
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let mode = std::fs::metadata(&data).unwrap().mode();
        assert_eq!(mode & 0o077, 0, "nobody else looks into it: {mode:o}");
    }
}

#[test]
fn a_first_start_that_fails_leaves_no_key_that_nobody_saw() {
    let (data, busy) = (data_dir(), Server::start());
    let start = |address: &str| {
        let mut command = tidegate(&["serve", "--listen", address]);
        command.env_remove("TIDEGATE_ROOT_KEY").env("TIDEGATE_DATA", &data);
        command
    };
    let (code, said) = Server::run_to_end(&mut start(&busy.address.to_string()));
    assert_eq!(code, Some(1), "{said}");
    let server = Server::start_with(&mut start("127.0.0.1:0"), "");
    assert!(server.wait_for_line("root key").contains("tidegate_"));
}

#[cfg(unix)]
#[test]
fn whoever_does_not_read_what_is_said_does_not_keep_a_server_from_ending() {
    use std::io::Write;
    let (unread, said) = std::io::pipe().unwrap();
    let mut fill = said.try_clone().unwrap();
    // It has room for some kilobytes; then it is full for everybody.
    std::thread::spawn(move || while fill.write_all(b"#").is_ok() {});
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let mut command = tidegate(&["serve", "--listen", &address.to_string()]);
    let mut server = Server::begin(command.stdout(said), KEY, None);
    server.address = address;
    eventually(DEADLINE, || std::net::TcpStream::connect(address).ok());
    assert_eq!(server.client().ask("GET", "/livez").status, 200);
    server.signal("TERM");
    assert_eq!(server.wait_for_end().code(), Some(0));
    drop(unread);
}

#[test]
fn settings_elsewhere_need_no_home() {
    let data = data_dir();
    std::fs::create_dir_all(&data).unwrap();
    let url = format!("sqlite:{}", data.join("settings.db").display());
    let command = |args: &[&str]| {
        let mut command = tidegate(args);
        command.env("TIDEGATE_DATABASE", &url).env_remove("TIDEGATE_DATA");
        command.env_remove("HOME").env_remove("XDG_DATA_HOME");
        command
    };
    assert_eq!(Server::run_to_end(&mut command(&["migrate"])).0, Some(0));
    let server = Server::start_with(&mut command(&["serve", "--listen", "127.0.0.1:0"]), KEY);
    server.wait_for_warning("counts_not_kept: ");
    assert_eq!(server.client().post(LIMIT, &ask("a", 1, 1)).status, 200);
}

#[test]
fn bad_values_are_refused_with_what_was_expected() {
    for (args, expected) in [
        (&["serve", "--listen", "localhost:1"][..], "127.0.0.1:7600"),
        (&["serve", "--memory", "64MB"], "MiB"),
        (&["serve", "--memory", "1KiB"], "at least 1MiB"),
        (&["serve", "--root-key", "two words"], "without spaces"),
        (&["serve", "--root-key", ""], "--root-key"),
        (&["serve", "--port", "1"], "--port"),
        (&["sevre"], "serve"),
        (&[], "Usage"),
    ] {
        let said = said_by(args, 2);
        assert!(said.contains(expected), "{args:?}: {said}");
    }
}

#[test]
fn a_refused_key_is_not_printed() {
    for key in ["s3cret with space", "s3cret\n", "s3crét", &"s3cret".repeat(100)] {
        let given = tidegate(&["serve", "--root-key", key]);
        let mut from_environment = tidegate(&["serve"]);
        from_environment.env("TIDEGATE_ROOT_KEY", key);
        for mut command in [given, from_environment] {
            let (code, said) = Server::run_to_end(&mut command);
            assert_eq!(code, Some(2), "{said}");
            assert!(said.contains("TIDEGATE_ROOT_KEY") && !said.contains("s3cr"), "{said}");
        }
    }
}

#[test]
fn a_key_from_the_command_line_is_to_be_exported_before_the_curl_line() {
    let mut command = tidegate(&["serve", "--listen", "127.0.0.1:0", "--root-key", "s3cret"]);
    let said = Server::start_with(&mut command, "s3cret").said().join("\n");
    assert!(said.contains("export TIDEGATE_ROOT_KEY=<your key>\n  curl "), "{said}");
    assert!(!said.contains("s3cret"), "{said}");
}

#[test]
fn help_teaches_with_an_example() {
    for args in [&["--help"][..], &["serve", "--help"]] {
        let text = said_by(args, 0);
        assert!(text.contains("Examples:\n  tidegate serve\n"), "{text}");
    }
}

#[test]
fn an_own_key_replaces_the_known_one_and_is_not_printed() {
    let mut command = tidegate(&["serve", "--listen", "127.0.0.1:0"]);
    let server = Server::start_with(command.env("TIDEGATE_ROOT_KEY", "s3cret"), "s3cret");
    assert!(!server.said().join("\n").contains("s3cret"));
    assert_eq!(server.client().post(LIMIT, &ask("a", 1, 1)).data()["success"], true);
    let mut stranger = Client::connect(server.address, KEY);
    assert_eq!(stranger.post(LIMIT, &ask("a", 1, 1)).status, 401);

    let line = server.said().into_iter().find(|line| line.trim().starts_with("curl ")).unwrap();
    assert!(line.contains("\"Authorization: Bearer $TIDEGATE_ROOT_KEY\""), "{line}");
    assert!(!server.said().join("\n").contains("export "), "it is there already");
}

#[cfg(unix)]
mod ending {
    use super::*;

    #[test]
    fn a_signal_ends_it_cleanly_with_the_counts() {
        for signal in ["INT", "TERM"] {
            let mut server = Server::start();
            let mut client = server.client();
            for _ in 0..3 {
                client.post(LIMIT, &ask("a", 2, 1));
            }
            client.post_bytes(LIMIT, b"{}");
            server.signal(signal);
            assert_eq!(server.wait_for_end().code(), Some(0), "{signal}");
            let line = server.wait_for_line("stopped:");
            assert!(line.contains("2 admitted, 1 denied, 1 refused"), "{line}");
            assert!(client.is_closed());
        }
    }

    #[test]
    fn a_request_in_flight_is_still_answered() {
        let mut server = Server::start();
        let mut client = server.client();
        let body = ask("a", 2, 1).to_string();
        let (first, rest) = body.split_at(20);
        // Answered once, so that the next request is known to be read when it arrives.
        client.post(LIMIT, &ask("a", 2, 0));
        let head =
            client.head(LIMIT, &format!("Content-Length: {}\r\nExpect: 100-continue", body.len()));
        client.send(&[head.as_bytes()]);
        assert_eq!(client.reply().status, 100, "the request is in flight");
        client.send(&[first.as_bytes()]);

        server.signal("INT");
        server.wait_for_line("stopping");
        client.send(&[rest.as_bytes()]);
        assert_eq!(client.reply().data()["remaining"], 1);
        assert_eq!(server.wait_for_end().code(), Some(0));
    }

    #[test]
    fn it_serves_on_when_nobody_reads_what_it_says() {
        let mut server = Server::start_unheard();
        assert_eq!(server.client().post(LIMIT, &ask("a", 1, 1)).data()["success"], true);
        server.signal("INT");
        assert_eq!(server.wait_for_end().code(), Some(0), "saying goodbye to nobody is no failure");
    }

    #[test]
    fn a_second_signal_does_not_wait_for_slow_clients() {
        let mut server = Server::start();
        let mut client = server.client();
        let head = client.head(LIMIT, "Content-Length: 10\r\nExpect: 100-continue");
        client.send(&[head.as_bytes()]);
        assert_eq!(client.reply().status, 100);
        server.signal("INT");
        server.wait_for_line("stopping");
        server.signal("INT");
        assert_eq!(server.wait_for_end().code(), Some(0));
        let line = server.wait_for_line("stopped:");
        assert!(line.ends_with("connections cut off: 1"), "{line}");
    }
}

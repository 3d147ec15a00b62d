#[cfg(target_os = "linux")]
use std::fs;
use std::os::unix::net::UnixStream;

use tidegate_lab::{Certificate, MariaDbOptions, MariaDbServer};

#[test]
fn a_server_keeps_what_it_wrote_when_it_is_killed() {
    let mut server = MariaDbServer::start().unwrap();
    server.query("CREATE TABLE t (n INT); INSERT INTO t VALUES (1), (2)").unwrap();
    let first = server.pid();
    server.kill_9();
    assert!(server.query("SELECT 1").is_err() && server.pid().is_none());
    server.restart().unwrap();
    assert_ne!(server.pid(), first);
    assert_eq!(server.query("SELECT n, n + 1 FROM t").unwrap(), [["1", "2"], ["2", "3"]]);
    server.pause().unwrap();
    server.resume().unwrap();
    server.stop().unwrap();
    server.restart().unwrap();
    assert_eq!(server.query("SELECT COUNT(*) FROM t").unwrap(), [["2"]]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_server_that_was_paused_stands_still() {
    let server = MariaDbServer::start().unwrap();
    let threads = format!("/proc/{}/task", server.pid().unwrap());
    // Each time some of its threads would go on for a moment, if nobody waited for them.
    for _ in 0..50 {
        server.pause().unwrap();
        for thread in fs::read_dir(&threads).unwrap() {
            let stat = fs::read_to_string(thread.unwrap().path().join("stat")).unwrap();
            assert!(stat.contains(") T "), "{stat}");
        }
        server.resume().unwrap();
    }
}

#[test]
fn a_server_ends_with_its_owner() {
    let server = MariaDbServer::start().unwrap();
    let (port, socket) = (server.port(), server.socket().to_owned());
    assert!(UnixStream::connect(&socket).is_ok());
    drop(server);
    assert!(UnixStream::connect(&socket).is_err());
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
}

#[test]
fn options_reach_the_server() {
    let certificate = Certificate::new().unwrap();
    let options = MariaDbOptions::new().set("max-connections", "17").tls(&certificate);
    let server = MariaDbServer::start_with(&options).unwrap();
    assert_eq!(server.query("SELECT @@max_connections").unwrap(), [["17"]]);
    assert!(server.query("SELECT @@ssl_cert").unwrap()[0][0].ends_with("/server.crt"));
}

#[test]
fn a_missing_program_says_what_to_do() {
    let options = MariaDbOptions::new().program("no-such-mariadbd");
    let error = MariaDbServer::start_with(&options).unwrap_err();
    assert!(error.to_string().contains("cargo xtask setup"), "{error}");
}

#[test]
fn servers_are_private() {
    let (one, other) = (MariaDbServer::start().unwrap(), MariaDbServer::start().unwrap());
    one.query("CREATE TABLE t (n INT)").unwrap();
    assert!(other.query("SELECT * FROM t").is_err());
}

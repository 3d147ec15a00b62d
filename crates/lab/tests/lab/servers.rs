use tidegate_lab::{RedisCluster, RedisOptions, RedisServer};

#[test]
fn a_server_ends_and_begins_again_on_its_port() {
    let mut server = RedisServer::start().unwrap();
    let run = |server: &RedisServer| server.info("server", "run_id").unwrap();
    let first = run(&server);
    server.command(&["SET", "a", "1"]).unwrap();
    server.stop().unwrap();
    assert!(server.command(&["PING"]).is_err());
    server.restart().unwrap();
    assert_ne!(run(&server), first);
    assert_eq!(server.command(&["GET", "a"]).unwrap().text(), "", "nothing is kept");
    server.kill_9();
    assert!(server.command(&["PING"]).is_err());
    server.restart().unwrap();
    server.pause().unwrap();
    server.resume().unwrap();
    assert_eq!(server.command(&["PING"]).unwrap().text(), "PONG");
}

#[test]
fn a_server_ends_with_its_owner() {
    let server = RedisServer::start().unwrap();
    let port = server.port();
    drop(server);
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
}

#[test]
fn options_reach_the_server() {
    let options = RedisOptions::new()
        .set("maxmemory", "3mb")
        .acl("user default on nopass ~* &* +@all\nuser ada on >pw ~* +ping");
    let server = RedisServer::start_with(&options).unwrap();
    assert_eq!(server.info("memory", "maxmemory").unwrap(), "3145728");
    assert_eq!(server.command_as("ada", "pw", &["PING"]).unwrap().text(), "PONG");
    assert!(server.command_as("ada", "pw", &["DBSIZE"]).unwrap().is_error());
    assert!(server.command_as("ada", "no", &["PING"]).is_err());
}

#[test]
fn a_missing_program_says_what_to_do() {
    let options = RedisOptions::new().program("no-such-redis-server");
    let error = RedisServer::start_with(&options).unwrap_err();
    assert!(error.to_string().contains("cargo xtask setup"), "{error}");
}

#[test]
fn a_cluster_shares_its_slots() {
    let cluster = RedisCluster::start(3).unwrap();
    let owners = [0, 5_461, 16_383].map(|slot| cluster.owner(slot).unwrap());
    assert_eq!(owners, [0, 1, 2]);
}

#[test]
fn many_servers_at_once_are_all_private() {
    let starts: Vec<_> = (0..12).map(|_| std::thread::spawn(RedisServer::start)).collect();
    let servers: Vec<_> = starts.into_iter().map(|start| start.join().unwrap().unwrap()).collect();
    let mut runs: Vec<_> =
        servers.iter().map(|one| one.info("server", "run_id").unwrap()).collect();
    runs.sort();
    runs.dedup();
    assert_eq!(runs.len(), 12);
}

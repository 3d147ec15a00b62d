use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use tidegate_lab::{DEADLINE, Proxy, RedisServer, eventually};

struct Client(TcpStream);

impl Client {
    fn to(proxy: &Proxy) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        Self(stream)
    }

    fn say(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).unwrap();
    }

    /// What comes back: exactly as many bytes as are expected.
    fn hear(&mut self, text: &str) {
        let mut bytes = vec![0; text.len()];
        self.0.read_exact(&mut bytes).unwrap();
        assert_eq!(String::from_utf8_lossy(&bytes), text);
    }

    fn hears_the_end(&mut self) {
        let mut bytes = Vec::new();
        let read = self.0.read_to_end(&mut bytes);
        assert!(read.is_err() || bytes.is_empty(), "{bytes:?}");
    }
}

const INCR: &str = "*2\r\n$4\r\nINCR\r\n$1\r\na\r\n";

fn world() -> (RedisServer, Proxy, Client) {
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::start(server.port()).unwrap();
    let client = Client::to(&proxy);
    (server, proxy, client)
}

fn counted(server: &RedisServer) -> Option<i64> {
    server.command(&["GET", "a"]).unwrap().int()
}

#[test]
fn a_good_network_passes_everything() {
    let (server, proxy, mut client) = world();
    client.say(INCR);
    client.hear(":1\r\n");
    // In two pieces.
    let (half, rest) = INCR.split_at(9);
    client.say(half);
    client.say(rest);
    client.hear(":2\r\n");
    assert_eq!((counted(&server), proxy.accepted(), proxy.cuts()), (Some(2), 1, 0));
}

#[test]
fn a_cut_comes_after_the_execution() {
    let (server, proxy, mut client) = world();
    proxy.cut_after(1);
    client.say(INCR);
    client.hears_the_end();
    assert_eq!((counted(&server), proxy.cuts()), (Some(1), 1));
    let mut again = Client::to(&proxy);
    again.say(INCR);
    again.hear(":2\r\n");
}

#[test]
fn a_duplicate_is_executed_twice_and_answered_once() {
    let (server, proxy, mut client) = world();
    proxy.duplicate();
    client.say(INCR);
    client.hear(":1\r\n");
    client.say(INCR);
    client.hear(":3\r\n");
    assert_eq!((counted(&server), proxy.dropped()), (Some(3), 1));
}

#[test]
fn a_blackhole_swallows_for_good() {
    let (server, proxy, mut client) = world();
    proxy.blackhole(true);
    client.say(INCR);
    client.0.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    assert!(client.0.read(&mut [0; 8]).is_err(), "nothing comes back");
    proxy.blackhole(false);
    client.say(INCR);
    assert!(client.0.read(&mut [0; 8]).is_err(), "a hole in the middle does not heal");
    let mut again = Client::to(&proxy);
    again.say(INCR);
    again.hear(":1\r\n");
    assert_eq!(counted(&server), Some(1));
}

#[test]
fn refused_connections_end() {
    let (_server, proxy, mut client) = world();
    client.say(INCR);
    client.hear(":1\r\n");
    proxy.refuse(true);
    client.hears_the_end();
    Client::to(&proxy).hears_the_end();
    proxy.refuse(false);
    let mut again = Client::to(&proxy);
    again.say(INCR);
    again.hear(":2\r\n");
    eventually("three connections", DEADLINE, || (proxy.accepted() == 3).then_some(())).unwrap();
}

#[test]
fn a_delay_delays() {
    let (_server, proxy, mut client) = world();
    proxy.delay(Duration::from_millis(60));
    client.say(INCR);
    client.0.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
    assert!(client.0.read(&mut [0; 4]).is_err(), "not yet");
    client.0.set_read_timeout(Some(DEADLINE)).unwrap();
    client.hear(":1\r\n");
}

#[test]
fn a_blind_proxy_passes_what_it_does_not_understand() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Proxy::blind(listener.local_addr().unwrap().port()).unwrap();
    let mut client = Client::to(&proxy);
    let mut server = Client(listener.accept().unwrap().0);
    // The server speaks first, as a database does.
    server.say("not\x00RESP");
    client.hear("not\x00RESP");
    client.say("nor is this");
    server.hear("nor is this");
    proxy.refuse(true);
    client.hears_the_end();
}

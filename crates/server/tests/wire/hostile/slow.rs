//! Clients that are slow on purpose.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::support::{DEADLINE, Http2, KEY, LIMIT, Server, ask, eventually, program, received};

/// A socket that sends a head byte by byte, without end.
struct Dribbler(TcpStream);

impl Dribbler {
    fn connect(address: SocketAddr) -> Self {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"POST / HTTP/1.1\r\nX: ").unwrap();
        stream.set_nonblocking(true).unwrap();
        Self(stream)
    }

    /// Sends one more byte; `false` if the server has closed the connection.
    fn dribble(&mut self) -> bool {
        let sent = self.0.write(b"x");
        let read = self.0.read(&mut [0]);
        let waits = |error: std::io::Error| error.kind() == ErrorKind::WouldBlock;
        sent.map_or_else(waits, |_| true) && read.map_or_else(waits, |read| read > 0)
    }
}

/// Lets this process have as many sockets as it needs.
fn allow_files(needed: u64) {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        if current.is_some_and(|current| current < needed) {
            let raised = Rlimit { current: Some(needed), maximum };
            setrlimit(Resource::Nofile, raised).expect("`ulimit -Hn` is too low for this test");
        }
    }
    #[cfg(not(unix))]
    let _ = needed;
}

#[test]
fn two_thousand_dribbling_sockets_lock_nobody_out_and_are_cut_off() {
    allow_files(4_096);
    let server = Server::start();
    let mut old = server.client();
    assert_eq!(old.post(LIMIT, &ask("a", 1_000_000, 1)).status, 200);
    let mut dribblers: Vec<_> = (0..2_000).map(|_| Dribbler::connect(server.address)).collect();
    let mut rounds = 0_u32;
    eventually(DEADLINE, || {
        dribblers.retain_mut(Dribbler::dribble);
        // Over a connection that was there before, and over a new one.
        assert_eq!(old.post(LIMIT, &ask("a", 1_000_000, 1)).status, 200);
        assert_eq!(server.client().post(LIMIT, &ask("a", 1_000_000, 1)).status, 200);
        rounds += 1;
        dribblers.is_empty().then_some(())
    });
    assert!(rounds > 1, "they were cut off before they could dribble");
}

#[test]
fn sockets_that_take_every_place_lock_nobody_out() {
    let args = ["--connections-max", "50", "--connections-per-address-max", "1000"];
    let server = Server::start_saying(&args);
    let mut dribblers: Vec<_> = (0..200).map(|_| Dribbler::connect(server.address)).collect();
    for _ in 0..20 {
        dribblers.retain_mut(Dribbler::dribble);
        dribblers.push(Dribbler::connect(server.address));
        assert_eq!(server.client().post(LIMIT, &ask("a", 100, 1)).status, 200);
    }
    assert!(dribblers.len() < 100, "{} sockets are open", dribblers.len());
}

/// A socket from another address of this machine, without a key, whose body never comes.
#[cfg(target_os = "linux")]
async fn sit(server: &Server, last: u8) -> tokio::net::TcpStream {
    use tokio::io::AsyncWriteExt;
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    // Of the whole network 127 every address is this machine's.
    socket.bind(SocketAddr::from(([127, 0, 0, last], 0))).unwrap();
    let mut stream = socket.connect(server.address).await.unwrap();
    let head = format!("POST {LIMIT} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn bodies_that_never_come_lock_nobody_out() {
    let args = ["--connections-max", "50", "--connections-per-address-max", "25"];
    let server = Server::start_saying(&args);
    let mut sitters = Vec::new();
    for number in 0..75 {
        sitters.push(sit(&server, 2 + number % 3).await);
    }
    let start = tokio::time::Instant::now();
    let mut kept = Vec::new();
    for number in 0..8 {
        let mut client = server.client();
        assert_eq!(client.post(LIMIT, &ask("a", 100, 1)).status, 200);
        kept.push(client);
        sitters.push(sit(&server, 2 + number % 3).await);
    }
    for client in &mut kept {
        assert_eq!(client.post(LIMIT, &ask("a", 100, 1)).status, 200);
    }
    // A sitter has ten seconds for its body. Nobody waits for even half of that.
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

#[test]
fn silent_sockets_are_closed() {
    let server = Server::start();
    let mut silent: Vec<_> = (0..200).map(|_| server.client()).collect();
    eventually(DEADLINE, || {
        silent.retain_mut(|client| !client.is_closed_now());
        silent.is_empty().then_some(())
    });
}

#[test]
fn a_body_that_dribbles_is_refused() {
    let server = Server::start();
    let mut client = server.client();
    let head = client.head(LIMIT, "Content-Length: 1000000");
    client.send(&[head.as_bytes()]);
    eventually(DEADLINE, || {
        let sent = client.try_send(b" ");
        (!sent || client.has_something_to_read()).then_some(())
    });
    let reply = client.reply();
    assert_eq!((reply.status, reply.kind()), (408, "request_timeout"));
    assert!(client.is_closed());
}

#[tokio::test]
async fn a_body_that_dribbles_over_http2_costs_only_its_stream() {
    let server = Server::start();
    let client = Http2::connect(server.address).await;
    let (reply, mut sender) = client.begin(LIMIT).await;
    let dribbling = tokio::spawn(async move {
        let mut ticks = tokio::time::interval(Duration::from_millis(50));
        // Until the stream is closed.
        while sender.send_data(" ".into(), false).is_ok() {
            ticks.tick().await;
        }
    });
    assert_eq!(client.post(LIMIT, &ask("a", 9, 1)).await.0, 200);
    let (status, body) = received(reply).await;
    assert_eq!(status, 408, "{body}");
    assert_eq!(client.post(LIMIT, &ask("a", 9, 1)).await.0, 200, "the connection goes on");
    tokio::time::timeout(DEADLINE, dribbling).await.unwrap().unwrap();
}

#[test]
fn a_client_that_never_reads_is_cut_off() {
    let server = Server::start();
    let client = server.client();
    let body = ask("a", 1_000_000, 1).to_string();
    let head = client.head(LIMIT, &format!("Content-Length: {}", body.len()));
    let many = format!("{head}{body}").repeat(1_000);
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_nonblocking(true).unwrap();
    let mut at = 0;
    eventually(DEADLINE, || {
        // As much as is taken, which is nothing once the replies have filled every buffer.
        loop {
            match stream.write(&many.as_bytes()[at..]) {
                Ok(written) => at = (at + written) % many.len(),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(_) => return Some(()),
            }
        }
    });
    assert_eq!(server.client().post(LIMIT, &ask("b", 1, 1)).status, 200);
}

#[cfg(unix)]
#[test]
fn a_server_with_few_files_says_so_and_locks_nobody_out() {
    let binary = env!("CARGO_BIN_EXE_tidegate");
    let limited = "ulimit -n 64 && exec \"$0\" \"$@\"";
    let args = ["serve", "--listen", "127.0.0.1:0", "--connections-per-address-max", "1000"];
    let mut command = program("sh", &[&["-c", limited, binary], &args[..]].concat());
    let server = Server::start_with(&mut command, KEY);
    server.wait_for_warning("connections_max=32");
    let _dribblers: Vec<_> = (0..200).map(|_| Dribbler::connect(server.address)).collect();
    for _ in 0..20 {
        assert_eq!(server.client().post(LIMIT, &ask("a", 100, 1)).status, 200);
    }
}

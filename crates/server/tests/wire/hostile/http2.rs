//! Clients that abuse HTTP/2. What they send no library would: so it is bytes here.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::thread::JoinHandle;

use hyper::Request;

use crate::support::{DEADLINE, Http2, LIMIT, Server, ask, received};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;
const END_STREAM: u8 = 1;
/// The code that says: you ask too much.
const ENHANCE_YOUR_CALM: [u8; 4] = [0, 0, 0, 11];
/// POST, http, the path /, the host x: the short forms of the protocol's own table.
const REQUEST: [u8; 6] = [0x83, 0x86, 0x84, 0x41, 1, b'x'];

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, long, middle, short] = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [long, middle, short, kind, flags];
    [&head[..], &stream.to_be_bytes(), payload].concat()
}

/// A connection to which anything can be sent, while someone reads what comes back.
struct Raw {
    stream: TcpStream,
    heard: JoinHandle<Vec<u8>>,
}

impl Raw {
    fn connect(server: &Server) -> Self {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        stream.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()).unwrap();
        let mut reading = stream.try_clone().unwrap();
        let heard = std::thread::spawn(move || {
            let mut heard = Vec::new();
            // What came before a reset is there nevertheless. A time-out is no end.
            let ended = reading.read_to_end(&mut heard).err().map(|why| why.kind());
            let waits = matches!(ended, Some(ErrorKind::WouldBlock | ErrorKind::TimedOut));
            assert!(!waits, "the server did not end it");
            heard
        });
        Self { stream, heard }
    }

    /// Sends until the server has had enough; gives the code of its GOAWAY, if it arrived.
    fn flood(mut self, chunks: impl Iterator<Item = Vec<u8>>) -> Option<[u8; 4]> {
        for chunk in chunks {
            if self.stream.write_all(&chunk).is_err() {
                break;
            }
        }
        let heard = self.heard.join().unwrap();
        let mut rest = &heard[..];
        while let [long, middle, short, kind, ..] = *rest {
            let length = usize::from(long) << 16 | usize::from(middle) << 8 | usize::from(short);
            let payload = rest.get(9..9 + length)?;
            if kind == GOAWAY {
                return payload.get(4..8)?.try_into().ok();
            }
            rest = &rest[9 + length..];
        }
        None
    }
}

/// Says what became of a flood, and that others are served during and after it.
fn told_during(server: &Server, chunks: impl Iterator<Item = Vec<u8>>) -> Option<[u8; 4]> {
    let mut other = server.client();
    assert_eq!(other.post(LIMIT, &ask("a", 100, 1)).status, 200);
    let told = Raw::connect(server).flood(chunks);
    assert_eq!(other.post(LIMIT, &ask("a", 100, 1)).status, 200);
    assert_eq!(server.client().post(LIMIT, &ask("a", 100, 1)).status, 200);
    told
}

#[test]
fn rapid_reset_ends_the_connection() {
    let server = Server::start();
    let pairs = (0..200_000_u32).map(|number| {
        let stream = 2 * number + 1;
        let request = frame(HEADERS, END_HEADERS | END_STREAM, stream, &REQUEST);
        [request, frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])].concat()
    });
    let pairs: Vec<_> = pairs.collect();
    let told = told_during(&server, pairs.chunks(100).map(<[_]>::concat));
    // A reset may overtake it, and then it is not heard.
    assert!(told.is_none_or(|code| code == ENHANCE_YOUR_CALM), "{told:?}");
}

#[test]
fn headers_without_end_end_the_connection() {
    let server = Server::start();
    // One long name after the other; and frames with nothing in them.
    for payload in [[&[0x40, 100][..], &[b'a'; 100], &[0]].concat().repeat(100), Vec::new()] {
        let begin = frame(HEADERS, 0, 1, &REQUEST);
        let more = frame(CONTINUATION, 0, 1, &payload).repeat(100);
        let flood = std::iter::once(begin).chain(std::iter::repeat_n(more, 10_000));
        told_during(&server, flood);
    }
}

#[test]
fn breaking_the_protocol_again_and_again_ends_the_connection() {
    let server = Server::start();
    // A request that is not one: its headers have no path.
    let broken = (0..100_000_u32)
        .map(|number| frame(HEADERS, END_HEADERS | END_STREAM, 2 * number + 1, &[0x83, 0x86]));
    let broken: Vec<_> = broken.collect();
    let told = told_during(&server, broken.chunks(100).map(<[_]>::concat));
    assert!(told.is_none_or(|code| code == ENHANCE_YOUR_CALM), "{told:?}");
}

#[test]
fn pings_that_nobody_reads_the_answers_to_end_the_connection() {
    let server = Server::start();
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_write_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()).unwrap();
    let pings = frame(PING, 0, 0, &[7; 8]).repeat(10_000);
    // Nothing is read, so the server can take no more once its answers have filled every buffer.
    let refused = (0..10_000).any(|_| stream.write_all(&pings).is_err());
    assert!(refused, "all of it was taken");
    assert_eq!(server.client().post(LIMIT, &ask("a", 100, 1)).status, 200);
}

#[tokio::test]
async fn more_headers_than_fit_are_refused_with_431_and_the_connection_goes_on() {
    let server = Server::start();
    let mut client = Http2::connect(server.address).await;
    let large = Request::get("http://x/livez").header("large", "x".repeat(20 << 10));
    let (reply, _) = client.requests.send_request(large.body(()).unwrap(), true).unwrap();
    match tokio::time::timeout(DEADLINE, reply).await.unwrap() {
        Ok(reply) => assert_eq!(reply.status().as_u16(), 431),
        Err(error) => panic!("{error}"),
    }
    assert_eq!(client.get("/livez").await.0, 200);
}

#[tokio::test]
async fn a_body_over_the_cap_is_refused_and_the_connection_goes_on() {
    let server = Server::start();
    let client = Http2::connect(server.address).await;
    let (reply, mut sender) = client.begin(LIMIT).await;
    // The library sends what the server has room for, and keeps the rest.
    sender.send_data(vec![b' '; 2 << 20].into(), true).unwrap();
    let (status, body) = received(reply).await;
    assert_eq!(status, 413, "{body}");
    assert_eq!(client.post(LIMIT, &ask("a", 9, 1)).await.0, 200);
}

#[test]
fn streams_beyond_those_that_were_offered_are_refused() {
    let server = Server::start();
    let mut client = Raw::connect(&server);
    // The same request with a path whose body is waited for.
    let path = [&[0x44, u8::try_from(LIMIT.len()).unwrap()], LIMIT.as_bytes()].concat();
    let request = [&[0x83, 0x86], &path[..], &[0x41, 1, b'x']].concat();
    for number in 0..129 {
        let begun = frame(HEADERS, END_HEADERS, 2 * number + 1, &request);
        client.stream.write_all(&begun).unwrap();
    }
    let refused = frame(RST_STREAM, 0, 257, &[0, 0, 0, 7]);
    client.stream.shutdown(std::net::Shutdown::Write).unwrap();
    let heard = client.heard.join().unwrap();
    assert!(heard.windows(refused.len()).any(|part| part == refused), "{}", heard.escape_ascii());
    assert!(!heard.windows(9).any(|head| head[3] == RST_STREAM && head[5..9] == [0, 0, 0, 255]));
}

//! A server that says what it is told to.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread::JoinHandle;

use serde_json::Value;

use crate::support::DEADLINE;

/// A request as it arrived.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) path: String,
    head: Vec<String>,
    pub(super) body: Value,
}

impl Request {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let named = |line: &&String| {
            line.split_once(':').is_some_and(|(other, _)| other.eq_ignore_ascii_case(name))
        };
        self.head.iter().find(named)?.split_once(':').map(|(_, value)| value.trim())
    }
}

/// A server that gives each connection one of the replies, in order, and then ends.
pub(super) struct Fake {
    address: SocketAddr,
    thread: JoinHandle<Vec<Request>>,
}

impl Fake {
    /// A reply is a status line with headers, such as `200 OK`, and a body.
    pub(super) fn start(replies: Vec<(&'static str, String)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let thread = std::thread::spawn(move || {
            let serve = |(head, body): (&str, String)| {
                let (stream, _) = listener.accept().unwrap();
                stream.set_read_timeout(Some(DEADLINE)).unwrap();
                exchange(stream, head, &body)
            };
            replies.into_iter().map(serve).collect()
        });
        Self { address, thread }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What was asked, once everything was answered.
    pub(super) fn asked(self) -> Vec<Request> {
        self.thread.join().unwrap()
    }
}

/// Reads one request and answers it.
pub(super) fn exchange(stream: impl Read + Write, head: &str, body: &str) -> Request {
    let mut stream = BufReader::new(stream);
    let mut line = || {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    };
    let first = line();
    let path = first.strip_prefix("POST ").and_then(|rest| rest.split(' ').next()).unwrap();
    let mut request = Request { path: path.to_owned(), head: vec![], body: Value::Null };
    loop {
        let line = line();
        if line.is_empty() {
            break;
        }
        request.head.push(line);
    }
    let length = request.header("content-length").map_or(0, |length| length.parse().unwrap());
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).unwrap();
    request.body = serde_json::from_slice(&bytes).unwrap();
    let length = body.len();
    let reply = format!("HTTP/1.1 {head}\r\nContent-Length: {length}\r\n\r\n{body}");
    stream.get_mut().write_all(reply.as_bytes()).unwrap();
    stream.get_mut().flush().unwrap();
    request
}

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

use super::DEADLINE;

/// One connection, kept open.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
    key: String,
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Value,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(header, _)| header.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn data(&self) -> &Value {
        assert_eq!(self.status, 200, "{self:?}");
        &self.body["data"]
    }

    /// The last part of the error's `type`.
    pub(crate) fn kind(&self) -> &str {
        self.body["error"]["type"].as_str().and_then(|kind| kind.rsplit('/').next()).unwrap()
    }
}

impl Client {
    pub(crate) fn connect(address: SocketAddr, key: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream: BufReader::new(stream), key: key.to_owned() }
    }

    pub(crate) fn post(&mut self, path: &str, body: &Value) -> Reply {
        self.post_bytes(path, body.to_string().as_bytes())
    }

    /// For what has no body and needs no key.
    pub(crate) fn ask(&mut self, method: &str, path: &str) -> Reply {
        self.send(&[format!("{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()]);
        if method == "HEAD" { self.reply_without_body() } else { self.reply() }
    }

    pub(crate) fn post_bytes(&mut self, path: &str, body: &[u8]) -> Reply {
        self.send(&[self.head(path, &format!("Content-Length: {}", body.len())).as_bytes(), body]);
        self.reply()
    }

    /// The head of a request up to its body; `framing` says how long that is.
    pub(crate) fn head(&self, path: &str, framing: &str) -> String {
        let key = &self.key;
        format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n{framing}\r\n\r\n"
        )
    }

    pub(crate) fn send(&mut self, parts: &[&[u8]]) {
        self.stream.get_mut().write_all(&parts.concat()).unwrap();
    }

    /// Like [`send`](Self::send), for a server that may have stopped listening.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.stream.get_mut().write_all(bytes).is_ok()
    }

    pub(crate) fn reply(&mut self) -> Reply {
        let mut reply = self.reply_without_body();
        let length = reply.header("content-length").map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).unwrap();
        if length > 0 {
            reply.body = serde_json::from_slice(&body).unwrap();
        }
        reply
    }

    fn reply_without_body(&mut self) -> Reply {
        let status_line = self.line();
        let status = status_line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.unwrap_or_else(|| panic!("not HTTP: {status_line:?}"));
        let mut headers = Vec::new();
        loop {
            let line = self.line();
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(": ").unwrap();
            headers.push((name.to_owned(), value.to_owned()));
        }
        Reply { status, headers, body: Value::Null }
    }

    /// Everything that comes until the server closes the connection.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        // What came before a reset is there nevertheless.
        let _ = self.stream.read_to_end(&mut rest);
        rest
    }

    /// Whether the server says that next; `false` if it closes.
    pub(crate) fn rest_begins_with(&mut self, expected: &[u8]) -> bool {
        let mut bytes = vec![0; expected.len()];
        self.stream.read_exact(&mut bytes).is_ok() && bytes == expected
    }

    /// Whether the server has closed the connection, after whatever it still sent.
    pub(crate) fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Ok(_) => true,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }

    /// Whether something has arrived, without waiting and without taking it.
    pub(crate) fn has_something_to_read(&mut self) -> bool {
        let stream = self.stream.get_mut();
        stream.set_nonblocking(true).unwrap();
        let waits = stream.peek(&mut [0]).is_err();
        stream.set_nonblocking(false).unwrap();
        !waits
    }

    /// The same as [`is_closed`](Self::is_closed), without waiting.
    pub(crate) fn is_closed_now(&mut self) -> bool {
        let stream = self.stream.get_mut();
        stream.set_nonblocking(true).unwrap();
        let closed = match stream.read(&mut [0; 1]) {
            Ok(read) => read == 0,
            Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
        };
        stream.set_nonblocking(false).unwrap();
        closed
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

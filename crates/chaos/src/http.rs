//! A client as small as can be: HTTP/1.1 over connections that are kept.
//!
//! Promises: what it says about a call is what is known of it. A call that was sent and not
//! answered is *lost*: it may have been counted or not.
//! Refuses: chunked bodies, which the server does not send.

use std::io;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

/// How long an answer is waited for. Far beyond every deadline of the server: a living one that
/// takes longer has broken a promise.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// Connections that were not used for so long are not used again: a server closes them after 75 s.
const IDLE: Duration = Duration::from_secs(20);
/// Most connections that are kept for one server.
const KEPT_MAX: usize = 64;
/// Longest head of a reply; the server's have a few hundred bytes.
const HEAD_MAX: usize = 16 * 1024;

/// The key of all calls.
pub(crate) const KEY: &str = "tidegate_chaos";

/// Why there is no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// There was nobody to connect to: it was never sent.
    Refused,
    /// The connection ended.
    Lost,
    /// Nothing came in time.
    Late,
    /// We left before there could be a reply.
    Left,
}

/// A reply.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: Value,
    /// `Idempotency-Scope: region`.
    pub(crate) in_region: bool,
    /// `Idempotency-Replayed: true`.
    pub(crate) replayed: bool,
}

impl Reply {
    /// What a success says.
    pub(crate) fn data(&self) -> &Value {
        self.body.get("data").unwrap_or(&Value::Null)
    }
}

/// Connections to one life of one server.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) address: SocketAddr,
    pub(crate) life: u32,
    kept: Mutex<Vec<(Instant, TcpStream)>>,
}

impl Door {
    pub(crate) fn new(address: SocketAddr, life: u32) -> Self {
        Self { address, life, kept: Mutex::default() }
    }

    /// `POST` with a body of JSON, and perhaps an `Idempotency-Key`.
    pub(crate) async fn post(
        &self,
        path: &str,
        body: &Value,
        once: Option<&str>,
    ) -> Result<Reply, Trouble> {
        self.exchange(&request(path, body, once)).await
    }

    /// `GET` of a page that needs no key.
    pub(crate) async fn get(&self, path: &str) -> Result<Reply, Trouble> {
        self.exchange(&format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n")).await
    }

    /// Sends a call and leaves at once.
    pub(crate) async fn leave(&self, path: &str, body: &Value, once: &str) -> Trouble {
        let send = async {
            let mut stream =
                TcpStream::connect(self.address).await.map_err(|_| Trouble::Refused)?;
            let text = request(path, body, Some(once));
            stream.write_all(text.as_bytes()).await.map_err(|_| Trouble::Lost)
        };
        match timeout(PATIENCE, send).await {
            Ok(Ok(())) => Trouble::Left,
            Ok(Err(trouble)) => trouble,
            Err(_) => Trouble::Late,
        }
    }

    async fn exchange(&self, text: &str) -> Result<Reply, Trouble> {
        let mut stream = match self.kept() {
            Some(stream) => stream,
            None => match timeout(PATIENCE, TcpStream::connect(self.address)).await {
                Ok(Ok(stream)) => stream,
                _ => return Err(Trouble::Refused),
            },
        };
        let talk = async {
            stream.set_nodelay(true)?;
            stream.write_all(text.as_bytes()).await?;
            read(&mut stream).await
        };
        let (reply, keeps) = match timeout(PATIENCE, talk).await {
            Ok(Ok(read)) => read,
            Ok(Err(_)) => return Err(Trouble::Lost),
            Err(_) => return Err(Trouble::Late),
        };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if keeps && kept.len() < KEPT_MAX {
            kept.push((Instant::now(), stream));
        }
        Ok(reply)
    }

    fn kept(&self) -> Option<TcpStream> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(since, _)| since.elapsed() < IDLE);
        kept.pop().map(|(_, stream)| stream)
    }
}

/// A request with a body.
fn request(path: &str, body: &Value, once: Option<&str>) -> String {
    let body = body.to_string();
    let once = once.map(|key| format!("Idempotency-Key: {key}\r\n")).unwrap_or_default();
    format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\n{once}\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Reads a reply, and says whether the connection can be used again.
async fn read(stream: &mut TcpStream) -> io::Result<(Reply, bool)> {
    let strange = || io::Error::other("this is not a reply");
    let mut bytes = Vec::new();
    let head_ends = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at.saturating_add(4);
        }
        if bytes.len() > HEAD_MAX || stream.read_buf(&mut bytes).await? == 0 {
            return Err(strange());
        }
    };
    let head = String::from_utf8_lossy(bytes.get(..head_ends).unwrap_or_default()).into_owned();
    let status = head.split(' ').nth(1).and_then(|text| text.parse().ok()).ok_or_else(strange)?;
    let header = |wanted: &str| {
        let fields = head.lines().filter_map(|line| line.split_once(": "));
        fields.filter(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value).next()
    };
    let length = header("content-length").and_then(|text| text.parse().ok()).unwrap_or(0_usize);
    let whole = head_ends.saturating_add(length);
    while bytes.len() < whole {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Err(strange());
        }
    }
    let body = bytes.get(head_ends..whole).unwrap_or_default();
    let reply = Reply {
        status,
        body: serde_json::from_slice(body).unwrap_or(Value::Null),
        in_region: header("idempotency-scope") == Some("region"),
        replayed: header("idempotency-replayed") == Some("true"),
    };
    Ok((reply, header("connection").is_none_or(|value| value != "close")))
}

//! A connection that stays open, and what became of a request on it.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::{http1, http2};
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde::Deserialize;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::super::http::{ANSWER_WITHIN, REPLY_BYTES_MAX, Server};

type Body = Full<Bytes>;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Answered.
    Verdict { admitted: bool, degraded: bool },
    /// Not.
    Error(ErrorKind),
}

/// Why there is no verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ErrorKind {
    /// No connection.
    Unreachable,
    /// A connection that ended without a reply.
    Broken,
    /// No reply in time.
    Late,
    /// 429: the workspace sends too much, not the identifier.
    TooMany,
    /// Another 4xx.
    Refused,
    /// 5xx.
    Failed,
    /// A reply that is none of this API.
    Strange,
}

impl ErrorKind {
    pub(super) const ALL: [Self; 7] = [
        Self::Unreachable,
        Self::Broken,
        Self::Late,
        Self::TooMany,
        Self::Refused,
        Self::Failed,
        Self::Strange,
    ];

    /// Whether the server replied, or let us wait: then the time it took says something.
    pub(super) const fn took_time(self) -> bool {
        !matches!(self, Self::Unreachable | Self::Broken)
    }
}

/// One request at a time over HTTP/1.1, or several senders of one connection of HTTP/2.
#[derive(Debug)]
pub(super) enum Line {
    One(Option<http1::SendRequest<Body>>),
    Two(Arc<Mutex<Option<http2::SendRequest<Body>>>>),
}

impl Line {
    /// The senders of one connection.
    pub(super) fn of_connection(streams: Option<u32>) -> Vec<Self> {
        let Some(streams) = streams else { return vec![Self::One(None)] };
        let shared = Arc::new(Mutex::new(None));
        (0..streams).map(|_| Self::Two(Arc::clone(&shared))).collect()
    }

    /// Connects, unless it is connected.
    pub(super) async fn connect(&mut self, server: &Server) -> io::Result<()> {
        match self {
            Self::One(sender) => {
                if sender.as_ref().is_none_or(|it| it.is_closed()) {
                    let wire = TokioIo::new(server.open().await?);
                    let (made, connection) =
                        http1::handshake(wire).await.map_err(io::Error::other)?;
                    // Ends with the sender; what goes wrong is told to whoever waits for a reply.
                    tokio::spawn(connection);
                    *sender = Some(made);
                }
            }
            Self::Two(shared) => {
                // Held while it connects: the others wait for this one connection.
                let mut sender = shared.lock().await;
                if sender.as_ref().is_none_or(|it| it.is_closed()) {
                    let wire = TokioIo::new(server.open().await?);
                    let shaken = http2::handshake(TokioExecutor::new(), wire).await;
                    let (made, connection) = shaken.map_err(io::Error::other)?;
                    tokio::spawn(connection);
                    *sender = Some(made);
                }
            }
        }
        Ok(())
    }

    /// Sends a request, and reads the reply.
    pub(super) async fn call(&mut self, server: &Server, request: Request<Body>) -> Outcome {
        if self.connect(server).await.is_err() {
            return Outcome::Error(ErrorKind::Unreachable);
        }
        match timeout(ANSWER_WITHIN, self.exchange(request)).await {
            Ok(outcome) => outcome.unwrap_or_else(|kind| {
                self.hang_up();
                Outcome::Error(kind)
            }),
            Err(_) => {
                self.hang_up();
                Outcome::Error(ErrorKind::Late)
            }
        }
    }

    /// What is left of this exchange must not meet the next one. A stream of HTTP/2 ends alone.
    fn hang_up(&mut self) {
        if let Self::One(sender) = self {
            *sender = None;
        }
    }

    async fn exchange(&mut self, request: Request<Body>) -> Result<Outcome, ErrorKind> {
        let reply = match self {
            Self::One(sender) => {
                let sender = sender.as_mut().ok_or(ErrorKind::Broken)?;
                sender.ready().await.map_err(|_| ErrorKind::Broken)?;
                sender.send_request(request).await
            }
            Self::Two(shared) => {
                let sender = shared.lock().await.clone();
                let mut sender = sender.ok_or(ErrorKind::Broken)?;
                sender.ready().await.map_err(|_| ErrorKind::Broken)?;
                sender.send_request(request).await
            }
        };
        outcome(reply.map_err(|_| ErrorKind::Broken)?).await
    }
}

/// Reads a reply to its end, so that the connection can be used again.
async fn outcome(reply: Response<Incoming>) -> Result<Outcome, ErrorKind> {
    let status = reply.status();
    let body = Limited::new(reply.into_body(), REPLY_BYTES_MAX).collect().await;
    let body = body.map_err(|_| ErrorKind::Broken)?.to_bytes();
    Ok(match status.as_u16() {
        200..300 => read(&body),
        429 => Outcome::Error(ErrorKind::TooMany),
        400..500 => Outcome::Error(ErrorKind::Refused),
        500..600 => Outcome::Error(ErrorKind::Failed),
        _ => Outcome::Error(ErrorKind::Strange),
    })
}

#[derive(Deserialize)]
struct Envelope {
    data: Data,
}

/// Of one limit or of several.
#[derive(Deserialize)]
struct Data {
    #[serde(alias = "passed")]
    success: bool,
    #[serde(default)]
    degraded: bool,
    #[serde(default)]
    limits: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    #[serde(default)]
    degraded: bool,
}

fn read(body: &[u8]) -> Outcome {
    match serde_json::from_slice(body) {
        Ok(Envelope { data: Data { success, degraded, limits } }) => Outcome::Verdict {
            admitted: success,
            degraded: degraded || limits.iter().any(|item| item.degraded),
        },
        Err(_) => Outcome::Error(ErrorKind::Strange),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_limit_and_several_are_read_alike() {
        let verdict = |admitted, degraded| Outcome::Verdict { admitted, degraded };
        for (body, outcome) in [
            (r#"{"meta":{},"data":{"success":true,"limit":1}}"#, verdict(true, false)),
            (r#"{"data":{"success":false,"degraded":true}}"#, verdict(false, true)),
            (r#"{"data":{"passed":true,"limits":[{"passed":true}]}}"#, verdict(true, false)),
            (r#"{"data":{"passed":false,"limits":[{},{"degraded":true}]}}"#, verdict(false, true)),
            (r#"{"data":{}}"#, Outcome::Error(ErrorKind::Strange)),
            ("<html>", Outcome::Error(ErrorKind::Strange)),
        ] {
            assert_eq!(read(body.as_bytes()), outcome, "{body}");
        }
    }
}

//! One call over HTTP/1.1: a connection, a request, a reply, each in time.

use std::fmt;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT,
};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, Request, Uri};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::failure::{Failure, Problem};
use crate::idempotency::{IDEMPOTENCY_KEY, IDEMPOTENCY_REPLAYED};

/// How long a connection may take to be made: more than any that is ever made, less than it takes
/// a person to wonder.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// How long the reply may take. A server answers within milliseconds; one that is started or
/// overloaded may take longer.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(15);
/// Longest reply: many times that of a batch of a hundred, or of a page of overrides.
pub(super) const REPLY_BYTES_MAX: usize = 16 << 20;
/// What sends the request.
const AGENT: &str = concat!("tidegate/", env!("CARGO_PKG_VERSION"));

/// A server, and as whom to speak to it.
pub(super) struct Server {
    place: Place,
    /// Absent for what needs no key.
    authorization: Option<HeaderValue>,
    http2: bool,
    #[cfg(feature = "tls")]
    tls: super::tls::Encrypter,
}

/// A connection, encrypted or not.
pub(super) type Wire = Box<dyn Stream>;

/// What bytes go both ways over.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// Where a server is.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    secure: bool,
    /// Without the brackets of an IPv6 address.
    host: String,
    port: u16,
    /// What stands before every path; ends without a slash.
    prefix: String,
}

/// A reply.
pub(super) struct Answer {
    place: String,
    status: u16,
    /// It is that of an earlier call with the same key.
    pub(super) replayed: bool,
    retry_after: Option<String>,
    body: Bytes,
}

/// The envelope of a success.
#[derive(Deserialize)]
struct Envelope<'a> {
    meta: Option<Value>,
    #[serde(borrow)]
    data: &'a RawValue,
    pagination: Option<Pagination>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Pagination {
    has_more: bool,
    cursor: Option<String>,
}

impl Server {
    /// Reads address and key. Neither is repeated when it is wrong: there may be secrets in them.
    pub(super) fn new(url: &str, key: &str) -> Result<Self, Failure> {
        let server = Self::without_key(url)?;
        let key_wrong = "the key (TIDEGATE_ROOT_KEY or --root-key) must be of visible ASCII \
                         characters, without spaces";
        let visible = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic());
        let authorization = HeaderValue::from_str(&format!("Bearer {key}"));
        let Some(mut authorization) = authorization.ok().filter(|_| visible) else {
            return Err(Failure::Usage(key_wrong.to_owned()));
        };
        authorization.set_sensitive(true);
        Ok(Self { authorization: Some(authorization), ..server })
    }

    /// The same, for what needs no key.
    pub(super) fn without_key(url: &str) -> Result<Self, Failure> {
        let wrong =
            |why: &str| Failure::Usage(format!("the address (--url or TIDEGATE_URL) {why}"));
        let place = Place::parse(url).map_err(wrong)?;
        if place.secure && !cfg!(feature = "tls") {
            return Err(wrong("begins with https://, which needs a build with the feature `tls`"));
        }
        Ok(Self {
            place,
            authorization: None,
            http2: false,
            #[cfg(feature = "tls")]
            tls: super::tls::Encrypter::default(),
        })
    }

    /// The same, over HTTP/2. [`post`](Self::post) goes on in HTTP/1.1.
    pub(super) fn speaking_http2(mut self) -> Self {
        self.http2 = true;
        self
    }

    /// Makes a call.
    pub(super) async fn post(
        &self,
        path: &str,
        body: Bytes,
        key: Option<&str>,
    ) -> Result<Answer, Failure> {
        let mut request = Request::from_parts(self.head_for(path, false)?, Full::new(body));
        if let Some(key) = key.and_then(|key| HeaderValue::from_str(key).ok()) {
            request.headers_mut().insert(IDEMPOTENCY_KEY, key);
        }
        self.send(request).await
    }

    /// Asks for something.
    pub(super) async fn get(&self, path: &str) -> Result<Answer, Failure> {
        let mut head = self.head_for(path, false)?;
        head.method = Method::GET;
        self.send(Request::from_parts(head, Full::default())).await
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Result<Answer, Failure> {
        let stream = self.dial().await.map_err(|why| self.unreachable(&why))?;
        let exchange = async {
            let stream = self.encrypted(stream, false).await?;
            self.exchange_over(stream, request).await
        };
        let answer = in_time(&self.place.to_string(), exchange).await?;
        answer.map_err(|why| self.unreachable(&why))
    }

    /// Nobody is there, and why.
    pub(super) fn unreachable(&self, why: &io::Error) -> Failure {
        Failure::Unreachable {
            place: self.place.to_string(),
            why: why.to_string(),
            refused: why.kind() == io::ErrorKind::ConnectionRefused,
        }
    }

    /// A connection that speaks nothing yet.
    pub(super) async fn open(&self) -> io::Result<Wire> {
        let stream = self.dial().await?;
        let encrypted = timeout(CONNECT_WITHIN, self.encrypted(stream, self.http2)).await;
        encrypted.unwrap_or_else(|_| Err(late()))
    }

    async fn dial(&self) -> io::Result<TcpStream> {
        let connecting = TcpStream::connect((self.place.host.as_str(), self.place.port));
        let stream = timeout(CONNECT_WITHIN, connecting).await.unwrap_or_else(|_| Err(late()))?;
        // Requests are small and whole: waiting to fill a packet would only delay them.
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    #[cfg(feature = "tls")]
    async fn encrypted(&self, stream: TcpStream, http2: bool) -> io::Result<Wire> {
        if !self.place.secure {
            return Ok(Box::new(stream));
        }
        Ok(Box::new(self.tls.encrypt(stream, &self.place.host, http2).await?))
    }

    #[cfg(not(feature = "tls"))]
    #[expect(clippy::unused_async, reason = "with the feature `tls` it waits")]
    async fn encrypted(&self, stream: TcpStream, _http2: bool) -> io::Result<Wire> {
        Ok(Box::new(stream))
    }

    /// Everything of a request but its body.
    pub(super) fn head(&self, path: &str) -> Result<Parts, Failure> {
        self.head_for(path, self.http2)
    }

    fn head_for(&self, path: &str, http2: bool) -> Result<Parts, Failure> {
        let strange =
            |_| Failure::Usage("the address (--url or TIDEGATE_URL) is not one".to_owned());
        let json = HeaderValue::from_static("application/json");
        // HTTP/2 sends scheme and authority, HTTP/1.1 a header.
        let mut request = if http2 {
            Request::post(format!("{}{path}", self.place))
        } else {
            let path = format!("{}{path}", self.place.prefix);
            Request::post(path).header(HOST, self.place.authority())
        };
        request = request
            .header(USER_AGENT, AGENT)
            .header(ACCEPT, json.clone())
            .header(CONTENT_TYPE, json);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        let (head, ()) = request.body(()).map_err(strange)?.into_parts();
        Ok(head)
    }

    async fn exchange_over(
        &self,
        stream: Wire,
        request: Request<Full<Bytes>>,
    ) -> io::Result<Answer> {
        let shaken = http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = shaken.map_err(io::Error::other)?;
        // Ends with the sender; what goes wrong with it is told to whoever waits for the reply.
        tokio::spawn(connection);
        let reply = sender.send_request(request).await.map_err(broken)?;
        let (head, body) = reply.into_parts();
        let body = Limited::new(body, REPLY_BYTES_MAX).collect().await.map_err(io::Error::other)?;
        let text = |name: HeaderName| text(&head.headers, &name);
        Ok(Answer {
            place: self.place.to_string(),
            status: head.status.as_u16(),
            replayed: text(IDEMPOTENCY_REPLAYED).as_deref() == Some("true"),
            retry_after: text(RETRY_AFTER),
            body: body.to_bytes(),
        })
    }
}

fn late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "no connection in time")
}

/// Waits for an answer, but not for ever.
async fn in_time<T>(place: &str, answer: impl Future<Output = T>) -> Result<T, Failure> {
    let late = |_| Failure::Late { place: place.to_owned(), seconds: ANSWER_WITHIN.as_secs() };
    timeout(ANSWER_WITHIN, answer).await.map_err(late)
}

/// A connection that ended without a reply, in plain words.
fn broken(why: hyper::Error) -> io::Error {
    if why.is_incomplete_message() {
        return io::Error::other("it closed the connection without a reply");
    }
    io::Error::other(format!("not HTTP: {why}"))
}

fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

impl Place {
    /// Reads `http://host[:port][/prefix]`; says what is wrong without repeating it.
    fn parse(url: &str) -> Result<Self, &'static str> {
        let wrong = "must have the form http://HOST[:PORT]";
        let uri: Uri = url.parse().map_err(|_| wrong)?;
        let secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err("must begin with http:// or https://"),
        };
        let authority = uri.authority().ok_or(wrong)?;
        if authority.as_str().contains('@') {
            return Err("must not hold a user; the key goes into TIDEGATE_ROOT_KEY");
        }
        if uri.query().is_some() {
            return Err("must not have a `?`");
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        // A port that is none is no port to this parser.
        let has_port = authority.as_str().len() > authority.host().len();
        let port = match authority.port_u16() {
            Some(port) => port,
            None if has_port => return Err(wrong),
            None if secure => 443,
            None => 80,
        };
        if host.is_empty() {
            return Err(wrong);
        }
        let prefix = uri.path().trim_end_matches('/').to_owned();
        Ok(Self { secure, host, port, prefix })
    }

    fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.prefix)
    }
}

impl Answer {
    pub(super) const fn status(&self) -> u16 {
        self.status
    }

    /// The whole reply on one line.
    pub(super) fn line(&self) -> String {
        let text = String::from_utf8_lossy(&self.body);
        let text = text.trim();
        if !text.contains(['\n', '\r']) {
            return text.to_owned();
        }
        // Somebody between us and the server made it pretty.
        match serde_json::from_str::<Value>(text) {
            Ok(value) => value.to_string(),
            Err(_) => text.replace(['\n', '\r'], " "),
        }
    }

    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The reply, if it is a success.
    pub(super) fn check(self) -> Result<Self, Failure> {
        if self.is_success() {
            return Ok(self);
        }
        let Self { place, status, retry_after, .. } = self;
        let said = serde_json::from_slice(&self.body).ok();
        Err(Failure::Refused(Box::new(Problem { status, place, retry_after, said })))
    }

    /// What it says.
    pub(super) fn data<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Failure> {
        serde_json::from_str(self.envelope()?.data.get()).map_err(strange)
    }

    /// What it says of itself.
    pub(super) fn meta(&self) -> Result<Option<Value>, Failure> {
        Ok(self.envelope()?.meta)
    }

    /// Where the next page of a list begins, if there is one.
    pub(super) fn next_page(&self) -> Result<Option<String>, Failure> {
        let pagination = self.envelope()?.pagination;
        Ok(pagination.filter(|pagination| pagination.has_more).and_then(|more| more.cursor))
    }

    fn envelope(&self) -> Result<Envelope<'_>, Failure> {
        serde_json::from_slice(&self.body).map_err(strange)
    }
}

/// What came is not what was asked for.
pub(super) fn strange(why: serde_json::Error) -> Failure {
    Failure::Strange(why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        for (url, secure, host, port, prefix, shown) in [
            ("http://127.0.0.1:7600", false, "127.0.0.1", 7600, "", "http://127.0.0.1:7600"),
            ("http://limits", false, "limits", 80, "", "http://limits:80"),
            ("https://limits/", true, "limits", 443, "", "https://limits:443"),
            ("http://[::1]:1", false, "::1", 1, "", "http://[::1]:1"),
            ("http://h:1/a/b/", false, "h", 1, "/a/b", "http://h:1/a/b"),
        ] {
            let place = Place::parse(url).unwrap();
            let (host, prefix) = (host.to_owned(), prefix.to_owned());
            assert_eq!(place, Place { secure, host, port, prefix }, "{url}");
            assert_eq!(place.to_string(), shown);
        }
    }

    #[test]
    fn what_is_no_address_or_key_is_refused_without_repeating_it() {
        for bad in [
            "",
            "s3cret",
            "127.0.0.1:7600",
            "ftp://s3cret",
            "http://",
            "http://user:s3cret@host",
            "http://host:s3cret",
            "http://host:99999",
            "http://host?key=s3cret",
            "http://a b",
        ] {
            let why = Server::new(bad, "k").err().unwrap().to_string();
            assert!(why.contains("TIDEGATE_URL") && !why.contains("s3cret"), "{bad}: {why}");
        }
        for bad in ["", "s3cret\n", "s3 cret", "s3créte"] {
            let why = Server::new("http://h", bad).err().unwrap().to_string();
            assert!(why.contains("TIDEGATE_ROOT_KEY") && !why.contains("s3"), "{why}");
        }
    }

    #[cfg(not(feature = "tls"))]
    #[test]
    fn an_encrypted_connection_needs_its_feature() {
        let why = Server::new("https://h", "k").err().unwrap().to_string();
        assert!(why.contains("feature `tls`"), "{why}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_says_nothing_is_given_up() {
        let late = in_time("http://h", std::future::pending::<()>()).await.unwrap_err();
        let said = late.to_string();
        assert!(said.starts_with("error: http://h did not answer within 15 s\n"), "{said}");
        assert!(said.contains("--idempotency-key"), "{said}: it may have been charged");
    }

    fn answer(body: &'static str) -> Answer {
        let (place, retry_after) = ("x".to_owned(), None);
        let body = Bytes::from_static(body.as_bytes());
        Answer { place, status: 200, replayed: false, retry_after, body }
    }

    #[test]
    fn a_reply_is_one_line_whatever_it_was() {
        assert_eq!(answer("{\"b\":1,\"a\":2}\n").line(), "{\"b\":1,\"a\":2}", "as it was");
        assert_eq!(answer("{\n \"a\": 1\n}").line(), "{\"a\":1}");
        assert_eq!(answer("not\r\nJSON").line(), "not  JSON");
    }

    #[test]
    fn a_reply_without_what_was_asked_for_makes_no_sense() {
        let more = answer(r#"{"data":[1],"pagination":{"hasMore":true,"cursor":"c"}}"#);
        assert_eq!(more.data::<Vec<u64>>().unwrap(), [1]);
        assert_eq!(more.next_page().unwrap().as_deref(), Some("c"));
        let last = answer(r#"{"data":{},"pagination":{"hasMore":false,"cursor":"c"}}"#);
        assert_eq!(last.next_page().unwrap(), None);
        for strange in ["", "[]", "{}", "{\"data\":\"x\"}"] {
            assert!(matches!(answer(strange).data::<u64>(), Err(Failure::Strange(_))));
        }
    }
}

//! As much of three protocols as a load needs: requests that are written in advance, and where a
//! reply ends. It costs little, because it shares the machine with the server that is measured.

use crate::Failure;

/// What is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// HTTP/1.1, one request at a time.
    Http1,
    /// HTTP/2 without TLS and without asking, one request at a time.
    Http2,
    /// What Redis speaks.
    Resp,
}

impl Protocol {
    /// Its part of the name of a case.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Http1 => "http1",
            Self::Http2 => "http2",
            Self::Resp => "resp",
        }
    }
}

/// A request as it is sent.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) bytes: Vec<u8>,
    /// Where the number of the stream has to be written, for HTTP/2.
    pub(super) streams: [usize; 2],
}

/// The same, wherever its bytes are kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) streams: [usize; 2],
}

/// What a reply says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Admitted,
    Denied,
    /// It is good, and decides nothing.
    Done,
    /// An error, or a status that is none of these.
    Refused,
}

impl Reply {
    /// Looks for the words of all who are measured: ours of one check and of many, and others'. A
    /// status of 429 is a denial, too.
    fn of_http(status: &str, body: &[u8]) -> Self {
        let body = std::str::from_utf8(body).unwrap_or_default();
        let says = |words: [&str; 3]| words.iter().any(|word| body.contains(word));
        match status {
            "429" => Self::Denied,
            "200" if says(["\"success\":false", "\"passed\":false", "\"allowed\":false"]) => {
                Self::Denied
            }
            "200" if says(["\"success\":true", "\"passed\":true", "\"allowed\":true"]) => {
                Self::Admitted
            }
            "200" => Self::Done,
            _ => Self::Refused,
        }
    }
}

/// A call over HTTP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Post<'a> {
    pub(crate) path: &'a str,
    /// What is sent as `Authorization: Bearer`; empty for nothing.
    pub(crate) key: &'a str,
    pub(crate) body: &'a str,
}

impl Post<'_> {
    /// As it is sent over this protocol.
    pub(crate) fn write(&self, protocol: Protocol) -> Result<Written, Failure> {
        match protocol {
            Protocol::Http1 => Ok(self.http1()),
            Protocol::Http2 => self.http2(),
            Protocol::Resp => Err("there is no POST in RESP".into()),
        }
    }

    fn http1(&self) -> Written {
        let Self { path, key, body } = self;
        let authorization = match *key {
            "" => String::new(),
            key => format!("authorization: Bearer {key}\r\n"),
        };
        let text = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             {authorization}content-length: {}\r\n\r\n{body}",
            body.len()
        );
        Written { bytes: text.into_bytes(), streams: [0; 2] }
    }

    /// One frame of headers that refers to no earlier one, and one of data.
    fn http2(&self) -> Result<Written, Failure> {
        let length = self.body.len().to_string();
        // `:method POST` and `:scheme http` are entries 3 and 6 of the static table; the others are
        // written out, under names 4, 1, 31, 28 and 23 of it.
        let mut block = vec![0x83, 0x86];
        let fields = [(4, self.path), (1, "localhost"), (31, "application/json"), (28, &*length)];
        for (name, value) in fields {
            literal(&mut block, name, value)?;
        }
        if !self.key.is_empty() {
            literal(&mut block, 23, &format!("Bearer {}", self.key))?;
        }
        let mut bytes = frame(HEADERS, END_HEADERS, &block)?;
        let second = bytes.len();
        bytes.extend(frame(DATA, END_STREAM, self.body.as_bytes())?);
        Ok(Written { bytes, streams: [5, second + 5] })
    }
}

/// A command of Redis.
pub(crate) fn command(words: &[&str]) -> Written {
    let mut text = format!("*{}\r\n", words.len());
    for word in words {
        text.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    Written { bytes: text.into_bytes(), streams: [0; 2] }
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GO_AWAY: u8 = 7;
const END_STREAM: u8 = 1;
/// The same bit, where it means that this answers what the other side sent.
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
/// The length of what precedes the payload of a frame.
const FRAME_HEAD: usize = 9;
/// `:status 200` in the static table.
const STATUS_200: u8 = 0x88;

fn frame(kind: u8, flags: u8, payload: &[u8]) -> Result<Vec<u8>, Failure> {
    let [_, long, middle, short] = u32::try_from(payload.len())?.to_be_bytes();
    let mut bytes = vec![long, middle, short, kind, flags, 0, 0, 0, 0];
    bytes.extend(payload);
    Ok(bytes)
}

/// A field that is not indexed, under a name of the static table.
fn literal(block: &mut Vec<u8>, name: u8, value: &str) -> Result<(), Failure> {
    // Four bits of the first byte, and the rest in a second; the length may be 126 at most.
    match name.checked_sub(15) {
        None => block.push(name),
        Some(rest) => block.extend([15, rest]),
    }
    let length = u8::try_from(value.len()).ok().filter(|length| *length < 127);
    block.push(length.ok_or("a header is too long to be written here")?);
    block.extend(value.as_bytes());
    Ok(())
}

/// One side of a connection: what is to be sent, and what has arrived.
#[derive(Debug)]
pub(crate) struct Speaker {
    protocol: Protocol,
    /// The number of the last stream.
    stream: u32,
    /// What the other side has to be sent before the next request.
    owed: Vec<u8>,
    arrived: Vec<u8>,
    /// The status of the reply that is being read over HTTP/2, and its body as far as it was read.
    status: &'static str,
    body: Vec<u8>,
}

impl Speaker {
    /// Nothing was said yet.
    pub(crate) fn new(protocol: Protocol) -> Result<Self, Failure> {
        let mut owed = Vec::new();
        if protocol == Protocol::Http2 {
            owed.extend(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
            // Windows as large as they can be: a load never has to open them again. Setting 4 is
            // that of new streams, and a frame of kind 8 opens that of the connection.
            let largest = 0x7fff_ffff_u32;
            let mut window = vec![0, 4];
            window.extend(largest.to_be_bytes());
            owed.extend(frame(SETTINGS, 0, &window)?);
            owed.extend(frame(8, 0, &(largest - 65_535).to_be_bytes())?);
        }
        let (arrived, body) = (Vec::with_capacity(4_096), Vec::new());
        Ok(Self { protocol, stream: 1, owed, arrived, status: "", body })
    }

    /// Puts what is to be sent for this request into `out`.
    pub(super) fn say(&mut self, request: Asked<'_>, out: &mut Vec<u8>) {
        out.clear();
        out.append(&mut self.owed);
        let start = out.len();
        out.extend(request.bytes);
        if self.protocol == Protocol::Http2 {
            let number = self.stream.to_be_bytes();
            for at in request.streams {
                let place = out.get_mut(start + at..start + at + 4);
                place.into_iter().for_each(|place| place.copy_from_slice(&number));
            }
            self.stream += 2;
        }
    }

    /// Bytes have arrived. `Some` if they complete a reply: what it says.
    pub(crate) fn hear(&mut self, bytes: &[u8]) -> Result<Option<Reply>, Failure> {
        self.arrived.extend(bytes);
        match self.protocol {
            Protocol::Http1 => self.hear_http1(),
            Protocol::Http2 => self.hear_http2(),
            Protocol::Resp => self.hear_resp(),
        }
    }

    fn hear_http1(&mut self) -> Result<Option<Reply>, Failure> {
        let end = self.arrived.windows(4).position(|four| four == b"\r\n\r\n");
        let Some(head) = end.and_then(|end| self.arrived.get(..end)) else { return Ok(None) };
        let head = std::str::from_utf8(head)?;
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length")
                .then(|| value.trim().parse::<usize>().ok())?
        });
        let start = head.len() + 4;
        let whole = start + length.ok_or("a reply does not say how long it is")?;
        let Some(body) = self.arrived.get(start..whole) else { return Ok(None) };
        let reply = Reply::of_http(head.get(9..12).unwrap_or_default(), body);
        self.arrived.drain(..whole);
        Ok(Some(reply))
    }

    fn hear_http2(&mut self) -> Result<Option<Reply>, Failure> {
        let mut passed = 0;
        let mut ended = None;
        while let Some([long, middle, short, kind, flags, ..]) =
            self.arrived.get(passed..passed + FRAME_HEAD)
        {
            let (kind, flags) = (*kind, *flags);
            let length = usize::try_from(u32::from_be_bytes([0, *long, *middle, *short]))?;
            let start = passed + FRAME_HEAD;
            let Some(payload) = self.arrived.get(start..start + length) else { break };
            match kind {
                HEADERS => {
                    self.status = if payload.first() == Some(&STATUS_200) { "200" } else { "" };
                    self.body.clear();
                }
                DATA => self.body.extend(payload),
                SETTINGS if flags & ACK == 0 => self.owed.extend(frame(SETTINGS, ACK, &[])?),
                PING if flags & ACK == 0 => self.owed.extend(frame(PING, ACK, payload)?),
                RESET | GO_AWAY => return Err("the server ended the connection".into()),
                _ => {}
            }
            if matches!(kind, HEADERS | DATA) && flags & END_STREAM != 0 {
                ended = Some(Reply::of_http(self.status, &self.body));
            }
            passed = start + length;
        }
        self.arrived.drain(..passed);
        Ok(ended)
    }

    /// A number, a word, an error, or an array of numbers, of which the first is the verdict.
    fn hear_resp(&mut self) -> Result<Option<Reply>, Failure> {
        let text = std::str::from_utf8(&self.arrived)?;
        let Some((first, rest)) = text.split_once("\r\n") else { return Ok(None) };
        let lines = first.strip_prefix('*').map_or(Ok(0), str::parse::<usize>)? + 1;
        if text.matches("\r\n").count() < lines {
            return Ok(None);
        }
        let reply = match (first.as_bytes().first(), rest.lines().next()) {
            (Some(b'-'), _) => Reply::Refused,
            (Some(b'*'), Some(":1")) => Reply::Admitted,
            (Some(b'*'), Some(":0")) => Reply::Denied,
            _ => Reply::Done,
        };
        self.arrived.clear();
        Ok(Some(reply))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(protocol: Protocol, bytes: &[u8]) -> Vec<Reply> {
        let mut speaker = Speaker::new(protocol).unwrap();
        let one = |byte: &u8| speaker.hear(std::slice::from_ref(byte)).unwrap();
        bytes.iter().filter_map(one).collect()
    }

    #[test]
    fn replies_end_where_they_say() {
        let good = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}".as_slice();
        let bad = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n".as_slice();
        let all = [Reply::Done, Reply::Refused, Reply::Done];
        assert_eq!(heard(Protocol::Http1, &[good, bad, good].concat()), all);
        let array = b"*2\r\n:1\r\n:22\r\n".as_slice();
        let other = b"*2\r\n:0\r\n:22\r\n-ERR no\r\n+OK\r\n".as_slice();
        let all = [Reply::Admitted, Reply::Denied, Reply::Refused, Reply::Done];
        assert_eq!(heard(Protocol::Resp, &[array, other].concat()), all);
        let headers = frame(HEADERS, END_HEADERS, &[STATUS_200, 0x5f]).unwrap();
        let parts = [frame(DATA, 0, b"{\"success\":").unwrap(), frame(DATA, 1, b"true}").unwrap()];
        let refused = frame(HEADERS, END_HEADERS | END_STREAM, &[0x8d]).unwrap();
        let all = [headers, parts.concat(), refused].concat();
        assert_eq!(heard(Protocol::Http2, &all), [Reply::Admitted, Reply::Refused]);
    }

    #[test]
    fn a_verdict_is_what_the_body_says() {
        let of = |body: &str| Reply::of_http("200", body.as_bytes());
        assert_eq!(of(r#"{"data":{"limit":1,"success":true}}"#), Reply::Admitted);
        assert_eq!(of(r#"{"data":{"limit":1,"success":false}}"#), Reply::Denied);
        assert_eq!(of(r#"{"passed":false,"limits":[{"passed":true}]}"#), Reply::Denied);
        assert_eq!(of(r#"{"allowed":true}"#), Reply::Admitted);
        assert_eq!(of(r#"{"allowed":false}"#), Reply::Denied);
        assert_eq!(Reply::of_http("429", b""), Reply::Denied);
        assert_eq!(Reply::of_http("500", br#"{"success":true}"#), Reply::Refused);
    }

    #[test]
    fn a_request_of_http2_is_sent_on_a_stream_of_its_own() {
        let post = Post { path: "/a", key: "k", body: "{}" };
        let written = post.write(Protocol::Http2).unwrap();
        let written = Asked { bytes: &written.bytes, streams: written.streams };
        let (mut speaker, mut out) = (Speaker::new(Protocol::Http2).unwrap(), Vec::new());
        speaker.say(written, &mut out);
        assert!(out.starts_with(b"PRI * HTTP/2.0") && out.ends_with(b"{}"));
        speaker.say(written, &mut out);
        assert_eq!(out[5..9], [0, 0, 0, 3]);
        let data = out.len() - "{}".len() - FRAME_HEAD;
        assert_eq!(out[data..data + FRAME_HEAD], [0, 0, 2, DATA, END_STREAM, 0, 0, 0, 3]);
    }
}

//! Heads that are too large or hold what they should not.

use crate::support::{Client, KEY, LIMIT, Server, WINDOW_MS, ask};

#[test]
fn a_head_that_is_too_large_is_refused_with_431() {
    let server = Server::start();
    let long = "x".repeat(64 << 10);
    let many: String = (0..1_000).map(|number| format!("x-{number}: y\r\n")).collect();
    for head in [
        format!("POST /{long} HTTP/1.1\r\nHost: x\r\n\r\n"),
        format!("POST / HTTP/1.1\r\nHost: x\r\nX: {long}\r\n\r\n"),
        format!("POST / HTTP/1.1\r\nHost: x\r\n{many}\r\n"),
    ] {
        let mut client = server.client();
        // The refusal may come before the end of it.
        client.try_send(head.as_bytes());
        let reply = String::from_utf8(client.rest()).unwrap();
        let refused = ["HTTP/1.1 431", "HTTP/1.1 414"];
        // Closed with bytes unread, a connection may be reset before the refusal is read.
        let is_refused = refused.iter().any(|status| reply.starts_with(status));
        assert!(reply.is_empty() || is_refused, "{reply}");
    }
    assert_eq!(server.client().post(LIMIT, &ask("a", 1, 1)).status, 200);
}

#[test]
fn a_head_with_too_many_lines_is_told_so() {
    let server = Server::start();
    // So short that it arrives, and is read, as one: nothing is left unread when it is closed.
    let many: String = (0..150).map(|number| format!("x-{number}: y\r\n")).collect();
    let mut client = server.client();
    client.send(&[format!("POST / HTTP/1.1\r\nHost: x\r\n{many}\r\n").as_bytes()]);
    let reply = String::from_utf8(client.rest()).unwrap();
    assert!(reply.starts_with("HTTP/1.1 431"), "{reply:?}");
}

/// Heads and bodies with what might find its way into a header of the reply.
fn tricky() -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = Vec::new();
    let request = |head: &[u8], body: &str| {
        let length = format!("Connection: close\r\nContent-Length: {}\r\n\r\n", body.len());
        [head, length.as_bytes(), body.as_bytes()].concat()
    };
    let good = format!("POST {LIMIT} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\n");
    for text in
        [r"a\r\nSet-Cookie: b=c", "é\u{2028}😀", r"\u0000\u001b[2J", r"\u000d\u000aX: y", "a\tb"]
    {
        let body = format!(
            r#"{{"namespace":"{text}","identifier":"{text}","limit":1,"duration":{WINDOW_MS}}}"#
        );
        all.push(request(good.as_bytes(), &body));
        all.push(request(good.as_bytes(), &format!(r#"{{"{text}":1}}"#)));
        all.push(request(good.as_bytes(), text));
    }
    for header in [
        &b"X-Request-Id: \xff\xfe\x80"[..],
        b"Accept: \xe2\x98\x83, application/problem+json",
        b"Origin: http://evil\tx",
        b"Authorization: Bearer \xff\xff",
        b"Accept-Encoding: \x80gzip",
        b"Traceparent: 00-\xc3\xa9",
    ] {
        all.push(request(&[good.as_bytes(), header, b"\r\n"].concat(), "{}"));
        let stranger = [b"POST / HTTP/1.1\r\nHost: x\r\n", header, b"\r\n"].concat();
        all.push(request(&stranger, "{}"));
    }
    for line in
        ["GET /%0d%0aX:%20y HTTP/1.1", "GET /livez?%0d%0aX:y HTTP/1.1", "PATCH //evil HTTP/1.1"]
    {
        all.push(request(format!("{line}\r\nHost: x\r\n").as_bytes(), ""));
    }
    // Not HTTP, or only nearly.
    all.push(b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n".to_vec());
    all.push(b"GET / HTTP/1.1\r\nBad Name: x\r\n\r\n".to_vec());
    all.push(b"GET / HTTP/1.1\r\nX: a\x00b\r\n\r\n".to_vec());
    all.push(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec());
    all
}

#[test]
fn the_heads_of_replies_are_visible_ascii_whatever_was_sent() {
    let server = Server::start();
    let mut replies = 0;
    for bytes in tricky() {
        let mut client: Client = server.client();
        client.send(&[&bytes]);
        let reply = client.rest();
        let Some(end) = reply.windows(4).position(|end| end == b"\r\n\r\n") else {
            assert!(reply.is_empty(), "half a head: {}", reply.escape_ascii());
            continue;
        };
        let head = &reply[..end];
        let lines: Vec<_> = head.split(|byte| *byte == b'\n').collect();
        for (index, line) in lines.iter().enumerate() {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let visible = line.iter().all(|byte| (b' '..=b'~').contains(byte));
            assert!(visible && !line.is_empty(), "{}", reply.escape_ascii());
            let name = line.split(|byte| *byte == b':').next().unwrap();
            let ours = ["content-type", "content-length", "date", "connection", "allow"];
            let more = ["www-authenticate", "cache-control"];
            let known = ours.iter().chain(&more).any(|known| known.as_bytes() == name);
            assert!(index == 0 || known, "{}", reply.escape_ascii());
        }
        replies += 1;
    }
    assert!(replies > 30, "{replies}");
}

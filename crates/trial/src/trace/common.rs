//! The access logs of Apache and nginx: common and combined, with or without more after them.
//!
//! `203.0.113.7 - ann [10/Oct/2026:13:55:36 +0000] "GET /a?b HTTP/1.1" 200 2326 "referer" "agent"`
//!
//! Some put the name of the host first (`vhost_combined`), and behind proxies there may be a list
//! of addresses, the client's first.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use super::time;
use super::{Fields, Record};

/// What such a line has, by the names that policies use.
pub(super) const NAMES: [&str; 9] =
    ["ip", "method", "path", "query", "status", "user", "agent", "referer", "bytes"];

pub(super) const EXAMPLE: &str =
    "203.0.113.7 - ann [10/Oct/2026:13:55:36 +0000] \"GET /a HTTP/1.1\" 200 2326";

/// Reads such lines.
#[derive(Clone, Debug)]
pub(super) struct Common {
    /// The numbers of the fields, by their place in [`NAMES`].
    wanted: [Option<usize>; NAMES.len()],
    /// The last time as text and as number: many lines have the same.
    last: (String, u64),
}

impl Common {
    pub(super) fn new(fields: &Fields) -> Self {
        Self { wanted: NAMES.map(|name| fields.number(name)), last: (String::new(), 0) }
    }

    /// Fills `record`, or says what was expected. `true` if it has a referer and an agent.
    pub(super) fn parse(
        &mut self,
        line: &str,
        fields: &Fields,
        record: &mut Record,
    ) -> Result<bool, &'static str> {
        let (client, rest) = client(line).ok_or("expected an address first")?;
        let open = memchr::memchr(b'[', rest.as_bytes()).ok_or("expected a time in brackets")?;
        let (who, rest) = rest.split_at_checked(open).ok_or("expected a time in brackets")?;
        let rest = rest.get(1..).unwrap_or_default();
        let (at, rest) = rest.split_once(']').ok_or("expected a time in brackets")?;
        let at_unix_ms = self.time(at).ok_or("expected a time as 10/Oct/2026:13:55:36 +0000")?;
        let rest = rest.trim_start();
        let (request, rest) = quoted(rest).ok_or("expected the request in quotes")?;
        record.begin(fields, at_unix_ms);
        let mut set = |at: usize, value: &str| {
            if let Some(field) = self.wanted.get(at).copied().flatten()
                && value != "-"
            {
                record.set(field, &unescaped(value));
            }
        };
        set(0, client);
        set(5, who.trim().split_once(' ').map_or("", |(_, user)| user.trim()));
        if let Some((method, target)) = request.split_once(' ') {
            // What follows the last space is the version, if there is one.
            let target = target.rsplit_once(" HTTP/").map_or(target, |(target, _)| target);
            let (path, query) = target.split_once('?').unwrap_or((target, ""));
            set(1, method);
            set(2, path);
            set(3, query);
        }
        let (status, rest) = word(rest);
        if status.len() != 3 || !status.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err("expected a status of three digits after the request");
        }
        set(4, status);
        let (bytes, rest) = word(rest);
        set(8, bytes);
        let Some((referer, rest)) = quoted(rest.trim_start()) else { return Ok(false) };
        let Some((agent, _)) = quoted(rest.trim_start()) else { return Ok(false) };
        set(7, referer);
        set(6, agent);
        Ok(true)
    }

    fn time(&mut self, text: &str) -> Option<u64> {
        if self.last.0 != text {
            let at = time::parse(text)?;
            self.last.0.clear();
            self.last.0.push_str(text);
            self.last.1 = at;
        }
        Some(self.last.1)
    }
}

/// Who asked, and what follows.
fn client(line: &str) -> Option<(&str, &str)> {
    let (mut first, mut rest) = line.split_once(' ')?;
    // A name may be that of the client, too: that of the host has an address after it.
    if !is_address(first)
        && let Some((second, after)) = rest.split_once(' ')
        && is_address(second)
    {
        (first, rest) = (second, after);
    }
    let Some((client, _)) = first.split_once(',') else { return Some((first, rest)) };
    let mut last = first;
    while last.ends_with(',') {
        (last, rest) = rest.split_once(' ')?;
    }
    Some((client, rest))
}

/// Whether it is an address, maybe with a port, or a list that begins with one.
fn is_address(text: &str) -> bool {
    let first = text.split_once(',').map_or(text, |(first, _)| first);
    first.parse::<IpAddr>().is_ok() || first.parse::<SocketAddr>().is_ok()
}

/// The next word, and what follows it.
fn word(text: &str) -> (&str, &str) {
    let text = text.trim_start_matches(' ');
    text.split_once(' ').unwrap_or((text, ""))
}

/// What is in quotes at the beginning, still escaped, and what follows.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let inside = text.strip_prefix('"')?;
    let mut from = 0_usize;
    loop {
        let rest = inside.as_bytes().get(from..)?;
        let at = from.checked_add(memchr::memchr2(b'"', b'\\', rest)?)?;
        if inside.as_bytes().get(at) == Some(&b'"') {
            return Some((inside.get(..at)?, inside.get(at.checked_add(1)?..)?));
        }
        // What is escaped does not end it.
        from = at.checked_add(2)?;
    }
}

/// With `\"`, `\\`, `\n`, `\t` and `\xHH` as what they mean.
fn unescaped(text: &str) -> Cow<'_, str> {
    if memchr::memchr(b'\\', text.as_bytes()).is_none() {
        return Cow::Borrowed(text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next() {
            Some(b'n') => bytes.push(b'\n'),
            Some(b't') => bytes.push(b'\t'),
            Some(b'r') => bytes.push(b'\r'),
            Some(b'x') => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let mut ahead = rest.clone();
                let pair = ahead.next().and_then(digit).zip(ahead.next().and_then(digit));
                match pair.and_then(|(high, low)| u8::try_from(high << 4 | low).ok()) {
                    Some(byte) => {
                        bytes.push(byte);
                        rest = ahead;
                    }
                    None => bytes.extend_from_slice(b"\\x"),
                }
            }
            Some(byte) => bytes.push(byte),
            None => bytes.push(b'\\'),
        }
    }
    Cow::Owned(
        String::from_utf8(bytes)
            .unwrap_or_else(|why| String::from_utf8_lossy(why.as_bytes()).into_owned()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<(u64, bool, Vec<Option<String>>), &'static str> {
        let mut fields = Fields::default();
        for name in NAMES {
            fields.want(name);
        }
        let mut record = Record::default();
        let combined = Common::new(&fields).parse(line, &fields, &mut record)?;
        let values = (0..NAMES.len()).map(|at| record.get(at).map(str::to_owned));
        Ok((record.at_unix_ms(), combined, values.collect()))
    }

    #[test]
    fn all_of_a_combined_line_is_read() {
        let line = r#"::1 - ann b [10/Oct/2000:13:55:36 -0700] "GET /a\"b?c=d HTTP/1.0" 200 23 "http://r/" "A \x41 \\" "more" 0.1"#;
        let (at, combined, values) = read(line).unwrap();
        assert_eq!((at, combined), (971_211_336_000, true));
        let expected = ["::1", "GET", "/a\"b", "c=d", "200", "ann b", "A A \\", "http://r/", "23"];
        assert_eq!(values, expected.map(|it| Some(it.to_owned())));
    }

    #[test]
    fn the_client_is_found_behind_a_host_s_name_and_in_a_list() {
        for (begin, client, user) in [
            ("203.0.113.7 - ann", "203.0.113.7", Some("ann")),
            ("example.com:443 203.0.113.7 - ann", "203.0.113.7", Some("ann")),
            ("example.com 2001:db8::1 - -", "2001:db8::1", None),
            ("203.0.113.7, 198.51.100.1, ::1 - ann", "203.0.113.7", Some("ann")),
            ("203.0.113.7,198.51.100.1 - ann", "203.0.113.7", Some("ann")),
            ("example.com:80 203.0.113.7, ::1 - ann", "203.0.113.7", Some("ann")),
            ("client.example.net - ann", "client.example.net", Some("ann")),
            ("203.0.113.7:5000 - ann", "203.0.113.7:5000", Some("ann")),
            ("unix: - -", "unix:", None),
        ] {
            let line = format!("{begin} [10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.1\" 200 1");
            let (_, _, values) = read(&line).unwrap();
            assert_eq!(
                (values[0].as_deref(), values[5].as_deref()),
                (Some(client), user),
                "{line}"
            );
        }
    }

    #[test]
    fn what_is_not_there_is_none() {
        let line = r#"203.0.113.7 - - [10/Oct/2000:13:55:36 -0700] "\x16\x03\x01" 400 -"#;
        let (_, combined, values) = read(line).unwrap();
        assert!(!combined);
        let there: Vec<_> = values.iter().flatten().collect();
        assert_eq!(there, ["203.0.113.7", "400"]);
    }

    #[test]
    fn a_line_of_something_else_says_what_was_expected() {
        for (line, expected) in [
            ("", "address"),
            ("hello world", "brackets"),
            ("1.2.3.4 - - [yesterday] \"GET / HTTP/1.1\" 200 1", "time as"),
            ("1.2.3.4 - - [10/Oct/2000:13:55:36 -0700] GET / 200", "quotes"),
            ("1.2.3.4 - - [10/Oct/2000:13:55:36 -0700] \"GET / 200", "quotes"),
            ("1.2.3.4 - - [10/Oct/2000:13:55:36 -0700] \"GET /\" ok 1", "status"),
        ] {
            let why = read(line).unwrap_err();
            assert!(why.contains(expected), "{line}: {why}");
        }
    }
}

//! As much of the Redis protocol as a lab needs: one command, one answer, and where each ends.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::{Error, Result};

/// How long a command of a test may take. A server that is paused does not answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// An answer of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Nothing.
    Nil,
    /// A number.
    Int(i64),
    /// Text or bytes.
    Bytes(Vec<u8>),
    /// Several answers.
    Array(Vec<Value>),
    /// The command was refused.
    Error(String),
}

impl Value {
    /// The answer as text; empty for nothing, and the items of an array separated by spaces.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Nil => String::new(),
            Self::Int(number) => number.to_string(),
            Self::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Self::Array(items) => items.iter().map(Self::text).collect::<Vec<_>>().join(" "),
            Self::Error(message) => message.clone(),
        }
    }

    /// The answer as a number, if it is one.
    #[must_use]
    pub fn int(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            Self::Bytes(bytes) => std::str::from_utf8(bytes).ok()?.parse().ok(),
            _ => None,
        }
    }

    /// The items of an array; none for anything else.
    #[must_use]
    pub fn items(&self) -> &[Self] {
        match self {
            Self::Array(items) => items,
            _ => &[],
        }
    }

    /// Whether the command was refused.
    #[must_use]
    pub const fn is_error(&self) -> bool {
        matches!(self, Self::Error(_))
    }
}

/// Reads the first value of some bytes, and how many it takes; `None` if it is not complete.
///
/// # Errors
/// When the bytes are not the protocol.
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(Value, usize)>> {
    let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
    let strange = || Error::new("these bytes are not RESP");
    let (line, after) = (bytes.get(..end).unwrap_or_default(), end.saturating_add(2));
    let (kind, rest) = line.split_first().ok_or_else(strange)?;
    let text = || String::from_utf8_lossy(rest).into_owned();
    let number = || text().parse::<i64>().map_err(|_| strange());
    match kind {
        b'+' => Ok(Some((Value::Bytes(rest.to_vec()), after))),
        b'-' => Ok(Some((Value::Error(text()), after))),
        b':' => Ok(Some((Value::Int(number()?), after))),
        b'$' => {
            let Ok(length) = usize::try_from(number()?) else {
                return Ok(Some((Value::Nil, after)));
            };
            let (body, total) = (after.saturating_add(length), after.saturating_add(length + 2));
            let complete = bytes.len() >= total;
            let body = bytes.get(after..body).filter(|_| complete);
            Ok(body.map(|body| (Value::Bytes(body.to_vec()), total)))
        }
        b'*' => {
            let Ok(count) = usize::try_from(number()?) else {
                return Ok(Some((Value::Nil, after)));
            };
            let (mut items, mut at) = (Vec::new(), after);
            for _ in 0..count {
                let Some((item, used)) = parse(bytes.get(at..).unwrap_or_default())? else {
                    return Ok(None);
                };
                items.push(item);
                at = at.saturating_add(used);
            }
            Ok(Some((Value::Array(items), at)))
        }
        _ => Err(strange()),
    }
}

/// A command as it goes over the wire.
fn encode(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    bytes
}

/// Sends one command over a connection of its own and waits for the answer.
pub(crate) fn ask(port: u16, words: &[&str]) -> Result<Value> {
    let mut answers = ask_all(port, &[words])?;
    answers.pop().ok_or_else(|| Error::new("there was no answer"))
}

/// Sends commands over a connection of their own and waits for all answers.
pub(crate) fn ask_all(port: u16, commands: &[&[&str]]) -> Result<Vec<Value>> {
    let last = commands.last().copied().unwrap_or_default();
    let failed = |why: &dyn std::fmt::Display| {
        Error::new(format!("127.0.0.1:{port} {}: {why}", last.join(" ")))
    };
    let mut stream = TcpStream::connect(("127.0.0.1", port)).map_err(|why| failed(&why))?;
    stream.set_read_timeout(Some(ANSWER_WITHIN)).map_err(|why| failed(&why))?;
    let question: Vec<u8> = commands.iter().flat_map(|words| encode(words)).collect();
    stream.write_all(&question).map_err(|why| failed(&why))?;
    let (mut answers, mut bytes, mut chunk) = (Vec::new(), Vec::new(), [0; 4096]);
    while answers.len() < commands.len() {
        if let Some((value, used)) = parse(&bytes)? {
            answers.push(value);
            bytes.drain(..used);
            continue;
        }
        let read = stream.read(&mut chunk).map_err(|why| failed(&why))?;
        if read == 0 {
            return Err(failed(&"the server hung up"));
        }
        bytes.extend_from_slice(chunk.get(..read).unwrap_or_default());
    }
    Ok(answers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_end_where_they_end() {
        let bytes = b"*3\r\n:-7\r\n$2\r\nab\r\n*1\r\n$-1\r\n-ERR no\r\n+OK\r\n";
        let (value, used) = parse(bytes).unwrap().unwrap();
        let items =
            vec![Value::Int(-7), Value::Bytes(b"ab".to_vec()), Value::Array(vec![Value::Nil])];
        assert_eq!(value, Value::Array(items));
        assert_eq!(parse(&bytes[used..]).unwrap().unwrap().0, Value::Error("ERR no".into()));
        for cut in 0..used {
            assert_eq!(parse(&bytes[..cut]), Ok(None), "{cut}");
        }
        assert!(parse(b"GET /\r\n").is_err());
    }
}

//! As much of the Redis protocol as the reference's rule needs, on one connection.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::Failure;

/// One connection: commands are pushed, sent together, and answered in order.
pub(crate) struct Wire {
    stream: TcpStream,
    out: Vec<u8>,
    input: Vec<u8>,
    /// How much of `input` was taken.
    taken: usize,
}

impl Wire {
    /// Connects to a server on loopback.
    pub(crate) async fn connect(port: u16) -> Result<Self, Failure> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, out: Vec::new(), input: Vec::new(), taken: 0 })
    }

    /// Adds a command to what is sent next.
    pub(super) fn push(&mut self, words: &[&str]) {
        self.out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
        for word in words {
            self.out.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
        }
    }

    /// Sends what was pushed.
    pub(super) async fn send(&mut self) -> Result<(), Failure> {
        self.stream.write_all(&self.out).await?;
        self.out.clear();
        Ok(())
    }

    /// One command, one round trip.
    pub(crate) async fn ask(&mut self, words: &[&str]) -> Result<Option<u64>, Failure> {
        self.push(words);
        self.send().await?;
        self.answer().await
    }

    /// The next answer: a number, or nothing.
    pub(super) async fn answer(&mut self) -> Result<Option<u64>, Failure> {
        let line = self.line().await?;
        match line.split_at_checked(1) {
            Some((":", number)) => Ok(Some(number.parse()?)),
            Some(("$", "-1")) => Ok(None),
            Some(("$", _)) => Ok(Some(self.line().await?.parse()?)),
            Some(("+", _)) => Ok(None),
            _ => Err(format!("Redis answered {line}").into()),
        }
    }

    /// A line without its end. No answer here holds a line break.
    async fn line(&mut self) -> Result<String, Failure> {
        loop {
            let rest = self.input.get(self.taken..).unwrap_or_default();
            if let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") {
                let line = String::from_utf8_lossy(rest.get(..end).unwrap_or_default());
                let line = line.into_owned();
                self.taken += end + 2;
                return Ok(line);
            }
            self.input.drain(..self.taken);
            self.taken = 0;
            if self.stream.read_buf(&mut self.input).await? == 0 {
                return Err("Redis hung up".into());
            }
        }
    }
}

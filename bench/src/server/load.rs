//! A load on a server: connections that are kept, and requests that are written in advance.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::wire::{Protocol, Speaker, Written};
use crate::Failure;
use crate::region::time;

/// How long a reply may take. Nothing takes so long; a server that hangs must not hang the bench.
const REPLY_WITHIN: Duration = Duration::from_secs(20);
/// What is read at a time: a reply, and more.
const READ_BYTES: usize = 16 << 10;

/// Whom the load is for, and what it consists of.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    pub(crate) address: SocketAddr,
    pub(crate) protocol: Protocol,
    /// Asked one after the other, and then again; each connection begins elsewhere.
    pub(crate) script: Arc<[Written]>,
    pub(crate) connections: usize,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Taken {
    pub(crate) answered: u64,
    /// Replies that were none: another status, or an error.
    pub(crate) bad: u64,
    pub(crate) seconds: f64,
    /// Of an open loop: microseconds from when a request was to be sent.
    pub(crate) latencies_us: Vec<u32>,
}

impl Taken {
    pub(crate) fn per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.answered as f64 / self.seconds } else { 0.0 }
    }

    fn add(&mut self, other: Self) {
        self.answered += other.answered;
        self.bad += other.bad;
        self.latencies_us.extend(other.latencies_us);
    }

    /// An error if anything was refused: nothing here should be.
    pub(crate) fn all_good(self, whom: &str) -> Result<Self, Failure> {
        match self.bad {
            0 => Ok(self),
            bad => Err(format!("{whom}: {bad} of {} replies were refusals", self.answered).into()),
        }
    }
}

/// How requests come.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Loop {
    /// The next follows on the reply, until the time is over.
    Closed(Duration),
    /// So many in a second, whatever the replies do.
    Open(f64, Duration),
    /// Exactly so many, one after the other.
    Count(u64),
}

/// One connection of a load.
#[derive(Debug)]
struct Line {
    stream: TcpStream,
    speaker: Speaker,
    out: Vec<u8>,
    buffer: Vec<u8>,
}

impl Line {
    async fn open(offer: &Offer) -> Result<Self, Failure> {
        let stream = TcpStream::connect(offer.address).await?;
        stream.set_nodelay(true)?;
        let speaker = Speaker::new(offer.protocol)?;
        Ok(Self { stream, speaker, out: Vec::new(), buffer: vec![0; READ_BYTES] })
    }

    async fn ask(&mut self, request: &Written) -> Result<bool, Failure> {
        self.speaker.say(request, &mut self.out);
        self.stream.write_all(&self.out).await?;
        loop {
            let read = self.stream.read(&mut self.buffer).await?;
            if read == 0 {
                return Err("the server closed the connection".into());
            }
            let bytes = self.buffer.get(..read).unwrap_or_default();
            if let Some(good) = self.speaker.hear(bytes)? {
                return Ok(good);
            }
        }
    }
}

impl Offer {
    /// Makes the connections and runs the load on them.
    pub(crate) async fn run(&self, how: Loop) -> Result<Taken, Failure> {
        let mut lines = Vec::with_capacity(self.connections);
        for _ in 0..self.connections {
            lines.push(Line::open(self).await?);
        }
        let start = time::now();
        let mut tasks = JoinSet::new();
        for (number, line) in lines.into_iter().enumerate() {
            let offer = self.clone();
            tasks.spawn(async move {
                match how {
                    Loop::Closed(lasting) => offer.closed(line, number, start + lasting).await,
                    Loop::Open(rate, lasting) => {
                        offer.open(line, (number, rate), (start, lasting)).await
                    }
                    Loop::Count(count) => offer.count(line, number, count).await,
                }
            });
        }
        let mut taken = Taken::default();
        while let Some(one) = tasks.join_next().await {
            taken.add(one??);
        }
        taken.seconds = start.elapsed().as_secs_f64();
        taken.latencies_us.sort_unstable();
        Ok(taken)
    }

    /// What a connection asks: it begins at a place of its own.
    fn requests(&self, number: usize) -> impl Iterator<Item = &Written> {
        let begin = number * self.script.len() / self.connections.max(1);
        self.script.iter().cycle().skip(begin)
    }

    async fn closed(&self, mut line: Line, number: usize, end: Instant) -> Result<Taken, Failure> {
        let mut taken = Taken::default();
        for request in self.requests(number) {
            if time::now() >= end {
                break;
            }
            let good = tokio::time::timeout(REPLY_WITHIN, line.ask(request)).await??;
            taken.answered += 1;
            taken.bad += u64::from(!good);
        }
        Ok(taken)
    }

    async fn count(&self, mut line: Line, number: usize, count: u64) -> Result<Taken, Failure> {
        let mut taken = Taken::default();
        for (request, _) in self.requests(number).zip(0..count) {
            let good = line.ask(request).await?;
            taken.answered += 1;
            taken.bad += u64::from(!good);
        }
        Ok(taken)
    }

    /// A request that is due while the one before has no reply counts from when it was due. The
    /// timer of the runtime is a millisecond coarse: what it adds is not the server's.
    async fn open(
        &self,
        mut line: Line,
        (number, rate): (usize, f64),
        (start, lasting): (Instant, Duration),
    ) -> Result<Taken, Failure> {
        let step = self.connections as f64 / rate.max(1.0);
        let mut taken = Taken::default();
        for (request, at) in self.requests(number).zip(0_u32..) {
            let place = number as f64 / self.connections.max(1) as f64;
            let due = Duration::from_secs_f64((f64::from(at) + place) * step);
            if due >= lasting {
                break;
            }
            let mut from = start + due;
            let early = from.saturating_duration_since(time::now());
            if !early.is_zero() {
                time::sleep(early).await;
                from = time::now();
            }
            let good = tokio::time::timeout(REPLY_WITHIN, line.ask(request)).await??;
            let took = from.elapsed().as_micros();
            taken.latencies_us.push(u32::try_from(took).unwrap_or(u32::MAX));
            taken.answered += 1;
            taken.bad += u64::from(!good);
        }
        Ok(taken)
    }
}

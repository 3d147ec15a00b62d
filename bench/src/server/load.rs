//! A load on a server: connections that are kept, and requests that are written in advance. A reply
//! that does not say what it should is counted as bad, and a server that does not reply ends the
//! load with an error.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::contestants::DENIED_LIMIT;
use super::pace::Dues;
use super::packed::Packed;
use super::wire::{Asked, Protocol, Reply, Speaker};
use crate::Failure;
use crate::region::time;

/// Nothing takes so long to be answered; a server that hangs must not hang the bench.
pub(super) const REPLY_WITHIN: Duration = Duration::from_secs(20);
/// What is read at a time: a reply, and more.
const READ_BYTES: usize = 16 << 10;
/// Where all are to be denied, so many are not: the first of all, and the first of a new window.
const FIRST_MAX: u64 = 2 * DENIED_LIMIT;

/// Whom the load is for, and what it consists of.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    pub(crate) address: SocketAddr,
    pub(crate) protocol: Protocol,
    /// Asked one after the other, and then again, over whichever connection is free. The next run
    /// goes on where the last one ended.
    pub(crate) script: Arc<Packed>,
    /// What every reply should be.
    pub(crate) wanted: Reply,
    pub(crate) connections: usize,
    /// How long nothing may be answered; it may take twice as long to see that.
    pub(crate) patience: Duration,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Taken {
    pub(crate) answered: u64,
    /// Replies that were not what they should be: another status, an error, or the other verdict.
    pub(crate) bad: u64,
    /// Of these, who was admitted where all were to be denied.
    admitted: u64,
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
        self.admitted += other.admitted;
        self.latencies_us.extend(other.latencies_us);
    }

    /// An error if anything was not what it should be, or if nothing was answered.
    pub(crate) fn all_good(self, whom: &str) -> Result<Self, Failure> {
        let Self { answered, bad, admitted, .. } = self;
        match bad.saturating_sub(admitted.min(FIRST_MAX)) {
            0 if answered > 0 => Ok(self),
            bad => Err(format!("{whom}: {bad} of {answered} replies are not as wanted").into()),
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
    /// Exactly so many on each connection, one after the other.
    Count(u64),
}

/// One connection of a load.
#[derive(Debug)]
struct Line {
    stream: TcpStream,
    speaker: Speaker,
    out: Vec<u8>,
    buffer: Vec<u8>,
    wanted: Reply,
    taken: Taken,
}

impl Line {
    async fn open(offer: &Offer) -> Result<Self, Failure> {
        let stream = TcpStream::connect(offer.address).await?;
        stream.set_nodelay(true)?;
        let (speaker, buffer) = (Speaker::new(offer.protocol)?, vec![0; READ_BYTES]);
        let (wanted, taken) = (offer.wanted, Taken::default());
        Ok(Self { stream, speaker, out: Vec::new(), buffer, wanted, taken })
    }

    async fn ask(&mut self, request: Asked<'_>) -> Result<(), Failure> {
        self.speaker.say(request, &mut self.out);
        self.stream.write_all(&self.out).await?;
        loop {
            let read = self.stream.read(&mut self.buffer).await?;
            if read == 0 {
                return Err("the server closed the connection".into());
            }
            let bytes = self.buffer.get(..read).unwrap_or_default();
            if let Some(reply) = self.speaker.hear(bytes)? {
                self.taken.answered += 1;
                self.taken.bad += u64::from(reply != self.wanted);
                let other = (self.wanted, reply) == (Reply::Denied, Reply::Admitted);
                self.taken.admitted += u64::from(other);
                return Ok(());
            }
        }
    }

    /// The next follows on the reply.
    async fn closed(mut self, script: Arc<Packed>, end: Instant) -> Result<Taken, Failure> {
        loop {
            self.ask(script.next()).await?;
            if time::now() >= end {
                return Ok(self.taken);
            }
        }
    }

    async fn count(mut self, script: Arc<Packed>, count: u64) -> Result<Taken, Failure> {
        for _ in 0..count {
            self.ask(script.next()).await?;
        }
        Ok(self.taken)
    }

    /// A request counts from when it was due, whatever it then waited for: a connection that is
    /// free, or a core to be sent from.
    async fn open_loop(mut self, script: Arc<Packed>, dues: Arc<Dues>) -> Result<Taken, Failure> {
        while let Some(due) = dues.next().await {
            self.ask(script.next()).await?;
            let took = due.elapsed().as_micros();
            self.taken.latencies_us.push(u32::try_from(took).unwrap_or(u32::MAX));
        }
        Ok(self.taken)
    }
}

impl Offer {
    /// Makes the connections and runs the load on them.
    pub(crate) async fn run(&self, how: Loop) -> Result<Taken, Failure> {
        self.connect().await?.run(how).await
    }

    /// Makes the connections.
    pub(crate) async fn connect(&self) -> Result<Connected<'_>, Failure> {
        let mut lines = Vec::with_capacity(self.connections);
        for _ in 0..self.connections {
            lines.push(tokio::time::timeout(self.patience, Line::open(self)).await??);
        }
        Ok(Connected { offer: self, lines })
    }
}

/// A load that is connected and asks nothing yet.
pub(crate) struct Connected<'a> {
    offer: &'a Offer,
    lines: Vec<Line>,
}

impl Connected<'_> {
    /// Runs the load.
    pub(crate) async fn run(self, how: Loop) -> Result<Taken, Failure> {
        let Self { offer, lines } = self;
        let script = Arc::clone(&offer.script);
        let start = time::now();
        let mut tasks = JoinSet::new();
        let dues = Arc::new(Dues::new());
        let connections = lines.len();
        for line in lines {
            let script = Arc::clone(&script);
            match how {
                Loop::Closed(lasting) => tasks.spawn(line.closed(script, start + lasting)),
                Loop::Count(count) => tasks.spawn(line.count(script, count)),
                Loop::Open(..) => tasks.spawn(line.open_loop(script, Arc::clone(&dues))),
            };
        }
        if let Loop::Open(rate, lasting) = how {
            tasks.spawn(async move {
                dues.keep((start, lasting), rate, connections).await?;
                Ok(Taken::default())
            });
        }
        let mut taken = offer.joined(tasks, &script).await?;
        taken.seconds = start.elapsed().as_secs_f64();
        taken.latencies_us.sort_unstable();
        Ok(taken)
    }
}

impl Offer {
    /// What all connections came to. One look for all of them, now and then, costs nothing; a
    /// deadline for each request would.
    async fn joined(
        &self,
        mut tasks: JoinSet<Result<Taken, Failure>>,
        script: &Packed,
    ) -> Result<Taken, Failure> {
        let (mut taken, mut asked) = (Taken::default(), script.taken());
        loop {
            match tokio::time::timeout(self.patience, tasks.join_next()).await {
                Ok(Some(one)) => taken.add(one??),
                Ok(None) => return Ok(taken),
                Err(_) if asked == script.taken() => {
                    return Err("the server does not answer".into());
                }
                Err(_) => asked = script.taken(),
            }
        }
    }
}

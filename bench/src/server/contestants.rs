//! Who is measured: ours in three places, the least server of the same stack, Redis with the same
//! window in a script, and another limiter's server.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tidegate_lab::{MariaDbServer, RedisServer};

use super::growth::migrate;
use super::load::{Loop, Offer, REPLY_WITHIN};
use super::packed::Packed;
use super::peers;
use super::process::{Home, Process, cpu_us, free_address, resident_mib};
use super::wire::{Post, Protocol, Reply, Written, command};
use super::{Kind, LIMIT, LIMIT_IN_REACH, Scene, WINDOW_MS, script};
use crate::Failure;

/// The key that callers of ours send.
pub(crate) const KEY: &str = "tidegate_0123456789012345678901234567890123456789012";
/// What somebody who is denied may do. One who is measured denies nobody at a limit of 1.
pub(crate) const DENIED_LIMIT: u64 = 2;
/// Of so many subjects one has an override of its own, and there are as many patterns.
const OVERRIDES_EVERY: usize = 100;

/// What is asked of whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Trivial,
    Ours(Place),
    /// Redis itself.
    Redis,
    /// Redis behind the least front.
    Front,
    Throttlecrab,
}

/// What of ours is configured, beside keys and overrides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Memory,
    Redis,
    Globe,
}

impl Who {
    /// Those that tell stores come last: the others are loaded in turns.
    pub(crate) const ALL: [Self; 7] = [
        Self::Trivial,
        Self::Ours(Place::Memory),
        Self::Redis,
        Self::Front,
        Self::Throttlecrab,
        Self::Ours(Place::Redis),
        Self::Ours(Place::Globe),
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Trivial => "trivial",
            Self::Ours(Place::Memory) => "tidegate",
            Self::Ours(Place::Redis) => "tidegate+redis",
            Self::Ours(Place::Globe) => "tidegate+redis+mariadb",
            Self::Redis => "redis-lua",
            Self::Front => "redis-lua-front",
            Self::Throttlecrab => "throttlecrab",
        }
    }

    /// Whether it limits anybody.
    pub(crate) const fn is_limiter(self) -> bool {
        !matches!(self, Self::Trivial)
    }

    pub(crate) const fn is_ours(self) -> bool {
        matches!(self, Self::Ours(_))
    }

    /// Whether it is ours and tells stores what it admitted, a while after it did.
    pub(crate) const fn tells_stores(self) -> bool {
        matches!(self, Self::Ours(Place::Redis | Place::Globe))
    }

    /// Whether it can be asked this.
    pub(crate) fn speaks(self, kind: Kind, protocol: Protocol) -> bool {
        match self {
            Self::Trivial => protocol != Protocol::Resp && kind != Kind::Denied,
            Self::Ours(_) => protocol != Protocol::Resp,
            Self::Redis => protocol == Protocol::Resp && kind != Kind::Multi,
            Self::Front | Self::Throttlecrab => protocol == Protocol::Http1 && kind != Kind::Multi,
        }
    }
}

/// A server that runs, with what it stands on.
pub(crate) struct Running {
    pub(crate) who: Who,
    /// How long it took from its start to its first answer.
    pub(crate) started: Duration,
    /// What those who are asked about may do, all but who is to be denied.
    limit: u64,
    http1: SocketAddr,
    http2: SocketAddr,
    // Declared before what they stand on: they end first.
    processes: Vec<Process>,
    redis: Option<RedisServer>,
    mariadb: Option<MariaDbServer>,
}

impl Running {
    /// Starts it, and waits until it answers. `None` if it is not there.
    pub(crate) async fn start(who: Who, scene: &Scene) -> Result<Option<Self>, Failure> {
        let (http1, http2) = (free_address()?, free_address()?);
        let mut running = Self { limit: LIMIT_IN_REACH, ..Self::at(who, (http1, http2)) };
        match who {
            Who::Trivial => {
                running.processes.push(Process::start(&mut trivial(http1, http2)?, None)?);
            }
            Who::Ours(place) => running.start_ours(place, scene)?,
            Who::Redis => running.start_redis()?,
            Who::Front => {
                running.start_redis()?;
                let url = running.redis.as_ref().map(RedisServer::url).unwrap_or_default();
                let mut command = trivial(http1, http2)?;
                command.args(["--redis", &url]);
                running.processes.push(Process::start(&mut command, None)?);
            }
            Who::Throttlecrab => match peers::start(scene.peers.as_deref(), http1)? {
                Some(process) => running.processes.push(process),
                None => return Ok(None),
            },
        }
        let protocol = if who == Who::Redis { Protocol::Resp } else { Protocol::Http1 };
        let offer = running.offer(Kind::Limit, protocol, 1)?;
        if let Some(process) = running.processes.last_mut() {
            running.started = process.answers(&offer).await?;
        }
        if who.is_ours() {
            running.set_overrides(scene).await?;
        }
        Ok(Some(running))
    }

    /// One that somebody else starts, at these addresses. Nobody is near the limit.
    pub(crate) fn at(who: Who, (http1, http2): (SocketAddr, SocketAddr)) -> Self {
        let (processes, started) = (Vec::new(), Duration::ZERO);
        let (limit, redis, mariadb) = (LIMIT, None, None);
        Self { who, started, limit, http1, http2, processes, redis, mariadb }
    }

    fn start_redis(&mut self) -> Result<(), Failure> {
        let server = RedisServer::start()?;
        script::load(&server)?;
        self.redis = Some(server);
        Ok(())
    }

    fn start_ours(&mut self, place: Place, scene: &Scene) -> Result<(), Failure> {
        if place != Place::Memory {
            self.redis = Some(RedisServer::start()?);
        }
        if place == Place::Globe {
            let server = MariaDbServer::start()?;
            migrate(scene, &server.url())?;
            self.mariadb = Some(server);
        }
        let (mut command, home) = ours(&scene.tidegate, self.http1)?;
        if let Some(redis) = &self.redis {
            command.args(["--redis", &redis.url()]);
        }
        if let Some(mariadb) = &self.mariadb {
            command.args(["--globe", &mariadb.url(), "--region", "here"]);
        }
        self.http2 = self.http1;
        self.processes.push(Process::start(&mut command, Some(home))?);
        Ok(())
    }

    /// Some subjects have overrides, and there are patterns that all others are compared with.
    pub(crate) async fn set_overrides(&self, scene: &Scene) -> Result<(), Failure> {
        let (count, limit) = (scene.subjects / OVERRIDES_EVERY, self.limit);
        let exact = (0..count).map(|at| subject(at * OVERRIDES_EVERY));
        let patterns = (0..count).map(pattern);
        let script = exact.chain(patterns).map(|identifier| {
            let body = format!(
                "{{\"namespace\":\"bench\",\"identifier\":\"{identifier}\",\"limit\":{limit},\
                 \"duration\":{WINDOW_MS}}}"
            );
            let post = Post { path: "/v2/ratelimit.setOverride", key: KEY, body: &body };
            post.write(Protocol::Http1)
        });
        let script = Packed::of(script)?;
        let count = u64::try_from(script.len())?;
        let (address, protocol) = (self.http1, Protocol::Http1);
        let (wanted, connections, patience) = (Reply::Done, 1, REPLY_WITHIN);
        let offer = Offer { address, protocol, script, wanted, connections, patience };
        offer.run(Loop::Count(count)).await?.all_good("setOverride").map(drop)
    }

    /// A load of this kind.
    pub(crate) fn offer(
        &self,
        kind: Kind,
        protocol: Protocol,
        subjects: usize,
    ) -> Result<Offer, Failure> {
        let address = match (&self.redis, protocol) {
            (Some(redis), Protocol::Resp) => redis.address().parse()?,
            (_, Protocol::Http2) => self.http2,
            _ => self.http1,
        };
        let step = if kind == Kind::Multi { super::BATCH } else { 1 };
        let subjects = if kind == Kind::Denied { 1 } else { subjects };
        let numbers = (0..subjects.max(step)).step_by(step);
        let script = Packed::of(numbers.map(|number| self.request(kind, protocol, number)))?;
        let wanted = if kind == Kind::Denied { Reply::Denied } else { Reply::Admitted };
        let (connections, patience) = (super::CONNECTIONS, REPLY_WITHIN);
        Ok(Offer { address, protocol, script, wanted, connections, patience })
    }

    pub(crate) fn request(
        &self,
        kind: Kind,
        protocol: Protocol,
        number: usize,
    ) -> Result<Written, Failure> {
        let limit = if kind == Kind::Denied { DENIED_LIMIT } else { self.limit };
        let who = if kind == Kind::Denied { "denied".to_owned() } else { subject(number) };
        match self.who {
            Who::Redis => {
                let words = script::words(&format!("bench:{who}"), limit, WINDOW_MS);
                Ok(command(&words.each_ref().map(String::as_str)))
            }
            Who::Throttlecrab => peers::request(&who, limit, protocol),
            Who::Trivial | Who::Ours(_) | Who::Front => {
                let items = number..number + super::BATCH;
                let (path, body) = match kind {
                    Kind::Multi => {
                        let items: Vec<String> =
                            items.map(|number| item(&subject(number), limit)).collect();
                        ("/v2/ratelimit.multiLimit", format!("[{}]", items.join(",")))
                    }
                    Kind::Limit | Kind::Denied => ("/v2/ratelimit.limit", item(&who, limit)),
                };
                // The same bytes for all: who looks at no key reads past it.
                Post { path, key: KEY, body: &body }.write(protocol)
            }
        }
    }

    /// Processor time of the server, and of what it stands on.
    pub(crate) fn cpu_us(&self) -> (f64, f64) {
        let own: f64 = self.processes.iter().map(|process| cpu_us(process.pid())).sum();
        (own, self.stores().map(cpu_us).sum())
    }

    /// What it has in memory, without its stores.
    pub(crate) fn resident_mib(&self) -> f64 {
        let own = self.processes.iter().map(Process::pid);
        let stores = self.stores().filter(|_| self.processes.is_empty());
        own.chain(stores).map(resident_mib).sum()
    }

    /// How often its Redis was told to keep what it granted, since it was started.
    pub(crate) fn grants(&self) -> f64 {
        let kept = self.redis.as_ref().and_then(|it| it.info("commandstats", "cmdstat_set").ok());
        let calls = kept.and_then(|kept| {
            let calls = kept.strip_prefix("calls=")?;
            calls.split(',').next()?.parse().ok()
        });
        calls.unwrap_or(0.0)
    }

    fn stores(&self) -> impl Iterator<Item = u32> {
        let redis = self.redis.as_ref().and_then(|redis| redis.info("server", "process_id").ok());
        let redis = redis.and_then(|pid| pid.trim().parse().ok());
        redis.into_iter().chain(self.mariadb.as_ref().and_then(MariaDbServer::pid))
    }
}

/// `tidegate serve` with a key, and a directory of its own.
pub(crate) fn ours(program: &Path, address: SocketAddr) -> Result<(Command, Home), Failure> {
    let home = Home::new()?;
    let mut command = Command::new(program);
    command.args(["serve", "--root-key", KEY, "--listen", &address.to_string()]);
    command.arg("--data").arg(home.path());
    Ok((command, home))
}

/// The least server.
fn trivial(http1: SocketAddr, http2: SocketAddr) -> Result<Command, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("trivial-server");
    command.args(["--http1", &http1.to_string(), "--http2", &http2.to_string()]);
    Ok(command)
}

/// What is to be started of ours in memory, or of the least server.
pub(crate) fn program(
    who: Who,
    tidegate: &Path,
    (http1, http2): (SocketAddr, SocketAddr),
) -> Result<(Command, Option<Home>), Failure> {
    if who.is_ours() {
        let (command, home) = ours(tidegate, http1)?;
        return Ok((command, Some(home)));
    }
    Ok((trivial(http1, http2)?, None))
}

/// The name of a subject.
pub(crate) fn subject(number: usize) -> String {
    format!("user_{number:08}")
}

/// A pattern of an override. All begin as subjects do, and of four, one is for ten subjects, one is
/// within that one and for one subject, and two are for nobody: one parts from a subject at its
/// end, and one in its middle.
pub(crate) fn pattern(number: usize) -> String {
    let base = number / 4 * 4 * OVERRIDES_EVERY;
    match number % 4 {
        0 => format!("user_{:07}*", base / 10 + 5),
        1 => format!("{}*", subject(base + 55)),
        2 => format!("{}_*", subject(base + 77)),
        _ => format!("user_0009{number:04}*"),
    }
}

/// One check, as it is asked for.
pub(crate) fn item(identifier: &str, limit: u64) -> String {
    format!(
        "{{\"namespace\":\"bench\",\"identifier\":\"{identifier}\",\"limit\":{limit},\
         \"duration\":{WINDOW_MS}}}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_begin_as_subjects_do_and_some_match() {
        let all: Vec<String> = (0..100).map(pattern).collect();
        let matched = |number: usize| {
            let subject = subject(number);
            let is_for = |pattern: &&String| subject.starts_with(pattern.trim_end_matches('*'));
            all.iter().filter(is_for).count()
        };
        let matched: Vec<usize> = (0..10_000).map(matched).collect();
        let of = |times: usize| matched.iter().filter(|it| **it == times).count();
        assert_eq!([of(0), of(1), of(2)], [9_750, 225, 25]);
        assert!(all.iter().all(|pattern| pattern.starts_with("user_000")));
    }
}

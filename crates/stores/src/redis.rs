//! A region in Redis or Valkey: one server, one that Sentinels watch, or a cluster.
//!
//! Promises: the replies are those of [`MemoryRegion`](crate::MemoryRegion); a call is one round
//! trip, whatever it carries; a record or an ask that is refused does not harm its neighbours; an
//! ask that fails is not answered in part; every key has a time to live from its first write on,
//! and holds no text of a user; nothing is sent twice unless the server said that it did not
//! execute it. The store comes back by itself.
//! Refuses: totals of 2^53 and above, which Lua cannot count exactly, and asks with such numbers,
//! with more than 256 cells or 2,048 costs: their reply is `None`; steps of posts are cut to that.
//! More than 1,000 posts are not taken at once.
//! Fails: at once with `Unreachable` while there is no connection, with `Refused` when the server
//! says no to everything, and with `Timeout` after two seconds without an answer. The caller keeps
//! the time; its time-out is much shorter.
//!
//! # Keys
//!
//! `tg:1:{<shard>}:<digest>:<sequence>` is a cell, the same with `:<component>` what was answered
//! to an ask, `tg:1:{<shard>}:token` the shard's token and `tg:1:{<shard>}:present` who is
//! present. One server is one shard; a cluster has 64, each in one slot. The board has a slot of
//! its own: `tg:1:{board}:posts`, `due`, `leader` and `region`. `tg:1:{<shard>}:once:<digest>` is
//! a call that is to be answered once.
//!
//! # The user
//!
//! Tidegate needs no more than this ([`ACL`]):
//!
//! ```text
#![doc = concat!("user tidegate on >secret ~tg:* ", acl!())]
//! ```
//!
//! # The server
//!
//! Redis 6.2 or newer, or Valkey. `maxmemory-policy` should be `noeviction`: what is evicted is
//! counted again only if a living process remembers it. [`RedisStore::check`] looks at all that.

/// What the user may do; a macro, because the documentation shows the same text.
macro_rules! acl {
    () => {
        "resetchannels -@all +evalsha +script|load +info +cluster|slots \
         +get +set +pexpire +hmget +hget +hset +hincrby +hlen \
         +time +mget +hrandfield +hdel +zadd +zremrangebyscore +zcard"
    };
}
use acl;

mod ask;
mod board;
mod check;
mod clock;
mod cluster;
pub(crate) mod config;
mod execution;
mod info;
mod jitter;
mod link;
mod once;
mod open;
mod present;
mod script;
mod sentinel;
mod work;

use std::fmt;

use tidegate_convergence::{
    BoardCall, BoardReply, Boarding, Calling, RegionalStore, Shard, ShardCall, ShardReply,
    StoreError,
};

pub use check::{NodeReport, Report, Warning};
pub use config::{Address, ConfigError, Login, Password, RedisConfig, Tls, Topology};
pub use once::{Claimed, OnceCall};

use board::{BoardScript, CALL_POSTS_MAX, LIVES};
use cluster::Cluster;
use link::{Link, unreachable};
use once::OnceScript;
use open::{Access, Opener, Target};
use script::{Script, Tag};
use work::{Rounds, Work};

/// The rights that a user of Redis 7 or newer needs, as they stand in an ACL line after the name,
/// the password and the keys. `cluster|slots` only for a cluster.
///
/// ```
/// let line = format!("user tidegate on >secret ~tg:* {}", tidegate_stores::redis::ACL);
/// # let options = tidegate_lab::RedisOptions::new().acl(&line);
/// # let server = tidegate_lab::RedisServer::start_with(&options)?;
/// # let address = server.address();
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let url = format!("redis://tidegate:secret@{address}");
/// let store = tidegate_stores::RedisStore::new(url.parse()?, 42)?;
/// assert_eq!(store.check().await?.warnings, [], "nothing is missing");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub const ACL: &str = acl!();

/// How often the commands of one call are sent that were not executed: once, once more when the
/// shard has moved, and once more when the server does not know the script.
const ROUNDS: usize = 3;

/// A regional store in Redis.
///
/// Nothing is connected before the first call. Must be used inside a tokio runtime.
///
/// ```
/// use tidegate_convergence::{RegionalStore, Shard, ShardCall, Token};
/// use tidegate_stores::{RedisConfig, RedisStore};
///
/// # let server = tidegate_lab::RedisServer::start()?;
/// # let url = server.url();
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let store = RedisStore::new(RedisConfig::parse(&url)?, 42)?;
/// let (shard, proposal) = (Shard(0), Token(7));
/// let call = ShardCall { identify: true, ..ShardCall::of(shard, proposal, vec![]) };
/// assert_eq!(store.call(&call).await?.token, Token(7));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RedisStore {
    script: Script,
    board: BoardScript,
    once: OnceScript,
    route: Route,
}

/// Where the calls of a shard go.
enum Route {
    One(Link),
    Cluster(Cluster),
}

impl RedisStore {
    /// A store that is not connected yet. The seed makes the waits between attempts to connect
    /// differ from those of other processes: take it from a random source. The [type](Self) has an
    /// example.
    ///
    /// # Errors
    /// When the configuration makes no sense.
    pub fn new(config: RedisConfig, seed: u64) -> Result<Self, ConfigError> {
        config.check()?;
        let access = Access::new(&config);
        let script = Script::new(&config.prefix);
        let board = BoardScript::new(&script.start(Tag::Board), LIVES);
        let one = |target| Route::One(Link::new(Opener::new(access.clone(), target), seed));
        let to_sentinels = Access::to_sentinels(&config);
        let route = match config.topology {
            Topology::Standalone(address) => one(Target::Fixed(address)),
            Topology::Sentinel { master, nodes } => {
                one(Target::master(master, &nodes, &to_sentinels, seed))
            }
            Topology::Cluster { nodes } => Route::Cluster(Cluster::new(access, nodes, seed)),
        };
        Ok(Self { script, board, once: OnceScript::new(), route })
    }

    const fn shard_count(&self) -> u16 {
        match self.route {
            Route::One(_) => 1,
            Route::Cluster(_) => cluster::SHARDS,
        }
    }

    async fn send(&self, call: &ShardCall) -> Result<ShardReply, StoreError> {
        // As in the model: a shard that does not exist is the last one.
        let shard = call.shard.min(Shard(self.shard_count().saturating_sub(1)));
        let mut work = Work::new(&self.script, call, shard);
        self.run(Tag::Shard(shard), &mut work).await?;
        work.finish()
    }

    async fn send_board(&self, call: &BoardCall) -> Result<BoardReply, StoreError> {
        let mut posts = call.posts.as_slice();
        // The last of several executions takes; whoever calls sends no more than one holds.
        while let Some((first, rest)) = posts.split_at_checked(CALL_POSTS_MAX)
            && !rest.is_empty()
        {
            let mut work = self.board.execute(call, first, 0);
            self.run(Tag::Board, &mut work).await?;
            work.finish()?;
            posts = rest;
        }
        let mut work = self.board.execute(call, posts, call.take_max);
        self.run(Tag::Board, &mut work).await?;
        work.finish()
    }

    /// Sends what is not executed yet, until all is, or it is no use.
    async fn run(&self, tag: Tag, work: &mut (impl Rounds + Send)) -> Result<(), StoreError> {
        for _ in 0..ROUNDS {
            let link = self.route.link(tag).await?;
            let answered = link.ask(work.commands()).await;
            let answered = answered.inspect_err(|_| self.route.doubt())?;
            let advice = work.take(&answered.values);
            if advice.doubt {
                self.route.doubt();
            }
            if let Some(owner) = advice.moved {
                self.route.moved(tag, owner);
            }
            if advice.replica {
                // Whatever it answered is old. Who is the master must be asked again.
                let why = unreachable("the server is a replica");
                link.leave(&answered, &why);
                self.route.doubt();
                return Err(why);
            }
            if !work.is_open() {
                break;
            }
        }
        Ok(())
    }
}

impl Route {
    async fn link(&self, tag: Tag) -> Result<Link, StoreError> {
        match self {
            Self::One(link) => Ok(link.clone()),
            Self::Cluster(cluster) => cluster.link(tag).await,
        }
    }

    fn doubt(&self) {
        if let Self::Cluster(cluster) = self {
            cluster.doubt();
        }
    }

    fn moved(&self, tag: Tag, owner: Address) {
        if let Self::Cluster(cluster) = self {
            cluster.moved(tag, owner);
        }
    }
}

impl RegionalStore for RedisStore {
    fn shards(&self) -> u16 {
        self.shard_count()
    }

    fn call<'a>(&'a self, call: &'a ShardCall) -> Calling<'a> {
        Box::pin(self.send(call))
    }

    fn board<'a>(&'a self, call: &'a BoardCall) -> Boarding<'a> {
        Box::pin(self.send_board(call))
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("shards", &self.shards()).finish_non_exhaustive()
    }
}

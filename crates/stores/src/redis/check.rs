//! A look at the servers before they are relied on.

use std::fmt;

use redis::{Pipeline, Value};
use tidegate_convergence::{BoardCall, Post, Shard, StoreError, Token};
use tidegate_limiter::Digest;

use super::board::{self, BoardScript, Lives};
use super::info::Info;
use super::link::Link;
use super::present;
use super::script::{Answer, Code, Common, Script, TOTAL_MAX, Tag};
use super::{RedisStore, Route};

/// The oldest version we support, because it still gets repairs somewhere; also the first that has
/// `HRANDFIELD`.
const VERSION_MIN: (u32, u32) = (6, 2);
/// How long the keys of a check stay. They are written, so that every right is tried.
const CHECK_LIFE_MS: u64 = 1_000;

/// How long the fingerprint of a fleet's secret stays: as long as the longest window counts.
const SECRET_LIFE_MS: u64 = 93 * 24 * 60 * 60 * 1_000;

/// What the servers of a store are like. [`RedisStore::check`] has an example.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Every server that is written to.
    pub nodes: Vec<NodeReport>,
    /// What an operator should know.
    pub warnings: Vec<Warning>,
}

/// What one server is like. [`RedisStore::check`] has an example.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeReport {
    /// Its address in a cluster; elsewhere empty.
    pub address: String,
    /// Its version.
    pub version: String,
    /// `master` or `slave`.
    pub role: String,
    /// Whether it belongs to a cluster.
    pub cluster: bool,
    /// Its `maxmemory-policy`.
    pub policy: String,
}

/// What an operator should know.
///
/// ```
/// use tidegate_stores::redis::Warning;
///
/// let warning = Warning::Replica { address: "10.0.0.7:6379".to_owned() };
/// assert_eq!(warning.to_string(), "redis 10.0.0.7:6379: this is a replica; name the master");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// The server may throw away what it was told: the policy is not `noeviction`.
    Evicts {
        /// Which server.
        address: String,
        /// What its policy is.
        policy: String,
    },
    /// The server is older than what we support.
    Old {
        /// Which server.
        address: String,
        /// Its version.
        version: String,
    },
    /// The server follows another one and takes no writes.
    Replica {
        /// Which server.
        address: String,
    },
    /// The server belongs to a cluster and the configuration says it does not, or the other way
    /// round.
    Cluster {
        /// Which server.
        address: String,
        /// Whether it does.
        member: bool,
    },
    /// The user may not do what we need.
    NotPermitted {
        /// Which server.
        address: String,
        /// What it said.
        why: String,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Evicts { address, policy } => write!(
                f,
                "{}: maxmemory-policy is {policy}; with anything but noeviction counts can vanish",
                server(address)
            ),
            Self::Old { address, version } => {
                let (major, minor) = VERSION_MIN;
                let server = server(address);
                write!(f, "{server}: version {version} is older than {major}.{minor}")
            }
            Self::Replica { address } => {
                write!(f, "{}: this is a replica; name the master", server(address))
            }
            Self::Cluster { address, member: true } => {
                write!(f, "{}: this is a node of a cluster; add ?cluster=true", server(address))
            }
            Self::Cluster { address, member: false } => {
                write!(f, "{}: this is not a node of a cluster", server(address))
            }
            Self::NotPermitted { address, why } => {
                write!(f, "{}: the user may not do what is needed: {why}", server(address))
            }
        }
    }
}

/// The server of a warning: the only one has no address of its own here.
fn server(address: &str) -> String {
    if address.is_empty() { "redis".to_owned() } else { format!("redis {address}") }
}

impl RedisStore {
    /// Whether the processes of this region compute the names of subjects as this one does: each
    /// leaves a fingerprint of its fleet secret if there is none, and finds the first one's
    /// otherwise. It stays for three months after the last process started. [`check`](Self::check)
    /// has an example of both.
    ///
    /// # Errors
    /// When the server cannot be reached, or refuses.
    pub async fn agrees_on(&self, fingerprint: [u8; 16]) -> Result<bool, StoreError> {
        let (tag, proposal) = (Tag::Shard(Shard(0)), Token(u128::from_be_bytes(fingerprint)));
        let link = self.route.link(tag).await?;
        let mut command = self.script.run_on(Code::Record, &[self.script.start(tag) + "secret"]);
        command.arg(&fingerprint).arg(&[SECRET_LIFE_MS, 1]);
        let mut commands = Pipeline::new();
        commands.add_command(Code::Record.load());
        commands.add_command(command);
        let answered = link.ask(commands).await?;
        match answered.values.get(1).and_then(Answer::read) {
            Some(answer) => Ok(answer.token == proposal),
            None => {
                let why = answered.values.iter().find_map(refusal);
                Err(StoreError::Refused(why.unwrap_or_else(|| "a strange answer".to_owned())))
            }
        }
    }

    /// Looks at every server that is written to: what it is, what it does when its memory is full,
    /// and whether this user may do what we need. Writes a few keys that stay for a second.
    ///
    /// ```
    /// use tidegate_stores::{RedisConfig, RedisStore};
    ///
    /// # let options = tidegate_lab::RedisOptions::new().set("maxmemory-policy", "allkeys-lru");
    /// # let server = tidegate_lab::RedisServer::start_with(&options)?;
    /// # let url = server.url();
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// // A server that throws away what it was told when its memory is full.
    /// let store = RedisStore::new(RedisConfig::parse(&url)?, 42)?;
    /// let report = store.check().await?;
    /// assert_eq!((report.nodes.len(), report.nodes[0].role.as_str()), (1, "master"));
    /// assert!(report.warnings[0].to_string().contains("allkeys-lru"));
    ///
    /// assert!(store.agrees_on([1; 16]).await?, "the first one is right");
    /// assert!(!store.agrees_on([2; 16]).await?, "another secret");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When a server cannot be reached, or says nothing of itself.
    pub async fn check(&self) -> Result<Report, StoreError> {
        let mut report = Report::default();
        match &self.route {
            Route::One(link) => {
                self.look(&mut report, link, String::new(), Tag::Shard(Shard(0))).await?;
            }
            Route::Cluster(cluster) => {
                for (address, tag, link) in cluster.owners().await? {
                    self.look(&mut report, &link, address.to_string(), tag).await?;
                }
            }
        }
        Ok(report)
    }

    async fn look(
        &self,
        report: &mut Report,
        link: &Link,
        address: String,
        tag: Tag,
    ) -> Result<(), StoreError> {
        let proposal = Token(0);
        let common = Common { tag, proposal, token_life_ms: CHECK_LIFE_MS, renew: false };
        let mut commands = Pipeline::new();
        for section in ["server", "replication", "memory"] {
            commands.cmd("INFO").arg(section);
        }
        let start = self.script.start(tag);
        // An ask needs no right that these do not.
        commands.add_command(Code::Record.load());
        commands.add_command(self.script.probe(&common));
        commands.add_command(BoardScript::load());
        commands.add_command(probe_board(&start));
        commands.add_command(Code::Present.load());
        commands.add_command(self.script.present_on(&(start + "check:present"), 0, CHECK_LIFE_MS));
        let answered = link.ask(commands).await?;
        let (about, tried) = answered.values.split_at_checked(3).unwrap_or_default();
        let parts: Option<Vec<Info>> = about.iter().map(Info::read).collect();
        let info = parts.map(Info::join).ok_or_else(|| {
            let why = about.iter().find_map(refusal);
            StoreError::Refused(why.unwrap_or_else(|| "INFO gave a strange answer".to_owned()))
        })?;
        let field = |name| info.field(name).unwrap_or_default().to_owned();
        // Valkey has names of its own, and keeps some of the old ones.
        let version = info.field("valkey_version").or_else(|| info.field("redis_version"));
        let mode = info.field("server_mode").or_else(|| info.field("redis_mode"));
        let node = NodeReport {
            address,
            version: version.unwrap_or_default().to_owned(),
            role: field("role"),
            cluster: mode == Some("cluster"),
            policy: field("maxmemory_policy"),
        };
        let expected = matches!(self.route, Route::Cluster(_));
        report.warnings.extend(warnings(&node, expected, tried));
        report.nodes.push(node);
        Ok(())
    }
}

impl Script {
    /// Records in a cell beside all others, under names that no subject has. The totals are so
    /// large that the second, of another component, makes a sum that takes every step there is.
    fn probe(&self, common: &Common) -> redis::Cmd {
        let start = self.start(common.tag);
        let mut keys = vec![format!("{start}check:0"); 5];
        if let Some(token) = keys.first_mut() {
            *token = format!("{start}check:token");
        }
        let mut command = self.run_on(Code::Record, &keys);
        command.arg(&common.proposal.0.to_be_bytes()).arg(common.token_life_ms).arg(1);
        for component in [[0_u8; 24], [1; 24]] {
            command.arg(&component).arg(CHECK_LIFE_MS).arg(TOTAL_MAX).arg(0);
        }
        command
    }
}

/// Posts two on a board of its own and takes one, which takes every step there is.
fn probe_board(start: &str) -> redis::Cmd {
    let lives = Lives { posts_ms: CHECK_LIFE_MS, identity_ms: CHECK_LIFE_MS };
    let board = BoardScript::new(&format!("{start}check:"), lives);
    let subject = Digest::from_bytes([0; 16]);
    let post = |sequence| Post { subject, window_ms: 1, sequence, step: 1 };
    board.run(&BoardCall {
        who: 0,
        identity: 0,
        sure: true,
        posts: vec![post(0), post(1)],
        within_ms: 0,
        lease_ms: CHECK_LIFE_MS,
        take_max: 1,
        hurry: true,
    })
}

/// The first error in an answer.
fn refusal(value: &Value) -> Option<String> {
    match value {
        Value::ServerError(why) => Some(why.to_string()),
        Value::Array(items) => items.iter().find_map(refusal),
        _ => None,
    }
}

fn warnings(node: &NodeReport, expected: bool, tried: &[Value]) -> Vec<Warning> {
    let address = || node.address.clone();
    let mut found = Vec::new();
    if node.policy != "noeviction" {
        found.push(Warning::Evicts { address: address(), policy: node.policy.clone() });
    }
    if version(&node.version).is_none_or(|version| version < VERSION_MIN) {
        found.push(Warning::Old { address: address(), version: node.version.clone() });
    }
    if node.role == "slave" {
        found.push(Warning::Replica { address: address() });
    }
    if node.cluster != expected {
        found.push(Warning::Cluster { address: address(), member: node.cluster });
    }
    let why = tried.iter().find_map(refusal);
    let strange = !matches!(
        tried,
        [_, answer, _, board, _, present] if Answer::read(answer).is_some()
            && board::read(board).is_some()
            && present::read(present).is_some()
    );
    if why.is_some() || strange {
        let why = why.unwrap_or_else(|| "the script gave a strange answer".to_owned());
        found.push(Warning::NotPermitted { address: address(), why });
    }
    found
}

/// The first two numbers of a version.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_as_numbers() {
        assert_eq!(version("7.0.15"), Some((7, 0)));
        assert_eq!(version("10.2.0-rc1"), Some((10, 2)));
        assert_eq!(version(""), None);
        assert!(version("6.0.16") < Some(VERSION_MIN) && version("10.0.0") > Some(VERSION_MIN));
    }
}

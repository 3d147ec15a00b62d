//! Where a Redis is and how to get in, from one line of text.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The port of Redis when none is named.
const PORT: u16 = 6379;
/// The port of a Sentinel when none is named.
const SENTINEL_PORT: u16 = 26_379;
/// What our keys begin with when nothing else is asked for.
const PREFIX: &str = "tg";
/// A prefix is part of every key, so it stays short.
const PREFIX_MAX: usize = 32;

/// A host and a port.
///
/// ```
/// use tidegate_stores::redis::Address;
///
/// let address = Address { host: "fd00::7".to_owned(), port: 6379 };
/// assert_eq!(address.to_string(), "[fd00::7]:6379");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// A name or a number; an IPv6 number without its brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// How the servers of a store are arranged. [`RedisConfig`] has an example.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Topology {
    /// One server, or an address behind which someone else keeps one.
    Standalone(Address),
    /// A master and replicas that Sentinels watch.
    Sentinel {
        /// The name under which the Sentinels know the master.
        master: String,
        /// The Sentinels; one that answers is enough.
        nodes: Vec<Address>,
    },
    /// A Redis Cluster.
    Cluster {
        /// Some of its nodes; one that answers is enough.
        nodes: Vec<Address>,
    },
}

/// A password. Shows nothing of itself.
///
/// ```
/// use tidegate_stores::redis::Password;
///
/// let password = Password::new("secret");
/// assert_eq!(format!("{password:?}"), "Password(..)");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// Takes the text. The [type](Self) has an example.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(..)")
    }
}

/// Who we are to a server. [`RedisConfig::new`] has an example.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Login {
    /// The user; Redis has one named `default`.
    pub user: Option<String>,
    /// The password.
    pub password: Option<Password>,
}

/// How connections are encrypted. [`RedisConfig::new`] has an example.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// The authorities to trust, in PEM. Without it, those of the system.
    pub authorities: Option<Vec<u8>>,
}

/// Everything needed to reach a Redis.
///
/// ```
/// use tidegate_stores::redis::{RedisConfig, Topology};
///
/// let one = RedisConfig::parse("redis://tidegate:secret@cache.example:6380")?;
/// assert!(matches!(one.topology, Topology::Standalone(_)));
/// let watched = RedisConfig::parse("redis://s1,s2,s3/?sentinel=mymaster")?;
/// assert!(matches!(watched.topology, Topology::Sentinel { .. }));
/// let many = RedisConfig::parse("redis://n1:7000,n2:7000/?cluster=true&prefix=limits")?;
/// assert_eq!(many.prefix, "limits");
/// # Ok::<(), tidegate_stores::redis::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisConfig {
    /// The servers.
    pub topology: Topology,
    /// Who we are to Redis.
    pub login: Login,
    /// Who we are to the Sentinels. They have users of their own; most have none.
    pub sentinel_login: Login,
    /// The number of the database. A cluster has only 0.
    pub database: u32,
    /// Encryption, of Redis and of the Sentinels.
    pub tls: Option<Tls>,
    /// What all our keys begin with.
    pub prefix: String,
}

/// What is wrong with a configuration. Never shows the text itself: it may hold a password.
///
/// ```
/// use tidegate_stores::redis::{ConfigError, RedisConfig};
///
/// let why = RedisConfig::parse("redis://:secret@n1,n2").unwrap_err();
/// assert_eq!(why, ConfigError::Several);
/// assert!(why.to_string().contains("?cluster=true"), "and what to do");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Another scheme.
    #[error("the address must begin with redis:// or rediss://")]
    Scheme,
    /// `rediss://`, in a build that cannot encrypt.
    #[error("this build has no TLS: enable the feature `tls`")]
    NoTls,
    /// A host, a port or a list of them.
    #[error("the address has no valid host and port")]
    Address,
    /// Several hosts, and nothing that says why.
    #[error("several hosts need ?cluster=true or ?sentinel=<name of the master>")]
    Several,
    /// A database.
    #[error("the path must be the number of a database, and a cluster has only 0")]
    Database,
    /// A parameter that does not exist, twice, or with a bad value.
    #[error("the parameters are `cluster=true`, `sentinel=<name>` and `prefix=<text>`, each once")]
    Parameter,
    /// A prefix.
    #[error("a prefix has 1 to 32 letters, digits, `_`, `-` or `.`")]
    Prefix,
    /// A `%` that is not followed by two hexadecimal digits.
    #[error("a `%` must be followed by two hexadecimal digits")]
    Percent,
}

impl RedisConfig {
    /// These servers, with neither password nor encryption, and what is usual for the rest. All of
    /// it can be changed:
    ///
    /// ```
    /// use tidegate_stores::redis::{Address, Login, Password, RedisConfig, Tls, Topology};
    ///
    /// let address = Address { host: "cache.example".to_owned(), port: 6379 };
    /// let mut config = RedisConfig::new(Topology::Standalone(address));
    /// config.login = Login { user: None, password: Some(Password::new("secret")) };
    /// assert_eq!(RedisConfig::parse("redis://:secret@cache.example")?, config);
    ///
    /// // Only authorities of our own are trusted.
    /// config.tls = Some(Tls { authorities: Some(b"-----BEGIN CERTIFICATE-----".to_vec()) });
    /// # Ok::<(), tidegate_stores::redis::ConfigError>(())
    /// ```
    #[must_use]
    pub fn new(topology: Topology) -> Self {
        let (login, sentinel_login) = (Login::default(), Login::default());
        let prefix = PREFIX.to_owned();
        Self { topology, login, sentinel_login, database: 0, tls: None, prefix }
    }

    /// Reads `redis[s]://[[user]:password@]host[:port][,host[:port]]…[/database][?parameters]`. The
    /// [type](Self) has an example.
    ///
    /// # Errors
    /// Says which part is wrong, without showing it.
    pub fn parse(url: &str) -> Result<Self, ConfigError> {
        let (scheme, rest) = url.split_once("://").ok_or(ConfigError::Scheme)?;
        let tls = match scheme {
            "redis" => None,
            "rediss" if cfg!(feature = "tls") => Some(Tls::default()),
            "rediss" => return Err(ConfigError::NoTls),
            _ => return Err(ConfigError::Scheme),
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let parameters = Parameters::parse(query)?;
        // A password may hold an `@` or a `/` only as `%40` and `%2F`, but people forget.
        let (login, rest) = rest.rsplit_once('@').unwrap_or(("", rest));
        let (hosts, database) = rest.split_once('/').unwrap_or((rest, ""));
        let database = match database {
            "" => 0,
            text => text.parse().map_err(|_| ConfigError::Database)?,
        };
        let mut config = Self::new(topology(hosts, &parameters)?);
        if database != 0 && matches!(config.topology, Topology::Cluster { .. }) {
            return Err(ConfigError::Database);
        }
        (config.tls, config.database, config.login) = (tls, database, Login::parse(login)?);
        if let Some(prefix) = parameters.prefix {
            config.prefix = prefix;
        }
        config.check()?;
        Ok(config)
    }

    /// Whether what was set by hand makes sense.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let fine = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        // Braces would move the keys to other slots, and `*` would open an ACL pattern.
        if !(1..=PREFIX_MAX).contains(&self.prefix.len()) || !self.prefix.chars().all(fine) {
            return Err(ConfigError::Prefix);
        }
        if self.tls.is_some() && !cfg!(feature = "tls") {
            return Err(ConfigError::NoTls);
        }
        match &self.topology {
            Topology::Sentinel { nodes, .. } | Topology::Cluster { nodes } if nodes.is_empty() => {
                Err(ConfigError::Address)
            }
            Topology::Cluster { .. } if self.database != 0 => Err(ConfigError::Database),
            _ => Ok(()),
        }
    }
}

impl FromStr for RedisConfig {
    type Err = ConfigError;

    fn from_str(url: &str) -> Result<Self, ConfigError> {
        Self::parse(url)
    }
}

impl Address {
    /// Reads `host[:port]` or `[ipv6][:port]`.
    pub(crate) fn parse(text: &str, port: u16) -> Result<Self, ConfigError> {
        let (host, rest) = match text.strip_prefix('[') {
            Some(inside) => inside.split_once(']').ok_or(ConfigError::Address)?,
            None => text.split_at(text.find(':').unwrap_or(text.len())),
        };
        let port = match rest.strip_prefix(':') {
            Some(digits) => digits.parse().map_err(|_| ConfigError::Address)?,
            None if rest.is_empty() => port,
            None => return Err(ConfigError::Address),
        };
        if host.is_empty() || host.contains(char::is_whitespace) {
            return Err(ConfigError::Address);
        }
        Ok(Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            return write!(f, "[{}]:{}", self.host, self.port);
        }
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl Login {
    /// Reads `user:password`, `:password` or `user`.
    fn parse(text: &str) -> Result<Self, ConfigError> {
        let (user, password) = match text.split_once(':') {
            Some((user, password)) => (user, Some(decode(password)?)),
            None => (text, None),
        };
        let user = decode(user)?;
        let user = (!user.is_empty()).then_some(user);
        Ok(Self { user, password: password.map(Password) })
    }
}

/// What stands behind the `?`.
#[derive(Debug, Default)]
struct Parameters {
    cluster: bool,
    sentinel: Option<String>,
    prefix: Option<String>,
}

impl Parameters {
    fn parse(query: &str) -> Result<Self, ConfigError> {
        let mut found = Self::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or(ConfigError::Parameter)?;
            let value = decode(value)?;
            match name {
                "cluster" if !found.cluster && value == "true" => found.cluster = true,
                "sentinel" if found.sentinel.is_none() && !value.is_empty() => {
                    found.sentinel = Some(value);
                }
                "prefix" if found.prefix.is_none() => found.prefix = Some(value),
                _ => return Err(ConfigError::Parameter),
            }
        }
        if found.cluster && found.sentinel.is_some() {
            return Err(ConfigError::Parameter);
        }
        Ok(found)
    }
}

fn topology(hosts: &str, parameters: &Parameters) -> Result<Topology, ConfigError> {
    let all = |port| -> Result<Vec<Address>, ConfigError> {
        hosts.split(',').map(|host| Address::parse(host, port)).collect()
    };
    if let Some(master) = &parameters.sentinel {
        return Ok(Topology::Sentinel { master: master.clone(), nodes: all(SENTINEL_PORT)? });
    }
    let nodes = all(PORT)?;
    if parameters.cluster {
        return Ok(Topology::Cluster { nodes });
    }
    let [one] = <[Address; 1]>::try_from(nodes).map_err(|_| ConfigError::Several)?;
    Ok(Topology::Standalone(one))
}

/// Undoes `%40`.
pub(crate) fn decode(text: &str) -> Result<String, ConfigError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16).and_then(|d| u8::try_from(d).ok());
        match (digit(), digit()) {
            (Some(high), Some(low)) => bytes.push(high << 4 | low),
            _ => return Err(ConfigError::Percent),
        }
    }
    String::from_utf8(bytes).map_err(|_| ConfigError::Percent)
}

#[cfg(test)]
mod tests;

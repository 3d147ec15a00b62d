//! Making a connection: to an address, or to whoever the Sentinels say is the master.

use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, IntoConnectionInfo, Pipeline,
    RedisConnectionInfo, RedisError, Value,
};
use tidegate_convergence::StoreError;
use tokio::time::timeout;

use super::config::{Address, Login, RedisConfig, Tls};
use super::info::Info;
use super::link::{Link, unreachable};
use super::sentinel::Sentinels;

/// How long one connection may take to be made, TLS and log-in included.
pub(super) const CONNECT_WITHIN: Duration = Duration::from_millis(500);
/// How long the driver waits for an answer. The caller's own time-out is much shorter; this one
/// finds connections that are open and dead.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// How long a connection may be silent before the kernel asks whether the other side is there.
const KEEPALIVE: Duration = Duration::from_secs(15);
/// How many calls may wait to be written. The link lets fewer in.
const BUFFER: usize = 512;

/// What every connection to servers of one kind has in common.
#[derive(Clone, Debug)]
pub(super) struct Access {
    login: Login,
    database: u32,
    tls: Option<Tls>,
}

/// Whom to connect to.
#[derive(Debug)]
pub(super) enum Target {
    /// This address.
    Fixed(Address),
    /// The master that these watch.
    Master(Sentinels),
}

/// Makes connections to one target.
#[derive(Debug)]
pub(super) struct Opener {
    access: Access,
    target: Target,
}

/// A connection and where it leads.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) connection: MultiplexedConnection,
    pub(super) address: Address,
}

impl Access {
    /// To Redis itself.
    pub(super) fn new(config: &RedisConfig) -> Self {
        let (login, tls) = (config.login.clone(), config.tls.clone());
        Self { login, database: config.database, tls }
    }

    /// To the Sentinels.
    pub(super) fn to_sentinels(config: &RedisConfig) -> Self {
        let (login, tls) = (config.sentinel_login.clone(), config.tls.clone());
        Self { login, database: 0, tls }
    }
}

impl Target {
    /// The master of that name, watched by these.
    pub(super) fn master(name: String, nodes: &[Address], access: &Access, seed: u64) -> Self {
        let link = |(turn, node): (u64, &Address)| {
            let opener = Opener::new(access.clone(), Self::Fixed(node.clone()));
            Link::new(opener, seed.wrapping_add(turn))
        };
        Self::Master(Sentinels::new(name, (1..).zip(nodes).map(link).collect()))
    }
}

impl Opener {
    pub(super) const fn new(access: Access, target: Target) -> Self {
        Self { access, target }
    }

    /// Makes a connection.
    pub(super) async fn open(&self) -> Result<Opened, StoreError> {
        match &self.target {
            Target::Fixed(address) => self.connect(address).await,
            Target::Master(sentinels) => {
                let mut last = unreachable("no Sentinel is configured");
                for turn in 0..sentinels.count() {
                    let opened = match sentinels.told(turn).await {
                        Ok(address) => self.connect_to_master(&address).await,
                        Err(why) => Err(why),
                    };
                    match opened {
                        Ok(opened) => {
                            sentinels.was_right(turn);
                            return Ok(opened);
                        }
                        Err(why) => last = why,
                    }
                }
                Err(last)
            }
        }
    }

    /// Whether the target may move although the connection holds.
    pub(super) const fn must_watch(&self) -> bool {
        matches!(self.target, Target::Master(_))
    }

    /// A connection to the new master, if the Sentinels have agreed on another one.
    pub(super) async fn open_if_moved(&self, from: &Address) -> Option<Opened> {
        let Target::Master(sentinels) = &self.target else { return None };
        let master = sentinels.majority().await.filter(|master| master != from)?;
        self.connect_to_master(&master).await.ok()
    }

    /// Connects to a server, if it is a master: a Sentinel on the wrong side of a partition may
    /// name one that no longer is.
    async fn connect_to_master(&self, address: &Address) -> Result<Opened, StoreError> {
        let mut opened = self.connect(address).await?;
        let mut question = Pipeline::with_capacity(1);
        question.cmd("INFO").arg("replication");
        let told = within(opened.connection.req_packed_commands(&question, 0, 1)).await?;
        match told.first().and_then(Info::read) {
            Some(info) if !info.is_replica() => Ok(opened),
            Some(_) => Err(StoreError::Unreachable(format!("{address} is not the master"))),
            None => Err(StoreError::Refused(format!("{address} does not answer INFO"))),
        }
    }

    /// Makes a connection to an address.
    async fn connect(&self, address: &Address) -> Result<Opened, StoreError> {
        let client = self.client(address).map_err(|why| trouble(&why))?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_WITHIN))
            .set_response_timeout(Some(ANSWER_WITHIN))
            .set_pipeline_buffer_size(BUFFER);
        // Once more around it all: looking up a name has no time-out of its own.
        let connecting = client.get_multiplexed_async_connection_with_config(&config);
        let connection = within(connecting).await?;
        Ok(Opened { connection, address: address.clone() })
    }

    fn client(&self, address: &Address) -> redis::RedisResult<Client> {
        let Access { login, database, .. } = &self.access;
        let mut me = RedisConnectionInfo::default()
            // Costs a round trip and a permission, and older servers do not know it.
            .set_skip_set_lib_name()
            .set_db(i64::from(*database));
        if let Some(user) = &login.user {
            me = me.set_username(user);
        }
        if let Some(password) = &login.password {
            me = me.set_password(password.reveal());
        }
        let host = address.host.clone();
        let place = match &self.access.tls {
            None => ConnectionAddr::Tcp(host, address.port),
            Some(_) => ConnectionAddr::TcpTls {
                host,
                port: address.port,
                insecure: false,
                tls_params: None,
            },
        };
        let info = place.into_connection_info()?.set_tcp_settings(tcp()).set_redis_settings(me);
        self.build(info)
    }

    #[cfg(feature = "tls")]
    fn build(&self, info: redis::ConnectionInfo) -> redis::RedisResult<Client> {
        match self.access.tls.as_ref().and_then(|tls| tls.authorities.clone()) {
            None => Client::open(info),
            Some(pem) => {
                let trust = redis::TlsCertificates { client_tls: None, root_cert: Some(pem) };
                Client::build_with_tls(info, trust)
            }
        }
    }

    #[cfg(not(feature = "tls"))]
    #[expect(clippy::unused_self, reason = "the other build asks for the authorities")]
    fn build(&self, info: redis::ConnectionInfo) -> redis::RedisResult<Client> {
        Client::open(info)
    }
}

/// The client's defaults wait for more bytes before they send, and never ask whether the other
/// side is still there.
fn tcp() -> TcpSettings {
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE);
    let settings = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
    #[cfg(target_os = "linux")]
    let settings = settings.set_user_timeout(ANSWER_WITHIN);
    settings
}

/// Gives up after [`CONNECT_WITHIN`]. A connection that is not made in time is none.
async fn within<T>(step: impl Future<Output = redis::RedisResult<T>>) -> Result<T, StoreError> {
    let late = || unreachable("no connection in time");
    match timeout(CONNECT_WITHIN, step).await {
        Ok(done) => done.map_err(|why| match trouble(&why) {
            StoreError::Timeout => late(),
            other => other,
        }),
        Err(_) => Err(late()),
    }
}

/// An error of the client as ours. One that the server sent, such as a wrong password, is a
/// refusal; everything else is about the connection.
pub(super) fn trouble(why: &RedisError) -> StoreError {
    let text = why.to_string();
    match why.kind() {
        _ if why.is_timeout() => StoreError::Timeout,
        redis::ErrorKind::Server(_)
        | redis::ErrorKind::Extension
        | redis::ErrorKind::AuthenticationFailed
        | redis::ErrorKind::InvalidClientConfig => StoreError::Refused(text),
        _ => StoreError::Unreachable(text),
    }
}

/// A host and a port in an array, as Sentinels and clusters say them.
pub(super) fn read_address(value: &Value) -> Option<Address> {
    let Value::Array(items) = value else { return None };
    let [host, port, ..] = items.as_slice() else { return None };
    let host = match host {
        Value::BulkString(host) => String::from_utf8(host.clone()).ok()?,
        Value::SimpleString(host) => host.clone(),
        // Some proxies say nothing: "where you asked".
        Value::Nil => String::new(),
        _ => return None,
    };
    let port = match port {
        Value::Int(port) => u16::try_from(*port).ok()?,
        Value::BulkString(port) => std::str::from_utf8(port).ok()?.parse().ok()?,
        _ => return None,
    };
    Some(Address { host, port })
}

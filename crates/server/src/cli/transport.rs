//! What can be said about connections: how many, with TLS or without, and how they end.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::BoolishValueParser;

use super::globe::duration_ms;
use crate::accept::Limits;

/// Most connections that can be asked for. More than a process may have files open, by far.
const CONNECTIONS_MAX_MAX: i64 = 1_000_000;

/// Where the address of the admin listener is looked for.
const ADMIN_VARIABLE: &str = "TIDEGATE_ADMIN_LISTEN";
/// Where it is looked for whether other machines may reach it.
const ADMIN_EXPOSED_VARIABLE: &str = "TIDEGATE_ADMIN_EXPOSED";

/// Where it is looked for how many workspaces have series of their own.
const METRICS_WORKSPACES_VARIABLE: &str = "TIDEGATE_METRICS_WORKSPACES";
/// Most of these: each has two series, and a Prometheus keeps all it ever saw for weeks.
const METRICS_WORKSPACES_MAX: i64 = 1_000;

/// Longest time to retire. Supervisors wait for minutes at most; more is a slip of the keyboard.
const RETIRE_MS_MAX: u64 = 3_600_000;

/// How connections are taken in and ended. [`Limits`] has an example.
///
/// What goes together is checked when everything was read: one half may be in a file.
#[derive(Args, Clone, Debug)]
pub struct TransportArgs {
    /// Most connections at a time.
    ///
    /// When there are as many, the one that has been without a request for the longest time is
    /// closed for the next client. Each is one file of the process; one of HTTP/1.1 can take some
    /// 50 KB, one of HTTP/2 some megabytes while it has many requests in flight.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 4_096,
        value_parser = clap::value_parser!(u32).range(1..=CONNECTIONS_MAX_MAX)
    )]
    pub connections_max: u32,

    /// Most connections from one address, or from one IPv6 network (/64) [default: half of all].
    ///
    /// More are closed at once. Everything that comes through a proxy comes from one address.
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=CONNECTIONS_MAX_MAX)
    )]
    pub connections_per_address_max: Option<u32>,

    /// The certificate to serve TLS with, as PEM, and those that signed it behind it.
    #[arg(long, value_name = "PATH")]
    pub tls_cert: Option<PathBuf>,

    /// The key of that certificate, as PEM.
    #[arg(long, value_name = "PATH")]
    pub tls_key: Option<PathBuf>,

    /// Answer other machines without TLS: TLS ends in front of it, or the network is trusted.
    #[arg(long)]
    pub plain_http: bool,

    /// Answer /metrics, /livez and /readyz at this address too, without a key [default: nowhere].
    ///
    /// In clear text always, also with TLS for callers: an address that other machines can reach
    /// needs --admin-exposed.
    #[arg(long, value_name = "ADDRESS", env = ADMIN_VARIABLE, value_parser = super::listen)]
    pub admin_listen: Option<SocketAddr>,

    /// Let other machines reach --admin-listen: they need no key, and nothing is encrypted.
    ///
    /// It says nothing about --listen, nor do --tls-cert and --plain-http about this.
    #[arg(long, env = ADMIN_EXPOSED_VARIABLE, value_parser = BoolishValueParser::new())]
    pub admin_exposed: bool,

    /// Count the decisions of up to this many workspaces apart, in /metrics [default: of none].
    ///
    /// The first that are decided for have series of their own, under their ids; the others share
    /// one, called `other`. Without it no series says whose a decision was.
    #[arg(
        long,
        value_name = "N",
        env = METRICS_WORKSPACES_VARIABLE,
        value_parser = clap::value_parser!(u16).range(1..=METRICS_WORKSPACES_MAX)
    )]
    pub metrics_workspaces: Option<u16>,

    /// How long to go on answering after the first signal, so that load balancers can notice.
    ///
    /// Meanwhile /readyz says 503 and clients are told to go elsewhere. Then the listener is closed
    /// and what is in flight is finished. Give at least twice the interval of the health checks.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = retire_for)]
    pub retire_for: Duration,
}

impl TransportArgs {
    /// How many connections there may be, if `possible` are. [`Limits`] has an example.
    #[must_use]
    pub fn limits(&self, possible: u32) -> Limits {
        let connections_max = self.connections_max.min(possible);
        let half = connections_max.div_ceil(2);
        let per_address_max = self.connections_per_address_max.unwrap_or(half);
        Limits { connections_max, per_address_max }
    }
}

fn retire_for(text: &str) -> Result<Duration, String> {
    match duration_ms(text)? {
        ms if ms > RETIRE_MS_MAX => Err("must be at most 1h".to_owned()),
        ms => Ok(Duration::from_millis(ms)),
    }
}

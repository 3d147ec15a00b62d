//! The doors of Tidegate: how requests arrive over a network and how answers leave.
//!
//! In the order a request meets them: `accept` (connections, time-outs, drain; `tls` if there is
//! any), `health` (whether we live and are ready), `door` (routes and the order of processing),
//! `body` (bytes, bounded), [`decode`] (bytes to requests), `auth` (who asks), `control` (who
//! there is and what they set), `idempotency` (calls that may be sent again), and `reply` (answers
//! and problems to bytes). `serve` wires them up for the command line of `cli` and the file of
//! `config`, and `region` and `globe` say with whom limits are shared. `metrics` is what monitoring
//! reads, `log` what the server says while it runs, and `client` is the other side of the door.
//! `simulate` tries limits on a log and needs no server.
//!
//! [`openapi`] describes all of it. Without the feature `serve` there are only these two:
//! [`decode`] and its description.

#[cfg(feature = "serve")]
pub mod accept;
#[cfg(feature = "serve")]
pub mod auth;
#[cfg(feature = "serve")]
mod body;
#[cfg(feature = "serve")]
pub mod cli;
#[cfg(feature = "serve")]
pub mod client;
#[cfg(feature = "serve")]
pub mod config;
#[cfg(feature = "serve")]
mod control;
#[cfg(feature = "serve")]
pub mod control_tools;
#[cfg(feature = "serve")]
pub mod counts_file;
pub mod decode;
#[cfg(feature = "serve")]
pub mod door;
#[cfg(feature = "serve")]
pub mod globe;
#[cfg(feature = "serve")]
mod health;
#[cfg(feature = "serve")]
pub mod idempotency;
#[cfg(feature = "serve")]
pub mod ids;
#[cfg(feature = "serve")]
mod live;
#[cfg(feature = "serve")]
mod log;
#[cfg(feature = "serve")]
mod metrics;
pub mod openapi;
#[cfg(feature = "serve")]
pub mod place;
#[cfg(feature = "serve")]
mod problem;
#[cfg(feature = "serve")]
mod region;
#[cfg(feature = "serve")]
mod reply;
#[cfg(feature = "serve")]
pub mod request_id;
#[cfg(feature = "serve")]
pub mod serve;
#[cfg(feature = "serve")]
mod signals;
#[cfg(feature = "serve")]
pub mod simulate;
#[cfg(feature = "serve")]
pub mod tls;
#[cfg(feature = "serve")]
mod utc;

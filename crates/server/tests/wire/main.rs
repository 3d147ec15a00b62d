//! The real binary, started as a user starts it and spoken to over real sockets.
//!
//! Windows are 30 days long, so that no test meets the end of one.

#[cfg(test)]
mod api;
#[cfg(test)]
mod bad_input;
#[cfg(test)]
mod batches;
#[cfg(test)]
mod bounded;
#[cfg(test)]
mod client;
#[cfg(test)]
mod config;
#[cfg(test)]
mod control;
#[cfg(test)]
mod globe;
#[cfg(test)]
mod guide;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod logs;
#[cfg(test)]
mod metrics;
#[cfg(test)]
mod outage;
#[cfg(test)]
mod packaging;
#[cfg(test)]
mod process;
#[cfg(test)]
mod region;
#[cfg(test)]
mod security;
#[cfg(test)]
mod simulate;
#[cfg(test)]
mod singles;
#[cfg(test)]
mod support;
#[cfg(test)]
mod tls;
#[cfg(test)]
mod transport;
#[cfg(test)]
mod watching;

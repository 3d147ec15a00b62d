//! The driver for Redis against real servers, alone and behind a bad network.
//!
//! Every test starts its own; what they need comes with `cargo xtask setup`.

#[cfg(test)]
mod ask;
#[cfg(test)]
mod ask_model;
#[cfg(test)]
mod board;
#[cfg(test)]
#[path = "../support/histories.rs"]
mod histories;
#[cfg(test)]
mod lifecycle;
#[cfg(test)]
mod model;
#[cfg(test)]
mod network;
#[cfg(test)]
mod once;
#[cfg(test)]
mod rights;
#[cfg(test)]
mod shards_model;
#[cfg(test)]
mod support;
#[cfg(all(test, feature = "tls"))]
mod tls;
#[cfg(test)]
mod topology;

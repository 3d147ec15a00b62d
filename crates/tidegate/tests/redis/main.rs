//! Limiters on real Redis servers that are flushed, stopped, killed and cut off under load.
//!
//! Times are bounded in virtual time elsewhere; here everything may take ten times as long, and
//! what it took is printed.

#[cfg(test)]
mod support;

#[cfg(test)]
mod bounded;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod network;
#[cfg(test)]
mod outage;
#[cfg(test)]
mod shapes;

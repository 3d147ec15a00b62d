//! The lab does what it says, or the tests that use it say nothing.

#[cfg(test)]
mod databases;
#[cfg(test)]
mod network;
#[cfg(test)]
mod servers;

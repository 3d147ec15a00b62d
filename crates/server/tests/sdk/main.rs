//! Published clients, unmodified, and random requests, against the real binary.
//!
//! `cargo xtask test --only sdk` installs what they need and runs them; `cargo test` leaves them
//! out. Each script prints one line for each guarantee and ends with the first that does not hold.

#[cfg(test)]
mod guide;
#[cfg(test)]
mod program;
#[cfg(test)]
mod random;
#[cfg(test)]
mod scripts;
#[cfg(test)]
mod support;

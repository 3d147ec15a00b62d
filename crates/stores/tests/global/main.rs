//! The global stores against real databases: MariaDB (or what `TIDEGATE_LAB_MYSQL` names) and
//! SQLite.
//!
//! Every test starts its own; what they need comes with `cargo xtask setup`.

#[cfg(test)]
#[path = "../support/histories.rs"]
mod histories;
#[cfg(test)]
mod lifecycle;
#[cfg(test)]
mod load;
#[cfg(test)]
mod model;
#[cfg(test)]
mod names;
#[cfg(test)]
mod plan;
#[cfg(test)]
mod rights;
#[cfg(test)]
mod schema;
#[cfg(test)]
mod support;
#[cfg(test)]
mod values;

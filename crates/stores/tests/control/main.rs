//! The control plane against real databases: MariaDB (or what `TIDEGATE_LAB_MYSQL` names) and
//! SQLite.
//!
//! Every test starts its own; what they need comes with `cargo xtask setup`.

#[cfg(test)]
mod additions;
#[cfg(test)]
mod caps;
#[cfg(test)]
mod history;
#[cfg(test)]
mod lifecycle;
#[cfg(test)]
mod many;
#[cfg(test)]
mod meaning;
#[cfg(test)]
mod model;
#[cfg(test)]
mod names;
#[cfg(test)]
mod race;
#[cfg(test)]
mod schema;
#[cfg(test)]
mod support;

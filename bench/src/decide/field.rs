//! Who takes part, by name.

use super::contestant::{Drive, Noop, Setup};
use super::ours::{Bare, Tidegate, TidegateBatch};
use super::region::{Region, RegionBatch};
use super::workload::{Field, Workload};
use crate::Failure;

/// Everybody, in the order of the report.
pub(crate) const NAMES: [&str; 7] =
    ["tidegate", "bare", "governor-string", "governor-u128", "throttlecrab", "limitador", "noop"];

/// Who of `NAMES` asks for fewer questions than the others, and by how much: `limitador` takes
/// microseconds for each.
pub(crate) fn share(name: &str) -> u64 {
    if name == "limitador" { 20 } else { 1 }
}

/// A new contestant; `None` if it has no part in what is built here.
pub(crate) fn enter(name: &str, setup: Setup) -> Result<Option<Box<dyn Drive>>, Failure> {
    Ok(match name {
        "tidegate" if setup.region && setup.batch => Some(Box::new(RegionBatch::new(setup)?)),
        "tidegate" if setup.region => Some(Box::new(Region::new(setup)?)),
        "tidegate" if setup.batch => Some(Box::new(TidegateBatch::new(setup)?)),
        "tidegate" => Some(Box::new(Tidegate::new(setup)?)),
        "bare" => Some(Box::new(Bare::new(setup)?)),
        "noop" => Some(Box::new(Noop)),
        _ => peer(name, setup)?,
    })
}

#[cfg(feature = "controls")]
fn peer(name: &str, setup: Setup) -> Result<Option<Box<dyn Drive>>, Failure> {
    use super::peers::{GovernorString, GovernorU128, Limitador, Throttlecrab};
    Ok(match name {
        "governor-string" => Some(Box::new(GovernorString::new(setup)?)),
        "governor-u128" => Some(Box::new(GovernorU128::new(setup)?)),
        "throttlecrab" => Some(Box::new(Throttlecrab::new(setup))),
        "limitador" => Some(Box::new(Limitador::new(setup)?)),
        _ => None,
    })
}

#[cfg(not(feature = "controls"))]
fn peer(_name: &str, _setup: Setup) -> Result<Option<Box<dyn Drive>>, Failure> {
    Ok(None)
}

/// Whether `name` takes part in the workload.
pub(crate) fn takes_part(name: &str, workload: &Workload) -> bool {
    match workload.field {
        // These two cannot deny.
        Field::All => !workload.denied || !["bare", "noop"].contains(&name),
        Field::Ours => name == "tidegate",
    }
}

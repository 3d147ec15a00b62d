//! The rule of the reference, as far as it is measured here: a local counter for each cell that is
//! raised to what Redis answers; one INCRBY for each admission, sent at once by one of eight
//! workers and not coalesced; EXPIRE when the result equals the cost; a GET for a cell that is cold
//! or was not heard of for five seconds, and before every decision of a subject that was denied
//! within a window.

mod closed;
mod node;
mod wire;

pub(crate) use closed::{Closed, run as run_closed};
pub(crate) use node::Node;
pub(crate) use wire::Wire;

/// Workers of a process that replay admissions, each with a connection.
const WORKERS: usize = 8;
/// A key lives so many windows.
const LIFE_WINDOWS: u64 = 3;

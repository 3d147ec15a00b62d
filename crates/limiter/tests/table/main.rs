//! The table as its users see it.
#![cfg(not(any(loom, shuttle)))]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what cannot be had fails the test that needs it"
)]

mod bounded;
mod clock;
mod contract;
mod ended;
mod explain;
mod memory;
mod model;
mod outage;
mod restore;
mod support;
mod threads;

//! Clients that mean harm: the server stays responsive, says no clearly, and lets go of them.

mod heads;
mod http2;
mod slow;

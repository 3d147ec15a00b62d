//! Regions that share a database, end to end: real processes, a Redis for each region, and a
//! private MariaDB or a file.

mod fleet;
mod flow;
mod lines;
mod start;
mod tools;

pub(crate) use fleet::File;

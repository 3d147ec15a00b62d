//! Regions that share their limits, on a runtime whose time passes only when all wait, with stores
//! in memory that can be broken. Every region may have ten neighbours, so a region that nobody has
//! heard of speaks once it has used a fortieth of a limit: 1 of 10, 25 of 1,000.

#[cfg(test)]
mod ends;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod flow;
#[cfg(test)]
mod restart;
#[cfg(test)]
mod support;

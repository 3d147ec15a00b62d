//! Calls that are answered once: what they take in memory, and over a real Redis.
#![expect(unsafe_code, reason = "counting allocations takes an allocator, which takes `unsafe`")]

#[cfg(test)]
mod memory;
#[cfg(test)]
mod redis;

//! The page of `tidegate simulate --report`, in a real browser.
//!
//! `cargo xtask test --only browser` installs what it needs and runs it; `cargo test` leaves it
//! out. Each check of `look.mjs` is a test; its screenshots are in `target/browser/shots`.

#[cfg(test)]
mod example;
#[cfg(test)]
#[path = "../../../trial/tests/page/made.rs"]
mod made;
#[cfg(test)]
mod pages;
#[cfg(test)]
mod support;

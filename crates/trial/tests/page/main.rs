//! What the page holds. The tests in `crates/server/tests/browser` look at it.

#[cfg(test)]
mod made;
#[cfg(test)]
mod text;

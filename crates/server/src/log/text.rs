//! What can be a field of an event.
//!
//! Refuses: strings. A key, a password or the name that a caller chose is a `String` or a `&str`
//! in this program, and neither can become a field. What can is listed here, with the reason.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::Path;

use tidegate::redis::Warning;
use tidegate::{GlobalError, RegionName, SavedError, StoreError};

use crate::globe::{Database, GlobeError};
use crate::region::Region;

/// Most characters of a text about the configuration: a dozen mistakes with their places, or a
/// change of every value there is.
pub(crate) const CONFIG_CHARS_MAX: usize = 4_000;
/// What stands where a text was cut.
const CUT: char = '…';

/// Text that may stand in the log. Whatever is in it, it is escaped when it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Text(Box<str>);

/// What can be said in the log: its words are ours or a store's, never a caller's, and it holds no
/// secret. Every implementation carries its reason.
pub(crate) trait Sayable: fmt::Display {
    /// Most characters of it. Longer ones are cut: a store could answer with a novel.
    const CHARS_MAX: usize = 400;
}

/// Words of ours; what a server said is the answer to a call without user text: digests, numbers.
impl Sayable for StoreError {}
/// The same. What MySQL says about values is left out by the store itself.
impl Sayable for GlobalError {}
/// The operating system's words.
impl Sayable for io::Error {}
/// Words of ours.
impl Sayable for SavedError {}
/// The operator's: the region's name, checked when it was given.
impl Sayable for RegionName {}
/// Words of ours, with the server's version, policy and what it said about rights.
impl Sayable for Warning {}
/// Hosts and ports, made without user and password.
impl Sayable for Region {}
/// The same, and the name of the database or the path of the file.
impl Sayable for Database {}
/// Words of ours.
impl Sayable for GlobeError {}
/// Where something is on this machine, as the operator chose it.
impl Sayable for std::path::Display<'_> {}
/// Why the process does not begin: none of its errors repeats a value that may be secret.
impl Sayable for crate::serve::ServeError {
    const CHARS_MAX: usize = CONFIG_CHARS_MAX;
}

impl Text {
    /// What it says, cut if it is long, and then marked.
    pub(crate) fn of<S: Sayable>(what: &S) -> Self {
        let mut said = what.to_string();
        if let Some((end, _)) = said.char_indices().nth(S::CHARS_MAX) {
            said.truncate(end);
            said.push(CUT);
        }
        Self(said.into())
    }

    /// A path.
    pub(crate) fn path(path: &Path) -> Self {
        Self::of(&path.display())
    }

    /// Anything, to see that it is escaped.
    #[cfg(test)]
    pub(super) fn of_test(text: &str) -> Self {
        Self(text.into())
    }
}

/// A value as it is written.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    /// Not written at all.
    Absent,
    Whole(u64),
    Flag(bool),
    Text(&'a str),
    Address(SocketAddr),
}

/// What a field can be.
pub(super) trait Field {
    fn value(&self) -> Value<'_>;
}

impl Field for u64 {
    fn value(&self) -> Value<'_> {
        Value::Whole(*self)
    }
}

impl Field for bool {
    fn value(&self) -> Value<'_> {
        Value::Flag(*self)
    }
}

/// A word of this program.
impl Field for &'static str {
    fn value(&self) -> Value<'_> {
        Value::Text(self)
    }
}

impl Field for Text {
    fn value(&self) -> Value<'_> {
        Value::Text(&self.0)
    }
}

impl Field for SocketAddr {
    fn value(&self) -> Value<'_> {
        Value::Address(*self)
    }
}

impl<T: Field> Field for Option<T> {
    fn value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Absent, T::value)
    }
}

//! Why a command stopped, and with which exit code.

use std::fmt;

/// The result of everything here that can fail.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// A reason to stop, written for the person at the terminal.
#[derive(Debug)]
pub(crate) struct Failure {
    /// 1: a check failed. 2: the command line or the machine is not right.
    pub(crate) code: u8,
    /// What happened, as a lowercase fragment.
    message: String,
}

impl Failure {
    /// A check that did not hold.
    pub(crate) fn check(message: impl Into<String>) -> Self {
        Self { code: 1, message: message.into() }
    }

    /// A check that did not hold, of which everything has been said.
    pub(crate) fn told() -> Self {
        Self::check("")
    }

    /// Whether nothing is left to say.
    pub(crate) fn is_told(&self) -> bool {
        self.message.is_empty()
    }

    /// A command line that says something we do not understand.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { code: 2, message: message.into() }
    }

    /// A machine that lacks something we need.
    pub(crate) fn machine(message: impl Into<String>) -> Self {
        Self { code: 2, message: message.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Puts words before an error of the operating system: which file, which program.
pub(crate) trait Context<T> {
    /// The same result, with `what` in front of its error.
    fn context(self, what: impl fmt::Display) -> Result<T>;
}

impl<T> Context<T> for std::io::Result<T> {
    fn context(self, what: impl fmt::Display) -> Result<T> {
        self.map_err(|error| Failure::check(format!("{what}: {error}")))
    }
}

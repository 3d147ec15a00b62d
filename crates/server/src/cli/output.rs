//! How results are printed: for people, or for programs.

use std::fmt::Display;
use std::io::{self, Write};

use clap::ValueEnum;
use serde::Serialize;

/// How results are printed. The [module](crate::cli) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Lines for people.
    Text,
    /// One JSON value, on one line.
    Json,
}

/// Tells whoever reads; a closed pipe is not an error.
pub(crate) fn say(text: &dyn Display) {
    let _ = tell(text);
}

/// The same for what must not be lost: a full disk is an error, a closed pipe is not.
pub(crate) fn tell(text: &dyn Display) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(why) if why.kind() != io::ErrorKind::BrokenPipe => Err(why),
        _ => Ok(()),
    }
}

/// Tells a program.
pub(crate) fn say_json(value: &impl Serialize) {
    // Texts and numbers can always be encoded.
    if let Ok(text) = serde_json::to_string(value) {
        say(&text);
    }
}

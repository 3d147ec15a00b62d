//! One execution of a script under way: sent, and sent again if the server did not execute it.

use redis::{Cmd, Pipeline, ServerErrorKind, Value};
use tidegate_convergence::StoreError;

use super::work::{Advice, Rounds};

/// The progress of one execution, whose answer is a `T`.
#[derive(Debug)]
pub(super) struct Execution<T> {
    run: Cmd,
    /// The command that makes a server know the script.
    load: fn() -> Cmd,
    /// Reads an answer; `None` if it is not one.
    read: fn(&Value) -> Option<T>,
    /// Whether it is to be sent.
    open: bool,
    /// Whether the script is to be sent before it.
    unknown: bool,
    reply: Option<T>,
    refusal: Option<String>,
}

impl<T> Execution<T> {
    pub(super) const fn new(run: Cmd, load: fn() -> Cmd, read: fn(&Value) -> Option<T>) -> Self {
        Self { run, load, read, open: true, unknown: false, reply: None, refusal: None }
    }

    /// The reply.
    pub(super) fn finish(self) -> Result<T, StoreError> {
        self.reply.ok_or_else(|| {
            StoreError::Refused(self.refusal.unwrap_or_else(|| "it was not executed".to_owned()))
        })
    }

    /// Remembers the first reason.
    fn refuse(&mut self, why: String) {
        self.refusal.get_or_insert(why);
    }
}

impl<T> Rounds for Execution<T> {
    fn is_open(&self) -> bool {
        self.open
    }

    fn commands(&self) -> Pipeline {
        let mut commands = Pipeline::with_capacity(2);
        if self.unknown {
            commands.add_command((self.load)());
        }
        commands.add_command(self.run.clone());
        commands
    }

    fn take(&mut self, values: &[Value]) -> Advice {
        let mut advice = Advice::default();
        let mut values = values.iter();
        if self.unknown
            && let Some(Value::ServerError(why)) = values.next()
        {
            // Without the script the rest will say NOSCRIPT again; this says why.
            self.refuse(why.to_string());
        }
        (self.unknown, self.open) = (false, false);
        let value = values.next().unwrap_or(&Value::Nil);
        if let Value::ServerError(why) = value {
            advice.heed(why);
            self.unknown = why.kind() == Some(ServerErrorKind::NoScript);
            self.open = self.unknown || why.kind() == Some(ServerErrorKind::Moved);
            // What is sent again is not refused yet.
            if !self.open {
                self.refuse(why.to_string());
            }
            return advice;
        }
        self.reply = (self.read)(value);
        if self.reply.is_none() {
            self.refuse("the script gave a strange answer".to_owned());
        }
        advice
    }
}

//! Who looks at the moment.
//!
//! Promises: never more than [`LOOKS_MAX`], and always room for the next one.
//! Fails: the oldest that has asked for nothing yet is dropped; if all have, the oldest.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::JoinHandle;

/// How many may look at once. One scraper and some probes are usual; each takes a file of the
/// process and some 10 KB.
pub(super) const LOOKS_MAX: usize = 64;

/// Whether a request has come.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked(Arc<AtomicBool>);

impl Asked {
    pub(super) fn mark(&self) {
        // ORDER: relaxed, here and below: it orders nothing, and a choice made on an old value
        // drops another look than it might have.
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_marked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
struct Look {
    asked: Asked,
    task: JoinHandle<()>,
}

/// All that are under way, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Looks(VecDeque<Look>);

impl Looks {
    /// Begins one; makes room for it.
    pub(super) fn begin<F>(&mut self, serve: impl FnOnce(Asked) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.0.retain(|look| !look.task.is_finished());
        if self.0.len() >= LOOKS_MAX {
            let silent = self.0.iter().position(|look| !look.asked.is_marked());
            if let Some(dropped) = self.0.remove(silent.unwrap_or(0)) {
                dropped.task.abort();
            }
        }
        let asked = Asked::default();
        let task = tokio::spawn(serve(asked.clone()));
        self.0.push_back(Look { asked, task });
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

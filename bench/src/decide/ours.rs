//! Ours: the decision, a batch, and the bare loop that no decision on our map can beat.

use std::hint::black_box;

use tidegate_limiter::{
    Batch, Cost, Limit, Now, Options, Part, Request, RequestError, Seed, Subject, Table, Window,
};

use super::contestant::{Accounted, Contestant, START_UNIX_MS, Setup, WINDOW_MS};
use super::keys::{Key, Script};
use crate::Failure;

/// The smallest step in which the budget is raised until all keys fit.
const BUDGET_STEP_BYTES: usize = 16 << 20;
/// Requests in a batch.
pub(super) const BATCH: usize = 5;

/// A table and the terms that all requests share.
pub(super) struct Desk {
    pub(super) table: Table,
    window: Window,
    limit: Limit,
}

impl Desk {
    pub(super) fn new(setup: Setup) -> Result<Self, Failure> {
        let mut options = options(setup.keys);
        if setup.region {
            options = options.with_region();
        }
        let table = Table::new(options, Seed::from_bytes([7; 32]));
        let window = Window::from_millis(WINDOW_MS)?;
        Ok(Self { table, window, limit: Limit::new(u64::from(setup.limit)) })
    }

    /// Parses what a caller has: three texts. Part of what is measured.
    #[inline(always)]
    fn request<'a>(&self, key: Key<'a>) -> Result<Request<'a>, RequestError> {
        let subject = Subject::new(
            Part::new(key.workspace)?,
            Part::new(key.namespace)?,
            Part::new(key.identifier)?,
            self.window,
        );
        Ok(Request::new(subject, self.limit, Cost::ONE))
    }

    #[inline(always)]
    pub(super) fn ask<'a>(&self, script: &'a Script, at: usize) -> Option<Request<'a>> {
        self.request(script.key(at)?).ok()
    }

    #[inline(always)]
    pub(super) fn ask_five<'a>(
        &self,
        script: &'a Script,
        at: usize,
    ) -> Option<[Request<'a>; BATCH]> {
        Some([
            self.ask(script, at)?,
            self.ask(script, at + 1)?,
            self.ask(script, at + 2)?,
            self.ask(script, at + 3)?,
            self.ask(script, at + 4)?,
        ])
    }

    pub(super) fn accounted(&self) -> Accounted {
        Accounted { subjects: self.table.subjects(), bytes: self.table.accounted_bytes() }
    }
}

/// The default budget, or if that is too small, one that holds the keys and a quarter more: what
/// is measured is never making room.
fn options(keys: usize) -> Options {
    let mut budget_bytes = 256 << 20;
    let mut options = Options::default();
    while options.subjects_max() < keys + keys / 4 {
        budget_bytes += BUDGET_STEP_BYTES;
        options = Options::default().with_budget_bytes(budget_bytes);
    }
    options
}

pub(super) fn reading(ms: u64) -> Now {
    Now::new(START_UNIX_MS + ms, ms)
}

/// One decision, and everything of its answer that every caller sends on.
pub(crate) struct Tidegate(Desk);

impl Tidegate {
    pub(crate) fn new(setup: Setup) -> Result<Self, Failure> {
        Ok(Self(Desk::new(setup)?))
    }
}

impl Contestant for Tidegate {
    type Now = Now;

    fn now(&self, ms: u64) -> Now {
        reading(ms)
    }

    #[inline(always)]
    fn decide(&self, script: &Script, at: usize, now: Now) -> bool {
        let Some(request) = self.0.ask(script, at) else { return false };
        let answer = self.0.table.decide(&request, now);
        black_box((answer.remaining(), answer.reset_unix_ms()));
        answer.admitted()
    }

    fn accounted(&self) -> Option<Accounted> {
        Some(self.0.accounted())
    }
}

/// Five requests as one.
pub(crate) struct TidegateBatch(Desk);

impl TidegateBatch {
    pub(crate) fn new(setup: Setup) -> Result<Self, Failure> {
        Ok(Self(Desk::new(setup)?))
    }
}

impl Contestant for TidegateBatch {
    type Now = Now;

    const KEYS_PER_QUESTION: usize = BATCH;

    fn now(&self, ms: u64) -> Now {
        reading(ms)
    }

    #[inline(always)]
    fn decide(&self, script: &Script, at: usize, now: Now) -> bool {
        let Some(requests) = self.0.ask_five(script, at) else { return false };
        let Ok(batch) = Batch::new(&requests) else { return false };
        let answer = self.0.table.decide_all(&batch, now);
        // By reference: the answer has room for a hundred items, and a copy would be ours to pay.
        black_box(&answer).admitted()
    }
}

/// Hash, look-up and one count by compare-and-swap on the map we ship: nothing is decided.
pub(crate) struct Bare {
    desk: Desk,
}

impl Bare {
    pub(crate) fn new(setup: Setup) -> Result<Self, Failure> {
        let desk = Desk::new(setup)?;
        // The loop does not take subjects in: the table is filled beforehand.
        let script = Script::each_once(setup.keys);
        for request in (0..script.len()).filter_map(|at| desk.ask(&script, at)) {
            desk.table.decide(&request, reading(0));
        }
        Ok(Self { desk })
    }
}

impl Contestant for Bare {
    type Now = ();

    fn now(&self, _ms: u64) {}

    #[inline(always)]
    fn decide(&self, script: &Script, at: usize, (): ()) -> bool {
        let Some(request) = self.desk.ask(script, at) else { return false };
        black_box(self.desk.table.bare_loop(&request)).is_some()
    }
}

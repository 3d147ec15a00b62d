//! One process: the table of production, with the time of the trace.

use arrayvec::ArrayVec;
use tidegate_limiter::{
    Batch, BatchAnswer, Cost, Limit, Now, Options, Part, Request, Seed, Subject, Table, Window,
};

use crate::call::{Call, Check, Decide, StoreWork, Verdict};
use crate::policy::LIMITS_MAX;

/// Memory for subjects: nothing of a trace that fits on a laptop is evicted. It is taken as it is
/// needed.
const BUDGET_BYTES: usize = 64 << 30;
/// Calls between two steps of the sweep. A step looks at 256 subjects: one for each call.
const SWEEP_CALLS: u64 = 256;
/// Fewer subjects are not swept: some 350 MB of them are kept, because one that comes again costs
/// more than one that was never gone.
const KEPT_SUBJECTS: usize = 1_000_000;
/// All of a trace is of one workspace.
const WORKSPACE: &str = "trial";

/// One process that decides alone.
///
/// ```
/// use tidegate_trial::{Call, Check, Decide, OneProcess};
///
/// let check = Check {
///     limit: 0, namespace: "per-ip", identifier: 0, name: "203.0.113.7",
///     window_ms: 60_000, allowed: 1, cost: 1,
/// };
/// let mut one = OneProcess::default();
/// let mut verdicts = Vec::new();
/// for number in 0..2 {
///     let checks = &[check];
///     let call = Call { number, at_unix_ms: 1_700_000_000_000, origin: None, checks };
///     one.offer(&call, &mut verdicts);
/// }
/// assert_eq!([verdicts[0].admitted, verdicts[1].admitted], [true, false]);
/// assert_eq!(verdicts[1].full, 1, "the first check");
/// ```
#[derive(Debug)]
pub struct OneProcess {
    table: Table,
    answer: BatchAnswer,
    calls: u64,
    /// Fewer subjects are not swept.
    kept: usize,
}

impl Default for OneProcess {
    fn default() -> Self {
        Self::one_of(1)
    }
}

impl OneProcess {
    /// One of so many that decide side by side: together they keep as much as one alone.
    #[must_use]
    pub fn one_of(many: usize) -> Self {
        let options = Options::default().with_budget_bytes(BUDGET_BYTES);
        let table = Table::new(options, Seed::from_bytes([11; 32]));
        Self { table, answer: BatchAnswer::default(), calls: 0, kept: KEPT_SUBJECTS / many.max(1) }
    }
}

impl Decide for OneProcess {
    fn offer(&mut self, call: &Call<'_>, verdicts: &mut Vec<Verdict>) {
        // The wall clock of a trace never jumps: both clocks are one.
        let now = Now::new(call.at_unix_ms, call.at_unix_ms);
        self.calls = self.calls.wrapping_add(1);
        self.sweep(now);
        let full = match call.checks {
            [one] => request(one).map(|it| u128::from(!self.table.decide(&it, now).admitted())),
            checks => self.decide_all(checks, now),
        };
        let (call_number, waited_us, degraded) = (call.number, 0, false);
        verdicts.push(full.map_or_else(
            || Verdict::refused(call),
            |full| Verdict { call: call_number, admitted: full == 0, full, waited_us, degraded },
        ));
    }

    fn warm(&self, checks: &[Check<'_>]) {
        for subject in checks.iter().filter_map(subject) {
            self.table.warm(&subject);
        }
    }

    fn finish(&mut self, _: &mut Vec<Verdict>) {}

    fn store_work(&self) -> Option<StoreWork> {
        None
    }
}

impl OneProcess {
    /// Drops expired subjects now and then, if there are many. They count for nothing either way.
    #[inline]
    fn sweep(&self, now: Now) {
        if self.calls.is_multiple_of(SWEEP_CALLS) && self.table.subjects() > self.kept {
            self.table.sweep(now);
        }
    }

    /// The checks without room, a bit for each. `None` if production would refuse one of them.
    fn decide_all(&mut self, checks: &[Check<'_>], now: Now) -> Option<u128> {
        let mut requests: ArrayVec<Request<'_>, LIMITS_MAX> = ArrayVec::new();
        for check in checks {
            requests.try_push(request(check)?).ok()?;
        }
        let batch = Batch::new(&requests).ok()?;
        self.table.decide_all_into(&batch, now, &mut self.answer);
        let items = self.answer.items().iter().enumerate();
        Some(items.fold(0, |full, (at, item)| full | u128::from(!item.admitted()) << at))
    }
}

/// A check as production is asked. `None` if it never would be: policies are checked before.
#[inline]
pub(super) fn request<'a>(check: &Check<'a>) -> Option<Request<'a>> {
    Some(Request::new(subject(check)?, Limit::new(check.allowed), Cost::new(check.cost).ok()?))
}

#[inline]
fn subject<'a>(check: &Check<'a>) -> Option<Subject<'a>> {
    let (workspace, namespace) = (Part::new(WORKSPACE).ok()?, Part::new(check.namespace).ok()?);
    let window = Window::from_millis(check.window_ms).ok()?;
    Some(Subject::new(workspace, namespace, Part::new(check.name).ok()?, window))
}

//! Who asks a fleet, and what it is told.

use tidegate_convergence::Waiter;
use tidegate_limiter::{
    Answer, Batch, BatchAnswer, Claimed, Consistency, Cost, Limit, Now, Part, Request,
    RequestError, Subject, Ticket, Window,
};

/// The workspace of every subject: a trace is of one.
const WORKSPACE: &str = "w";

/// One limit that a call has to respect. [`Fleet`](super::Fleet) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FleetCheck<'a> {
    /// The namespace of the limit.
    pub namespace: &'a str,
    /// Who is limited.
    pub name: &'a str,
    /// The length of the window.
    pub window_ms: u64,
    /// How much is allowed within it.
    pub limit: u64,
    /// What the call costs.
    pub cost: u64,
}

impl<'a> FleetCheck<'a> {
    pub(super) fn request(&self, consistency: Consistency) -> Result<Request<'a>, RequestError> {
        let (workspace, namespace) = (Part::new(WORKSPACE)?, Part::new(self.namespace)?);
        let window = Window::from_millis(self.window_ms)?;
        let subject = Subject::new(workspace, namespace, Part::new(self.name)?, window);
        let request = Request::new(subject, Limit::new(self.limit), Cost::new(self.cost)?);
        Ok(request.with_consistency(consistency))
    }
}

/// Whether a server would take a call with these checks.
pub(super) fn check(checks: &[FleetCheck<'_>]) -> Result<(), RequestError> {
    if let [one] = checks {
        return one.request(Consistency::Fast).map(drop);
    }
    Batch::new(&requests(checks, Consistency::Fast)?).map(drop)
}

pub(super) fn requests<'a>(
    checks: &[FleetCheck<'a>],
    consistency: Consistency,
) -> Result<Vec<Request<'a>>, RequestError> {
    checks.iter().map(|check| check.request(consistency)).collect()
}

/// How a call was answered. [`Fleet`](super::Fleet) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// The number of the call.
    pub number: u64,
    /// Whether all of it was admitted.
    pub admitted: bool,
    /// The checks without room, a bit for each: a batch has at most 100.
    pub full: u128,
    /// How long the caller waited.
    pub waited_us: u64,
    /// The region should have been asked, and did not answer in time.
    pub degraded: bool,
}

impl Settled {
    pub(super) const fn of(number: u64, given: Given, waited_us: u64) -> Self {
        let Given { admitted, full, degraded } = given;
        Self { number, admitted, full, waited_us, degraded }
    }
}

/// An answer without its details.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) admitted: bool,
    pub(super) full: u128,
    pub(super) degraded: bool,
}

impl From<&Answer> for Given {
    fn from(answer: &Answer) -> Self {
        let (admitted, degraded) = (answer.admitted(), answer.degraded());
        Self { admitted, full: u128::from(!admitted), degraded }
    }
}

impl From<&BatchAnswer> for Given {
    fn from(answer: &BatchAnswer) -> Self {
        let items = answer.items().iter().enumerate();
        let full = items.fold(0, |full, (at, item)| full | u128::from(!item.admitted()) << at);
        let degraded = answer.items().iter().any(Answer::degraded);
        Self { admitted: answer.admitted(), full, degraded }
    }
}

/// A check of a caller that waits: its own.
#[derive(Clone, Debug)]
pub(super) struct Item {
    namespace: Box<str>,
    name: Box<str>,
    window_ms: u64,
    limit: u64,
    cost: u64,
}

impl Item {
    pub(super) fn of(check: &FleetCheck<'_>) -> Self {
        let FleetCheck { namespace, name, window_ms, limit, cost } = *check;
        Self { namespace: namespace.into(), name: name.into(), window_ms, limit, cost }
    }

    fn as_check(&self) -> FleetCheck<'_> {
        let Self { namespace, name, window_ms, limit, cost } = self;
        FleetCheck { namespace, name, window_ms: *window_ms, limit: *limit, cost: *cost }
    }
}

/// A caller that waits for the region.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) number: u64,
    pub(super) items: Vec<Item>,
    pub(super) consistency: Consistency,
    /// The clocks when it came: one reading, used throughout.
    pub(super) came: Now,
    pub(super) came_us: u64,
    pub(super) deadline_us: u64,
    /// Who it was when it first waited.
    pub(super) since: Option<Waiter>,
    /// Of whom it asked last.
    pub(super) needs: Vec<Ticket>,
    /// It waits for the end of what others asked for.
    pub(super) reserved: bool,
    /// It waits for what it has claimed...
    pub(super) claims: bool,
    /// ...here.
    pub(super) claimed: Vec<Claimed>,
    /// It reads before it asks.
    pub(super) reads_first: bool,
    /// How often it was looked at.
    pub(super) looks: u32,
}

impl Caller {
    pub(super) fn new(
        number: u64,
        checks: &[FleetCheck<'_>],
        consistency: Consistency,
        (came, came_us, deadline_us): (Now, u64, u64),
    ) -> Self {
        Self {
            number,
            items: checks.iter().map(Item::of).collect(),
            consistency,
            came,
            came_us,
            deadline_us,
            since: None,
            needs: Vec::new(),
            reserved: false,
            claims: false,
            claimed: Vec::new(),
            reads_first: false,
            looks: 0,
        }
    }

    /// What it asks. Its checks were requests before, so they are all there.
    pub(super) fn requests(&self) -> Vec<Request<'_>> {
        let checks = self.items.iter().map(Item::as_check);
        checks.filter_map(|check| check.request(self.consistency).ok()).collect()
    }
}
